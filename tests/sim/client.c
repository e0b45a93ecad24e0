// SPDX-License-Identifier: Apache-2.0
// A client: its connection over the host's own TCP, and its side of the session
// (MQTT 5.0 4.3, 4.4).
#include "tests/sim/game.h"

static struct net *net_of(const struct client *c) {
  return game->core[c->host].net;
}

// --- lines

// For the end of a silent connection to reach us over a bad wire: repeats are 60 s apart at most.
#define END_SLACK_NS (150 * SIM_S)

static void put_line(struct line *l) {
  *l = (struct line){.used = false};
}

// Its session, when it was to end with the connection, is gone for the client, too: one that the
// broker has at a later CONNECT was made by a CONNECT in between whose answer was lost, and knows
// neither the old one's subscriptions nor its packet identifiers. Not answered, such a CONNECT may
// have ended an older session or not: only a clean start tells.
static void end_session(struct client *c) {
  if (!c->persistent && c->stage == STAGE_UP) {
    model_session_gone(c);
  } else if (!c->persistent && c->stage == STAGE_CONNACK) {
    c->must_clean = true;
  }
}

static void lose_connection(struct client *c) {
  tls_end(c);
  end_session(c);
  c->line = NULL;
  c->stage = STAGE_IDLE;
  c->in_len = c->out_from = c->out_len = 0;
  c->next_ns = sim_now_ns() + draw(game->phase == PHASE_CHAOS ? 400 : 50) * SIM_MS;
  for (u32 k = 0; k < KINDS; k++) {
    struct want *w = &c->want[k];
    if (w->state == WANT_ASKED || w->state == WANT_LEAVING) {
      w->state = WANT_NONE;  // not known: it asks again
    }
  }
}

void client_forget_line(struct client *c) {
  struct line *l = c->line;
  if (l != NULL) {
    l->client = NULL;
    l->boot = sim_boots();
    l->left_ns = sim_now_ns();
    l->until_ns = sim_now_ns() + c->keep_alive_s * SIM_S * 3 / 2 + END_SLACK_NS;
  }
  lose_connection(c);
}

void client_cut(struct client *c) {
  struct line *l = c->line;
  ASSERT(l != NULL);
  if (l->conn != NULL) {
    tcp_abort(l->conn);
  }
  put_line(l);
  lose_connection(c);
}

// The broker ends what is silent or taken over. When the wire was too bad for its FIN it has given
// up and knows nothing of the connection any more: it says so (RST) when something is sent.
static bool knock(struct line *l, u32 host) {
  struct txbuf *b = txbuf_take(game->core[host].net, 2, TXBUF_DATA);
  if (b != NULL) {
    b->data[0] = 0xc0;
    b->data[1] = 0;
    b->len = 2;
    tcp_send(l->conn, b);
    l->until_ns = sim_now_ns() + END_SLACK_NS;
  }
  return b != NULL;
}

void lines_tick(u32 host) {
  for (u32 i = host; i < LINES_MAX; i += game->hosts) {
    struct line *l = &game->line[i];
    if (!l->used || l->client != NULL || l->conn == NULL) {
      continue;
    }
    if (l->boot != sim_boots()) {
      tcp_abort(l->conn);
      put_line(l);
    } else if (l->until_ns <= sim_now_ns()) {
      struct tcp_peer peer;
      tcp_peer(l->conn, &peer);
      if (l->knocked) {
        sim_fail(
            "O5: the connection from port %u of host %u, left in silence or taken over at "
            "%.3f s, was not ended",
            peer.local_port, host, (double)l->left_ns / 1e9);
      }
      l->knocked = knock(l, host);
    }
  }
}

// Longest time in which the broker may have heard nothing: from when one packet was sent to when
// the next one was known to be there.
static u64 silence_ns(const struct client *c) {
  return MAX(c->silence_ns, sim_now_ns() - c->sent_acked_ns);
}

// Why may the broker end this connection (O5)? It may have decided so long ago: what it sends and
// acknowledges afterwards says nothing. Before CONNACK its deadlines began at times that only it
// knows.
static void check_end(const struct client *c, enum tcp_end why) {
  u64 allowed = c->keep_alive_s * SIM_S * 3 / 2;
  if (c->stage == STAGE_UP && why != TCP_END_TIMEOUT && sim_boots() == c->session_boot &&
      !c->leaving && silence_ns(c) < allowed) {
    sim_fail(
        "O5: client %u's connection was ended (%s); it was never silent for longer than %llu "
        "ms (keep-alive %u s)",
        c->number, why == TCP_END_FIN ? "FIN" : "RST", (unsigned long long)(silence_ns(c) / SIM_MS),
        c->keep_alive_s);
  }
}

