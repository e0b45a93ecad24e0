// SPDX-License-Identifier: Apache-2.0
// Records into rows. What a record names that is not there changes nothing (record.h R1).
#include <sqlite3.h>

#include "store/db.h"

#define PAGES(n) ((u64)(n)*VFS_FRAME)
#define SEQUENCE_HASH 0x9e3779b97f4a7c15ull

static void bind_u64(struct sqlite3_stmt *s, int at, u64 v) {
  (void)sqlite3_bind_int64(s, at, (sqlite3_int64)v);
}
static void bind_bytes(struct sqlite3_stmt *s, int at, struct bytes b) {
  // An empty string is not NULL. The memory stays until the statement has run.
  (void)sqlite3_bind_blob(s, at, b.len == 0 ? "" : (const void *)b.ptr, (int)b.len, SQLITE_STATIC);
}

// ERR_OK: there is such a row.
static enum err is_there(struct db *db, enum db_statement which, u64 number) {
  struct sqlite3_stmt *s = db_take(db, which);
  u64 one = 0;
  bind_u64(s, 1, number);
  return db_number(db, s, &one);
}

static enum err run_one(struct db *db, enum db_statement which, u64 number) {
  struct sqlite3_stmt *s = db_take(db, which);
  bind_u64(s, 1, number);
  return db_run(db, s);
}

// --- What is queued and removed in one run

#define NEEDED U32_MAX  // as a sequence: the message `target` is named by a QUEUE

static struct db_gone *gone_slot(struct db *db, u64 target, u32 seq) {
  u64 hash = (target ^ (u64)seq << 32) * SEQUENCE_HASH;
  u32 i = (u32)(hash >> 40) % DB_GONE;
  while (db->gone[i].target != 0 && (db->gone[i].target != target || db->gone[i].seq != seq)) {
    i = (i + 1) % DB_GONE;
  }
  return &db->gone[i];
}

static void expect(struct db *db, u64 target, u32 seq) {
  struct db_gone *g = gone_slot(db, target, seq);
  if (target == 0 || g->removes == U16_MAX || db->gone_count > DB_GONE / 2) {
    return;
  }
  if (g->target == 0) {
    *g = (struct db_gone){.target = target, .seq = seq};
    db->gone_count++;
  }
  g->removes++;
}

// A full table takes no more: what is not expected goes the long way. Of a message that a QUEUE
// names, no entry is needless: the QUEUE takes the message from one, here and in the memory of a
// start that comes in the middle of this run. (What takes such an entry away is behind the QUEUE:
// a QUEUE that the table does not take is followed by removals that it does not take either.)
void db_expect(struct db *db, const struct record *r) {
  u64 target;
  u32 seq;
  u32 pos = 0;
  if (r->kind == RECORD_QUEUE && r->queue.message != 0) {
    expect(db, r->queue.message, NEEDED);
  }
  while (r->kind == RECORD_REMOVE && record_remove_next(r->remove, &pos, &target, &seq)) {
    expect(db, target, seq);
  }
}

void db_expect_none(struct db *db) {
  memset(db->gone, 0, sizeof db->gone);
  db->gone_count = 0;
}

// --- Sequences (R6)

static enum err note_sequence(struct db *db, u64 session, u32 seq) {
  struct db_sequence *q = &db->sequence[(session * SEQUENCE_HASH >> 40) % DB_SEQUENCES];
  if (q->session != session && q->session != 0) {
    struct sqlite3_stmt *s = db_take(db, DB_SEQUENCE);
    bind_u64(s, 1, q->session);
    bind_u64(s, 2, q->next);
    TRY(db_run(db, s));
    TRY(db_spend(db, PAGES(2)));
  }
  if (q->session != session || (i32)(seq + 1 - q->next) > 0) {
    q->next = seq + 1;
  }
  q->session = session;
  return ERR_OK;
}

static void forget_sequence(struct db *db, u64 session) {
  struct db_sequence *q = &db->sequence[(session * SEQUENCE_HASH >> 40) % DB_SEQUENCES];
  if (q->session == session) {
    q->session = 0;
  }
}

