// SPDX-License-Identifier: Apache-2.0
// Proves, of the database: what a random history of records makes is the same however it is cut
// into transactions, whatever of it is known to be needless beforehand, and after a power cut
// anywhere with the rest applied again; each rule of record.h by itself; that an operation
// that fails leaves what was committed.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "store/db.h"
#include "store/vfs_test_support.h"

#define HISTORY 1200u
#define CLIENTS 7u
#define PENDING 64u

static struct db db;
static u64 seed;
static u32 rnd(u32 below) {
  seed = seed * 6364136223846793005ull + 1442695040888963407ull;
  return (u32)(seed >> 33) % below;
}

// --- A history: records as a journal would hold them.

static struct item {
  u16 type;
  u32 at, len;
} item[HISTORY + 16];
static u32 items;  // the LSN of item i is i + 1
static u8 bytes[8u << 20];
static u32 bytes_used;

static u64 push(struct record *r, bool more) {
  ASSERT(items < HISTORY + 16);
  struct writer w = writer_init(span_of(bytes + bytes_used, sizeof bytes - bytes_used));
  r->more = more;
  record_write(r, &w);
  ASSERT(w.err == ERR_OK);
  item[items++] = (struct item){record_type(r), bytes_used, w.pos};
  bytes_used += w.pos;
  return items;
}

static struct client {
  u64 session;
  bool connected;
  u32 next;
  u64 group;
  u32 pending[PENDING];
  u32 count;
} client[CLIENTS];
static u64 group_message[PENDING];
static u32 group_messages;
static u64 group;  // of the one shared filter
static u32 members;

static u64 connect_client(u32 i) {
  char name[16];
  struct client *c = &client[i];
  struct record r = {.kind = RECORD_SESSION};
  r.session = (struct record_session){.session = c->session,
                                      .has_username = i % 2,
                                      .expiry_s = i == 3 ? U32_MAX : 3600,
                                      .will_expiry_s = U32_MAX,
                                      .at_ms = items * 10};
  snprintf(name, sizeof name, "client-%u", i);
  r.session.client_id = bytes_str(name);
  r.session.username = i % 2 ? BYTES_LIT("u") : BYTES_LIT("");
  if (rnd(3) == 0) {
    r.session.has_will = true;
    r.session.will_qos = 1;
    r.session.will_topic = BYTES_LIT("will");
    r.session.will_payload = BYTES_LIT("gone");
  }
  u64 lsn = push(&r, false);
  c->session = c->session == 0 ? lsn : c->session;
  c->connected = true;
  return c->session;
}

static void leave_group(struct client *c) {
  if (c->group != 0 && --members == 0) {
    group = 0;
    group_messages = 0;
  }
  c->group = 0;
}

static void end_client(u32 i) {
  struct record r = {.kind = RECORD_SESSION_END, .session_end = client[i].session};
  push(&r, false);
  leave_group(&client[i]);
  memset(&client[i], 0, sizeof client[i]);
}

static void subscribe(u32 i, bool shared, bool un) {
  struct client *c = &client[i];
  struct record r = {.kind = un ? RECORD_UNSUBSCRIBE : RECORD_SUBSCRIBE};
  r.subscribe =
      (struct record_subscribe){.session = c->session,
                                .group = shared && !un ? group : 0,
                                .qos = 1,
                                .identifier = rnd(5),
                                .name = shared ? BYTES_LIT("g") : BYTES_LIT(""),
                                .filter = shared ? BYTES_LIT("jobs/#") : BYTES_LIT("a/+")};
  u64 lsn = push(&r, false);
  if (shared && un) {
    leave_group(c);
  } else if (shared && c->group == 0) {
    group = group == 0 ? lsn : group;
    c->group = group;
    members++;
  }
}

static void add_refs(struct writer *w, u32 qos, bool to_group) {
  static const u8 ids[8] = {1, 0, 0, 0, 2};
  for (u32 i = 0; i < CLIENTS; i++) {
    struct client *c = &client[i];
    if (c->session != 0 && c->count < PENDING && rnd(2) == 0) {
      struct record_ref ref = {.target = c->session, .seq = c->next, .qos = (u8)qos};
      ref.id_count = (u8)rnd(3);
      ref.ids = bytes_of(ids, ref.id_count * 4u);
      record_write_ref(&ref, w);
      c->pending[c->count++] = c->next++;
    }
  }
  if (to_group) {
    struct record_ref ref = {.target = group, .qos = (u8)qos};
    record_write_ref(&ref, w);
  }
}