static void on_writable(void *user, struct tcp_conn *conn) {
  struct line *l = user;
  (void)conn;
  if (l->client != NULL) {
    client_flush(l->client);
  }
}

// The way to the broker is there: CONNECT.
static void begin(struct client *c) {
  c->stage = STAGE_CONNACK;
  c->sent_acked_ns = sim_now_ns();
  c->silence_ns = 0;
  c->leaving = false;
  c->will_number = chance(30) ? model_published(c, KIND_WILL) : 0;
  put_connect(c, c->will_number);
  sim_count(OWN_CONNECTS, 1);
  client_flush(c);
}

void client_shake(struct client *c) {
  if (tls_shake(c)) {
    begin(c);
  }
}

static void on_readable(void *user, struct tcp_conn *conn) {
  struct line *l = user;
  struct client *c = l->client;
  if (c == NULL) {
    tcp_consume(conn, tcp_readable(conn));
  } else if (c->pause_until_ns <= sim_now_ns() && c->stage == STAGE_TLS) {
    client_shake(c);
  } else if (c->pause_until_ns <= sim_now_ns()) {
    client_read(c);
  }
}
static void on_opened(void *user, struct tcp_conn *conn) {
  struct line *l = user;
  struct client *c = l->client;
  (void)conn;
  if (c != NULL && game->tls) {
    c->stage = STAGE_TLS;
    tls_begin(c);
    client_shake(c);
  } else if (c != NULL) {
    begin(c);
  }
}
static void on_ended(void *user, struct tcp_conn *conn, enum tcp_end why) {
  struct line *l = user;
  struct client *c = l->client;
  if (c != NULL && c->line == l) {
    check_end(c, why);
    // Its end follows DISCONNECT, not silence, when it was heard just before.
    bool heard = silence_ns(c) < c->keep_alive_s * SIM_S * 3 / 2;
    if (c->leaving && why == TCP_END_FIN && heard && c->will_number != 0) {
      model_will_cancelled(c);
    }
    lose_connection(c);
  }
  if (why == TCP_END_FIN) {
    tcp_close(conn);
  }
  put_line(l);
}
static const struct tcp_listener_ops ops = {
    .readable = on_readable, .writable = on_writable, .ended = on_ended, .opened = on_opened};

void client_open(struct client *c) {
  struct line *l = NULL;
  for (u32 i = c->host; i < LINES_MAX; i += game->hosts) {
    l = game->line[i].used ? l : &game->line[i];
  }
  ASSERT(c->line == NULL);
  c->next_ns = sim_now_ns() + 100 * SIM_MS;
  if (l == NULL) {
    return;
  }
  *l = (struct line){.used = true, .client = c};
  if (tcp_connect(net_of(c), ip_of4(BROKER_ADDRESS), game->tls ? BROKER_TLS_PORT : BROKER_PORT,
                  &ops, l, &l->conn) != ERR_OK) {
    put_line(l);
    return;
  }
  c->line = l;
  c->stage = STAGE_TCP;
  c->asked_ns = sim_now_ns();
  c->session_boot = sim_boots();
  c->clean = c->clean || c->must_clean || (c->version == 4 && !c->persistent);
  c->persistent = c->persistent && (c->version == 5 || !c->clean);
  c->must_clean = c->clean;
  c->session = c->session && c->persistent;
  if (c->clean) {
    model_session_gone(c);
  }
}

void client_flush(struct client *c) {
  struct line *l = c->line;
  if (l == NULL || l->conn == NULL || c->stage < STAGE_CONNACK) {
    return;
  }
  struct net *net = net_of(c);
  u32 head = c->sealed ? TLS_RECORD_HEAD : 0;
  u32 around = c->sealed ? TLS_RECORD_OVERHEAD : 0;
  while (c->out_len > 0) {
    u32 room = MIN(tcp_room(l->conn), TXBUF_LARGE);
    u32 n = MIN(room > around ? room - around : 0, MIN(c->out_len, OUT_LEN - c->out_from));
    struct txbuf *b = n == 0 ? NULL : txbuf_take(net, n + around, TXBUF_DATA);
    if (b == NULL) {
      break;
    }
    memcpy(b->data + head, c->out + c->out_from, n);
    b->len = (u16)(c->sealed ? tls_write(c, b, n) : n);
    c->out_from = (c->out_from + n) % OUT_LEN;
    c->out_len -= n;
    tcp_send(l->conn, b);
  }
  if (c->out_len == 0 && tcp_unacked(l->conn) == 0) {
    if (c->sent_acked_ns != c->sent_ns) {
      c->silence_ns = silence_ns(c);
      c->sent_acked_ns = c->sent_ns;
    }
  }
}

// --- the session