// --- Messages

static enum err add_message(struct db *db, u64 lsn, const struct record_publish *p) {
  struct sqlite3_stmt *s = db_take(db, DB_MESSAGE_ADD);
  u64 len = record_publish_body_len(p);
  bind_u64(s, 1, lsn);
  bind_u64(s, 2, p->keep);
  bind_u64(s, 3, p->qos);
  bind_u64(s, 4, p->retain);
  bind_u64(s, 5, p->has_username);
  bind_u64(s, 6, p->access_set);
  bind_u64(s, 7, p->at_ms);
  bind_u64(s, 8, p->expires_ms);
  bind_u64(s, 9, p->topic_len);
  bind_u64(s, 10, p->props_len);
  bind_u64(s, 11, p->client_len);
  bind_u64(s, 12, p->username_len);
  if (p->part.len == len) {
    bind_bytes(s, 13, p->part);
  } else {
    (void)sqlite3_bind_zeroblob(s, 13, (int)len);
  }
  enum err e = db_run(db, s);
  db->messages++;
  return e == ERR_OK ? db_spend(db, len + len / 16 + 200) : e;
}

// A message that nothing refers to any more goes (R5).
static enum err drop_message(struct db *db, u64 lsn) {
  return lsn == 0 ? ERR_OK : run_one(db, DB_MESSAGE_DROP, lsn);
}

static enum err write_body(struct db *db, struct bytes part) {
  sqlite3_blob *blob = NULL;
  if (db->body_row == 0 || part.len > db->body_len - db->body_at) {
    return ERR_OK;  // of a body that is not kept
  }
  const char *table = db->control ? "control" : "message";
  int code = sqlite3_blob_open(db->handle, "main", table, "body", db->body_row, 1, &blob);
  if (code == SQLITE_OK) {
    code = sqlite3_blob_write(blob, part.ptr, (int)part.len, (int)db->body_at);
    (void)sqlite3_blob_close(blob);
  }
  db->body_at += (u32)part.len;
  TRY(db_error(db, code));
  return db_spend(db, part.len + part.len / 16 + PAGES(3));
}

// `but`: this one stays, it was set before the record was applied a second time.
static enum err unkeep(struct db *db, struct bytes topic, u64 but) {
  struct sqlite3_stmt *s = db_take(db, DB_RETAINED_GET);
  u64 old = 0;
  bind_bytes(s, 1, topic);
  enum err e = db_number(db, s, &old);
  if (e != ERR_OK || old == but) {
    return e == ERR_NOT_FOUND ? ERR_OK : e;
  }
  TRY(run_one(db, DB_MESSAGE_UNKEEP, old));
  TRY(drop_message(db, old));
  return db_spend(db, PAGES(4));
}

static enum err keep(struct db *db, struct bytes topic, u64 lsn) {
  TRY(unkeep(db, topic, lsn));
  struct sqlite3_stmt *s = db_take(db, DB_RETAINED_SET);
  bind_bytes(s, 1, topic);
  bind_u64(s, 2, lsn);
  TRY(db_run(db, s));
  return db_spend(db, PAGES(2));
}

// --- Queues

// The target, as it stands in a queue row's `seq`. ERR_NOT_FOUND: there is none.
static enum err judge_target(struct db *db, u64 target, u64 message, u32 *seq) {
  enum err e = is_there(db, DB_SESSION_IS, target);
  if (e == ERR_OK) {
    return note_sequence(db, target, *seq);
  }
  if (e == ERR_NOT_FOUND) {
    e = is_there(db, DB_GROUP_IS, target);
    *seq = (u32)message;
  }
  return e;
}

static enum err add_entry(struct db *db, u64 message, const struct record_ref *ref) {
  struct sqlite3_stmt *s = db_take(db, DB_QUEUE_ADD);
  bind_u64(s, 1, ++db->queue_id);
  bind_u64(s, 2, ref->target);
  bind_u64(s, 3, ref->seq);
  bind_u64(s, 4, message);
  bind_u64(s, 5, (u64)ref->qos | (ref->retain ? 4 : 0));
  bind_bytes(s, 6, ref->ids);
  TRY(db_run(db, s));
  return db_spend(db, 400 + ref->ids.len);
}