static void publish(void) {
  static u8 body[60000], refs[4096];
  char topic[16];
  u32 large = rnd(12) == 0 ? 9000 + rnd(40000) : rnd(600);
  u32 topic_len = (u32)snprintf(topic, sizeof topic, "a/%u", rnd(6));
  struct writer w = writer_init(span_of(refs, sizeof refs));
  bool to_group = group != 0 && group_messages < PENDING && rnd(3) == 0;
  u64 lsn = items + 1;
  memcpy(body, topic, topic_len);
  memset(body + topic_len, (int)lsn, large);
  struct record r = {.kind = RECORD_PUBLISH};
  r.publish = (struct record_publish){.qos = (u8)(1 + rnd(2)),
                                      .retain = rnd(4) == 0,
                                      .topic_len = topic_len,
                                      .payload_len = large,
                                      .at_ms = items * 10};
  r.publish.keep = r.publish.retain;
  u32 i = rnd(CLIENTS);
  if (rnd(8) == 0 && client[i].session != 0) {
    r.publish.inbound_session = client[i].session;
    r.publish.inbound_id = (u16)(1 + rnd(5));
  }
  r.publish.will_of = rnd(20) == 0 ? client[rnd(CLIENTS)].session : 0;
  u32 whole = topic_len + large;
  if (large > 20000) {  // in three records
    r.publish.part = bytes_of(body, 10000);
    push(&r, true);
    struct record chunk = {.kind = RECORD_CHUNK, .chunk = bytes_of(body + 10000, whole - 10000)};
    push(&chunk, true);
    add_refs(&w, r.publish.qos, to_group);
    struct record q = {.kind = RECORD_QUEUE, .queue.refs = writer_bytes(&w)};
    push(&q, false);
  } else {
    r.publish.part = bytes_of(body, whole);
    add_refs(&w, r.publish.qos, to_group);
    r.publish.refs = writer_bytes(&w);
    push(&r, false);
  }
  if (to_group) {
    group_message[group_messages++] = lsn;
  }
}

static void remove_some(u32 i) {
  static u8 out[PENDING * 12];
  struct client *c = &client[i];
  struct writer w = writer_init(span_of(out, sizeof out));
  u32 most = 1 + rnd(20);
  u32 n = MIN(c->count, most);
  for (u32 k = 0; k < n; k++) {
    record_write_remove(c->session, c->pending[k], &w);
  }
  memmove(c->pending, c->pending + n, (c->count - n) * sizeof c->pending[0]);
  c->count -= n;
  struct record r = {.kind = RECORD_REMOVE, .remove = writer_bytes(&w)};
  push(&r, false);
}

// A message goes from one queue (its entry there: `from_seq`) to another.
static void move(u64 message, u64 from, u32 from_seq, u64 to, u32 seq) {
  u8 out[12], refs[64];
  struct writer w = writer_init(span_of(refs, sizeof refs));
  struct record_ref ref = {.target = to, .seq = seq, .qos = 1};
  record_write_ref(&ref, &w);
  struct record q = {.kind = RECORD_QUEUE,
                     .queue = {.message = message, .from = from, .refs = writer_bytes(&w)}};
  push(&q, true);
  w = writer_init(span_of(out, sizeof out));
  record_write_remove(from, from_seq, &w);
  struct record r = {.kind = RECORD_REMOVE, .remove = writer_bytes(&w)};
  push(&r, false);
}

// A member takes one of the group's, from the group's queue into his; or gives it back.
static void take_from_group(u32 i) {
  struct client *c = &client[i];
  u64 m = group_message[group_messages - 1];
  u32 seq = c->next++;
  move(m, group, (u32)m, c->session, seq);
  if (rnd(3) == 0) {
    move(m, c->session, seq, group, 0);
  } else {
    c->pending[c->count++] = seq;
    group_messages--;
  }
}

