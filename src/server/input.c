// SPDX-License-Identifier: Apache-2.0
// From tcp's receive queue to whole control packets. A slice is a contiguous piece of the MQTT
// byte stream: tcp's first piece, or the plaintext of one TLS record.
//
// I6  A slice's bytes are given back (slice_used) only after the packets in them were dispatched or
//     copied; with a shortage nothing is given back and the connection waits.
// I7  One call works through at most INPUT_BYTES and INPUT_PACKETS, or INPUT_PACKETS / WAKE_WEIGHT
//     for receivers that differ, so that no connection starves the others.
#include "server/bridge_inner.h"
#include "server/conn.h"

#define INPUT_BYTES 65536u
#define INPUT_PACKETS 256u
// What a packet counts for that gives somebody something to send who had nothing: his segment costs
// many times the packet, and who comes next waits for all of them (tests/bench/scale.py).
#define WAKE_WEIGHT 8u
// A SUBSCRIBE of a hundred filters costs as much as a hundred packets. Those of all connections
// together get so much of a turn; the others wait for the next in their order, and who has
// something short goes by.
#define HEAVY_LEN 512u
#define HEAVY_BYTES_A_TURN 4096u
#define WAIT_MEMORY_NS (30 * SEC_NS)

static void wait_not_for_ever(struct conn *c) {
  if (c->state == CONN_OPEN && c->deadline_ns == U64_MAX) {
    c->deadline_ns = c->server->core->now_ns + WAIT_MEMORY_NS;
    conn_arm(c);
  }
}

void input_blocked(struct conn *c, struct budget *b) {
  b->blocked = true;
  wait_not_for_ever(c);
}

// --- TLS records

static void opened(struct conn *c, enum tls_open result, u8 *base, struct span content) {
  switch (result) {
  case TLS_OPEN_DATA:
    c->plain_off = (u32)(content.ptr - base);
    c->plain_len = (u32)content.len;
    return;
  case TLS_OPEN_NOTHING: break;
  case TLS_OPEN_KEY_UPDATE_REPLY: conn_send_key_update(c); break;
  case TLS_OPEN_CLOSED:  // RFC 8446 6.1: nothing behind it counts
  case TLS_OPEN_PEER_ALERT: conn_end(c, MQTT_SUCCESS); break;
  case TLS_OPEN_FAILED:
    c->alert = c->tls->alert;
    c->server->stats.protocol_errors++;
    conn_end(c, MQTT_SUCCESS);
    break;
  }
}

static void record_done(struct conn *c) {
  if (c->record != NULL) {
    mem_wipe(c->record, c->record_len);
    pool_put(&c->server->record_buffers, c->record);
    c->record = NULL;
  } else if (c->record_len > 0) {
    tcp_consume(c->tcp, c->record_len);
  }
  c->record_len = 0;
}

// The record that is being copied together, or NULL: nothing there yet, or no buffer (blocked).
// Copied are records that lie across receive buffers, and such as come in pieces so small that tcp
// waits for us.
static u8 *copy_record(struct conn *c, u32 len, struct budget *b) {
  if (c->record == NULL) {
    c->record = pool_take_raw(&c->server->record_buffers);
    c->plain_off = 0;  // bytes copied so far
  }
  if (c->record == NULL) {
    input_blocked(c, b);
    return NULL;
  }
  u32 got = tcp_peek_copy(c->tcp, 0, span_of(c->record + c->plain_off, len - c->plain_off));
  if (got > 0) {
    tcp_consume(c->tcp, got);
    c->plain_off += got;
  }
  if (c->plain_off < len) {
    wait_not_for_ever(c);  // the buffer is not this connection's alone
    return NULL;
  }
  return c->record;
}

// Opens the next record if it is there as a whole. False: not there, or no buffer (then blocked).
static bool open_record(struct conn *c, struct budget *b) {
  u8 head[TLS_RECORD_HEAD];
  if (c->record != NULL) {
    memcpy(head, c->record, sizeof head);
  } else if (tcp_peek_copy(c->tcp, 0, span_of(head, sizeof head)) < sizeof head) {
    return false;
  }
  u32 len = tls_record_length(head);
  if (len == 0) {
    c->alert = tls_record_fault(head);
    c->server->stats.protocol_errors++;
    conn_end(c, MQTT_SUCCESS);
    return false;
  }
  if (c->record == NULL && tcp_readable(c->tcp) < len && !tcp_stuffed(c->tcp)) {
    return false;
  }
  struct span first = tcp_peek(c->tcp);
  bool in_place = c->record == NULL && first.len >= len;
  u8 *base = in_place ? first.ptr : copy_record(c, len, b);
  if (base == NULL) {
    return false;
  }
  struct span content = {NULL, 0};
  c->record_len = len;
  opened(c, tls_open(c->tls, c->server->ciphers, span_of(base, len), &content), base, content);
  if (c->plain_len == 0) {
    record_done(c);
  }
  return c->state != CONN_ENDING;
}

