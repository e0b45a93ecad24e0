// SPDX-License-Identifier: Apache-2.0
// From the broker's stream into transmit buffers: pulled straight into the page that tcp sends,
// sealed there in place, one record a page. Nothing is pulled beyond tcp_room, so that what a slow
// peer does not take stays a reference in its session's queue.
#include "server/bridge_inner.h"
#include "server/conn.h"

#define OUTPUT_BYTES 65536u  // a turn and connection
#define PIECE_MIN 128u       // less room than this is not worth a segment or a record

// Bytes of a piece that are not the stream's own: a WebSocket frame's head inside a TLS record.
static u32 head_bytes(const struct conn *c) {
  return (c->tls != NULL ? TLS_RECORD_HEAD : 0) + (front_frames(c) ? WS_OUT_HEAD_MAX : 0);
}
static u32 overhead(const struct conn *c) {
  return head_bytes(c) + (c->tls != NULL ? TLS_RECORD_TAIL : 0);
}

// `n` bytes of content stand behind head_bytes: frames and seals them. Returns wire bytes.
static u32 wrap(struct conn *c, struct span at, u32 n) {
  u32 tls_head = c->tls != NULL ? TLS_RECORD_HEAD : 0;
  if (front_frames(c)) {
    n = front_frame(span_of(at.ptr + tls_head, at.len - tls_head), n);
  }
  return c->tls == NULL ? n : tls_seal(c->tls, c->server->ciphers, at, n, TLS_CONTENT_DATA);
}

// The broker's next bytes at `at`, as they go out. Returns wire bytes; 0 = dry.
static u32 pull(struct conn *c, struct span at) {
  ASSERT(at.len > overhead(c));
  struct span content = span_of(at.ptr + head_bytes(c), at.len - overhead(c));
  u32 n = 0;
  if (bridge_is(c)) {
    n = bridge_pull(c, content);
    c->mid_packet = bridge_mid_packet(c);
  } else {
    n = broker_pull(c->session, content, c->server->core->now_ns);
    if (c->traced) {
      trace_out(c, bytes_of(content.ptr, n), c->mid_packet);
    }
    c->mid_packet = broker_mid_packet(c->session);
  }
  ASSERT(n <= content.len);
  return n == 0 ? 0 : wrap(c, at, n);
}

// Behind the last queued buffer, or into a fresh one. Returns wire bytes; 0 = dry; U32_MAX = no
// buffer.
static u32 put_piece(struct conn *c, u32 room) {
  struct net *net = c->server->core->net;
  struct txbuf *b = tcp_tail(c->tcp);
  u32 least = PIECE_MIN + overhead(c);
  if (b != NULL && (u32)b->cap - b->off - b->len >= least) {
    u32 at = (u32)b->off + b->len;
    u32 n = pull(c, span_of(b->data + at, MIN(b->cap - at, room)));
    if (n > 0) {
      tcp_tail_commit(c->tcp, n);
    }
    return n;
  }
  b = txbuf_take(net, c->bulk ? TXBUF_LARGE : TXBUF_SMALL, TXBUF_DATA);
  if (b == NULL) {
    return U32_MAX;
  }
  b->len = (u16)pull(c, span_of(b->data, MIN((u32)b->cap, room)));
  u32 n = b->len;
  if (n > 0) {
    tcp_send(c->tcp, b);
  } else {
    txbuf_unref(net, b);
  }
  return n;
}

static bool has_output(const struct conn *c) {
  return bridge_is(c) ? bridge_has_output(c) : broker_has_output(c->session);
}

