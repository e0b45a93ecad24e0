// SPDX-License-Identifier: Apache-2.0
// A bridge's life: wait, find the address, open, be up, lose it, wait longer.
//
//   OFF -> WAITING -> RESOLVING -> OPENING -> UP -> WAITING ...
//
// L1  Whatever ends an attempt or a connection goes through bridge_lost, once.
// L2  One timer a bridge: the wait in WAITING, a tick of one second in UP.
#include "server/bridge.h"

#include "mqtt/topic.h"
#include "net/dns.h"
#include "server/bridge_inner.h"

#define TEXTS 7u  // of a bridge, see keep_texts

struct bridges {
  struct bridge *list;
  u32 count, max;
  struct bridge_rule *rules;
  u32 rule_count, rule_max;
  struct span text;  // the configuration's texts, and filters put together
  u32 text_used;
};

bool bridge_is(const struct conn *c) {
  return c->from->bridge != NULL;
}
struct bridge *bridge_of(const struct conn *c) {
  ASSERT(c->from->bridge != NULL);
  return c->from->bridge;
}

static void arm(struct bridge *b, u64 after_ns) {
  wheel_arm(&b->server->core->wheel, b->timer, b->server->core->now_ns + after_ns);
}

static void say(struct bridge *b, const char *what, struct bytes detail) {
  char text[160];
  struct writer w = writer_init(span_of(text, sizeof text - 1));
  write_str(&w, "bridge ");
  write_bytes(&w, bytes_sub(b->config.name, 0, MIN(b->config.name.len, (usize)60)));
  write_str(&w, ": ");
  write_str(&w, what);
  text[w.pos] = 0;
  server_log(b->server, NULL, text, detail);
}

// --- waiting

// Between base and three times the last wait, at most cap: many bridges that lost one broker do not
// come back at once.
static u32 next_wait_s(struct bridge *b) {
  u32 base = MAX(b->config.restart_base_s, 1u);
  u32 cap = MAX(b->config.restart_cap_s, base);
  u32 most = MIN(MAX(b->wait_s, base) * 3, cap);
  u32 random = 0;
  (void)plat_random(span_of(&random, sizeof random));
  b->wait_s = base + (most > base ? random % (most - base + 1) : 0);
  return b->wait_s;
}

void bridge_lost(struct bridge *b, const char *why) {
  b->last = why;
  b->tcp = NULL;
  b->conn = NULL;
  b->attempts++;
  say(b, why, bytes_of(NULL, 0));
  bool again = b->config.start != BRIDGE_ONCE;
  b->phase = again ? BRIDGE_WAITING : BRIDGE_OFF;
  if (b->attempts > 1 || b->config.round_robin) {
    b->address_idx = (b->address_idx + 1) % b->config.address_count;
  }
  if (again) {
    arm(b, next_wait_s(b) * SEC_NS);
  }
}

// --- opening

static void on_opened(void *user, struct tcp_conn *tcp) {
  struct bridge *b = user;
  ASSERT(b->tcp == tcp);
  struct conn *c = conn_new(&b->from, tcp);
  if (c == NULL) {
    tcp_abort(tcp);
    bridge_lost(b, "no connection is free");
    return;
  }
  b->conn = c;
  b->tcp = NULL;
  tcp_set_owner(tcp, &conn_tcp_ops, c);
  tcp_keepalive(tcp, true);
  if (c->tls_due) {
    conn_want_input(c);  // the handshake begins with us
  } else {
    bridge_open(c);
  }
}

static void on_early_end(void *user, struct tcp_conn *tcp, enum tcp_end why) {
  (void)tcp;
  bridge_lost(user, why == TCP_END_TIMEOUT ? "no answer" : "the connection was refused");
}

static void never(void *user, struct tcp_conn *tcp) {
  (void)user, (void)tcp;
}

static const struct tcp_listener_ops opening = {
    .readable = never, .writable = never, .ended = on_early_end, .opened = on_opened};

static void open_to(struct bridge *b, struct ip_addr address) {
  u16 port = b->config.address[b->address_idx].port;
  b->phase = BRIDGE_OPENING;
  enum err e = tcp_connect(b->server->core->net, address, port, &opening, b, &b->tcp);
  if (e != ERR_OK) {
    bridge_lost(b, e == ERR_NOT_FOUND ? "there is no route to that address" : "no memory to open");
  }
}

