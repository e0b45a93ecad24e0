// SPDX-License-Identifier: Apache-2.0
// Life of a connection: made, timed, ended.
#include "server/conn.h"

#include "base/fmt.h"
#include "server/bridge_inner.h"

#define HELLO_TIMEOUT_NS (10 * SEC_NS)
#define TICK_NS (5 * MS_NS)

static bool wants_front(const struct server_listener *from) {
  return from->config.websockets || from->config.proxy != 0;
}

struct conn *conn_new(const struct server_listener *from, struct tcp_conn *tcp) {
  struct server *s = from->server;
  struct front *front = wants_front(from) ? pool_take(&s->fronts) : NULL;
  struct conn *c = wants_front(from) && front == NULL ? NULL : pool_take(&s->conns);
  if (c == NULL) {
    if (front != NULL) {
      pool_put(&s->fronts, front);
    }
    return NULL;
  }
  c->timer = wheel_take(&s->core->wheel, TIMER_CONN, c);
  if (c->timer == WHEEL_NONE) {
    if (front != NULL) {
      pool_put(&s->fronts, front);
    }
    pool_put(&s->conns, c);
    return NULL;
  }
  list_init(&c->work);
  list_init(&c->out);
  c->from = from;
  c->packet_max = U16_MAX;
  c->server = s;
  c->front = front;
  if (front != NULL) {
    front->request_due = from->config.websockets;
  }
  c->tcp = tcp;
  c->tls_due = from->config.tls != NULL;
  c->state = c->tls_due ? CONN_HANDSHAKE : CONN_CONNECT;
  c->state = from->config.proxy != 0 ? CONN_PROXY : c->state;
  c->last_in_ns = s->core->now_ns;
  c->armed_ns = U64_MAX;
  c->deadline_ns = s->core->now_ns + s->limits.connect_timeout_ms * MS_NS;
  conn_arm(c);
  ((struct server_listener *)from)->connections++;
  s->stats.connections++;
  s->stats.accepted++;
  return c;
}

void conn_want_input(struct conn *c) {
  if (c->state == CONN_ENDING) {
    return;
  }
  if (list_linked(&c->work)) {
    return;
  }
  if (c->state != CONN_HANDSHAKE) {  // a PROXY header is cheap
    list_push(&c->server->input, &c->work);
    return;
  }
  c->last_in_ns = c->server->core->now_ns;  // no keep-alive yet: how long it waits for us
  if (c->heavy == NULL && conn_handshake_ready(c)) {
    tcp_begin(c->tcp);
  }
  if (c->heavy != NULL) {  // before those who wait for an arena: this one will free its own
    list_push_front(&c->server->handshakes, &c->work);
  } else {
    list_push(&c->server->handshakes, &c->work);
  }
}

void conn_want_output(struct conn *c) {
  if (c->state != CONN_ENDING && !list_linked(&c->out)) {
    list_push(&c->server->output, &c->out);
    c->server->output_wakes++;
  }
}

void conn_block(struct conn *c) {
  if (c->state == CONN_ENDING) {
    return;
  }
  list_remove(&c->work);
  list_push(&c->server->blocked, &c->work);
  server_tick_soon(c->server);
}

void server_tick_soon(struct server *s) {
  if (!s->tick_armed) {
    s->tick_armed = true;
    wheel_arm(&s->core->wheel, s->tick_timer, s->core->now_ns + TICK_NS);
  }
}

void conn_farewell(const struct conn *c, enum mqtt_reason reason, struct mqtt_prop_out list[3]) {
  struct bytes elsewhere = c->from->config.server_reference;
  bool move = reason == MQTT_USE_ANOTHER_SERVER || reason == MQTT_SERVER_MOVED;
  u32 n = 0;
  list[n++] = (struct mqtt_prop_out){.id = MQTT_P_REASON_STRING,
                                     .text = bytes_str(mqtt_reason_name(reason))};
  if (move && elsewhere.len > 0) {  // 4.11
    list[n++] = (struct mqtt_prop_out){.id = MQTT_P_SERVER_REFERENCE, .text = elsewhere};
  }
  list[n].id = 0;
}

static void release_exchange(struct conn *c) {
  if (c->state == CONN_LOGIN) {
    login_cancel(c);
  }
  if (c->authing) {
    auth_drop(c);
  }
  if (c->state == CONN_CLAIM) {
    broker_forget(c->server->core->broker, c);
  }
}

// [MQTT-3.14.4-1] [MQTT-3.14.4-2] [MQTT-4.13.1-1] [MQTT-4.13.2-1]
void conn_end(struct conn *c, enum mqtt_reason reason) {
  if (c->state == CONN_ENDING) {
    return;
  }
  if (c->state == CONN_LOGIN || c->state == CONN_AUTH || c->state == CONN_TARPIT ||
      c->state == CONN_CLAIM) {
    reason = MQTT_SUCCESS;  // no DISCONNECT of ours before a good CONNACK
  }
  release_exchange(c);
  if (c->state == CONN_OPEN) {
    const char *why = c->tcp == NULL ? "connection lost" : "disconnected";
    server_log_connection(c, reason == MQTT_SUCCESS ? why : mqtt_reason_name(reason));
  }
  list_remove(&c->work);
  list_remove(&c->out);
  list_push(&c->server->ending, &c->work);
  c->state = CONN_ENDING;
  c->reason = (u8)reason;
}