enum output_end conn_output(struct conn *c) {
  if (c->tcp != NULL && c->name != NULL && c->name->held != NULL) {
    if (c->server->core->turns <= c->name->held_turn) {
      return OUTPUT_MORE;
    }
    conn_send_held(c);
  }
  if (c->tcp == NULL || c->session == NULL || c->state != CONN_OPEN) {
    return OUTPUT_DRY;
  }
  u32 total = 0;
  while (has_output(c)) {
    u32 room = tcp_room(c->tcp);
    u32 least = PIECE_MIN + overhead(c);
    bool alone = tcp_unacked(c->tcp) == 0 && room > overhead(c);  // a tiny window
    if (room < least && !alone) {
      return OUTPUT_DRY;  // tcp calls writable
    }
    if (total >= OUTPUT_BYTES) {
      return OUTPUT_MORE;
    }
    if (c->tls != NULL && tls_write_wants_update(c->tls)) {
      conn_send_key_update(c);
    }
    u32 n = put_piece(c, room);
    if (n == U32_MAX) {
      return OUTPUT_STARVED;
    }
    if (n == 0) {
      break;
    }
    total += n;
    c->bulk = total > TXBUF_SMALL / 2;
  }
  (void)broker_pull(c->session, span_of(NULL, 0), 0);  // pulled dry: wake us again
  // What a shared group or a retained replay gave in that call comes without a wake.
  return has_output(c) ? OUTPUT_MORE : OUTPUT_DRY;
}

static struct txbuf *control_buffer(const struct conn *c) {
  bool open = c->tcp != NULL && (c->tls != NULL || !c->tls_due);
  return open ? txbuf_take(c->server->core->net, TXBUF_SMALL, TXBUF_CONTROL) : NULL;
}

// A buffer for `len` bytes of content and everything around them; NULL when there is none.
static struct txbuf *buffer_for(const struct conn *c, usize len) {
  if (len + TLS_RECORD_OVERHEAD + WS_OUT_HEAD_MAX <= TXBUF_SMALL) {
    return control_buffer(c);
  }
  ASSERT(len + TLS_RECORD_OVERHEAD + WS_OUT_HEAD_MAX <= TXBUF_LARGE);
  return c->tcp != NULL ? txbuf_take(c->server->core->net, TXBUF_LARGE, TXBUF_CONTROL) : NULL;
}

bool conn_send(struct conn *c, struct bytes packet) {
  struct txbuf *b = buffer_for(c, packet.len);
  if (b == NULL) {
    return false;
  }
  ASSERT(!c->mid_packet);
  struct server_packet p;
  if (c->traced && trace_read(c->version, true, packet, &p)) {
    trace_tell(c, &p);
  }
  memcpy(b->data + head_bytes(c), packet.ptr, packet.len);
  b->len = (u16)wrap(c, span_of(b->data, b->cap), (u32)packet.len);
  conn_send_held(c);
  tcp_send(c->tcp, b);
  return true;
}

bool conn_send_raw(struct conn *c, struct bytes bytes) {
  struct txbuf *b = buffer_for(c, bytes.len);
  if (b == NULL) {
    return false;
  }
  memcpy(b->data + (c->tls != NULL ? TLS_RECORD_HEAD : 0), bytes.ptr, bytes.len);
  b->len = (u16)bytes.len;
  if (c->tls != NULL) {
    b->len = (u16)tls_seal(c->tls, c->server->ciphers, span_of(b->data, b->cap), (u32)bytes.len,
                           TLS_CONTENT_DATA);
  }
  conn_send_held(c);
  tcp_send(c->tcp, b);
  return true;
}

void conn_send_alert(struct conn *c, u8 alert) {
  struct txbuf *b = c->tls != NULL ? control_buffer(c) : NULL;
  if (b == NULL) {
    return;
  }
  b->len = (u16)tls_seal_alert(c->tls, c->server->ciphers, span_of(b->data, b->cap), alert);
  conn_send_held(c);
  tcp_send(c->tcp, b);
}

void conn_send_key_update(struct conn *c) {
  struct txbuf *b = control_buffer(c);
  if (b == NULL) {
    return;  // RFC 8446 4.6.3 asks for it before the next data: the next shortage-free turn's wants
  }
  b->len = (u16)tls_seal_key_update(c->tls, c->server->ciphers, span_of(b->data, b->cap), false);
  conn_send_held(c);
  tcp_send(c->tcp, b);
}
