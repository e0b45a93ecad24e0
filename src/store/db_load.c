// SPDX-License-Identifier: Apache-2.0
// The rows as records that make them again. Sessions first, all as connected; then what is theirs;
// then the queues in the order in which their entries were added, and each session's OFFLINE at
// the place where it went, so that what had been offered before is told from what had not.
#include <sqlite3.h>

#include "store/db.h"

struct load {
  struct db *db;
  db_tell_fn *tell;
  void *ctx;
  u64 published;  // the message told last
};

static enum err tell(struct load *l, u64 lsn, const struct record *r) {
  vfs_breathe(&l->db->vfs);
  return l->tell(l->ctx, lsn, r) ? ERR_OK : ERR_NO_MEMORY;
}

static u64 column(struct sqlite3_stmt *s, int at) {
  return (u64)sqlite3_column_int64(s, at);
}
static struct bytes column_bytes(struct sqlite3_stmt *s, int at) {
  const void *p = sqlite3_column_blob(s, at);
  return bytes_of(p == NULL ? "" : p, (usize)sqlite3_column_bytes(s, at));
}

// Every row of a query, each given to `row`.
typedef enum err row_fn(struct load *l, struct sqlite3_stmt *s);
static enum err each(struct load *l, const char *sql, row_fn *row) {
  struct sqlite3_stmt *s = NULL;
  TRY(db_error(l->db, sqlite3_prepare_v2(l->db->handle, sql, -1, &s, NULL)));
  enum err e = ERR_OK;
  int code = sqlite3_step(s);
  while (code == SQLITE_ROW && e == ERR_OK) {
    e = row(l, s);
    code = e == ERR_OK ? sqlite3_step(s) : code;
  }
  (void)sqlite3_finalize(s);
  return e != ERR_OK ? e : db_error(l->db, code);
}

static enum err session_row(struct load *l, struct sqlite3_stmt *s) {
  struct record r = {.kind = RECORD_SESSION};
  struct record_session *q = &r.session;
  q->client_id = column_bytes(s, 1);
  q->has_username = sqlite3_column_type(s, 2) != SQLITE_NULL;
  q->username = column_bytes(s, 2);
  q->access_set = (u8)column(s, 3);
  q->expiry_s = (u32)column(s, 4);
  q->at_ms = column(s, 5);
  q->has_will = sqlite3_column_type(s, 10) != SQLITE_NULL;
  q->will_expiry_s = U32_MAX;
  if (q->has_will) {
    q->will_qos = (u8)column(s, 6);
    q->will_retain = column(s, 7) != 0;
    q->will_delay_s = (u32)column(s, 8);
    q->will_expiry_s = (u32)column(s, 9);
    q->will_topic = column_bytes(s, 10);
    q->will_props = column_bytes(s, 11);
    q->will_payload = column_bytes(s, 12);
  }
  return tell(l, column(s, 0), &r);
}

static enum err inbound_row(struct load *l, struct sqlite3_stmt *s) {
  struct record r = {.kind = RECORD_INBOUND_ADD};
  r.inbound.session = column(s, 0);
  r.inbound.packet_id = (u16)column(s, 1);
  return tell(l, 0, &r);
}

static enum err subscription_row(struct load *l, struct sqlite3_stmt *s) {
  struct record r = {.kind = RECORD_SUBSCRIBE};
  r.subscribe = (struct record_subscribe){.session = column(s, 0),
                                          .name = column_bytes(s, 1),
                                          .filter = column_bytes(s, 2),
                                          .group = column(s, 3),
                                          .qos = (u8)column(s, 4),
                                          .flags = (u8)column(s, 5),
                                          .identifier = (u32)column(s, 6)};
  return tell(l, 0, &r);
}

static enum err control_row(struct load *l, struct sqlite3_stmt *s) {
  struct record r = {.kind = RECORD_CONTROL};
  r.control.name = column_bytes(s, 0);
  r.control.part = column_bytes(s, 1);
  r.control.len = (u32)r.control.part.len;
  return tell(l, 0, &r);
}

// --- Messages and queues

