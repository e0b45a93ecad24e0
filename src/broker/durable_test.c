// SPDX-License-Identifier: Apache-2.0
// Proves docs/formats/promises.md: whatever was acknowledged to clients in a run is there after a
// cut at any of its disk operations, and what was deleted with an acknowledgement is not; nothing
// is acknowledged once an operation has failed, whichever it is. A disk that lies about its flushes
// is the control: the same checks must find it out.
#pragma GCC diagnostic ignored "-Wunused-function"
#include "broker/durable_test_support.h"

#include <cmocka.h>

// --- What was promised, and between which entries of the record it has to be true

enum fact_kind {
  FACT_SESSION,   // id
  FACT_SUB,       // id, filter
  FACT_QUEUED,    // id, payload
  FACT_RELEASED,  // id, sequence: PUBREC was answered
  FACT_INBOUND,   // id, packet identifier
  FACT_RETAINED,  // topic, payload
  FACT_GROUP,     // filter (of a shared subscription), payload: in the group's queue or a member's
};
struct fact {
  u8 kind;
  bool holds;  // false: it must not be so
  const char *id, *text;
  u32 number;
  u32 from, until;
};
static struct fact facts[256];
static u32 fact_count;

static struct fact *fact(enum fact_kind kind, bool holds, const char *id, const char *text,
                         u32 number) {
  CHECK(fact_count < 256);
  facts[fact_count] = (struct fact){(u8)kind, holds, id, text, number, rec.count, U32_MAX};
  return &facts[fact_count++];
}
// From here on it may have changed.
static void over(struct fact *f) {
  f->until = MIN(f->until, rec.count);
}

static bool queued(const struct broker *b, const struct list *l, const char *payload) {
  for (u32 i = l->head; i != NONE; i = entry_at(b, i)->next) {
    const struct message *m = entry_at(b, i)->message;
    if (m != NULL &&
        bytes_equal_str(bytes_of(m->data + m->payload_off, message_payload_len(m)), payload)) {
      return true;
    }
  }
  return false;
}

static bool released(const struct session *s, u32 packet_id) {
  for (u32 i = s->queue.head; i != NONE; i = entry_at(s->b, i)->next) {
    const struct entry *e = entry_at(s->b, i);
    if (e->state == ENTRY_RELEASED && entry_packet_id(e) == packet_id) {
      return true;
    }
  }
  return false;
}

static bool true_now(struct broker *b, const struct fact *f) {
  struct session *s = f->id == NULL ? NULL : session_find(b, bytes_str(f->id));
  switch (f->kind) {
  case FACT_SESSION: return s != NULL;
  case FACT_SUB: return s != NULL && tree_find(b, s, bytes_str(f->text), bytes_of(NULL, 0)) != NULL;
  case FACT_QUEUED: return s != NULL && queued(b, &s->queue, f->text);
  case FACT_RELEASED: return s != NULL && released(s, f->number);
  case FACT_INBOUND: return s != NULL && inbound_has(s, (u16)f->number);
  case FACT_RETAINED: {
    struct message *m = retained_find(b, bytes_str(f->id));
    return m != NULL &&
           bytes_equal_str(bytes_of(m->data + m->payload_off, message_payload_len(m)), f->text);
  }
  default:
    for (u32 i = 0; i < b->shares.count; i++) {
      if (b->shares.state[i] != 0 && queued(b, &share_at(b, i)->queue, f->text)) {
        return true;
      }
    }
    return s != NULL && queued(b, &s->queue, f->text);
  }
}

// --- The run

static struct world w;
static struct client p, v, s, t;  // publisher (kept), volatile, subscriber, another
static bool hasty;                // the core gets one turn where it would get all it needs
static bool ended;                // something was not acknowledged: the run stops

#define STEP(what)  \
  do {              \
    if (!(what)) {  \
      ended = true; \
      return;       \
    }               \
  } while (0)

static void run_core(void) {
  if (hasty) {
    (void)loop_turn(&w.core);
  } else {
    disk_run(&w);
  }
}

