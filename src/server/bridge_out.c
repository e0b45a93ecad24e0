// SPDX-License-Identifier: Apache-2.0
// From the local session's stream (5.0) to what the other broker gets: each packet is taken whole,
// translated, and leaves piece by piece.
#include "server/bridge_inner.h"

#define FIXED_LEAST 2u

void bridge_out_reset(struct bridge *b) {
  if (b->out != NULL) {
    extent_put(&b->server->packets, b->out, b->out_cap);
  }
  b->out = NULL;
  b->out_cap = b->out_have = b->out_len = b->out_from = b->out_pos = 0;
  b->head_len = b->fixed_len = b->own_len = 0;
}

static enum mqtt_version other_version(const struct bridge *b) {
  return b->config.version == 5 ? MQTT_V5 : MQTT_V4;
}

// --- translation

// What nobody wants there is acknowledged here, so that it does not stay in flight.
static void refuse(struct bridge *b, const struct mqtt_publish *m) {
  u64 now = b->server->core->now_ns;
  struct mqtt_ack a = {.packet_id = m->packet_id, .reason = MQTT_UNSPECIFIED_ERROR};
  b->dropped++;
  if (m->qos > 0) {
    (void)broker_on_ack(b->session, m->qos == 1 ? MQTT_PUBACK : MQTT_PUBREC, &a, now);
  }
}

static bool publish_out(struct bridge *b, struct bytes packet) {
  struct mqtt_publish m;
  u8 topic[BRIDGE_TOPIC_OUT_MAX];
  enum mqtt_reason bad = mqtt_decode_publish(MQTT_V5, packet, &m);
  ASSERT(bad == MQTT_SUCCESS);
  u32 len = bridge_map_out(b, bytes_part(packet, m.topic), span_of(topic, sizeof topic));
  if (len == 0) {
    refuse(b, &m);
    return false;
  }
  bool v5 = other_version(b) == MQTT_V5;
  u32 props = v5 ? mqtt_varint_len(m.props.all.len) + m.props.all.len : 0;
  u32 rest_off = v5 ? m.props.all.off : m.payload.off;
  u32 remaining = 2 + len + (m.qos > 0 ? 2 : 0) + props + m.payload.len;
  if (remaining > MQTT_REMAINING_MAX) {
    refuse(b, &m);
    return false;
  }
  bool retain = m.retain && b->config.outgoing_retain;
  struct writer w = writer_init(span_of(b->head, sizeof b->head));
  write_u8(&w, (u8)(MQTT_PUBLISH << 4 | (m.dup ? 8 : 0) | m.qos << 1 | (retain ? 1 : 0)));
  mqtt_write_varint(&w, remaining);
  mqtt_write_utf8(&w, bytes_of(topic, len));
  if (m.qos > 0) {
    write_be16(&w, m.packet_id);
  }
  if (v5) {
    mqtt_write_varint(&w, m.props.all.len);
  }
  ASSERT(w.err == ERR_OK);
  b->head_len = w.pos;
  b->out_from = m.payload.len > 0 || v5 ? rest_off : (u32)packet.len;
  b->messages_out++;
  return true;
}

static bool ack_out(struct bridge *b, enum mqtt_type type, struct bytes packet) {
  struct mqtt_ack a;
  enum mqtt_reason bad = mqtt_decode_ack(MQTT_V5, packet, &a);
  ASSERT(bad == MQTT_SUCCESS);
  struct writer w = writer_init(span_of(b->head, sizeof b->head));
  mqtt_encode_ack(&w, other_version(b), type, a.packet_id, a.reason, NULL);
  ASSERT(w.err == ERR_OK);
  b->head_len = w.pos;
  b->out_from = (u32)packet.len;
  return true;
}

// A whole packet of the session is in `out`. False: it is not for the other broker.
static bool translate(struct bridge *b) {
  struct bytes packet = bytes_of(b->out, b->out_len);
  enum mqtt_type type = (enum mqtt_type)(packet.ptr[0] >> 4);
  b->out_pos = 0;
  switch (type) {
  case MQTT_PUBLISH: return publish_out(b, packet);
  case MQTT_PUBACK:
  case MQTT_PUBREC:
  case MQTT_PUBREL:
  case MQTT_PUBCOMP: return ack_out(b, type, packet);
  default: return false;  // CONNACK, SUBACK: between our own broker and us
  }
}