// `p`: the message is not in the database yet; added before its first entry.
static enum err add_entries(struct db *db, u64 message, const struct record_publish *p,
                            struct bytes refs) {
  struct record_ref ref;
  u32 pos = 0;
  bool needed = gone_slot(db, message, NEEDED)->target != 0;
  while (record_ref_next(refs, &pos, &ref)) {
    enum err e = judge_target(db, ref.target, message, &ref.seq);
    if (e == ERR_NOT_FOUND) {
      continue;
    }
    TRY(e);
    struct db_gone *g = gone_slot(db, ref.target, ref.seq);
    if (!needed && g->target != 0 && g->removes > 0 && !g->skipped) {
      g->skipped = true;
      db->queue_id++;
      db->elided++;
      continue;
    }
    if (p != NULL) {
      TRY(add_message(db, message, p));
      p = NULL;
    }
    TRY(add_entry(db, message, &ref));
    db->orphan = false;
  }
  return ERR_OK;
}

static enum err apply_publish(struct db *db, u64 lsn, const struct record *r) {
  const struct record_publish *p = &r->publish;
  bool whole = p->part.len == record_publish_body_len(p);
  if (p->inbound_id != 0 && is_there(db, DB_SESSION_IS, p->inbound_session) == ERR_OK) {
    struct sqlite3_stmt *s = db_take(db, DB_INBOUND_ADD);
    bind_u64(s, 1, p->inbound_session);
    bind_u64(s, 2, p->inbound_id);
    TRY(db_run(db, s));
    TRY(db_spend(db, PAGES(1)));
  }
  if (p->will_of != 0) {
    TRY(run_one(db, DB_SESSION_NO_WILL, p->will_of));
    TRY(db_spend(db, PAGES(1)));
  }
  db->message = lsn;
  bool needed = p->keep || r->more || !whole;
  if (needed) {
    TRY(add_message(db, lsn, p));
    db->orphan = !p->keep;
  }
  if (p->keep) {
    ASSERT(p->part.len >= p->topic_len);  // a topic is never in a chunk
    TRY(keep(db, bytes_sub(p->part, 0, p->topic_len), lsn));
  }
  if (!whole) {
    db->body_row = (i64)lsn;
    db->body_at = 0;
    db->body_len = (u32)record_publish_body_len(p);
    return write_body(db, p->part);
  }
  return add_entries(db, lsn, needed ? NULL : p, p->refs);
}

static enum err apply_queue(struct db *db, const struct record_queue *q) {
  u64 message = q->message != 0 ? q->message : db->message;
  enum err e = message == 0 ? ERR_NOT_FOUND : is_there(db, DB_MESSAGE_IS, message);
  if (e != ERR_OK) {
    return e == ERR_NOT_FOUND ? ERR_OK : e;
  }
  TRY(add_entries(db, message, NULL, q->refs));
  return q->message != 0 ? drop_message(db, message) : ERR_OK;
}

// The row of a target's entry. ERR_NOT_FOUND.
static enum err find_entry(struct db *db, struct sqlite3_stmt *s, u64 *id, u64 *message) {
  int code = sqlite3_step(s);
  if (code == SQLITE_ROW) {
    *id = (u64)sqlite3_column_int64(s, 0);
    *message = (u64)sqlite3_column_int64(s, 1);
  }
  (void)sqlite3_reset(s);
  return code == SQLITE_DONE ? ERR_NOT_FOUND : db_error(db, code);
}

static enum err delete_entry(struct db *db, u64 id, u64 message) {
  TRY(run_one(db, DB_QUEUE_DELETE, id));
  TRY(drop_message(db, message));
  return db_spend(db, PAGES(2));
}