static bool connects(struct client *c, const char *id, bool clean, u32 expiry_s) {
  struct mqtt_prop_out props[] = {{.id = MQTT_P_SESSION_EXPIRY, .number = expiry_s}, {0}};
  struct mqtt_connect_out o = {.version = c->version,
                               .clean_start = clean,
                               .client_id = bytes_str(id),
                               .props = c->version == MQTT_V5 ? props : NULL};
  u8 buf[256];
  struct writer out = writer_init(span_of(buf, sizeof buf));
  mqtt_encode_connect(&out, &o);
  struct mqtt_connect d;
  CHECK(mqtt_decode_connect(writer_bytes(&out), &d) == MQTT_SUCCESS);
  struct broker_identity who = {.qos_max = 2};
  c->kicked = c->awake = false;
  c->rx_pos = c->rx_len = 0;
  if (broker_on_connect(w.b, c, &d, writer_bytes(&out), &who, unit_now_ns, &c->s,
                        &c->keep_alive_s) != MQTT_SUCCESS) {
    c->s = NULL;
    return false;
  }
  run_core();
  struct bytes b;
  return next_type(c, &b) == MQTT_CONNACK &&
         mqtt_decode_connack(c->version, b, &c->connack) == MQTT_SUCCESS;
}

// The next packet is of this type.
static bool gets(struct client *c, u8 type) {
  struct bytes b;
  run_core();
  return next_type(c, &b) == type;
}
static bool says(struct client *c, enum mqtt_type type, u16 packet_id) {
  return c->s != NULL && client_ack(c, type, packet_id, 0) == MQTT_SUCCESS;
}
static bool subscribes(struct client *c, const char *filter, u8 qos) {
  return client_subscribe_id(c, filter, qos, 0, 1) == MQTT_SUCCESS && gets(c, MQTT_SUBACK);
}
static bool publishes(struct client *c, const char *topic, const char *payload, u8 qos, bool retain,
                      u16 id) {
  return client_publish(c, topic, payload, qos, retain, id) == MQTT_SUCCESS &&
         (qos == 0 || gets(c, qos == 1 ? MQTT_PUBACK : MQTT_PUBREC));
}

static void run_sessions(void) {
  STEP(connects(&p, "p", false, 1000));
  (void)fact(FACT_SESSION, true, "p", NULL, 0);
  STEP(connects(&v, "v", true, 0));
  STEP(connects(&s, "s", false, 1000));
  struct fact *there = fact(FACT_SESSION, true, "s", NULL, 0);
  STEP(subscribes(&s, "a/#", 2));
  struct fact *sub = fact(FACT_SUB, true, "s", "a/#", 0);
  STEP(subscribes(&s, "b", 1));
  struct fact *b = fact(FACT_SUB, true, "s", "b", 0);
  over(b);
  STEP(client_unsubscribe(&s, "b", 2) == MQTT_SUCCESS && gets(&s, MQTT_UNSUBACK));
  (void)fact(FACT_SUB, false, "s", "b", 0);
  client_detach(&s);
  over(there);
  over(sub);
  STEP(connects(&s, "s", true, 1000));  // clean start: nothing of it is left
  (void)fact(FACT_SESSION, true, "s", NULL, 0);
  (void)fact(FACT_SUB, false, "s", "a/#", 0);
  STEP(subscribes(&s, "q/#", 2));
  (void)fact(FACT_SUB, true, "s", "q/#", 0);
}

static void run_queues(void) {
  client_detach(&s);
  STEP(publishes(&v, "q/1", "one", 1, false, 1));
  struct fact *one = fact(FACT_QUEUED, true, "s", "one", 0);
  STEP(publishes(&v, "q/2", "two", 2, false, 2));
  struct fact *two = fact(FACT_QUEUED, true, "s", "two", 0);
  STEP(says(&v, MQTT_PUBREL, 2) && gets(&v, MQTT_PUBCOMP));
  STEP(publishes(&p, "q/3", "three", 2, false, 77));
  (void)fact(FACT_QUEUED, true, "s", "three", 0);
  struct fact *in = fact(FACT_INBOUND, true, "p", NULL, 77);
  over(in);
  STEP(says(&p, MQTT_PUBREL, 77) && gets(&p, MQTT_PUBCOMP));
  (void)fact(FACT_INBOUND, false, "p", NULL, 77);
  STEP(publishes(&p, "nobody", "x", 2, false, 78));
  (void)fact(FACT_INBOUND, true, "p", NULL, 78);
  STEP(connects(&s, "s", false, 1000) && s.connack.session_present);
  STEP(gets(&s, MQTT_PUBLISH) && gets(&s, MQTT_PUBLISH) && gets(&s, MQTT_PUBLISH));
  over(one);
  STEP(says(&s, MQTT_PUBACK, 1));
  over(two);
  STEP(says(&s, MQTT_PUBREC, 2) && gets(&s, MQTT_PUBREL));
  struct fact *released_2 = fact(FACT_RELEASED, true, "s", NULL, 2);
  over(released_2);
  STEP(says(&s, MQTT_PUBCOMP, 2));
  STEP(publishes(&v, "q/4", "four", 1, false, 3) && gets(&s, MQTT_PUBLISH));
  (void)fact(FACT_QUEUED, true, "s", "four", 0);
}

