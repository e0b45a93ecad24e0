// SPDX-License-Identifier: Apache-2.0
// A connection's front at work: the PROXY header, the upgrade request, WebSocket frames.
//
// F1  The upgrade request is collected in an extent (conn.packet) and nothing behind its empty line
//     is taken off the stream.
// F2  After our CLOSE frame nothing is sent but close_notify and FIN (RFC 6455 5.5.1).
#include "server/front.h"

#include "base/base64.h"
#include "base/fmt.h"
#include "mqtt/reason.h"
#include "server/conn.h"
#include "server/ws_request.h"
#include "tls/digest.h"

#define GUID "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"  // RFC 6455 1.3

// --- PROXY

static void keep_peer(struct front *f, const struct proxy_peer *p, struct bytes head) {
  f->peer_known = p->known;
  f->peer_port = p->port;
  f->peer = p->address;
  if (p->verified && p->name.len <= FRONT_NAME_MAX) {  // never a cut name
    f->name_len = (u8)p->name.len;
    memcpy(f->name, head.ptr + p->name.off, p->name.len);
  }
}

void front_peer(struct writer *w, const struct front *f) {
  ASSERT(f->peer_known);
  ip_write_port(w, f->peer, f->peer_port);
}

static void refuse_proxy(struct conn *c, const char *why) {
  c->server->stats.protocol_errors++;
  server_log(c->server, c, why, bytes_of(NULL, 0));
  conn_end(c, MQTT_SUCCESS);
}

bool front_proxy(struct conn *c) {
  u8 head[PROXY_V2_MAX];
  struct proxy_peer peer;
  u32 len = 0;
  ASSERT(c->state == CONN_PROXY);
  struct bytes there = bytes_of(head, tcp_peek_copy(c->tcp, 0, span_of(head, sizeof head)));
  enum err e = proxy_parse(there, c->from->config.proxy, &peer, &len);
  if (e == ERR_SHORT) {
    if (c->fin) {
      conn_end(c, MQTT_SUCCESS);
    }
    return false;
  }
  if (e != ERR_OK) {
    refuse_proxy(c, "no PROXY header of the version that enable_proxy_protocol names");
    return false;
  }
  if (c->from->config.proxy_needs_tls && peer.known && !peer.tls) {
    refuse_proxy(c, "the PROXY header says that the client came without TLS");
    return false;
  }
  keep_peer(c->front, &peer, there);
  tcp_consume(c->tcp, len);
  c->state = c->tls_due ? CONN_HANDSHAKE : CONN_CONNECT;
  return true;
}

// --- the upgrade request

// Offers 1 KiB of what an HTTP client should read; the connection ends.
static void refuse_request(struct conn *c, enum ws_answer answer, const char *why) {
  u8 text[640];
  struct writer w = writer_init(span_of(text, sizeof text));
  ws_answer_refuse(&w, answer, why);
  ASSERT(w.err == ERR_OK);
  (void)conn_send_raw(c, writer_bytes(&w));
  c->front->close_sent = true;
  c->server->stats.refused++;
  server_log(c->server, c, "WebSocket request refused", bytes_str(why));
  conn_end(c, MQTT_SUCCESS);
}

static bool send_switch(struct conn *c, struct bytes head, const struct ws_request *r) {
  u8 keyed[24 + sizeof GUID - 1];
  u8 digest[TLS_SHA1_BYTES];
  u8 accept[28];
  u8 text[256];
  ASSERT(r->key.len == 24);
  memcpy(keyed, head.ptr + r->key.off, 24);
  memcpy(keyed + 24, GUID, sizeof GUID - 1);
  tls_sha1(bytes_of(keyed, sizeof keyed), digest);
  u32 n = base64_encode(bytes_of(digest, sizeof digest), span_of(accept, sizeof accept));
  struct writer w = writer_init(span_of(text, sizeof text));
  ws_answer_switch(&w, bytes_of(accept, n), (enum ws_protocol)r->protocol);
  ASSERT(w.err == ERR_OK);
  return conn_send_raw(c, writer_bytes(&w));
}

// A whole request is in conn.packet. False: no buffer for the answer.
static bool answer_request(struct conn *c, u32 len) {
  const struct listener_config *l = &c->from->config;
  struct bytes head = bytes_of(c->packet, len);
  struct ws_request r;
  const char *why = NULL;
  enum ws_answer answer = ws_request_parse(head, &r, &why);
  if (answer == WS_ANSWER_SWITCH && !ws_origin_allowed(head, &r, l->origins, l->origin_count)) {
    answer = WS_ANSWER_FORBIDDEN;
    why = "this origin is not in websockets_origin";
  }
  if (answer != WS_ANSWER_SWITCH) {
    refuse_request(c, answer, why);
    return true;
  }
  if (!send_switch(c, head, &r)) {
    return false;
  }
  c->front->request_due = false;
  extent_put(&c->server->packets, c->packet, c->packet_len);
  c->packet = NULL;
  c->packet_len = c->packet_have = 0;
  return true;
}

