// SPDX-License-Identifier: Apache-2.0
// Every kind of record comes back from its bytes as it was written; cut short anywhere, or with a
// field that says what no record says, it is refused.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "store/record.h"

static u8 buf[4096];

// Kinds whose last field is "the rest" take a shorter one for a shorter field; the others refuse
// every cut.
static struct bytes written(const struct record *r) {
  struct writer w = writer_init(span_of(buf, sizeof buf));
  record_write(r, &w);
  assert_int_equal(w.err, ERR_OK);
  return writer_bytes(&w);
}

static struct record back(const struct record *r) {
  struct record out;
  memset(&out, 0xee, sizeof out);
  struct bytes b = written(r);
  assert_int_equal(record_read(record_type(r), b, &out), ERR_OK);
  assert_int_equal(out.kind, r->kind);
  assert_int_equal(out.more, r->more);
  return out;
}

// Cuts below `least` bytes, and (exact) one byte too many, are refused.
static void cuts(const struct record *r, u32 least, bool exact) {
  struct bytes b = written(r);
  struct record out;
  assert_true(least <= b.len);
  for (u32 n = 0; n < least; n++) {
    u8 *copy = malloc(n);
    memcpy(copy, b.ptr, n);
    assert_int_not_equal(record_read(record_type(r), bytes_of(copy, n), &out), ERR_OK);
    free(copy);
  }
  if (exact) {
    u8 *copy = malloc(b.len + 1);
    memcpy(copy, b.ptr, b.len);
    copy[b.len] = 0;
    assert_int_not_equal(record_read(record_type(r), bytes_of(copy, b.len + 1), &out), ERR_OK);
    free(copy);
  }
}

static u32 refs_make(u8 *to, u32 len) {
  u8 ids[8];
  struct writer w = writer_init(span_of(to, len));
  store_le32(ids, 7);
  store_le32(ids + 4, 268435455);
  struct record_ref one = {.target = 11, .seq = 65536, .qos = 1};
  struct record_ref two = {.target = 1ull << 40,
                           .seq = 3,
                           .qos = 2,
                           .retain = true,
                           .id_count = 2,
                           .ids = bytes_of(ids, 8)};
  record_write_ref(&one, &w);
  record_write_ref(&two, &w);
  return w.pos;
}

static void refs_are(struct bytes refs) {
  struct record_ref r;
  u32 pos = 0;
  assert_true(record_ref_next(refs, &pos, &r));
  assert_true(r.target == 11 && r.seq == 65536 && r.qos == 1 && !r.retain && r.id_count == 0);
  assert_true(record_ref_next(refs, &pos, &r));
  assert_true(r.target == 1ull << 40 && r.seq == 3 && r.qos == 2 && r.retain && r.id_count == 2);
  assert_int_equal(record_ref_id(&r, 0), 7);
  assert_int_equal(record_ref_id(&r, 1), 268435455);
  assert_false(record_ref_next(refs, &pos, &r));
}