static void run_retained(void) {
  STEP(publishes(&v, "r/1", "first", 1, true, 4));
  struct fact *first = fact(FACT_RETAINED, true, "r/1", "first", 0);
  over(first);
  STEP(publishes(&v, "r/1", "second", 1, true, 5));
  struct fact *second = fact(FACT_RETAINED, true, "r/1", "second", 0);
  (void)fact(FACT_RETAINED, false, "r/1", "first", 0);
  STEP(publishes(&v, "r/2", "other", 2, true, 6));
  (void)fact(FACT_RETAINED, true, "r/2", "other", 0);
  over(second);
  STEP(publishes(&v, "r/1", "", 1, true, 7));
  (void)fact(FACT_RETAINED, false, "r/1", "second", 0);
}

static void run_shared(void) {
  STEP(connects(&t, "t", false, 1000));
  STEP(client_subscribe_id(&t, "$share/g/h", 1, 0, 1) == MQTT_SUCCESS && gets(&t, MQTT_SUBACK));
  client_detach(&t);
  STEP(publishes(&v, "h", "for one", 1, false, 8));
  (void)fact(FACT_GROUP, true, "t", "for one", 0);
  STEP(publishes(&v, "h", "for two", 1, false, 9));
  (void)fact(FACT_GROUP, true, "t", "for two", 0);
  STEP(connects(&t, "t", false, 1000) && gets(&t, MQTT_PUBLISH) && gets(&t, MQTT_PUBLISH));
}

static void run_all(void) {
  void (*const part[])(void) = {run_sessions, run_queues, run_retained, run_shared};
  fact_count = 0;
  ended = false;
  client_init(&p, &w, MQTT_V5);
  client_init(&v, &w, MQTT_V5);
  client_init(&s, &w, MQTT_V5);
  client_init(&t, &w, MQTT_V5);
  for (u32 i = 0; i < 4 && !ended; i++) {
    part[i]();
  }
  struct client *all[] = {&p, &v, &s, &t};
  u32 at = rec.count;  // what follows is no part of the run
  for (u32 i = 0; i < 4; i++) {
    client_detach(all[i]);
    client_free(all[i]);
  }
  CHECK(hasty || rec.count == at);
}

// --- What goes out before the disk has it, and what does not

// One turn of the broker's own, in which the disk answers nothing.
static bool at_once(struct client *c, u8 type) {
  struct bytes b;
  return next_type(c, &b) == type;
}

static void two_kept(struct broker_limits *l) {
  broker_limits_default(l, 4u << 20);
  disk_format();
  disk_attach(disk_fresh, 7, BLOCK_FAULT_NONE, 1);
  CHECK(disk_world(&w, l));
  client_init(&v, &w, MQTT_V5);
  client_init(&s, &w, MQTT_V5);
  CHECK(connects(&v, "v", true, 0) && connects(&s, "s", false, 1000) && subscribes(&s, "q", 2));
}
static void end_two(void) {
  client_detach(&v);
  client_detach(&s);
  client_free(&v);
  client_free(&s);
  disk_world_close(&w);
}

static void live_ones_do_not_wait(void **state) {
  (void)state;
  struct broker_limits l;
  two_kept(&l);
  CHECK(client_publish(&v, "q", "zero", 0, false, 0) == MQTT_SUCCESS);
  CHECK(client_publish(&v, "q", "one", 1, false, 1) == MQTT_SUCCESS);
  CHECK(at_once(&s, MQTT_PUBLISH) && at_once(&s, MQTT_PUBLISH));
  CHECK(client_publish(&v, "nobody", "x", 1, false, 2) == MQTT_SUCCESS);
  expect_none(&v);  // the volatile one stands behind the one that waits
  disk_run(&w);
  expect_ack(&v, MQTT_PUBACK, 1, 0);
  expect_ack(&v, MQTT_PUBACK, 2, MQTT_NO_MATCHING_SUBSCRIBERS);
  CHECK(client_publish(&v, "nobody", "x", 1, false, 3) == MQTT_SUCCESS);
  expect_ack(&v, MQTT_PUBACK, 3, MQTT_NO_MATCHING_SUBSCRIBERS);  // nothing to wait for
  end_two();
}

