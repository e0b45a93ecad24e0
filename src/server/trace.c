// SPDX-License-Identifier: Apache-2.0
// Reads what the first bytes of a packet tell, and finds the packets in the broker's outgoing
// stream, of which it keeps only those first bytes. Nothing of CONNECT is kept but its length: it
// may hold a password.
#include "server/trace.h"

#include "server/bridge_inner.h"
#include "server/conn.h"

// The next `len` bytes, as far as they are there and shown.
static struct bytes seen(const struct reader *r, u32 len) {
  return bytes_of(r->base + r->pos, MIN(MIN(len, reader_left(r)), TRACE_TOPIC_MAX));
}

static bool skip_properties(struct reader *r, u8 version) {
  u32 len = 0;
  u32 shift = 0;
  u8 b = version == MQTT_V5 ? 0x80 : 0;
  while ((b & 0x80) != 0 && shift < 28) {
    b = read_u8(r);
    len |= (u32)(b & 0x7f) << shift;
    shift += 7;
  }
  (void)read_part(r, len);
  return r->err == ERR_OK && (b & 0x80) == 0;
}

// Of PUBLISH the properties may stand behind what was kept: only their length counts.
static void read_publish(u8 version, struct reader *r, struct server_packet *p, u32 header_len) {
  u32 topic_len = read_be16(r);
  u32 behind = header_len + 2 + topic_len;
  p->topic = seen(r, topic_len);
  (void)read_part(r, topic_len);
  if (r->err != ERR_OK) {
    return;
  }
  if ((p->flags >> 1 & 3) != 0) {
    p->id = read_be16(r);
    behind += 2;
  }
  u32 len = 0;
  u8 b = version == MQTT_V5 ? 0x80 : 0;
  for (u32 shift = 0; (b & 0x80) != 0 && shift < 28; shift += 7, behind++) {
    b = read_u8(r);
    len |= (u32)(b & 0x7f) << shift;
  }
  p->payload_known = r->err == ERR_OK && (u64)behind + len <= p->len;
  p->payload_len = p->payload_known ? p->len - behind - len : 0;
}

bool trace_read(u8 version, bool out, struct bytes b, struct server_packet *p) {
  struct mqtt_header h;
  if (mqtt_fixed_header(b, &h) != ERR_OK) {
    return false;
  }
  *p = (struct server_packet){
      .out = out, .type = h.type, .flags = h.flags, .len = h.header_len + h.remaining_len};
  struct reader r = reader_init(bytes_sub(b, h.header_len, b.len - h.header_len));
  if (h.type == MQTT_PUBLISH) {
    read_publish(version, &r, p, h.header_len);
  } else if (h.type >= MQTT_PUBACK && h.type <= MQTT_UNSUBACK) {
    p->id = read_be16(&r);
  }
  if ((h.type == MQTT_SUBSCRIBE || h.type == MQTT_UNSUBSCRIBE) && skip_properties(&r, version)) {
    u32 len = read_be16(&r);
    p->topic = seen(&r, len);
  }
  p->id = r.err == ERR_OK ? p->id : 0;
  return true;
}

void trace_tell(struct conn *c, const struct server_packet *p) {
  struct trace *t = &c->server->trace;
  if (t->take != NULL) {
    t->take(t->ctx, p);
  }
}

void trace_out(struct conn *c, struct bytes stream, bool mid_packet) {
  struct trace *t = &c->server->trace;
  if (t->lost && mid_packet) {
    return;
  }
  if (t->lost) {
    t->lost = t->headed = false;
    t->have = 0;
  }
  for (usize at = 0; at < stream.len && !t->lost;) {
    struct mqtt_header h;
    if (!t->headed) {
      t->head[t->have++] = stream.ptr[at++];
      enum err e = mqtt_fixed_header(bytes_of(t->head, t->have), &h);
      t->lost = e == ERR_MALFORMED;
      t->headed = e == ERR_OK;
      t->left = t->headed ? h.remaining_len : 0;
    } else {
      u32 n = (u32)MIN((usize)t->left, stream.len - at);
      u32 kept = MIN(n, (u32)sizeof t->head - t->have);
      memcpy(t->head + t->have, stream.ptr + at, kept);
      t->have += kept;
      t->left -= n;
      at += n;
    }
    struct server_packet p;
    if (t->headed && t->left == 0) {
      if (trace_read(c->version, true, bytes_of(t->head, t->have), &p)) {
        trace_tell(c, &p);
      }
      t->headed = false;
      t->have = 0;
    }
  }
}

static void begin(struct conn *c, bool mid_packet) {
  struct trace *t = &c->server->trace;
  c->traced = true;
  t->lost = mid_packet;
  t->headed = false;
  t->have = 0;
}

void trace_entered(struct conn *c, u32 connect_len) {
  struct trace *t = &c->server->trace;
  if (t->take == NULL ||
      !bytes_equal(session_client_id(c->session), bytes_of(t->client, t->client_len))) {
    return;
  }
  struct server_packet p = {.type = MQTT_CONNECT, .len = connect_len};
  begin(c, false);
  trace_tell(c, &p);
}

void server_trace(struct server *s, struct bytes client_id, server_trace_take *take, void *ctx) {
  struct trace *t = &s->trace;
  ASSERT(client_id.len <= sizeof t->client);
  for (u32 i = 0; i < s->conns.fresh; i++) {
    struct conn *c = pool_at(&s->conns, i);
    if (s->conns.state[i] != 0) {
      c->traced = false;
    }
  }
  t->take = take;
  t->ctx = ctx;
  t->client_len = (u32)client_id.len;
  memcpy(t->client, client_id.ptr, client_id.len);
  const struct session *session = broker_session(s->core->broker, client_id);
  struct conn *c = session != NULL && take != NULL ? session_user(session) : NULL;
  if (c != NULL && !bridge_is(c)) {
    begin(c, c->mid_packet);
  }
}