#define MESSAGE                                                                   \
  "message.lsn, message.kept, message.qos, message.retain, message.has_username," \
  " message.access_set, message.at_ms, message.expires_ms, message.topic_len,"    \
  " message.props_len, message.client_len, message.username_len, message.body"

// False: the lengths are not the body's.
static bool message_of(struct sqlite3_stmt *s, int at, struct record_publish *p) {
  *p = (struct record_publish){.keep = column(s, at + 1) != 0,
                               .qos = (u8)column(s, at + 2),
                               .retain = column(s, at + 3) != 0,
                               .has_username = column(s, at + 4) != 0,
                               .access_set = (u8)column(s, at + 5),
                               .at_ms = column(s, at + 6),
                               .expires_ms = column(s, at + 7),
                               .topic_len = (u32)column(s, at + 8),
                               .props_len = (u32)column(s, at + 9),
                               .client_len = (u32)column(s, at + 10),
                               .username_len = (u32)column(s, at + 11),
                               .part = column_bytes(s, at + 12)};
  u64 fixed = record_publish_body_len(p);
  p->payload_len = (u32)(p->part.len - fixed);
  return fixed <= p->part.len;
}

static enum err retained_row(struct load *l, struct sqlite3_stmt *s) {
  struct record r = {.kind = RECORD_PUBLISH};
  return message_of(s, 0, &r.publish) ? tell(l, column(s, 0), &r) : ERR_CORRUPT;
}

// A message that is nobody's, for an entry whose own is gone.
static enum err stand_in(struct load *l, struct bytes ref) {
  struct record r = {.kind = RECORD_PUBLISH};
  r.publish =
      (struct record_publish){.qos = 2, .topic_len = 1, .part = BYTES_LIT("-"), .refs = ref};
  l->published = 0;
  return tell(l, U64_MAX, &r);
}

static struct bytes ref_bytes(const struct record_ref *ref, struct span memory) {
  struct writer w = writer_init(memory);
  record_write_ref(ref, &w);
  ASSERT(w.err == ERR_OK);
  return writer_bytes(&w);
}

// Raises a session's next sequence (R6): an entry that comes and goes, in steps of which each is
// ahead by less than half of all sequences.
static enum err sequence_row(struct load *l, struct sqlite3_stmt *s) {
  u64 next = column(s, 1);
  u8 memory[RECORD_REF_LEN];
  u8 entry[12];
  for (u64 at = MIN(next, 1ull << 30); next > 0; at = MIN(next, at + (1ull << 30))) {
    struct record_ref ref = {.target = column(s, 0), .seq = (u32)(at - 1), .qos = 2};
    TRY(stand_in(l, ref_bytes(&ref, span_of(memory, sizeof memory))));
    struct writer w = writer_init(span_of(entry, sizeof entry));
    record_write_remove(ref.target, ref.seq, &w);
    struct record r = {.kind = RECORD_REMOVE, .remove = writer_bytes(&w)};
    TRY(tell(l, 0, &r));
    if (at == next) {
      break;
    }
  }
  return ERR_OK;
}

static enum err offline_row(struct load *l, struct sqlite3_stmt *s) {
  struct record r = {.kind = RECORD_OFFLINE};
  r.offline.session = column(s, 1);
  r.offline.at_ms = column(s, 2);
  r.offline.expiry_s = (u32)column(s, 3);
  r.offline.has_will = column(s, 4) != 0;
  return tell(l, 0, &r);
}