static u16 fresh_id(struct client *c) {
  c->next_id = c->next_id == 65535 ? 1 : (u16)(c->next_id + 1);
  return c->next_id;
}

static struct flight *flight_of(struct client *c, u16 id, u32 *index) {
  for (*index = 0; *index < c->flight_count; (*index)++) {
    if (c->flight[*index].packet_id == id) {
      return &c->flight[*index];
    }
  }
  return NULL;
}
static void flight_remove(struct client *c, u32 index) {
  c->flight_count--;
  memmove(&c->flight[index], &c->flight[index + 1],
          (c->flight_count - index) * sizeof c->flight[0]);
}

bool client_idle_flight(const struct client *c) {
  return c->flight_count == 0 && c->out_len == 0;
}

void client_publish(struct client *c, enum kind kind, u32 len) {
  u8 qos = game->stream[c->number][kind].qos;
  if (c->stage != STAGE_UP || c->flight_count == INFLIGHT_MAX || c->out_len > OUT_LEN / 4) {
    return;
  }
  struct flight f = {.state = qos == 0   ? FLIGHT_FREE
                              : qos == 1 ? FLIGHT_PUBACK
                                         : FLIGHT_PUBREC,
                     .kind = (u8)kind,
                     .packet_id = qos > 0 ? fresh_id(c) : 0,
                     .len = MAX(len, PAYLOAD_HEAD)};
  f.number = model_published(c, kind);
  put_publish(c, &f, qos, false);
  if (qos > 0) {
    c->flight[c->flight_count++] = f;
  }
  sim_count(OWN_PUBLISHED, 1);
}

void client_subscribe(struct client *c, enum kind kind) {
  struct want *w = &c->want[kind];
  if (c->stage == STAGE_UP && w->used && w->state <= WANT_ON && w->state != WANT_ASKED &&
      OUT_LEN - c->out_len > 4096) {
    w->packet_id = fresh_id(c);
    w->state = w->state == WANT_ON ? WANT_ON : WANT_ASKED;
    w->was = true;
    model_subscribing(c, kind);
    put_subscribe(c, w->packet_id, kind);
  }
}

void client_unsubscribe(struct client *c, enum kind kind) {
  struct want *w = &c->want[kind];
  if (c->stage == STAGE_UP && w->state == WANT_ON && OUT_LEN - c->out_len > 4096) {
    w->packet_id = fresh_id(c);
    w->state = WANT_LEAVING;
    model_unsubscribed(c, kind);
    put_unsubscribe(c, w->packet_id, kind);
  }
}

void client_ping(struct client *c) {
  if (c->stage == STAGE_UP && OUT_LEN - c->out_len > 4096) {
    put_ping(c);
    c->ping_ns = sim_now_ns();
  }
}

void client_disconnect(struct client *c) {
  if (c->stage == STAGE_UP && c->line != NULL) {
    put_disconnect(c);
    c->leaving = true;
  }
}

static void resume(struct client *c) {
  for (u32 i = 0; i < c->flight_count; i++) {
    struct flight *f = &c->flight[i];
    if (f->state == FLIGHT_PUBCOMP) {
      put_ack(c, 6, f->packet_id);
    } else {
      model_resent(c, f->kind, f->number);
      put_publish(c, f, f->state == FLIGHT_PUBACK ? 1 : 2, true);
    }
  }
}

static void on_connack(struct client *c, const struct incoming *m) {
  if (m->reason != 0) {
    sim_fail("client %u: CONNACK %u", c->number, m->reason);
  }
  if (m->session_present && c->clean) {
    sim_fail("O4: client %u: clean start and session present", c->number);
  }
  if (c->session && !m->session_present && !c->clean) {
    sim_fail("O4: client %u: its persistent session is gone", c->number);
  }
  if (m->session_present) {
    sim_count(OWN_RESUMED, 1);
  } else {
    model_session_gone(c);
  }
  c->must_clean = c->clean = false;
  c->session = c->persistent;
  c->stage = STAGE_UP;
  c->next_ns = sim_now_ns() + draw(20) * SIM_MS;
  resume(c);
}