// --- slices

struct span raw_slice(struct conn *c, struct budget *b) {
  if (!c->tls_due) {
    return tcp_peek(c->tcp);
  }
  while (c->plain_len == 0) {
    if (!open_record(c, b)) {
      return span_of(NULL, 0);
    }
  }
  u8 *base = c->record != NULL ? c->record : tcp_peek(c->tcp).ptr;
  return span_of(base + c->plain_off, c->plain_len);
}

static struct bytes next_slice(struct conn *c, struct budget *b) {
  return span_bytes(c->front != NULL ? front_slice(c, b) : raw_slice(c, b));
}

static void slice_used(struct conn *c, u32 len) {
  if (c->front != NULL) {
    front_used(c, len);
  }
  raw_used(c, len);
}

void raw_used(struct conn *c, u32 len) {
  if (!c->tls_due) {
    if (len > 0) {
      tcp_consume(c->tcp, len);
    }
    return;
  }
  ASSERT(len <= c->plain_len);
  c->plain_off += len;
  c->plain_len -= len;
  if (c->plain_len == 0) {
    record_done(c);
  }
}

// --- packets

static void protocol_error(struct conn *c, enum mqtt_reason reason) {
  c->server->stats.protocol_errors++;
  conn_end(c, reason);
}

// What of a fixed header can be refused before its packet is there. False: the connection ends.
static bool header_allowed(struct conn *c, const struct mqtt_header *h) {
  u32 total = h->header_len + h->remaining_len;
  if (c->state == CONN_CONNECT && h->type != MQTT_CONNECT && !bridge_is(c)) {  // [MQTT-3.1.0-1]
    server_log(c->server, c, "the first packet is no CONNECT", bytes_of(NULL, 0));
    protocol_error(c, MQTT_PROTOCOL_ERROR);
    return false;
  }
  if (total > (c->state == CONN_OPEN ? c->server->limits.packet_size_max : CONNECT_BYTES_MAX)) {
    protocol_error(c, MQTT_PACKET_TOO_LARGE);  // [MQTT-3.1.2-24] of our own CONNACK's maximum
    return false;
  }
  return true;
}

// True: this turn has had its share of such packets.
static bool too_heavy(struct server *s, const struct mqtt_header *h, struct bytes packet) {
  bool heavy = h->type == MQTT_SUBSCRIBE || h->type == MQTT_UNSUBSCRIBE;
  if (!heavy || packet.len < HEAVY_LEN) {
    return false;
  }
  if (s->heavy_turn != s->core->turns) {
    s->heavy_turn = s->core->turns;
    s->heavy_bytes = 0;
  }
  if (s->heavy_bytes >= HEAVY_BYTES_A_TURN) {
    return true;
  }
  s->heavy_bytes += (u32)packet.len;
  return false;
}

static bool dispatch(struct conn *c, const struct mqtt_header *h, struct bytes packet,
                     struct budget *b) {
  if (too_heavy(c->server, h, packet)) {
    b->packets = 0;
    return false;
  }
  u32 wakes = c->server->output_wakes;
  enum packet_use use = conn_packet(c, h, packet);
  if (use == PACKET_PAUSED) {
    b->blocked = c->paused = true;
    return false;
  }
  if (use == PACKET_BLOCKED) {
    input_blocked(c, b);
    return false;
  }
  b->packets -= MIN(b->packets, c->server->output_wakes == wakes ? 1u : WAKE_WEIGHT);
  c->last_in_ns = c->server->core->now_ns;
  if (c->state == CONN_OPEN) {
    c->deadline_ns = U64_MAX;
  }
  return true;
}

// Reserves the whole packet at its fixed header (DESIGN 3). False: no memory now, or it ends.
static bool assemble(struct conn *c, struct budget *b) {
  struct mqtt_header h;
  enum err e = mqtt_fixed_header(bytes_of(c->head, c->head_len), &h);
  ASSERT(e == ERR_OK);
  u32 total = h.header_len + h.remaining_len;
  c->packet = extent_take(&c->server->packets, total);
  if (c->packet == NULL) {
    input_blocked(c, b);
    return false;
  }
  c->packet_len = total;
  c->packet_have = c->head_len;
  memcpy(c->packet, c->head, c->head_len);
  return true;
}