// An entry: with its message when this is the first that is told of it.
static enum err entry_row(struct load *l, struct sqlite3_stmt *s) {
  u8 memory[RECORD_REF_LEN + 4 * RECORD_IDS_MAX];
  struct record_ref ref = {.target = column(s, 1), .seq = (u32)column(s, 2)};
  u64 message = column(s, 3);
  u64 meta = column(s, 4);
  ref.ids = column_bytes(s, 5);
  ref.id_count = (u8)(ref.ids.len / 4);
  ref.qos = (u8)(meta & 3);
  ref.retain = (meta & 4) != 0;
  if (ref.qos > 2 || ref.ids.len % 4 != 0 || ref.ids.len / 4 > RECORD_IDS_MAX) {
    return ERR_CORRUPT;
  }
  struct bytes bytes = ref_bytes(&ref, span_of(memory, sizeof memory));
  struct record r = {.kind = RECORD_QUEUE};
  r.queue.refs = bytes;
  if (message == 0) {  // PUBREC came
    TRY(stand_in(l, bytes));
    r = (struct record){.kind = RECORD_RECEIVED};
    r.received.session = ref.target;
    r.received.seq = ref.seq;
    return tell(l, 0, &r);
  }
  struct record_publish p;
  if (sqlite3_column_type(s, 8) == SQLITE_NULL || !message_of(s, 8, &p)) {
    return ERR_CORRUPT;
  }
  if (l->published == message) {
    return tell(l, 0, &r);
  }
  if (p.keep || column(s, 6) != column(s, 0)) {
    r.queue.message = message;
    r.queue.from = p.keep ? 0 : column(s, 7);
    r.queue.topic = p.keep ? bytes_sub(p.part, 0, p.topic_len) : bytes_of("", 0);
    return tell(l, 0, &r);
  }
  r = (struct record){.kind = RECORD_PUBLISH, .publish = p};
  r.publish.refs = bytes;
  l->published = message;
  return tell(l, message, &r);
}

// Both in one order, an OFFLINE before the entry with its number.
static enum err merge(struct load *l, struct sqlite3_stmt *entry, struct sqlite3_stmt *offline) {
  int more = sqlite3_step(entry);
  int gone = sqlite3_step(offline);
  while (more == SQLITE_ROW || gone == SQLITE_ROW) {
    bool first =
        gone == SQLITE_ROW && (more != SQLITE_ROW || column(offline, 0) <= column(entry, 0));
    if (first) {
      TRY(offline_row(l, offline));
      gone = sqlite3_step(offline);
    } else {
      TRY(entry_row(l, entry));
      more = sqlite3_step(entry);
    }
  }
  TRY(db_error(l->db, more));
  return db_error(l->db, gone);
}

static enum err queues(struct load *l) {
  static const char *const entries =
      "SELECT id, target, seq, q.message, meta, ids,"
      " (SELECT min(f.id) FROM queue f WHERE f.message=q.message),"
      " (SELECT target FROM queue f WHERE f.message=q.message ORDER BY f.id LIMIT 1), " MESSAGE
      " FROM queue q LEFT JOIN message ON message.lsn=q.message ORDER BY id";
  static const char *const offlines =
      "SELECT unsent_from, id, at_ms, expiry_s, will_topic IS NOT NULL FROM session"
      " WHERE connected=0 ORDER BY unsent_from, id";
  struct sqlite3_stmt *entry = NULL;
  struct sqlite3_stmt *offline = NULL;
  enum err e = db_error(l->db, sqlite3_prepare_v2(l->db->handle, entries, -1, &entry, NULL));
  if (e == ERR_OK) {
    e = db_error(l->db, sqlite3_prepare_v2(l->db->handle, offlines, -1, &offline, NULL));
  }
  e = e == ERR_OK ? merge(l, entry, offline) : e;
  (void)sqlite3_finalize(entry);
  (void)sqlite3_finalize(offline);
  return e;
}

enum err db_load(struct db *db, db_tell_fn *tell_fn, void *ctx) {
  struct load l = {.db = db, .tell = tell_fn, .ctx = ctx};
  ASSERT(!db->open);
  TRY(each(&l,
           "SELECT id, client, username, access_set, expiry_s, at_ms, will_qos, will_retain,"
           " will_delay_s, will_expiry_s, will_topic, will_props, will_payload FROM session",
           session_row));
  TRY(each(&l, "SELECT session, name, filter, grp, qos, flags, identifier FROM subscription",
           subscription_row));
  TRY(each(&l, "SELECT session, packet_id FROM inbound", inbound_row));
  TRY(each(&l, "SELECT session, next FROM sequence", sequence_row));
  TRY(each(&l,
           "SELECT " MESSAGE " FROM retained CROSS JOIN message ON message.lsn=retained.message",
           retained_row));
  TRY(each(&l, "SELECT name, body FROM control", control_row));
  l.published = 0;
  return queues(&l);
}