static void on_name(void *user, enum dns_result result, const struct dns_answer *answer) {
  struct bridge *b = user;
  ASSERT(b->phase == BRIDGE_RESOLVING);
  if (result != DNS_FOUND) {
    bridge_lost(b, dns_result_text(result));
    return;
  }
  open_to(b, answer->address[b->attempts % answer->count]);
}

static void attempt(struct bridge *b) {
  struct bytes host = b->config.address[b->address_idx].host;
  struct ip_addr address;
  if (ip_parse(host, &address)) {
    open_to(b, address);
    return;
  }
  b->phase = BRIDGE_RESOLVING;
  enum err e = dns_ask(b->server->core->net, host, on_name, b);
  if (e != ERR_OK) {
    bridge_lost(b, e == ERR_NOT_FOUND ? "no name server is known" : "the host is not a name");
  }
}

// --- up

struct tls_handshake *bridge_handshake(struct conn *c, struct span arena,
                                       const struct tls_time *now) {
  const struct bridge *b = bridge_of(c);
  return tls_handshake_begin_client(c->from->config.tls, arena, now,
                                    b->config.address[b->address_idx].host, b->config.any_name);
}

void bridge_open(struct conn *c) {
  struct bridge *b = bridge_of(c);
  c->state = CONN_CONNECT;
  c->keep_alive_s = b->config.keep_alive_s;
  bridge_out_reset(b);
  if (!bridge_send_connect(b)) {
    conn_end(c, MQTT_SUCCESS);
  }
}

bool bridge_connack(struct bridge *b, const struct mqtt_connack *a) {
  struct conn *c = b->conn;
  if (a->code != 0) {
    bool v5 = b->config.version == 5;
    b->private_refused = !v5 && a->code == 1;  // without the mark next time
    b->last =
        v5 ? mqtt_reason_name((enum mqtt_reason)a->code) : "the other broker refused our CONNECT";
    return false;
  }
  b->remote_receive_max =
      mqtt_has(&a->props, MQTT_P_RECEIVE_MAXIMUM) ? a->props.receive_maximum : U16_MAX;
  b->remote_packet_max =
      mqtt_has(&a->props, MQTT_P_MAXIMUM_PACKET_SIZE) ? a->props.maximum_packet_size : 0;
  b->qos_max = mqtt_has(&a->props, MQTT_P_MAXIMUM_QOS) ? a->props.maximum_qos : 2;
  if (!bridge_local_open(b, c, b->config.local_clean) || !bridge_remote_subscribe(b)) {
    return false;
  }
  b->session = c->session;
  c->state = CONN_OPEN;
  c->version = MQTT_V4;  // no reason codes of ours travel in DISCONNECT
  c->deadline_ns = U64_MAX;
  c->last_in_ns = b->server->core->now_ns;
  conn_arm(c);
  conn_want_output(c);
  b->phase = BRIDGE_UP;
  b->attempts = b->wait_s = b->idle_s = 0;
  b->last = "";
  b->ping_ns = b->server->core->now_ns + b->config.keep_alive_s * SEC_NS;
  say(b, "connected", b->config.address[b->address_idx].host);
  bridge_notify_local(b, true);
  arm(b, SEC_NS);
  return true;
}

void bridge_gone(struct conn *c) {
  struct bridge *b = bridge_of(c);
  if (b->conn != c) {
    return;  // it was only there to make the local session
  }
  bool was_up = b->phase == BRIDGE_UP;
  bridge_out_reset(b);
  b->session = NULL;
  const char *why = b->last != NULL && b->last[0] != 0 ? b->last : "the connection ended";
  bridge_lost(b, b->server->draining ? "stopped" : why);
  if (was_up) {
    bridge_notify_local(b, false);
  }
  if (b->server->draining) {
    b->phase = BRIDGE_OFF;
    wheel_cancel(&b->server->core->wheel, b->timer);
  }
}