static void qos_2_waits_for_its_record(void **state) {
  (void)state;
  struct broker_limits l;
  two_kept(&l);
  CHECK(client_publish(&v, "q", "two", 2, false, 1) == MQTT_SUCCESS);
  expect_none(&s);
  expect_none(&v);
  broker_check(w.b);
  disk_run(&w);
  CHECK(at_once(&s, MQTT_PUBLISH) && at_once(&v, MQTT_PUBREC));
  CHECK(says(&s, MQTT_PUBREC, 1));
  expect_none(&s);
  disk_run(&w);
  CHECK(at_once(&s, MQTT_PUBREL));
  CHECK(says(&v, MQTT_PUBREL, 1));
  CHECK(at_once(&v, MQTT_PUBCOMP));  // its session is not kept: nothing is removed
  end_two();
}

// --- After a cut

// How many facts are not so after the cut at n; `image` is what it left.
static u32 broken_after(const u8 *image, u32 n, const struct broker_limits *l, bool say) {
  struct world after;
  u32 broken = 0;
  disk_attach(image, n + 1, BLOCK_FAULT_NONE, 1);
  if (!disk_world(&after, l)) {
    if (say) {
      fprintf(stderr, "cut at %u: %s\n", n, store->state == STORE_REFUSED ? store->why : "stuck");
    }
    broken = 1;
  }
  for (u32 i = 0; i < fact_count && broken == 0; i++) {
    const struct fact *f = &facts[i];
    if (n >= f->from && n < f->until && true_now(after.b, f) != f->holds) {
      if (say) {
        fprintf(stderr, "cut at %u: kind %u of %s %s %u is not %u (from %u)\n", n, f->kind,
                f->id == NULL ? "" : f->id, f->text == NULL ? "" : f->text, f->number, f->holds,
                f->from);
      }
      broken++;
    }
  }
  disk_world_close(&after);
  return broken;
}

// All cuts of what is recorded, each with nothing, everything and two mixtures of what was loose
// kept, the last of it torn.
static u32 broken_anywhere(const struct broker_limits *l, bool say) {
  static u8 image[DISK_IMAGE];
  static struct block_record kept;
  static struct record_entry entries[DISK_ENTRIES];
  static u8 *data;
  static const u64 masks[] = {0, U64_MAX, 0x5555555555555555ull, 0xaaaaaaaaaaaaaaaaull};
  u32 broken = 0;
  data = malloc(rec.data_len);
  memcpy(data, disk_data, rec.data_len);
  memcpy(entries, disk_entries, rec.count * sizeof *entries);
  kept = rec;
  kept.entry = entries;
  kept.data = span_of(data, rec.data_len);
  CHECK(!kept.full);
  for (u32 n = 0; n <= kept.count; n++) {
    for (u32 k = 0; k < 4; k++) {
      memcpy(image, disk_fresh, DISK_IMAGE);
      block_record_replay(&kept, n, masks[k], k > 1 ? 512 * (n % 5 + 1) : 0,
                          span_of(image, DISK_IMAGE));
      broken += broken_after(image, n, l, say);
    }
  }
  free(data);
  return broken;
}

static struct broker_limits limits(void) {
  struct broker_limits l;
  broker_limits_default(&l, 4u << 20);
  return l;
}

static void every_cut(void **state) {
  (void)state;
  struct broker_limits l = limits();
  disk_format();
  disk_attach(disk_fresh, 7, BLOCK_FAULT_NONE, 1);
  CHECK(disk_world(&w, &l));
  run_all();
  CHECK(!ended);
  CHECK(fact_count > 20);
  disk_world_close(&w);
  fprintf(stderr, "%u operations, %u promises\n", rec.count, fact_count);
  CHECK(broken_anywhere(&l, true) == 0);
}

static void a_lying_flush_is_found(void **state) {
  (void)state;
  struct broker_limits l = limits();
  disk_format();
  disk_attach(disk_fresh, 7, BLOCK_FAULT_LYING_FLUSH, 4);
  CHECK(disk_world(&w, &l));
  run_all();
  CHECK(!ended);
  disk_world_close(&w);
  CHECK(broken_anywhere(&l, false) > 0);
}

// A failed disk makes no new promises, and says so.
static void refuses_from_now_on(void) {
  struct bytes b;
  struct mqtt_ack a;
  CHECK(store_refuses(store));
  client_init(&v, &w, MQTT_V5);
  CHECK(connects(&v, "new", true, 0));  // it has nothing to be kept
  CHECK(client_publish(&v, "r/9", "x", 1, true, 1) == MQTT_SUCCESS);
  disk_run(&w);
  CHECK(next_type(&v, &b) == MQTT_PUBACK);
  CHECK(mqtt_decode_ack(MQTT_V5, b, &a) == MQTT_SUCCESS && a.reason == MQTT_QUOTA_EXCEEDED);
  client_detach(&v);
  CHECK(!connects(&v, "kept", false, 1000));
  client_free(&v);
}