static void publish(void **state) {
  (void)state;
  u8 refs[64];
  u32 refs_len = refs_make(refs, sizeof refs);
  struct record r = {.kind = RECORD_PUBLISH, .more = true};
  r.publish = (struct record_publish){.qos = 2,
                                      .retain = true,
                                      .keep = true,
                                      .has_username = true,
                                      .access_set = 3,
                                      .inbound_id = 65535,
                                      .topic_len = 3,
                                      .props_len = 2,
                                      .client_len = 2,
                                      .username_len = 1,
                                      .payload_len = 4,
                                      .at_ms = 1700000000000,
                                      .expires_ms = 1700000001000,
                                      .inbound_session = 9,
                                      .will_of = 10,
                                      .part = BYTES_LIT("a/bPPcdUload"),
                                      .refs = bytes_of(refs, refs_len)};
  struct record o = back(&r);
  const struct record_publish *p = &o.publish;
  assert_true(p->qos == 2 && p->retain && p->keep && p->has_username && p->access_set == 3);
  assert_true(p->inbound_id == 65535 && p->inbound_session == 9 && p->will_of == 10);
  assert_true(p->at_ms == 1700000000000 && p->expires_ms == 1700000001000);
  struct record_body b = record_publish_body(p, p->part);
  assert_true(bytes_equal_str(b.topic, "a/b") && bytes_equal_str(b.props, "PP"));
  assert_true(bytes_equal_str(b.client_id, "cd") && bytes_equal_str(b.username, "U"));
  assert_true(bytes_equal_str(b.payload, "load"));
  refs_are(p->refs);
  cuts(&r, 56 + 12, false);
  r.publish.refs.len--;
  assert_int_equal(record_read(record_type(&r), written(&r), &o), ERR_SHORT);
  r.publish.refs.len++;
  r.publish.part.len--;  // a part of the body and references
  assert_int_equal(record_read(record_type(&r), written(&r), &o), ERR_MALFORMED);
  r.publish.refs.len = 0;
  assert_int_equal(record_read(record_type(&r), written(&r), &o), ERR_OK);
  r.publish.qos = 3;
  assert_int_equal(record_read(record_type(&r), written(&r), &o), ERR_MALFORMED);
}

static void queue_and_remove(void **state) {
  (void)state;
  u8 bytes[64];
  u32 len = refs_make(bytes, sizeof bytes);
  struct record r = {.kind = RECORD_QUEUE};
  r.queue = (struct record_queue){5, 6, BYTES_LIT("topic"), bytes_of(bytes, len)};
  struct record o = back(&r);
  assert_true(o.queue.message == 5 && o.queue.from == 6);
  assert_true(bytes_equal_str(o.queue.topic, "topic"));
  refs_are(o.queue.refs);
  cuts(&r, 18 + 5, true);
  struct writer w = writer_init(span_of(bytes, sizeof bytes));
  record_write_remove(77, 1, &w);
  record_write_remove(78, U32_MAX, &w);
  r = (struct record){.kind = RECORD_REMOVE, .remove = writer_bytes(&w)};
  o = back(&r);
  u32 pos = 0;
  u64 session;
  u32 seq;
  assert_true(record_remove_next(o.remove, &pos, &session, &seq) && session == 77 && seq == 1);
  assert_true(record_remove_next(o.remove, &pos, &session, &seq) && session == 78 &&
              seq == U32_MAX);
  assert_false(record_remove_next(o.remove, &pos, &session, &seq));
  cuts(&r, 0, true);
}

static void sessions(void **state) {
  (void)state;
  struct record r = {.kind = RECORD_SESSION};
  r.session = (struct record_session){.session = 4,
                                      .has_username = true,
                                      .has_will = true,
                                      .will_retain = true,
                                      .will_qos = 1,
                                      .access_set = 16,
                                      .expiry_s = U32_MAX,
                                      .will_delay_s = 5,
                                      .will_expiry_s = 6,
                                      .at_ms = 8,
                                      .client_id = BYTES_LIT("id"),
                                      .username = BYTES_LIT("user"),
                                      .will_topic = BYTES_LIT("w"),
                                      .will_props = BYTES_LIT("pp"),
                                      .will_payload = BYTES_LIT("gone")};
  struct record o = back(&r);
  const struct record_session *s = &o.session;
  assert_true(s->session == 4 && s->has_username && s->has_will && s->will_retain);
  assert_true(s->will_qos == 1 && s->access_set == 16 && s->expiry_s == U32_MAX);
  assert_true(s->will_delay_s == 5 && s->will_expiry_s == 6 && s->at_ms == 8);
  assert_true(bytes_equal_str(s->client_id, "id") && bytes_equal_str(s->username, "user"));
  assert_true(bytes_equal_str(s->will_topic, "w") && bytes_equal_str(s->will_props, "pp"));
  assert_true(bytes_equal_str(s->will_payload, "gone"));
  cuts(&r, (u32)written(&r).len, true);
  r.session.has_will = false;
  assert_int_equal(record_read(RECORD_SESSION, written(&r), &o), ERR_MALFORMED);
  r = (struct record){.kind = RECORD_OFFLINE};
  r.offline = (struct record_offline){.session = 4, .at_ms = 9, .expiry_s = 60, .has_will = true};
  o = back(&r);
  assert_true(o.offline.session == 4 && o.offline.at_ms == 9 && o.offline.expiry_s == 60);
  assert_true(o.offline.has_will);
  cuts(&r, (u32)written(&r).len, true);
}