static enum err remove_one(struct db *db, u64 target, u32 seq) {
  u64 id = 0;
  u64 message = 0;
  struct db_gone *g = gone_slot(db, target, seq);
  if (g->target != 0 && g->removes > 0) {
    g->removes--;
    if (g->skipped) {
      g->skipped = false;
      return ERR_OK;
    }
  }
  struct sqlite3_stmt *s = db_take(db, DB_QUEUE_FIND);
  bind_u64(s, 1, target);
  bind_u64(s, 2, seq);
  enum err e = find_entry(db, s, &id, &message);
  return e == ERR_OK ? delete_entry(db, id, message) : e == ERR_NOT_FOUND ? ERR_OK : e;
}

static enum err apply_remove(struct db *db, struct bytes entries) {
  u64 target;
  u32 seq;
  u32 pos = 0;
  while (record_remove_next(entries, &pos, &target, &seq)) {
    TRY(remove_one(db, target, seq));
  }
  return ERR_OK;
}

static enum err end_queue(struct db *db, u64 target) {
  for (;;) {
    u64 id = 0;
    u64 message = 0;
    struct sqlite3_stmt *s = db_take(db, DB_QUEUE_FIRST);
    bind_u64(s, 1, target);
    enum err e = find_entry(db, s, &id, &message);
    if (e != ERR_OK) {
      return e == ERR_NOT_FOUND ? ERR_OK : e;
    }
    TRY(delete_entry(db, id, message));
  }
}

static enum err apply_received(struct db *db, u64 session, u32 seq) {
  u64 id = 0;
  u64 message = 0;
  struct sqlite3_stmt *s = db_take(db, DB_QUEUE_FIND);
  bind_u64(s, 1, session);
  bind_u64(s, 2, seq);
  enum err e = find_entry(db, s, &id, &message);
  if (e != ERR_OK) {
    return e == ERR_NOT_FOUND ? ERR_OK : e;
  }
  TRY(run_one(db, DB_QUEUE_RELEASE, id));
  TRY(drop_message(db, message));
  return db_spend(db, PAGES(3));
}

// --- Sessions

static enum err set_will(struct db *db, u64 id, const struct record_session *r) {
  struct sqlite3_stmt *s = db_take(db, DB_SESSION_WILL);
  bind_u64(s, 1, id);
  bind_u64(s, 2, r->will_qos);
  bind_u64(s, 3, r->will_retain);
  bind_u64(s, 4, r->will_delay_s);
  bind_u64(s, 5, r->will_expiry_s);
  bind_bytes(s, 6, r->will_topic);
  bind_bytes(s, 7, r->will_props);
  bind_bytes(s, 8, r->will_payload);
  return db_run(db, s);
}

static enum err apply_session(struct db *db, u64 lsn, const struct record_session *r) {
  u64 id = r->session != 0 ? r->session : lsn;
  if (r->session == 0) {
    struct sqlite3_stmt *s = db_take(db, DB_SESSION_NEW);
    bind_u64(s, 1, id);
    bind_bytes(s, 2, r->client_id);
    TRY(db_run(db, s));
  }
  enum err e = is_there(db, DB_SESSION_IS, id);
  if (e != ERR_OK) {
    return e == ERR_NOT_FOUND ? ERR_OK : e;
  }
  struct sqlite3_stmt *s = db_take(db, DB_SESSION_SET);
  bind_u64(s, 1, id);
  bind_bytes(s, 2, r->client_id);
  (void)sqlite3_bind_null(s, 3);
  if (r->has_username) {
    bind_bytes(s, 3, r->username);
  }
  bind_u64(s, 4, r->access_set);
  bind_u64(s, 5, r->expiry_s);
  bind_u64(s, 6, r->at_ms);
  TRY(db_run(db, s));
  if (r->has_will) {
    TRY(set_will(db, id, r));
  }
  return db_spend(db, PAGES(4) + r->will_payload.len + r->will_props.len);
}