static void small_change(u32 i) {
  struct client *c = &client[i];
  struct record r = {.kind = RECORD_INBOUND_ADD};
  switch (rnd(6)) {
  case 0:
  case 1:
    r.kind = rnd(2) == 0 ? RECORD_INBOUND_ADD : RECORD_INBOUND_REMOVE;
    r.inbound.session = c->session;
    r.inbound.packet_id = (u16)(1 + rnd(5));
    break;
  case 2:
    r.kind = RECORD_RETAIN_CLEAR;
    r.topic = BYTES_LIT("a/3");
    break;
  case 3:
    r.kind = RECORD_CONTROL;
    r.control.name = BYTES_LIT("roles");
    r.control.part = BYTES_LIT("{\"a\":1}");
    r.control.len = 7;
    break;
  case 4:
    r.kind = RECORD_BOOT;
    r.boot.at_ms = items * 10;
    for (u32 k = 0; k < CLIENTS; k++) {
      client[k].connected = false;
    }
    break;
  default:
    r.kind = RECORD_RECEIVED;
    r.received.session = c->session;
    r.received.seq = c->count > 0 ? c->pending[rnd(c->count)] : 9;
    break;
  }
  push(&r, false);
}

static void make_history(u64 of) {
  seed = of;
  items = 0;
  bytes_used = 0;
  group = group_messages = members = 0;
  memset(client, 0, sizeof client);
  while (items < HISTORY) {
    u32 i = rnd(CLIENTS);
    struct client *c = &client[i];
    u32 what = rnd(20);
    if (c->session == 0 || what == 0) {
      connect_client(i);
    } else if (what == 1) {
      struct record r = {.kind = RECORD_OFFLINE};
      r.offline = (struct record_offline){c->session, items * 10, 60, rnd(2) == 0};
      push(&r, false);
      c->connected = false;
    } else if (what == 2 && rnd(4) == 0) {
      end_client(i);
    } else if (what < 5) {
      subscribe(i, rnd(2) == 0, rnd(3) == 0);
    } else if (what < 10) {
      publish();
    } else if (what < 15 && c->count > 0) {
      remove_some(i);
    } else if (what < 17 && c->group != 0 && group_messages > 0 && c->count < PENDING) {
      take_from_group(i);
    } else {
      small_change(i);
    }
  }
}

// --- Applying it

static bool read_item(u32 i, struct record *r) {
  return record_read(item[i].type, bytes_of(bytes + item[i].at, item[i].len), r) == ERR_OK;
}

static enum err apply_to(u32 end, u32 commit_every, bool expects) {
  enum err e = ERR_OK;
  for (u32 i = (u32)db.applied; e == ERR_OK && i < end;) {
    u32 run = MIN(i + (expects ? commit_every : 1), end);
    struct record r = {.more = true};
    while (run < end && (run <= i || (read_item(run - 1, &r) && r.more))) {
      run++;
    }
    db_expect_none(&db);
    for (u32 k = i; expects && k < run; k++) {
      assert_true(read_item(k, &r));
      db_expect(&db, &r);
    }
    for (; e == ERR_OK && i < run; i++) {
      assert_true(read_item(i, &r));
      e = db_apply(&db, i + 1, &r);
    }
    if (e == ERR_OK && !r.more && (rnd(commit_every) == 0 || i == end)) {
      e = db_commit(&db);
      if (e == ERR_OK && rnd(3) == 0) {
        e = db_checkpoint(&db);
      }
    }
  }
  return e;
}

static enum err start(bool fresh) {
  struct vfs_place place = {&rig_fault.block, &rig_table, 0, {3, 1, 4}};
  memset(rig_crc, 0, sizeof rig_crc);
  memset(&db, 0, sizeof db);
  vfs_start(&db.vfs, &place, span_of(rig_memory, VFS_MEMORY), span_of(rig_crc, sizeof rig_crc));
  return db_open(&db, span_of(rig_heap, RIG_HEAP), fresh);
}

static void fresh(u64 of) {
  rig_blank();
  rig_power(of, BLOCK_FAULT_NONE, 1);
  assert_int_equal(start(true), ERR_OK);
}

// What is told, as bytes.
static struct dump {
  u8 *data;
  u32 len;
  u32 count[RECORD_KINDS];
} told;
static bool note(void *ctx, u64 lsn, const struct record *r) {
  struct dump *d = ctx;
  struct writer w = writer_init(span_of(d->data + d->len + 16, (8u << 20) - d->len - 16));
  record_write(r, &w);
  assert_int_equal(w.err, ERR_OK);
  store_le64(d->data + d->len, lsn);
  store_le64(d->data + d->len + 8, record_type(r));
  d->len += 16 + w.pos;
  d->count[r->kind]++;
  return true;
}
static void tell_all(struct dump *d) {
  if (d->data == NULL) {
    d->data = malloc(8u << 20);
  }
  d->len = 0;
  memset(d->count, 0, sizeof d->count);
  assert_int_equal(db_load(&db, note, d), ERR_OK);
}