// Who does not wait is found out by the same checks, too.
static void not_waiting_is_found(void **state) {
  (void)state;
  struct broker_limits l = limits();
  disk_format();
  disk_attach(disk_fresh, 7, BLOCK_FAULT_NONE, 1);
  CHECK(disk_world(&w, &l));
  broker_set_relaxed(w.b, true);
  hasty = true;
  run_all();
  hasty = false;
  CHECK(!ended);
  disk_run(&w);
  disk_world_close(&w);
  CHECK(broken_anywhere(&l, false) > 0);
}

static void every_fault(void **state) {
  (void)state;
  static const enum block_fault_kind kinds[] = {BLOCK_FAULT_ERROR, BLOCK_FAULT_TORN,
                                                BLOCK_FAULT_STUCK};
  static u8 image[DISK_IMAGE];
  struct broker_limits l = limits();
  disk_format();
  for (u32 k = 0; k < 3; k++) {
    bool fired = true;
    for (u32 nth = 1; fired; nth++) {
      disk_attach(disk_fresh, nth, kinds[k], nth);
      failures = 0;
      bool opened = disk_world(&w, &l);
      bool early = fault.fired;  // a copy that could not be read: there are others
      if (opened) {
        run_all();
        CHECK(!ended || fault.fired);
        bool fails = kinds[k] != BLOCK_FAULT_STUCK && fault.fired && !early;
        CHECK(failures == (fails ? 1 : 0));
        if (failures > 0) {
          refuses_from_now_on();
        }
      }
      fired = fault.fired;
      disk_world_close(&w);
      if (!fired || !opened) {
        continue;
      }
      block_memory_cut(&mem);
      memcpy(image, disk_now, DISK_IMAGE);
      CHECK(broken_after(image, rec.count, &l, true) == 0);
    }
  }
}

// A full journal makes no new promises and keeps the old: what was acknowledged is there, can be
// fetched, and what is fetched is done with, also after a start.
static void full(void **state) {
  (void)state;
  static u8 image[DISK_IMAGE];
  static char text[1000][8];
  struct broker_limits l;
  struct mqtt_ack a = {.reason = 0};
  struct bytes b;
  u32 good = 0;
  two_kept(&l);
  client_detach(&s);
  while (a.reason < MQTT_UNSPECIFIED_ERROR) {
    CHECK(good < 1000);
    snprintf(text[good], sizeof text[good], "%u", good);
    CHECK(client_publish(&v, "q", text[good], 1, false, 1) == MQTT_SUCCESS);
    disk_run(&w);
    CHECK(next_type(&v, &b) == MQTT_PUBACK && mqtt_decode_ack(MQTT_V5, b, &a) == MQTT_SUCCESS);
    good += a.reason < MQTT_UNSPECIFIED_ERROR ? 1 : 0;
  }
  CHECK(a.reason == MQTT_QUOTA_EXCEEDED && good > 100);
  CHECK(client_publish(&v, "q", "live only", 0, false, 0) == MQTT_SUCCESS);  // nothing is promised
  client_detach(&v);
  client_free(&v);
  client_free(&s);
  disk_world_close(&w);
  for (u32 boot = 0; boot < 2; boot++) {
    memcpy(image, disk_now, DISK_IMAGE);
    disk_attach(image, boot + 3, BLOCK_FAULT_NONE, 1);
    CHECK(disk_world(&w, &l) && store_refuses(store));
    client_init(&s, &w, MQTT_V5);
    CHECK(connects(&s, "s", false, 1000) && s.connack.session_present);
    u32 got = 0;
    for (u32 i = boot == 0 ? 0 : 100; i < (boot == 0 ? 100 : good); i++, got++) {
      struct mqtt_publish m;
      disk_run(&w);
      CHECK(next_type(&s, &b) == MQTT_PUBLISH);
      CHECK(mqtt_decode_publish(MQTT_V5, b, &m) == MQTT_SUCCESS);
      CHECK(bytes_equal_str(bytes_part(b, m.payload), text[i]));
      CHECK(client_ack(&s, MQTT_PUBACK, m.packet_id, 0) == MQTT_SUCCESS);
    }
    CHECK(got > 0);
    disk_run(&w);
    client_detach(&s);
    client_free(&s);
    disk_run(&w);
    disk_world_close(&w);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(live_ones_do_not_wait),
      cmocka_unit_test(qos_2_waits_for_its_record),
      cmocka_unit_test(full),
      cmocka_unit_test(every_cut),
      cmocka_unit_test(a_lying_flush_is_found),
      cmocka_unit_test(not_waiting_is_found),
      cmocka_unit_test(every_fault),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