static enum err apply_offline(struct db *db, const struct record_offline *r) {
  struct sqlite3_stmt *s = db_take(db, DB_SESSION_OFFLINE);
  bind_u64(s, 1, r->session);
  bind_u64(s, 2, r->at_ms);
  bind_u64(s, 3, r->expiry_s);
  bind_u64(s, 4, db->queue_id + 1);
  TRY(db_run(db, s));
  if (!r->has_will) {
    TRY(run_one(db, DB_SESSION_NO_WILL, r->session));
  }
  return db_spend(db, PAGES(3));
}

// A group without members ends with its messages (R4).
static enum err end_group(struct db *db, u64 group) {
  if (group == 0) {
    return ERR_OK;
  }
  enum err e = is_there(db, DB_GROUP_IS, group);
  return e == ERR_NOT_FOUND ? end_queue(db, group) : e;
}

static enum err end_subscriptions(struct db *db, u64 session) {
  for (;;) {
    u64 groups[64];
    u32 count = 0;
    int code = SQLITE_ROW;
    struct sqlite3_stmt *s = db_take(db, DB_SUBSCRIPTIONS_END);
    bind_u64(s, 1, session);
    while (code == SQLITE_ROW && count < ARRAY_COUNT(groups)) {
      code = sqlite3_step(s);
      if (code == SQLITE_ROW) {
        groups[count++] = (u64)sqlite3_column_int64(s, 0);
      }
    }
    (void)sqlite3_reset(s);
    TRY(db_error(db, code));
    for (u32 i = 0; i < count; i++) {
      TRY(end_group(db, groups[i]));
    }
    TRY(db_spend(db, PAGES(2 + count)));
    if (count < ARRAY_COUNT(groups)) {
      return ERR_OK;
    }
  }
}

static enum err apply_end(struct db *db, u64 session) {
  enum err e = is_there(db, DB_SESSION_IS, session);
  if (e != ERR_OK) {
    return e == ERR_NOT_FOUND ? ERR_OK : e;
  }
  TRY(end_subscriptions(db, session));
  TRY(end_queue(db, session));
  TRY(run_one(db, DB_INBOUND_END, session));
  TRY(run_one(db, DB_SEQUENCE_END, session));
  forget_sequence(db, session);
  TRY(run_one(db, DB_SESSION_END, session));
  return db_spend(db, PAGES(6));
}

static enum err apply_inbound(struct db *db, bool add, u64 session, u16 packet_id) {
  enum err e = is_there(db, DB_SESSION_IS, session);
  if (e != ERR_OK) {
    return e == ERR_NOT_FOUND ? ERR_OK : e;
  }
  struct sqlite3_stmt *s = db_take(db, add ? DB_INBOUND_ADD : DB_INBOUND_REMOVE);
  bind_u64(s, 1, session);
  bind_u64(s, 2, packet_id);
  TRY(db_run(db, s));
  return db_spend(db, PAGES(1));
}

// --- Subscriptions

static enum err group_of(struct db *db, const struct record_subscribe *r, u64 *group) {
  struct sqlite3_stmt *s = db_take(db, DB_GROUP_OF);
  bind_u64(s, 1, r->session);
  bind_bytes(s, 2, r->name);
  bind_bytes(s, 3, r->filter);
  return db_number(db, s, group);
}

static enum err apply_subscribe(struct db *db, u64 lsn, const struct record_subscribe *r) {
  u64 group = 0;
  enum err e = is_there(db, DB_SESSION_IS, r->session);
  if (e != ERR_OK) {
    return e == ERR_NOT_FOUND ? ERR_OK : e;
  }
  if (r->name.len != 0) {
    e = group_of(db, r, &group);
    if (e == ERR_NOT_FOUND) {
      group = r->group != 0 ? r->group : lsn;
      e = ERR_OK;
    }
    TRY(e);
  }
  struct sqlite3_stmt *s = db_take(db, DB_SUBSCRIBE);
  bind_u64(s, 1, r->session);
  bind_bytes(s, 2, r->name);
  bind_bytes(s, 3, r->filter);
  bind_u64(s, 4, group);
  bind_u64(s, 5, r->qos);
  bind_u64(s, 6, r->flags);
  bind_u64(s, 7, r->identifier);
  TRY(db_run(db, s));
  return db_spend(db, PAGES(3));
}