static void release_buffers(struct conn *c) {
  struct server *s = c->server;
  if (c->heavy != NULL) {
    if (c->heavy->handshake != NULL) {
      tls_handshake_abort(c->heavy->handshake);
    }
    pool_put(&s->heavies, c->heavy);
  }
  if (c->name != NULL) {
    if (c->name->held != NULL) {
      txbuf_unref(s->core->net, c->name->held);
    }
    pool_put(&s->names, c->name);
  }
  if (c->record != NULL) {
    mem_wipe(c->record, TLS_RECORD_MAX);
    pool_put(&s->record_buffers, c->record);
  }
  if (c->packet != NULL) {
    extent_put(&s->packets, c->packet, c->packet_len);
  }
  if (c->front != NULL) {
    pool_put(&s->fronts, c->front);
  }
  if (c->tls != NULL) {
    tls_record_fini(c->tls, s->ciphers);
    pool_put(&s->records, c->tls);
  }
}

void conn_free(struct conn *c) {
  struct server *s = c->server;
  if (c->state == CONN_OPEN) {
    server_log_connection(c, "connection lost");
  }
  if (c->session != NULL) {
    struct session *session = c->session;
    c->session = NULL;
    broker_detach(session, s->core->now_ns);
  }
  release_exchange(c);
  list_remove(&c->work);
  list_remove(&c->out);
  if (bridge_is(c)) {
    bridge_gone(c);
  }
  release_buffers(c);
  wheel_put(&s->core->wheel, c->timer);
  struct server_listener *from = (struct server_listener *)c->from;
  ASSERT(from->connections > 0);
  ASSERT(s->stats.connections > 0);
  from->connections--;
  s->stats.connections--;
  pool_put(&s->conns, c);
}

// [MQTT-3.1.2-24]: one and a half times the keep-alive without a packet.
// [MQTT-3.1.2-22]
static u64 keep_alive_ns(const struct conn *c) {
  return c->keep_alive_s == 0 ? U64_MAX : c->last_in_ns + c->keep_alive_s * SEC_NS * 3 / 2;
}

void conn_arm(struct conn *c) {
  u64 next = MIN(c->deadline_ns, c->authing ? c->auth->deadline_ns : U64_MAX);
  next = MIN(next, c->paused ? broker_publish_at(c->session) : keep_alive_ns(c));
  if (next < c->armed_ns) {  // a later one is found when the timer fires
    c->armed_ns = next;
    wheel_arm(&c->server->core->wheel, c->timer, next);
  }
}

static void on_deadline(struct conn *c) {
  struct server *s = c->server;
  c->deadline_ns = U64_MAX;
  if (c->state == CONN_OPEN) {  // it has waited for memory for too long
    conn_end(c, MQTT_QUOTA_EXCEEDED);
    return;
  }
  if (c->state == CONN_TARPIT) {
    conn_tarpit_over(c);
    return;
  }
  s->stats.connect_timeouts++;
  server_log(s, c,
             c->state == CONN_LOGIN ? "its password could not be checked in time: too many logins"
                                    : "no CONNECT in time",
             bytes_of(NULL, 0));
  conn_end(c, MQTT_SUCCESS);
}

static void on_tick(struct server *s) {
  s->tick_armed = false;
  for (struct link *l = list_pop(&s->blocked); l != NULL; l = list_pop(&s->blocked)) {
    struct conn *c = CONTAINER_OF(l, struct conn, work);
    c->last_in_ns = s->core->now_ns;  // it is we who are late
    conn_want_input(c);
  }
}

void conn_on_timer(struct core *core, u32 timer, void *owner) {
  if (owner == core->server) {
    on_tick(core->server);
    return;
  }
  struct conn *c = owner;
  ASSERT(c->timer == timer);
  c->armed_ns = U64_MAX;
  if (c->state == CONN_ENDING) {
    return;
  }
  if (c->paused && core->now_ns >= broker_publish_at(c->session)) {
    c->last_in_ns = core->now_ns;  // it is we who did not read
    conn_want_input(c);
    conn_arm(c);
  } else if (core->now_ns >= c->deadline_ns) {
    on_deadline(c);
  } else if (c->authing && core->now_ns >= c->auth->deadline_ns) {
    auth_late(c);
  } else if (!c->paused && core->now_ns >= keep_alive_ns(c)) {
    core->server->stats.keepalive_timeouts++;
    conn_end(c, MQTT_KEEP_ALIVE_TIMEOUT);
  } else {
    conn_arm(c);
  }
}

struct ip_addr conn_prefix(const struct conn *c) {
  struct tcp_peer p = {.address = IP_NONE};
  if (c->front != NULL && c->front->peer_known) {
    p.address = c->front->peer;
  } else if (c->tcp != NULL) {
    tcp_peer(c->tcp, &p);
  }
  return ip_network(p.address);
}