static struct dump want;
static void same(void) {
  tell_all(&told);
  assert_int_equal(told.len, want.len);
  assert_memory_equal(told.data, want.data, want.len);
}

// One by one, committed each, nothing expected: the plainest way.
static void plainly(u64 of) {
  make_history(of);
  fresh(of);
  assert_int_equal(apply_to(items, 1, false), ERR_OK);
  tell_all(&want);
  assert_true(want.count[RECORD_SESSION] > 2);
  db_close(&db);
}

static void cut_as_you_like(void **state) {
  (void)state;
  u64 elided = 0;
  for (u64 of = 1; of <= 12; of++) {
    plainly(of);
    fresh(of);
    assert_int_equal(apply_to(items, 100, false), ERR_OK);
    same();
    db_close(&db);
    fresh(of);
    assert_int_equal(apply_to(items, 200, true), ERR_OK);
    same();
    elided += db.elided;
    db_close(&db);
    assert_int_equal(start(false), ERR_OK);
    assert_int_equal(db.applied, items);
    same();
    db_close(&db);
  }
  assert_true(elided > 1000);
}

// Transactions cut in the middle of records by a small budget, and power cuts.
static void cut_by_power(void **state) {
  (void)state;
  u32 lives = 0;
  for (u64 of = 20; of < 26; of++) {
    plainly(of);
    fresh(of);
    for (u32 life = 0; db.applied < items; life++, lives++) {
      db.budget = life % 2 == 0 ? 20 * VFS_FRAME : db.budget;
      u64 before = db.applied;
      u32 end = (u32)before + 1 + rnd(300);
      end = MIN(items, end);
      struct record r;
      while (end < items && read_item(end - 1, &r) && r.more) {
        end++;
      }
      assert_int_equal(apply_to(end, 60, life % 3 != 0), ERR_OK);
      if (life % 4 != 3 && end < items) {  // some more, of which nothing is promised
        assert_true(read_item(end, &r));
        (void)db_apply(&db, end + 1, &r);
      }
      db_close(&db);
      block_memory_cut(&rig_mem);
      rig_power(of * 100 + life, BLOCK_FAULT_NONE, 1);
      assert_int_equal(start(false), ERR_OK);
      assert_true(db.applied >= end && db.applied <= end + 1);
    }
    same();
    db_close(&db);
  }
  assert_true(lives > 20);
}

// An operation fails: an error, and what was committed is there with the rest applied again.
static void operations_fail(void **state) {
  (void)state;
  plainly(40);
  u32 nth = 1;
  for (bool again = true; again; nth += 1 + nth / 8) {
    fresh(nth);
    rig_power(nth, BLOCK_FAULT_ERROR, nth);
    enum err e = apply_to(items, 50, true);
    again = rig_fault.fired;
    assert_true(again || e == ERR_OK);
    u64 committed = db.committed;
    db_close(&db);
    block_memory_cut(&rig_mem);
    rig_power(nth, BLOCK_FAULT_NONE, 1);
    e = start(false);
    assert_int_equal(e, ERR_OK);
    assert_true(db.applied >= committed);
    e = apply_to(items, 50, true);
    assert_int_equal(e, ERR_OK);
    same();
    db_close(&db);
  }
  assert_true(nth > 20);
}

static void close_test(void) {
  (void)db_commit(&db);
  db_close(&db);
}

// --- The rules one by one

static enum err give(u64 lsn, struct record *r) {
  return db_apply(&db, lsn, r);
}