static u32 waiting(const struct bridge *b) {
  struct broker_session_info info;
  const struct session *s = broker_session(b->server->core->broker, b->config.local_client_id);
  if (s == NULL) {
    return 0;
  }
  broker_session_info(s, &info);
  return info.queued + info.inflight;
}

static void tick(struct bridge *b) {
  u64 now = b->server->core->now_ns;
  arm(b, SEC_NS);
  if (now >= b->ping_ns && b->config.keep_alive_s > 0) {
    static const u8 ping[2] = {0xc0, 0};
    if (bridge_say(b, bytes_of(ping, sizeof ping))) {
      b->ping_ns = now + b->config.keep_alive_s * SEC_NS;
    }
  }
  conn_want_output(b->conn);  // a packet may have waited for memory
  if (b->config.start != BRIDGE_LAZY) {
    return;
  }
  b->idle_s = waiting(b) > 0 ? 0 : b->idle_s + 1;
  if (b->idle_s >= b->config.idle_timeout_s) {
    b->last = "idle";
    conn_end(b->conn, MQTT_SUCCESS);
  }
}

static void on_timer(struct core *core, u32 timer, void *owner) {
  struct bridge *b = owner;
  (void)core;
  ASSERT(b->timer == timer);
  if (b->phase == BRIDGE_UP) {
    tick(b);
  } else if (b->phase == BRIDGE_WAITING && !b->server->draining) {
    if (b->config.start == BRIDGE_LAZY && waiting(b) < b->config.threshold) {
      arm(b, SEC_NS);
    } else {
      attempt(b);
    }
  }
}

// --- start

enum err bridges_init(struct core *core, struct carve *carve, u32 count, u32 topics) {
  struct server *s = core->server;
  ASSERT(s->bridges == NULL);
  struct span own = carve_take(carve, sizeof(struct bridges), 64);
  struct span list = carve_take(carve, (usize)count * sizeof(struct bridge), 64);
  struct span rules = carve_take(carve, (usize)topics * sizeof(struct bridge_rule), 64);
  usize texts = (usize)count * (TEXTS * BRIDGE_TEXT_MAX + BRIDGE_ADDRESSES_MAX * DNS_NAME_MAX);
  struct span text = carve_take(carve, texts + (usize)topics * 4 * BRIDGE_TEXT_MAX, 64);
  if (own.ptr == NULL || list.ptr == NULL || rules.ptr == NULL || text.ptr == NULL) {
    return ERR_NO_MEMORY;
  }
  s->bridges = (struct bridges *)(void *)own.ptr;
  *s->bridges = (struct bridges){.list = (struct bridge *)(void *)list.ptr,
                                 .max = count,
                                 .rules = (struct bridge_rule *)(void *)rules.ptr,
                                 .rule_max = topics,
                                 .text = text};
  core->on_timer[TIMER_BRIDGE] = on_timer;
  return ERR_OK;
}

static void keep(struct bridges *all, struct bytes *text) {
  u8 *at = all->text.ptr + all->text_used;
  ASSERT(text->len <= all->text.len - all->text_used);
  if (text->len > 0) {
    memcpy(at, text->ptr, text->len);
  }
  text->ptr = at;
  all->text_used += (u32)text->len;
}

// A reload takes the configuration's own bytes away.
static void keep_texts(struct bridges *all, struct bridge_config *k) {
  struct bytes *texts[TEXTS] = {&k->name,          &k->client_id,          &k->username,
                                &k->password,      &k->notification_topic, &k->local_client_id,
                                &k->local_username};
  for (u32 i = 0; i < TEXTS; i++) {
    keep(all, texts[i]);
  }
  for (u32 i = 0; i < k->address_count; i++) {
    keep(all, &k->address[i].host);
  }
}

// prefix + pattern, kept; a filter or (no pattern) a topic.
static bool put_together(struct bridges *all, struct bytes prefix, struct bytes pattern,
                         struct bytes *out) {
  usize len = prefix.len + pattern.len;
  if (prefix.len > BRIDGE_TEXT_MAX || pattern.len > BRIDGE_TEXT_MAX || len == 0) {
    return false;
  }
  u8 *at = all->text.ptr + all->text_used;
  struct writer w = writer_init(span_of(at, all->text.len - all->text_used));
  write_bytes(&w, prefix);
  write_bytes(&w, pattern);
  ASSERT(w.err == ERR_OK);  // sized for every rule
  all->text_used += w.pos;
  *out = bytes_of(at, w.pos);
  bool plain = prefix.len == 0 || topic_name_valid(prefix);
  return plain && topic_filter_valid(*out);
}