static enum err apply_unsubscribe(struct db *db, const struct record_subscribe *r) {
  u64 group = 0;
  enum err e = group_of(db, r, &group);
  if (e != ERR_OK) {
    return e == ERR_NOT_FOUND ? ERR_OK : e;
  }
  struct sqlite3_stmt *s = db_take(db, DB_UNSUBSCRIBE);
  bind_u64(s, 1, r->session);
  bind_bytes(s, 2, r->name);
  bind_bytes(s, 3, r->filter);
  TRY(db_run(db, s));
  TRY(db_spend(db, PAGES(3)));
  return end_group(db, group);
}

// --- All of it

static enum err apply_boot(struct db *db, u64 at_ms) {
  struct sqlite3_stmt *s = db_take(db, DB_ALL_OFFLINE);
  bind_u64(s, 1, at_ms);
  bind_u64(s, 2, db->queue_id + 1);
  return db_run(db, s);
}

static enum err clear(struct db *db, struct bytes topic) {
  TRY(unkeep(db, topic, 0));
  struct sqlite3_stmt *s = db_take(db, DB_RETAINED_CLEAR);
  bind_bytes(s, 1, topic);
  TRY(db_run(db, s));
  return db_spend(db, PAGES(1));
}

static enum err apply_control(struct db *db, const struct record *r) {
  struct sqlite3_stmt *s = db_take(db, DB_CONTROL_SET);
  bind_bytes(s, 1, r->control.name);
  (void)sqlite3_bind_zeroblob(s, 2, (int)r->control.len);
  u64 row = 0;
  TRY(db_number(db, s, &row));
  db->control = true;
  db->body_row = (i64)row;
  db->body_at = 0;
  db->body_len = r->control.len;
  return write_body(db, r->control.part);
}

static enum err apply(struct db *db, u64 lsn, const struct record *r) {
  switch (r->kind) {
  case RECORD_BOOT: return apply_boot(db, r->boot.at_ms);
  case RECORD_PUBLISH: return apply_publish(db, lsn, r);
  case RECORD_CHUNK: return write_body(db, r->chunk);
  case RECORD_QUEUE: return apply_queue(db, &r->queue);
  case RECORD_REMOVE: return apply_remove(db, r->remove);
  case RECORD_RECEIVED: return apply_received(db, r->received.session, r->received.seq);
  case RECORD_INBOUND_ADD: return apply_inbound(db, true, r->inbound.session, r->inbound.packet_id);
  case RECORD_INBOUND_REMOVE:
    return apply_inbound(db, false, r->inbound.session, r->inbound.packet_id);
  case RECORD_SESSION: return apply_session(db, lsn, &r->session);
  case RECORD_OFFLINE: return apply_offline(db, &r->offline);
  case RECORD_SESSION_END: return apply_end(db, r->session_end);
  case RECORD_SUBSCRIBE: return apply_subscribe(db, lsn, &r->subscribe);
  case RECORD_UNSUBSCRIBE: return apply_unsubscribe(db, &r->subscribe);
  case RECORD_RETAIN_CLEAR: return clear(db, r->topic);
  case RECORD_CONTROL: return apply_control(db, r);
  default: return ERR_UNSUPPORTED;
  }
}

enum err db_apply(struct db *db, u64 lsn, const struct record *r) {
  ASSERT(lsn > db->applied);
  TRY(db_begin(db));
  bool goes_on = r->kind == RECORD_CHUNK || r->kind == RECORD_QUEUE;
  if (!goes_on) {
    TRY(db->orphan ? drop_message(db, db->message) : ERR_OK);
    db->message = 0;
    db->orphan = false;
    db->body_row = 0;
    db->control = false;
  }
  TRY(apply(db, lsn, r));
  db->applied = lsn;
  if (!r->more) {
    db->whole = lsn;
    db->whole_queue_id = db->queue_id;
  }
  db->records++;
  return ERR_OK;
}