static void a_session(u64 lsn, const char *name) {
  struct record r = {.kind = RECORD_SESSION};
  r.session.client_id = bytes_str(name);
  r.session.expiry_s = 100;
  assert_int_equal(give(lsn, &r), ERR_OK);
}
static void a_message(u64 lsn, const char *topic, bool kept, u64 target, u32 seq) {
  u8 refs[32];
  struct writer w = writer_init(span_of(refs, sizeof refs));
  struct record_ref ref = {.target = target, .seq = seq, .qos = 1};
  record_write_ref(&ref, &w);
  struct record r = {.kind = RECORD_PUBLISH};
  r.publish = (struct record_publish){.qos = 1, .retain = kept, .keep = kept};
  r.publish.topic_len = (u32)strlen(topic);
  r.publish.part = bytes_str(topic);
  r.publish.refs = target != 0 ? writer_bytes(&w) : bytes_of("", 0);
  assert_int_equal(give(lsn, &r), ERR_OK);
}
static void a_remove(u64 lsn, u64 target, u32 seq) {
  u8 entry[12];
  struct writer w = writer_init(span_of(entry, sizeof entry));
  record_write_remove(target, seq, &w);
  struct record r = {.kind = RECORD_REMOVE, .remove = writer_bytes(&w)};
  assert_int_equal(give(lsn, &r), ERR_OK);
}
static i64 rows(const char *table) {
  char sql[64];
  sqlite3_stmt *s = NULL;
  snprintf(sql, sizeof sql, "SELECT count(*) FROM %s", table);
  assert_int_equal(sqlite3_prepare_v2(db.handle, sql, -1, &s, NULL), SQLITE_OK);
  assert_int_equal(sqlite3_step(s), SQLITE_ROW);
  i64 n = sqlite3_column_int64(s, 0);
  sqlite3_finalize(s);
  return n;
}

static void rules(void **state) {
  (void)state;
  fresh(1);
  a_session(1, "a");
  a_session(2, "b");
  a_session(3, "a");  // the id is taken: R1
  assert_int_equal(rows("session"), 2);
  a_message(4, "t", false, 1, 0);
  a_message(5, "t", false, 99, 0);  // to nobody
  assert_int_equal(rows("message"), 1);
  a_message(6, "r", true, 0, 0);
  a_message(7, "r", true, 2, 0);  // replaces
  assert_int_equal(rows("message"), 2);
  assert_int_equal(rows("retained"), 1);
  a_remove(8, 1, 0);  // R5
  a_remove(9, 1, 0);
  assert_int_equal(rows("queue"), 1);
  assert_int_equal(rows("message"), 1);
  struct record r = {.kind = RECORD_RETAIN_CLEAR, .topic = BYTES_LIT("r")};
  assert_int_equal(give(10, &r), ERR_OK);
  assert_int_equal(rows("message"), 1);  // queued still
  // A shared group, R4.
  r = (struct record){.kind = RECORD_SUBSCRIBE};
  r.subscribe = (struct record_subscribe){
      .session = 1, .qos = 1, .name = BYTES_LIT("g"), .filter = BYTES_LIT("f")};
  assert_int_equal(give(11, &r), ERR_OK);
  r.subscribe.session = 2;
  r.subscribe.group = 11;
  assert_int_equal(give(12, &r), ERR_OK);
  a_message(13, "f", false, 11, 0);
  assert_int_equal(rows("queue"), 2);
  r = (struct record){.kind = RECORD_SESSION_END, .session_end = 1};
  assert_int_equal(give(14, &r), ERR_OK);
  assert_int_equal(rows("queue"), 2);
  r.session_end = 2;
  assert_int_equal(give(15, &r), ERR_OK);
  static const char *const empty[] = {"session", "queue", "message", "subscription", "sequence"};
  assert_int_equal(db_commit(&db), ERR_OK);
  for (u32 i = 0; i < ARRAY_COUNT(empty); i++) {
    assert_int_equal(rows(empty[i]), 0);
  }
  close_test();
}

// A session 1, its group 2, and a message 3 in the group's queue.
static void a_group(void) {
  u8 refs[32];
  items = bytes_used = 0;
  fresh(1);
  struct record r = {.kind = RECORD_SESSION};
  r.session.client_id = BYTES_LIT("a");
  r.session.expiry_s = 100;
  push(&r, false);
  r = (struct record){.kind = RECORD_SUBSCRIBE};
  r.subscribe = (struct record_subscribe){
      .session = 1, .qos = 1, .name = BYTES_LIT("g"), .filter = BYTES_LIT("f")};
  push(&r, false);
  struct writer w = writer_init(span_of(refs, sizeof refs));
  record_write_ref(&(struct record_ref){.target = 2, .qos = 1}, &w);
  r = (struct record){.kind = RECORD_PUBLISH};
  r.publish = (struct record_publish){
      .qos = 1, .topic_len = 1, .part = BYTES_LIT("f"), .refs = writer_bytes(&w)};
  push(&r, false);
}

