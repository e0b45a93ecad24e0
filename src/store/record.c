// SPDX-License-Identifier: Apache-2.0
#include "store/record.h"

enum { FLAG_RETAIN = 1, FLAG_KEEP = 2, FLAG_USERNAME = 4, FLAG_WILL = 8 };
enum { REF_QOS = 3, REF_RETAIN = 4 };

static void write_le16(struct writer *w, u16 v) {
  if (writer_need(w, 2)) {
    store_le16(w->base + w->pos, v);
    w->pos += 2;
  }
}
static void write_le32(struct writer *w, u32 v) {
  if (writer_need(w, 4)) {
    store_le32(w->base + w->pos, v);
    w->pos += 4;
  }
}
static void write_le64(struct writer *w, u64 v) {
  if (writer_need(w, 8)) {
    store_le64(w->base + w->pos, v);
    w->pos += 8;
  }
}
static u16 read_le16(struct reader *r) {
  struct part p = read_part(r, 2);
  return p.len == 2 ? load_le16(r->base + p.off) : 0;
}
static u32 read_le32(struct reader *r) {
  struct part p = read_part(r, 4);
  return p.len == 4 ? load_le32(r->base + p.off) : 0;
}
static u64 read_le64(struct reader *r) {
  struct part p = read_part(r, 8);
  return p.len == 8 ? load_le64(r->base + p.off) : 0;
}
// The next `len` bytes; the reader's error when they are not there.
static struct bytes read_string(struct reader *r, u32 len) {
  struct part p = read_part(r, len);
  return r->err == ERR_OK ? reader_bytes(r, p) : bytes_of(NULL, 0);
}
static struct bytes read_rest(struct reader *r) {
  return read_string(r, reader_left(r));
}
static bool flag(u8 flags, u8 which) {
  return (flags & which) != 0;
}

// --- PUBLISH: head of 56 bytes, part of the body, references

void record_write_publish_head(const struct record_publish *p, u32 part_len, struct writer *w) {
  write_u8(w, (u8)((p->retain ? FLAG_RETAIN : 0) | (p->keep ? FLAG_KEEP : 0) |
                   (p->has_username ? FLAG_USERNAME : 0)));
  write_u8(w, p->qos);
  write_u8(w, p->access_set);
  write_u8(w, 0);
  write_le16(w, p->inbound_id);
  write_le16(w, (u16)p->topic_len);
  write_le16(w, (u16)p->client_len);
  write_le16(w, (u16)p->username_len);
  write_le32(w, p->props_len);
  write_le32(w, p->payload_len);
  write_le32(w, part_len);
  write_le64(w, p->at_ms);
  write_le64(w, p->expires_ms);
  write_le64(w, p->inbound_session);
  write_le64(w, p->will_of);
}

static void write_publish(const struct record_publish *p, struct writer *w) {
  record_write_publish_head(p, (u32)p->part.len, w);
  write_bytes(w, p->part);
  write_bytes(w, p->refs);
}

static void read_publish(struct reader *r, struct record_publish *p) {
  u8 flags = read_u8(r);
  p->retain = flag(flags, FLAG_RETAIN);
  p->keep = flag(flags, FLAG_KEEP);
  p->has_username = flag(flags, FLAG_USERNAME);
  p->qos = read_u8(r);
  p->access_set = read_u8(r);
  u8 zero = read_u8(r);
  p->inbound_id = read_le16(r);
  p->topic_len = read_le16(r);
  p->client_len = read_le16(r);
  p->username_len = read_le16(r);
  p->props_len = read_le32(r);
  p->payload_len = read_le32(r);
  u32 part_len = read_le32(r);
  p->at_ms = read_le64(r);
  p->expires_ms = read_le64(r);
  p->inbound_session = read_le64(r);
  p->will_of = read_le64(r);
  if ((flags & ~7u) != 0 || zero != 0 || p->qos > 2 || p->topic_len == 0) {
    reader_fail(r, ERR_MALFORMED);
  }
  u64 len = record_publish_body_len(p);
  if (part_len > len || len > RECORD_GROUP_MAX) {
    reader_fail(r, ERR_MALFORMED);
  }
  p->part = read_string(r, part_len);
  p->refs = read_rest(r);
  if (part_len < len && p->refs.len != 0) {
    reader_fail(r, ERR_MALFORMED);
  }
}