static void subscriptions(void **state) {
  (void)state;
  struct record r = {.kind = RECORD_SUBSCRIBE};
  r.subscribe = (struct record_subscribe){.session = 4,
                                          .group = 6,
                                          .qos = 2,
                                          .flags = 3,
                                          .identifier = 9,
                                          .name = BYTES_LIT("g"),
                                          .filter = BYTES_LIT("a/#")};
  for (u32 kind = RECORD_SUBSCRIBE; kind <= RECORD_UNSUBSCRIBE; kind++) {
    r.kind = (u8)kind;
    struct record o = back(&r);
    assert_true(o.subscribe.session == 4 && o.subscribe.group == 6 && o.subscribe.qos == 2);
    assert_true(o.subscribe.flags == 3 && o.subscribe.identifier == 9);
    assert_true(bytes_equal_str(o.subscribe.name, "g"));
    assert_true(bytes_equal_str(o.subscribe.filter, "a/#"));
    cuts(&r, (u32)written(&r).len, true);
  }
}

static void small_ones(void **state) {
  (void)state;
  struct record r = {.kind = RECORD_RECEIVED};
  r.received.session = 3;
  r.received.seq = 4;
  struct record o = back(&r);
  assert_true(o.received.session == 3 && o.received.seq == 4);
  cuts(&r, 12, true);
  r = (struct record){.kind = RECORD_INBOUND_ADD};
  r.inbound.session = 3;
  r.inbound.packet_id = 65535;
  o = back(&r);
  assert_true(o.inbound.session == 3 && o.inbound.packet_id == 65535);
  r.kind = RECORD_INBOUND_REMOVE;
  (void)back(&r);
  cuts(&r, 10, true);
  r = (struct record){.kind = RECORD_SESSION_END, .session_end = 12};
  assert_int_equal(back(&r).session_end, 12);
  cuts(&r, 8, true);
  r = (struct record){.kind = RECORD_BOOT};
  r.boot.at_ms = 5;
  assert_int_equal(back(&r).boot.at_ms, 5);
  cuts(&r, 8, true);
  r = (struct record){.kind = RECORD_RETAIN_CLEAR, .topic = BYTES_LIT("t")};
  assert_true(bytes_equal_str(back(&r).topic, "t"));
  r = (struct record){.kind = RECORD_CHUNK, .more = true, .chunk = BYTES_LIT("xyz")};
  assert_true(bytes_equal_str(back(&r).chunk, "xyz"));
  r = (struct record){.kind = RECORD_CONTROL};
  r.control.name = BYTES_LIT("dynsec");
  r.control.part = BYTES_LIT("{}");
  r.control.len = 2;
  o = back(&r);
  assert_true(bytes_equal_str(o.control.name, "dynsec") && bytes_equal_str(o.control.part, "{}"));
  r.control.len = 1;
  assert_int_equal(record_read(RECORD_CONTROL, written(&r), &o), ERR_MALFORMED);
}

static void unknown(void **state) {
  (void)state;
  struct record o;
  u8 eight[8] = {0};
  for (u32 type = 0; type <= U16_MAX; type++) {
    u32 kind = type & 0x7fff;
    bool known = kind >= RECORD_BOOT && kind < RECORD_KINDS;
    enum err e = record_read((u16)type, bytes_of(eight, 8), &o);
    assert_true(known ? e != ERR_UNSUPPORTED : e == ERR_UNSUPPORTED);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(publish),    cmocka_unit_test(queue_and_remove),
      cmocka_unit_test(sessions),   cmocka_unit_test(subscriptions),
      cmocka_unit_test(small_ones), cmocka_unit_test(unknown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