// To a member and back to the group, all in one run: no entry of it is needless, since a start may
// come behind any of the run's transactions and finds the message nowhere else.
static void moved_in_one_run(void **state) {
  (void)state;
  a_group();
  move(3, 2, 3, 1, 0);
  move(3, 1, 0, 2, 0);
  struct record r;
  for (u32 i = 0; i < items; i++) {
    assert_true(read_item(i, &r));
    db_expect(&db, &r);
  }
  for (u32 i = 0; i < items; i++) {
    assert_true(read_item(i, &r));
    assert_int_equal(give(i + 1, &r), ERR_OK);
    assert_int_equal(rows("queue"), i < 2 ? 0 : r.kind == RECORD_QUEUE ? 2 : 1);
  }
  assert_int_equal(rows("message"), 1);
  close_test();
}

// A transaction that is cut in the middle of a record holds all groups before that record: else
// the move would be half there, its message out of the one queue and not yet in the other.
static void cut_behind_a_move(void **state) {
  static u8 body[60000] = "f";
  (void)state;
  a_group();
  assert_int_equal(apply_to(items, 1, false), ERR_OK);
  assert_int_equal(db_commit(&db), ERR_OK);
  move(3, 2, 3, 1, 0);
  struct record r = {.kind = RECORD_PUBLISH};
  r.publish = (struct record_publish){.qos = 1, .retain = true, .keep = true, .topic_len = 1};
  r.publish.payload_len = sizeof body - 1;
  r.publish.part = bytes_of(body, sizeof body);
  push(&r, false);
  db.budget = 20 * VFS_FRAME;
  u64 before = db.transactions;
  for (u32 i = 3; i < items; i++) {
    assert_true(read_item(i, &r));
    assert_int_equal(give(i + 1, &r), ERR_OK);
  }
  assert_int_equal(db.transactions, before + 1);
  db_close(&db);
  block_memory_cut(&rig_mem);
  rig_power(1, BLOCK_FAULT_NONE, 1);
  assert_int_equal(start(false), ERR_OK);
  assert_int_equal(db.applied, 5);
  assert_int_equal(rows("queue WHERE target=1"), 1);
  close_test();
}

// R6: what had the highest sequence is gone.
static void sequences_stay(void **state) {
  (void)state;
  fresh(1);
  a_session(1, "a");
  a_message(2, "t", false, 1, 3000000000u);
  a_remove(3, 1, 3000000000u);
  assert_int_equal(db_commit(&db), ERR_OK);
  tell_all(&told);
  assert_int_equal(told.count[RECORD_REMOVE], 3);
  assert_int_equal(told.count[RECORD_PUBLISH], 3);
  close_test();
}

// R6 beyond 2^32, in one transaction and in the next.
static void sequences_wrap(void **state) {
  (void)state;
  fresh(1);
  a_session(1, "a");
  a_message(2, "t", false, 1, U32_MAX - 1);
  a_message(3, "t", false, 1, 2);
  assert_int_equal(db_commit(&db), ERR_OK);
  assert_int_equal(rows("sequence WHERE next=3"), 1);
  for (u32 i = 1; i < 4; i++) {  // never further ahead than a half
    a_message(3 + i, "t", false, 1, i << 30);
    assert_int_equal(db_commit(&db), ERR_OK);
  }
  assert_int_equal(rows("sequence WHERE next=3221225473"), 1);
  a_message(7, "t", false, 1, 1);
  assert_int_equal(db_commit(&db), ERR_OK);
  assert_int_equal(rows("sequence WHERE next=2"), 1);
  close_test();
}

// A database of another version, or of somebody else, is left alone.
static void versions(void **state) {
  (void)state;
  static const struct {
    const char *sql;
    enum err want;
  } row[] = {{"PRAGMA user_version=2", ERR_UNSUPPORTED},
             {"PRAGMA user_version=0", ERR_CORRUPT},
             {"PRAGMA user_version=1; DELETE FROM state", ERR_CORRUPT}};
  for (u32 i = 0; i < ARRAY_COUNT(row); i++) {
    fresh(1);
    assert_int_equal(sqlite3_exec(db.handle, row[i].sql, NULL, NULL, NULL), SQLITE_OK);
    db_close(&db);
    assert_int_equal(start(false), row[i].want);
    db_close(&db);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rules),
      cmocka_unit_test(sequences_stay),
      cmocka_unit_test(sequences_wrap),
      cmocka_unit_test(versions),
      cmocka_unit_test(cut_as_you_like),
      cmocka_unit_test(cut_by_power),
      cmocka_unit_test(operations_fail),
      cmocka_unit_test(moved_in_one_run),
      cmocka_unit_test(cut_behind_a_move),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