struct record_body record_publish_body(const struct record_publish *p, struct bytes body) {
  ASSERT(body.len == record_publish_body_len(p));
  struct record_body b;
  usize at = 0;
  b.topic = bytes_sub(body, at, p->topic_len);
  at += p->topic_len;
  b.props = bytes_sub(body, at, p->props_len);
  at += p->props_len;
  b.client_id = bytes_sub(body, at, p->client_len);
  at += p->client_len;
  b.username = bytes_sub(body, at, p->username_len);
  at += p->username_len;
  b.payload = bytes_sub(body, at, p->payload_len);
  return b;
}

// --- References: target 8, sequence 4, meta 1, identifiers 1, 4 each

void record_write_ref(const struct record_ref *ref, struct writer *w) {
  ASSERT(ref->qos <= 2);
  ASSERT(ref->id_count <= RECORD_IDS_MAX && ref->ids.len == (usize)ref->id_count * 4);
  write_le64(w, ref->target);
  write_le32(w, ref->seq);
  write_u8(w, (u8)(ref->qos | (ref->retain ? REF_RETAIN : 0)));
  write_u8(w, ref->id_count);
  write_bytes(w, ref->ids);
}

static void read_ref(struct reader *r, struct record_ref *out) {
  out->target = read_le64(r);
  out->seq = read_le32(r);
  u8 meta = read_u8(r);
  out->qos = meta & REF_QOS;
  out->retain = flag(meta, REF_RETAIN);
  out->id_count = read_u8(r);
  bool good = meta <= (REF_RETAIN | 2) && out->qos <= 2 && out->id_count <= RECORD_IDS_MAX &&
              out->target != 0;
  if (!good) {
    reader_fail(r, ERR_MALFORMED);
  }
  out->ids = read_string(r, (u32)out->id_count * 4);
}

bool record_ref_next(struct bytes refs, u32 *pos, struct record_ref *out) {
  struct reader r = reader_init(refs);
  ASSERT(*pos <= refs.len);
  if (*pos == refs.len) {
    return false;
  }
  r.pos = *pos;
  read_ref(&r, out);
  *pos = r.pos;
  return r.err == ERR_OK;
}

// One reference passed over: what read_ref would accept.
static void skip_ref(struct reader *r) {
  u64 target = read_le64(r);
  (void)read_le32(r);
  u8 meta = read_u8(r);
  u8 id_count = read_u8(r);
  if (target == 0 || (meta & REF_QOS) > 2 || meta > (REF_RETAIN | 2) || id_count > RECORD_IDS_MAX) {
    reader_fail(r, ERR_MALFORMED);
  }
  (void)read_part(r, (u32)id_count * 4);
}

static enum err judge_refs(struct bytes refs) {
  struct reader r = reader_init(refs);
  while (r.err == ERR_OK && r.pos < r.end)
    // clang-format off
    LOOP_ASSIGNS(r.pos, r.err)
    LOOP_INVARIANT(r.pos <= r.end)
    LOOP_DECREASES((u64)(r.err == ERR_OK ? 1u : 0u) + r.end - r.pos)
  // clang-format on
  { skip_ref(&r); }
  return r.err;
}

// --- REMOVE: target 8, sequence 4

#define REMOVE_LEN 12u

void record_write_remove(u64 target, u32 seq, struct writer *w) {
  write_le64(w, target);
  write_le32(w, seq);
}

bool record_remove_next(struct bytes entries, u32 *pos, u64 *target, u32 *seq) {
  if (entries.len - *pos < REMOVE_LEN) {
    return false;
  }
  *target = load_le64(entries.ptr + *pos);
  *seq = load_le32(entries.ptr + *pos + 8);
  *pos += REMOVE_LEN;
  return true;
}

// --- SESSION: head of 48 bytes; client id, user name, will