static void on_ack(struct client *c, const struct incoming *m) {
  u32 index;
  struct flight *f = flight_of(c, m->packet_id, &index);
  if (m->type == 5 && f == NULL) {
    return;  // PUBREC again after PUBCOMP cannot be on one connection, after a resumption it can
  }
  if (f == NULL) {
    sim_fail("client %u: packet type %u for packet identifier %u, which is not in flight",
             c->number, m->type, m->packet_id);
  }
  if (m->reason >= 0x80 && m->reason != 0x92) {
    sim_fail("client %u: acknowledgement with reason 0x%x", c->number, m->reason);
  }
  if (m->type == 4 && f->state == FLIGHT_PUBACK) {
    model_acked(c, f->kind, f->number);
    flight_remove(c, index);
  } else if (m->type == 5 && f->state != FLIGHT_PUBACK) {
    if (f->state == FLIGHT_PUBREC) {
      model_acked(c, f->kind, f->number);
    }
    f->state = FLIGHT_PUBCOMP;
    put_ack(c, 6, f->packet_id);
  } else if (m->type == 7 && f->state == FLIGHT_PUBCOMP) {
    flight_remove(c, index);
  } else {
    sim_fail("client %u: packet type %u in state %d of packet identifier %u", c->number, m->type,
             f->state, m->packet_id);
  }
}

static void on_publish(struct client *c, const struct incoming *m) {
  u32 qos = m->flags >> 1 & 3;
  u8 *taken = &c->taken[m->packet_id / 8];
  u8 bit = (u8)(1u << m->packet_id % 8);
  bool again = (m->flags & 8) != 0;
  sim_count(OWN_DELIVERED, 1);
  if (qos == 3 || (qos > 0 && m->packet_id == 0)) {
    sim_fail("client %u: PUBLISH with QoS %u, packet identifier %u", c->number, qos, m->packet_id);
  }
  if (qos == 2 && (*taken & bit) != 0) {
    if (!again) {
      sim_fail("client %u: packet identifier %u is in use and came without DUP", c->number,
               m->packet_id);
    }
    sim_count(OWN_REPEATED, 1);
    put_ack(c, 5, m->packet_id);
    return;
  }
  model_arrived(c, m, again);
  if (qos == 1) {
    put_ack(c, 4, m->packet_id);
  } else if (qos == 2) {
    *taken |= bit;
    put_ack(c, 5, m->packet_id);
  }
}

static void on_suback(struct client *c, const struct incoming *m) {
  for (u32 k = 0; k < KINDS; k++) {
    struct want *w = &c->want[k];
    if (w->packet_id != m->packet_id || w->state == WANT_NONE) {
      continue;
    }
    if (m->type == 11) {
      w->state = WANT_NONE;
      return;
    }
    if (m->reason != w->qos) {
      sim_fail("client %u: SUBACK %u for QoS %u", c->number, m->reason, w->qos);
    }
    if (w->state == WANT_ASKED) {
      w->state = WANT_ON;
      model_subscribed(c, k);
    }
    return;
  }
}

static void on_packet(struct client *c, const u8 *p, u32 len) {
  struct incoming m;
  packet_parse(c, p, len, &m);
  if ((m.type == 2) != (c->stage == STAGE_CONNACK)) {
    sim_fail("client %u: packet type %u in stage %d", c->number, m.type, c->stage);
  }
  switch (m.type) {
  case 2: on_connack(c, &m); break;
  case 3: on_publish(c, &m); break;
  case 6:
    c->taken[m.packet_id / 8] &= (u8) ~(1u << m.packet_id % 8);
    put_ack(c, 7, m.packet_id);
    break;
  case 9:
  case 11: on_suback(c, &m); break;
  case 13: break;
  case 14:
    if (m.reason != 0x8d && !c->leaving) {  // keep-alive: check_end judges when
      sim_fail("client %u: DISCONNECT with reason 0x%x", c->number, m.reason);
    }
    break;
  default: on_ack(c, &m);
  }
}

// Some bytes of the broker's stream behind c->in; 0: none.
static u32 take_bytes(struct client *c) {
  struct tcp_conn *conn = c->line->conn;
  // Answers need room in `out`: without it nothing more is read.
  if (OUT_LEN - c->out_len < 2 * PAYLOAD_MAX || IN_LEN - c->in_len < TLS_RECORD_CONTENT_MAX) {
    return 0;
  }
  if (c->sealed) {
    u32 n = U32_MAX;
    while (n == U32_MAX) {
      n = tls_read(c, c->in + c->in_len);
    }
    return n;
  }
  u32 n = tcp_peek_copy(conn, 0, span_of(c->in + c->in_len, 8192));
  if (n > 0) {
    tcp_consume(conn, n);
  }
  return n;
}

void client_read(struct client *c) {
  struct line *l = c->line;
  for (u32 n = 1; n > 0 && c->line == l && l->conn != NULL;) {
    n = take_bytes(c);
    c->in_len = c->session_boot == sim_boots() ? c->in_len + n : 0;  // else: before the cut
    u32 at = 0;
    for (u32 len; (len = packet_whole(c->in + at, c->in_len - at)) != 0; at += len) {
      on_packet(c, c->in + at, len);
    }
    c->in_len -= at;
    memmove(c->in, c->in + at, c->in_len);
  }
  client_flush(c);
}
