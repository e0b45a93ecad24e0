// SPDX-License-Identifier: Apache-2.0
// TLS handshakes: an arena is taken when the ClientHello is complete, and given back when the
// traffic secrets have been handed to the record layer. Until then the bytes wait in TCP.
//
// A step never waits in the middle, so one guarded stack a core serves all handshakes: the fiber
// runs from its start to its end inside conn_handshake.
#include "server/bridge_inner.h"
#include "server/conn.h"

#define HEAVY_TIMEOUT_NS (5 * SEC_NS)  // from the ClientHello to the client's Finished

bool conn_handshake_ready(const struct conn *c) {
  if (bridge_is(c) && c->heavy == NULL) {
    return true;  // we speak first
  }
  u32 there = tcp_readable(c->tcp);
  if (c->heavy != NULL || there == 0 || tcp_stuffed(c->tcp)) {
    return there > 0;
  }
  u8 head[5] = {0};
  u32 got = tcp_peek_copy(c->tcp, 0, span_of(head, sizeof head));
  u32 len = (u32)head[3] << 8 | head[4];
  // What is no handshake record goes to the library too: it knows the alert.
  bool plausible = head[0] == 22 && len > 0 && len <= TLS_RECORD_CONTENT_MAX;
  return got > 0 && (head[0] != 22 || (got == sizeof head && (!plausible || there >= 5 + len)));
}

static bool take_heavy(struct conn *c) {
  struct server *s = c->server;
  if (s->heavies.free_count == 0 || s->names.free_count == 0 || s->records.free_count == 0) {
    return false;
  }
  c->heavy = pool_take_raw(&s->heavies);
  c->heavy->handshake = NULL;
  c->name = pool_take(&s->names);
  c->deadline_ns = MIN(c->deadline_ns, s->core->now_ns + HEAVY_TIMEOUT_NS);
  conn_arm(c);
  struct tls_time now = server_time(&c->from->config);
  c->heavy->generation = s->generation;
  struct span arena = span_of(c->heavy->arena, sizeof c->heavy->arena);
  c->heavy->handshake = bridge_is(c) ? bridge_handshake(c, arena, &now)
                                     : tls_handshake_begin(c->from->config.tls, arena, &now);
  ASSERT(c->heavy->handshake != NULL);
  return true;
}

static void give_heavy(struct conn *c) {
  ASSERT(c->heavy->handshake == NULL);
  pool_put(&c->server->heavies, c->heavy);
  c->heavy = NULL;
}

static struct part name_of(const struct tls_identity *id, enum certificate_name which) {
  switch (which) {
  case CERTIFICATE_SUBJECT: return id->subject;
  case CERTIFICATE_SAN_DNS: return id->san_dns;
  case CERTIFICATE_SAN_EMAIL: return id->san_email;
  case CERTIFICATE_NONE:
  case CERTIFICATE_COMMON_NAME: break;
  }
  return id->cn;
}

static void done(struct conn *c) {
  struct server *s = c->server;
  struct tls_identity id;
  c->tls = pool_take(&s->records);
  ASSERT(c->tls != NULL || s->records.free_count == 0);
  if (c->tls == NULL) {
    tls_handshake_abort(c->heavy->handshake);
    c->heavy->handshake = NULL;
    give_heavy(c);
    conn_end(c, MQTT_SUCCESS);
    return;
  }
  tls_handshake_finish(c->heavy->handshake, c->tls, &id);
  c->heavy->handshake = NULL;
  bool judged = c->heavy->generation == s->generation;
  give_heavy(c);
  s->stats.handshakes_full += id.resumed ? 0 : 1;
  s->stats.handshakes_resumed += id.resumed ? 1 : 0;
  struct part name = name_of(&id, (enum certificate_name)c->from->config.certificate_name);
  if (name.len <= NAME_MAX_LEN) {
    c->name->len = (u16)name.len;
    memcpy(c->name->text, id.text + name.off, name.len);
  }
  if (!judged && !conn_allowed(c)) {  // the configuration has changed under the handshake
    conn_end(c, MQTT_SUCCESS);
    return;
  }
  c->state = CONN_CONNECT;
  c->deadline_ns = s->core->now_ns + s->limits.connect_timeout_ms * MS_NS;
  conn_arm(c);
}