static void write_session(const struct record_session *s, struct writer *w) {
  ASSERT(s->client_id.len <= U16_MAX && s->username.len <= U16_MAX);
  ASSERT(s->will_topic.len <= U16_MAX && s->will_payload.len <= U32_MAX);
  write_u8(w, (u8)((s->will_retain ? FLAG_RETAIN : 0) | (s->has_username ? FLAG_USERNAME : 0) |
                   (s->has_will ? FLAG_WILL : 0)));
  write_u8(w, s->will_qos);
  write_u8(w, s->access_set);
  write_u8(w, 0);
  write_le32(w, s->expiry_s);
  write_le64(w, s->session);
  write_le64(w, s->at_ms);
  write_le32(w, s->will_delay_s);
  write_le32(w, s->will_expiry_s);
  write_le16(w, (u16)s->client_id.len);
  write_le16(w, (u16)s->username.len);
  write_le16(w, (u16)s->will_topic.len);
  write_le16(w, 0);
  write_le32(w, (u32)s->will_props.len);
  write_le32(w, (u32)s->will_payload.len);
  write_bytes(w, s->client_id);
  write_bytes(w, s->username);
  write_bytes(w, s->will_topic);
  write_bytes(w, s->will_props);
  write_bytes(w, s->will_payload);
}

static void read_session(struct reader *r, struct record_session *s) {
  u8 flags = read_u8(r);
  s->will_retain = flag(flags, FLAG_RETAIN);
  s->has_username = flag(flags, FLAG_USERNAME);
  s->has_will = flag(flags, FLAG_WILL);
  s->will_qos = read_u8(r);
  s->access_set = read_u8(r);
  u8 zero = read_u8(r);
  s->expiry_s = read_le32(r);
  s->session = read_le64(r);
  s->at_ms = read_le64(r);
  s->will_delay_s = read_le32(r);
  s->will_expiry_s = read_le32(r);
  u16 id_len = read_le16(r);
  u16 username_len = read_le16(r);
  u16 topic_len = read_le16(r);
  zero |= (u8)(read_le16(r) != 0);
  u32 props_len = read_le32(r);
  u32 payload_len = read_le32(r);
  s->client_id = read_string(r, id_len);
  s->username = read_string(r, username_len);
  s->will_topic = read_string(r, topic_len);
  s->will_props = read_string(r, props_len);
  s->will_payload = read_string(r, payload_len);
  if ((flags & ~(FLAG_RETAIN | FLAG_USERNAME | FLAG_WILL)) != 0 || zero != 0 || s->will_qos > 2 ||
      id_len == 0 || s->has_will != (topic_len != 0)) {
    reader_fail(r, ERR_MALFORMED);
  }
}

static void write_offline(const struct record_offline *o, struct writer *w) {
  write_le64(w, o->session);
  write_le64(w, o->at_ms);
  write_le32(w, o->expiry_s);
  write_u8(w, o->has_will ? 1 : 0);
}

static void read_offline(struct reader *r, struct record_offline *o) {
  o->session = read_le64(r);
  o->at_ms = read_le64(r);
  o->expiry_s = read_le32(r);
  u8 will = read_u8(r);
  o->has_will = will == 1;
  if (will > 1) {
    reader_fail(r, ERR_MALFORMED);
  }
}

// --- SUBSCRIBE and UNSUBSCRIBE: head of 28 bytes; group, filter

static void write_subscribe(const struct record_subscribe *s, struct writer *w) {
  ASSERT(s->name.len <= U16_MAX && s->filter.len <= U16_MAX);
  write_le64(w, s->session);
  write_le64(w, s->group);
  write_le32(w, s->identifier);
  write_u8(w, s->qos);
  write_u8(w, s->flags);
  write_le16(w, 0);
  write_le16(w, (u16)s->name.len);
  write_le16(w, (u16)s->filter.len);
  write_bytes(w, s->name);
  write_bytes(w, s->filter);
}

static void read_subscribe(struct reader *r, struct record_subscribe *s) {
  s->session = read_le64(r);
  s->group = read_le64(r);
  s->identifier = read_le32(r);
  s->qos = read_u8(r);
  s->flags = read_u8(r);
  u16 zero = read_le16(r);
  u16 name_len = read_le16(r);
  u16 filter_len = read_le16(r);
  s->name = read_string(r, name_len);
  s->filter = read_string(r, filter_len);
  if (s->qos > 2 || s->flags > 3 || zero != 0 || filter_len == 0 ||
      (s->group != 0 && name_len == 0)) {
    reader_fail(r, ERR_MALFORMED);
  }
}

// --- All of them