static enum err add_rules(struct bridges *all, struct bridge *b) {
  const struct bridge_config *k = &b->config;
  b->rules = &all->rules[all->rule_count];
  if (k->topic_count > all->rule_max - all->rule_count) {
    return ERR_LIMIT;
  }
  for (u32 i = 0; i < k->topic_count; i++) {
    const struct bridge_topic *t = &k->topics[i];
    struct bridge_rule *r = &b->rules[i];
    *r = (struct bridge_rule){.direction = t->direction, .qos = t->qos};
    if (!put_together(all, t->local_prefix, t->pattern, &r->local) ||
        !put_together(all, t->remote_prefix, t->pattern, &r->remote)) {
      return ERR_RANGE;
    }
    r->local_prefix = bytes_sub(r->local, 0, t->local_prefix.len);
    r->remote_prefix = bytes_sub(r->remote, 0, t->remote_prefix.len);
  }
  b->rule_count = k->topic_count;
  all->rule_count += k->topic_count;
  return ERR_OK;
}

// The local session is there from the start, so that nothing published before the first connection
// is missed.
static bool make_session(struct bridge *b) {
  struct conn *c = conn_new(&b->from, NULL);
  if (c == NULL) {
    return false;
  }
  bool good = bridge_local_open(b, c, false);
  conn_free(c);
  return good;
}

static bool texts_fit(const struct bridge_config *k) {
  const struct bytes texts[] = {k->name,          k->client_id,          k->username,
                                k->password,      k->notification_topic, k->local_client_id,
                                k->local_username};
  for (u32 i = 0; i < ARRAY_COUNT(texts); i++) {
    if (texts[i].len > BRIDGE_TEXT_MAX) {
      return false;
    }
  }
  for (u32 i = 0; i < k->address_count; i++) {
    if (k->address[i].host.len > DNS_NAME_MAX) {
      return false;
    }
  }
  return k->notification_topic.len == 0 || topic_name_valid(k->notification_topic);
}

enum err bridge_add(struct server *s, const struct bridge_config *config) {
  struct bridges *all = s->bridges;
  ASSERT(all != NULL);
  ASSERT(config->address_count > 0);
  ASSERT(config->client_id.len > 0);
  if (all->count == all->max) {
    return ERR_LIMIT;
  }
  if (!texts_fit(config)) {
    return ERR_RANGE;
  }
  struct bridge *b = &all->list[all->count];
  *b = (struct bridge){
      .server = s, .config = *config, .qos_max = 2, .remote_receive_max = U16_MAX, .last = ""};
  TRY(add_rules(all, b));
  keep_texts(all, &b->config);
  b->config.topics = NULL;
  b->timer = wheel_take(&s->core->wheel, TIMER_BRIDGE, b);
  if (b->timer == WHEEL_NONE) {
    return ERR_NO_MEMORY;
  }
  b->from = (struct server_listener){.server = s, .bridge = b};
  b->from.config.tls = config->tls != NULL ? tls_context_ref(config->tls) : NULL;
  if (!config->local_clean && !make_session(b)) {
    wheel_put(&s->core->wheel, b->timer);
    return ERR_NO_MEMORY;
  }
  all->count++;
  bridge_notify_local(b, false);
  b->phase = BRIDGE_WAITING;
  arm(b, SEC_NS / 2);  // addresses come first
  return ERR_OK;
}

bool bridge_state(const struct server *s, u32 index, struct bridge_state *out) {
  if (s->bridges == NULL || index >= s->bridges->count) {
    return false;
  }
  const struct bridge *b = &s->bridges->list[index];
  *out = (struct bridge_state){.name = b->config.name,
                               .connected = b->phase == BRIDGE_UP,
                               .attempts = b->attempts,
                               .last = b->last,
                               .messages_in = b->messages_in,
                               .messages_out = b->messages_out,
                               .dropped = b->dropped};
  return true;
}