// Copies of `raw` what belongs to the request. Returns bytes used; *whole when its end is there.
static u32 collect_request(struct conn *c, struct bytes raw, bool *whole) {
  u32 old = c->packet_have;
  u32 n = (u32)MIN(raw.len, (usize)(c->packet_len - old));
  memcpy(c->packet + old, raw.ptr, n);
  u32 from = old > 3 ? old - 3 : 0;  // the end may lie across pieces
  u32 end = ws_request_len(bytes_of(c->packet + from, old + n - from));
  *whole = end != 0;
  c->packet_have = end != 0 ? from + end : old + n;
  return c->packet_have - old;
}

// Works on the request with what is there. False: more bytes are needed, or a shortage, or the end.
static bool take_request(struct conn *c, struct budget *b) {
  if (c->packet == NULL) {
    c->packet = extent_take(&c->server->packets, WS_REQUEST_MAX);
    if (c->packet == NULL) {
      input_blocked(c, b);
      return false;
    }
    c->packet_len = WS_REQUEST_MAX;
    c->packet_have = 0;
  }
  bool whole = ws_request_len(bytes_of(c->packet, c->packet_have)) != 0;
  while (!whole) {
    struct span raw = raw_slice(c, b);
    if (raw.len == 0) {
      return false;
    }
    if (c->packet_have == c->packet_len) {
      refuse_request(c, WS_ANSWER_TOO_LARGE, "the request is longer than 8 KiB");
      return false;
    }
    raw_used(c, collect_request(c, span_bytes(raw), &whole));
  }
  if (!answer_request(c, c->packet_have)) {
    input_blocked(c, b);
    return false;
  }
  return c->state != CONN_ENDING;
}

// --- frames

bool front_frames(const struct conn *c) {
  return c->front != NULL && c->from->config.websockets;
}

u32 front_frame(struct span at, u32 n) {
  ASSERT(at.len >= n + WS_OUT_HEAD_MAX);
  u32 head = ws_head_len(n);
  if (head != WS_OUT_HEAD_MAX) {  // a short one: at most 125 bytes move
    memmove(at.ptr + head, at.ptr + WS_OUT_HEAD_MAX, n);
  }
  return ws_head_write(at.ptr, WS_BINARY, n) + n;
}

// One control frame. False: no buffer.
static bool send_control(struct conn *c, enum ws_opcode opcode, struct bytes payload) {
  u8 frame[2 + WS_CONTROL_MAX];
  ASSERT(payload.len <= WS_CONTROL_MAX);
  u32 head = ws_head_write(frame, opcode, (u32)payload.len);
  ASSERT(head == 2);
  if (payload.len > 0) {
    memcpy(frame + head, payload.ptr, payload.len);
  }
  return conn_send_raw(c, bytes_of(frame, head + payload.len));
}

struct span front_slice(struct conn *c, struct budget *b) {
  struct front *f = c->front;
  if (!front_frames(c)) {
    return raw_slice(c, b);
  }
  if (f->request_due && !take_request(c, b)) {
    return span_of(NULL, 0);
  }
  while (b->packets > 0) {
    u32 used = 0;
    struct span data;
    struct span raw = raw_slice(c, b);
    if (raw.len == 0) {
      break;
    }
    enum ws_take what = ws_take(&f->ws, raw, &used, &data);
    raw_used(c, used);
    switch (what) {
    case WS_TAKE_DATA: return data;
    case WS_TAKE_MORE: continue;
    case WS_TAKE_PING:  // without a buffer it goes unanswered: the next one will be (RFC
                        // 6455 5.5.3)
      (void)send_control(c, WS_PONG, bytes_of(f->ws.control, f->ws.control_len));
      b->packets--;
      continue;
    case WS_TAKE_CLOSED:
      f->ws.code = (u16)ws_close_code(&f->ws);
      conn_end(c, MQTT_SUCCESS);
      return span_of(NULL, 0);
    case WS_TAKE_FAILED:
      c->server->stats.protocol_errors++;
      server_log(c->server, c, "WebSocket frames are malformed or not binary", bytes_of(NULL, 0));
      conn_end(c, MQTT_SUCCESS);
      return span_of(NULL, 0);
    }
  }
  return span_of(NULL, 0);
}

void front_used(struct conn *c, u32 len) {
  if (front_frames(c) && len > 0) {
    ws_used(&c->front->ws, len);
  }
}

// The code that says best why the MQTT connection ended.
static enum ws_code code_of(const struct conn *c) {
  if (c->front->ws.code != WS_CODE_NONE) {
    return (enum ws_code)c->front->ws.code;
  }
  switch (c->reason) {
  case MQTT_SUCCESS: return WS_CODE_NORMAL;
  case MQTT_SERVER_SHUTTING_DOWN: return WS_CODE_GOING_AWAY;
  case MQTT_PACKET_TOO_LARGE: return WS_CODE_TOO_BIG;
  case MQTT_MALFORMED_PACKET:
  case MQTT_PROTOCOL_ERROR: return WS_CODE_PROTOCOL;
  default: return WS_CODE_POLICY;
  }
}

void front_close(struct conn *c) {
  if (!front_frames(c) || c->front->request_due || c->front->close_sent) {
    return;
  }
  u8 code[2];
  store_be16(code, (u16)code_of(c));
  c->front->close_sent = true;
  (void)send_control(c, WS_CLOSE, bytes_of(code, sizeof code));
}