void record_write(const struct record *r, struct writer *w) {
  switch (r->kind) {
  case RECORD_BOOT: write_le64(w, r->boot.at_ms); break;
  case RECORD_PUBLISH: write_publish(&r->publish, w); break;
  case RECORD_CHUNK: write_bytes(w, r->chunk); break;
  case RECORD_QUEUE:
    write_le64(w, r->queue.message);
    write_le64(w, r->queue.from);
    write_le16(w, (u16)r->queue.topic.len);
    write_bytes(w, r->queue.topic);
    write_bytes(w, r->queue.refs);
    break;
  case RECORD_REMOVE: write_bytes(w, r->remove); break;
  case RECORD_RECEIVED:
    write_le64(w, r->received.session);
    write_le32(w, r->received.seq);
    break;
  case RECORD_INBOUND_ADD:
  case RECORD_INBOUND_REMOVE:
    write_le64(w, r->inbound.session);
    write_le16(w, r->inbound.packet_id);
    break;
  case RECORD_SESSION: write_session(&r->session, w); break;
  case RECORD_OFFLINE: write_offline(&r->offline, w); break;
  case RECORD_SESSION_END: write_le64(w, r->session_end); break;
  case RECORD_SUBSCRIBE:
  case RECORD_UNSUBSCRIBE: write_subscribe(&r->subscribe, w); break;
  case RECORD_RETAIN_CLEAR: write_bytes(w, r->topic); break;
  case RECORD_CONTROL:
    write_le16(w, (u16)r->control.name.len);
    write_le32(w, r->control.len);
    write_bytes(w, r->control.name);
    write_bytes(w, r->control.part);
    break;
  default: ASSERT(false); break;
  }
}

static void read_control(struct reader *r, struct record *out) {
  u16 name_len = read_le16(r);
  out->control.len = read_le32(r);
  out->control.name = read_string(r, name_len);
  out->control.part = read_rest(r);
  if (name_len == 0 || out->control.part.len > out->control.len ||
      out->control.len > RECORD_GROUP_MAX) {
    reader_fail(r, ERR_MALFORMED);
  }
}

static void read_queue(struct reader *r, struct record_queue *q) {
  q->message = read_le64(r);
  q->from = read_le64(r);
  q->topic = read_string(r, read_le16(r));
  q->refs = read_rest(r);
}

static void read_numbers(struct reader *r, struct record *out) {
  switch (out->kind) {
  case RECORD_BOOT: out->boot.at_ms = read_le64(r); break;
  case RECORD_RECEIVED:
    out->received.session = read_le64(r);
    out->received.seq = read_le32(r);
    break;
  case RECORD_INBOUND_ADD:
  case RECORD_INBOUND_REMOVE:
    out->inbound.session = read_le64(r);
    out->inbound.packet_id = read_le16(r);
    break;
  case RECORD_SESSION_END: out->session_end = read_le64(r); break;
  default: reader_fail(r, ERR_UNSUPPORTED); break;
  }
}

enum err record_read(u16 type, struct bytes payload, struct record *out) {
  struct reader r = reader_init(payload);
  out->more = (type & RECORD_MORE) != 0;
  out->kind = (u8)(type & 0xff);
  if ((type & ~(RECORD_MORE | 0xffu)) != 0) {
    return ERR_UNSUPPORTED;
  }
  switch (out->kind) {
  case RECORD_PUBLISH:
    read_publish(&r, &out->publish);
    reader_fail(&r, judge_refs(out->publish.refs));
    break;
  case RECORD_CHUNK: out->chunk = read_rest(&r); break;
  case RECORD_QUEUE:
    read_queue(&r, &out->queue);
    reader_fail(&r, judge_refs(out->queue.refs));
    break;
  case RECORD_REMOVE:
    out->remove = read_rest(&r);
    if (out->remove.len % REMOVE_LEN != 0) {
      reader_fail(&r, ERR_SHORT);
    }
    break;
  case RECORD_SESSION: read_session(&r, &out->session); break;
  case RECORD_OFFLINE: read_offline(&r, &out->offline); break;
  case RECORD_SUBSCRIBE:
  case RECORD_UNSUBSCRIBE: read_subscribe(&r, &out->subscribe); break;
  case RECORD_RETAIN_CLEAR: out->topic = read_rest(&r); break;
  case RECORD_CONTROL: read_control(&r, out); break;
  default: read_numbers(&r, out); break;
  }
  if (r.err == ERR_OK && reader_left(&r) != 0) {
    r.err = ERR_MALFORMED;
  }
  return r.err;
}