// Takes header bytes one by one until the header is whole. Returns bytes used.
static u32 collect_head(struct conn *c, struct bytes slice) {
  struct mqtt_header h;
  u32 used = 0;
  while (used < slice.len) {
    ASSERT(c->head_len < sizeof c->head);
    c->head[c->head_len++] = slice.ptr[used++];
    enum err e = mqtt_fixed_header(bytes_of(c->head, c->head_len), &h);
    if (e == ERR_OK) {
      (void)header_allowed(c, &h);
      return used;
    }
    if (e != ERR_SHORT) {
      protocol_error(c, MQTT_MALFORMED_PACKET);
      return used;
    }
  }
  return used;
}

static bool head_whole(const struct conn *c) {
  struct mqtt_header h;
  return c->head_len > 0 && mqtt_fixed_header(bytes_of(c->head, c->head_len), &h) == ERR_OK;
}

// The packet that was begun in an earlier slice. Returns bytes used.
static u32 go_on(struct conn *c, struct bytes slice, struct budget *b) {
  u32 used = 0;
  if (c->packet == NULL) {
    used = head_whole(c) ? 0 : collect_head(c, slice);
    if (c->state == CONN_ENDING || !head_whole(c) || !assemble(c, b)) {
      return used;
    }
  }
  u32 n = (u32)MIN((usize)(c->packet_len - c->packet_have), slice.len - used);
  if (n > 0) {
    memcpy(c->packet + c->packet_have, slice.ptr + used, n);
    c->packet_have += n;
    used += n;
    c->last_in_ns = c->server->core->now_ns;  // a slow line is not a silent one
    c->deadline_ns = c->state == CONN_OPEN ? U64_MAX : c->deadline_ns;
  }
  if (c->packet_have < c->packet_len) {
    return used;
  }
  struct mqtt_header h;
  enum err e = mqtt_fixed_header(bytes_of(c->head, c->head_len), &h);
  ASSERT(e == ERR_OK);
  if (dispatch(c, &h, bytes_of(c->packet, c->packet_len), b) && c->state != CONN_LOGIN) {
    extent_put(&c->server->packets, c->packet, c->packet_len);
    c->packet = NULL;
    c->packet_len = c->packet_have = 0;
    c->head_len = 0;
  }
  return used;
}

// Packets that lie in the slice as a whole are decoded there. Returns bytes used.
static u32 take_packets(struct conn *c, struct bytes slice, struct budget *b) {
  u32 used = 0;
  while (used < slice.len && !b->blocked && b->packets > 0 && conn_reads(c)) {
    struct bytes rest = bytes_skip(slice, used);
    if (c->head_len > 0) {
      used += go_on(c, rest, b);
      continue;
    }
    struct mqtt_header h;
    enum err e = mqtt_fixed_header(rest, &h);
    if (e == ERR_MALFORMED) {
      protocol_error(c, MQTT_MALFORMED_PACKET);
      break;
    }
    if (e == ERR_OK && !header_allowed(c, &h)) {
      break;
    }
    u32 total = e == ERR_OK ? h.header_len + h.remaining_len : U32_MAX;
    if (total > rest.len) {
      used += go_on(c, rest, b);
      continue;
    }
    if (dispatch(c, &h, bytes_sub(rest, 0, total), b)) {
      used += total;
    }
  }
  return used;
}

bool conn_input(struct conn *c) {
  struct budget b = {.bytes = INPUT_BYTES, .packets = INPUT_PACKETS};
  ASSERT(c->tcp != NULL);
  if (c->state == CONN_PROXY && front_proxy(c) && c->state == CONN_HANDSHAKE) {
    conn_want_input(c);
    return false;
  }
  c->paused = false;
  while (conn_reads(c) && b.packets > 0 && !b.blocked) {
    struct bytes slice = next_slice(c, &b);
    if (c->state == CONN_ENDING) {
      break;
    }
    // A packet that is whole but was blocked waits without further bytes.
    bool waiting = c->packet != NULL && c->packet_have == c->packet_len;
    if (slice.len == 0 && !waiting) {
      break;
    }
    u32 used = waiting ? go_on(c, bytes_of(slice.ptr, 0), &b) : take_packets(c, slice, &b);
    slice_used(c, used);
    if (used >= b.bytes) {
      return c->state != CONN_ENDING;
    }
    b.bytes -= used;
  }
  if (c->state == CONN_ENDING) {
    return false;
  }
  if (c->paused) {
    conn_arm(c);
    return false;
  }
  if (b.blocked) {
    conn_block(c);
    return false;
  }
  if (b.packets == 0) {
    return true;
  }
  if (c->fin) {  // everything before the FIN has been used: gone without DISCONNECT, or after it
    conn_end(c, MQTT_SUCCESS);
  }
  return false;
}