// --- taking packets

static bool read_fixed(struct bridge *b, struct mqtt_header *h) {
  u64 now = b->server->core->now_ns;
  for (;;) {
    if (b->fixed_len >= FIXED_LEAST) {
      enum err e = mqtt_fixed_header(bytes_of(b->fixed, b->fixed_len), h);
      if (e == ERR_OK) {
        return true;
      }
      ASSERT(e == ERR_SHORT);
    }
    u32 want = b->fixed_len < FIXED_LEAST ? FIXED_LEAST - b->fixed_len : 1;
    u32 n = broker_pull(b->session, span_of(b->fixed + b->fixed_len, want), now);
    if (n == 0) {
      return false;
    }
    b->fixed_len += n;
  }
}

// Takes the session's next packet whole. False: there is none, or no memory for it now.
static bool take_packet(struct bridge *b) {
  u64 now = b->server->core->now_ns;
  struct mqtt_header h;
  if (b->out == NULL) {
    if (!read_fixed(b, &h)) {
      return false;
    }
    u32 len = h.header_len + h.remaining_len;
    b->out = extent_take(&b->server->packets, len);
    if (b->out == NULL) {
      return false;  // the bridge's own timer tries again
    }
    b->out_cap = b->out_len = len;
    memcpy(b->out, b->fixed, b->fixed_len);
    b->out_have = b->fixed_len;
    b->fixed_len = 0;
  }
  while (b->out_have < b->out_len) {
    struct span rest = span_of(b->out + b->out_have, b->out_len - b->out_have);
    u32 n = broker_pull(b->session, rest, now);
    if (n == 0) {
      return false;
    }
    b->out_have += n;
  }
  return true;
}

static void packet_done(struct bridge *b) {
  extent_put(&b->server->packets, b->out, b->out_cap);
  b->out = NULL;
  b->out_cap = b->out_have = b->out_len = b->out_pos = b->head_len = b->out_from = 0;
}

// Copies on of head and rest. True when the packet is out.
static bool copy_packet(struct bridge *b, struct span out, u32 *pos) {
  u32 total = b->head_len + (b->out_len - b->out_from);
  if (b->out_pos < b->head_len) {
    u32 n = (u32)MIN((usize)(b->head_len - b->out_pos), out.len - *pos);
    memcpy(out.ptr + *pos, b->head + b->out_pos, n);
    *pos += n;
    b->out_pos += n;
  }
  if (b->out_pos >= b->head_len && b->out_pos < total) {
    u32 off = b->out_from + (b->out_pos - b->head_len);
    u32 n = (u32)MIN((usize)(b->out_len - off), out.len - *pos);
    memcpy(out.ptr + *pos, b->out + off, n);
    *pos += n;
    b->out_pos += n;
  }
  return b->out_pos == total;
}

u32 bridge_pull(struct conn *c, struct span out) {
  struct bridge *b = bridge_of(c);
  u32 pos = 0;
  while (pos < out.len) {
    if (b->head_len > 0) {
      if (!copy_packet(b, out, &pos)) {
        break;
      }
      packet_done(b);
    } else if (b->own_len > 0) {
      if (out.len - pos < b->own_len) {
        break;
      }
      memcpy(out.ptr + pos, b->own, b->own_len);
      pos += b->own_len;
      b->own_len = 0;
    } else if (!take_packet(b)) {
      break;
    } else if (!translate(b)) {
      packet_done(b);
    }
  }
  return pos;
}

bool bridge_has_output(const struct conn *c) {
  const struct bridge *b = bridge_of(c);
  return b->head_len > 0 || b->own_len > 0 || broker_has_output(b->session);
}

bool bridge_mid_packet(const struct conn *c) {
  const struct bridge *b = bridge_of(c);
  return b->head_len > 0 && b->out_pos > 0;
}

bool bridge_say(struct bridge *b, struct bytes packet) {
  if (packet.len > sizeof b->own - b->own_len) {
    return false;
  }
  memcpy(b->own + b->own_len, packet.ptr, packet.len);
  b->own_len += (u32)packet.len;
  conn_want_output(b->conn);
  return true;
}