static void failed(struct conn *c) {
  struct server *s = c->server;
  struct tls_failure f = tls_handshake_failure(c->heavy->handshake);
  s->stats.handshakes_failed++;
  server_log(s, c, "TLS handshake failed", bytes_str(f.text));
  tls_handshake_abort(c->heavy->handshake);
  c->heavy->handshake = NULL;
  give_heavy(c);
  conn_end(c, MQTT_SUCCESS);
}

// The ticket is in no hurry, and the client's CONNECT follows its Finished without waiting for us:
// it has arrived while its certificate was judged. One turn later the ticket goes out with the
// CONNACK, or alone when there is none: one segment, one wake-up of the client and one ACK less.
static void hold(struct conn *c, struct txbuf *b) {
  ASSERT(c->state == CONN_CONNECT);
  ASSERT(c->name->held == NULL);
  c->name->held = b;
  c->name->held_turn = c->server->core->turns;
  conn_want_output(c);
}

void conn_send_held(struct conn *c) {
  if (c->name == NULL || c->name->held == NULL) {
    return;
  }
  struct txbuf *b = c->name->held;
  c->name->held = NULL;
  tcp_send(c->tcp, b);
}

// One call of the library. False: nothing more can be done now.
static bool step(struct conn *c) {
  struct txbuf *b = txbuf_take(c->server->core->net, TXBUF_LARGE, TXBUF_DATA);
  if (b == NULL) {
    conn_block(c);
    return false;
  }
  struct span in = tcp_peek(c->tcp);
  u32 consumed = 0;
  u32 produced = 0;
  enum tls_step result = tls_handshake_step(c->heavy->handshake, span_bytes(in), &consumed,
                                            span_of(b->data, b->cap), &produced);
  ASSERT(consumed <= in.len);
  ASSERT(produced <= b->cap);
  if (consumed > 0) {
    tcp_consume(c->tcp, consumed);
  }
  bool end_flight = result == TLS_STEP_DONE && produced > 0 && !bridge_is(c);
  b->len = (u16)produced;
  if (produced > 0 && !end_flight) {
    tcp_send(c->tcp, b);
  } else if (!end_flight) {
    txbuf_unref(c->server->core->net, b);
  }
  switch (result) {
  case TLS_STEP_WANT_INPUT: return tcp_readable(c->tcp) > 0;
  case TLS_STEP_WANT_OUTPUT: return true;
  case TLS_STEP_DONE:
    done(c);
    if (bridge_is(c) && c->state == CONN_CONNECT) {
      bridge_open(c);
    }
    if (end_flight && c->state == CONN_CONNECT) {
      hold(c, b);
    } else if (end_flight) {
      tcp_send(c->tcp, b);
    }
    return false;
  case TLS_STEP_FAILED: failed(c); return false;
  }
  return false;
}

static void on_fiber(struct fiber *self, void *arg) {
  struct conn *c = arg;
  (void)self;
  if (c->heavy == NULL && !take_heavy(c)) {
    return;
  }
  while (step(c)) {
  }
}

bool conn_handshake(struct conn *c) {
  ASSERT(c->state == CONN_HANDSHAKE);
  struct server *s = c->server;
  if (!conn_handshake_ready(c)) {
    if (c->fin) {
      conn_end(c, MQTT_SUCCESS);
    }
    return true;
  }
  if (c->heavy == NULL && c->fin && !bridge_is(c)) {  // it cannot answer any more: no work for it
    conn_end(c, MQTT_SUCCESS);
    return true;
  }
  if (c->heavy == NULL && (s->heavies.free_count == 0 || s->names.free_count == 0)) {
    return false;
  }
  if (c->heavy == NULL) {
    tcp_waited(c->tcp, s->core->now_ns - c->last_in_ns);
  }
  fiber_start(&s->fiber, s->fiber_stack, on_fiber, c);
  enum fiber_state end = fiber_resume(&s->fiber);
  ASSERT(end == FIBER_DONE);
  if (c->state == CONN_CONNECT && (tcp_readable(c->tcp) > 0 || c->fin)) {
    conn_want_input(c);
  } else if (c->state == CONN_HANDSHAKE && c->fin && tcp_readable(c->tcp) == 0) {
    conn_end(c, MQTT_SUCCESS);
  }
  return true;
}
