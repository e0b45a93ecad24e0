// SPDX-License-Identifier: Apache-2.0
// Keywords of a bridge: `connection NAME` begins one, what follows is its own. Parsed and checked
// here.
#include "admin/keyword.h"

#define KEEPALIVE_S 60u
#define DEFAULT_PORT 1883u

static struct config_bridge *bridge_of(struct parser *p) {
  ASSERT(p->config->bridge_count > 0);
  return &p->config->bridge[p->config->bridge_count - 1];
}

static void on_connection(struct parser *p, void *field) {
  struct config *c = p->config;
  struct bytes name = value_of(p);
  char buf[64];
  (void)field;
  if (name.len == 0) {
    problem(p, CONFIG_ERROR, "connection wants a name");
    return;
  }
  for (u32 i = 0; i < c->bridge_count; i++) {
    if (bytes_equal(c->bridge[i].name, name)) {
      problem(p, CONFIG_ERROR, "there is a connection \"%s\" already (line %u)", shown(name, buf),
              c->bridge[i].line);
      return;
    }
  }
  if (c->bridge_count == CONFIG_BRIDGES_MAX) {
    problem(p, CONFIG_ERROR, "more than %u connections", CONFIG_BRIDGES_MAX);
    return;
  }
  c->bridge[c->bridge_count++] = (struct config_bridge){.name = name,
                                                        .line = p->line.number,
                                                        .protocol_version = 4,
                                                        .try_private = true,
                                                        .notifications = true,
                                                        .attempt_unsubscribe = true,
                                                        .outgoing_retain = true,
                                                        .keepalive_interval_s = KEEPALIVE_S,
                                                        .idle_timeout_s = 60,
                                                        .threshold = 10,
                                                        .max_topic_alias = 10,
                                                        .receive_maximum = 20,
                                                        .restart_base_s = 5,
                                                        .restart_cap_s = 30};
}

// Name servers, for bridges to hosts that have a name: `dns 192.0.2.53 192.0.2.54`.
static void on_dns(struct parser *p, void *field) {
  struct config *c = p->config;
  struct bytes rest = value_of(p);
  char buf[64];
  (void)field;
  c->dns_count = 0;
  for (struct bytes word = next_word(&rest); word.len > 0; word = next_word(&rest)) {
    if (c->dns_count == CONFIG_DNS_MAX || !ip_parse(word, &c->dns[c->dns_count])) {
      problem(p, CONFIG_ERROR,
              "dns wants at most %u addresses like 192.0.2.53 or 2001:db8::53, not \"%s\"",
              CONFIG_DNS_MAX, shown(word, buf));
      return;
    }
    c->dns_count++;
  }
}

// HOST, HOST:PORT or [IPV6]:PORT; an IPv6 address without a port may stand without brackets.
static bool take_host(struct bytes word, struct bytes *host, u16 *port) {
  struct ip_addr v6;
  bool bracket = word.len > 0 && word.ptr[0] == '[';
  struct bytes inner = bracket ? bytes_skip(word, 1) : word;
  usize end = bracket ? bytes_find(inner, ']') : bytes_find(inner, ':');
  u64 number = DEFAULT_PORT;
  *port = DEFAULT_PORT;
  if (!bracket && ip_parse6(word, &v6)) {
    *host = word;
    return true;
  }
  *host = bytes_sub(inner, 0, end);
  struct bytes rest = bytes_skip(inner, MIN(end + (bracket ? 1 : 0), inner.len));
  if (end == 0 || (bracket && (end == inner.len || !ip_parse6(*host, &v6)))) {
    return false;
  }
  if (rest.len > 0 &&
      (rest.ptr[0] != ':' || bytes_to_u64(bytes_skip(rest, 1), 65535, &number) != ERR_OK ||
       number == 0)) {
    return false;
  }
  *port = (u16)number;
  return true;
}

// Several of them with spaces in between.
static void on_address(struct parser *p, void *field) {
  struct config_bridge *b = bridge_of(p);
  struct bytes rest = value_of(p);
  char buf[64];
  (void)field;
  for (struct bytes word = next_word(&rest); word.len > 0; word = next_word(&rest)) {
    struct bytes host;
    u16 port;
    if (!take_host(word, &host, &port) || b->address_count == CONFIG_BRIDGE_ADDRESSES_MAX) {
      problem(p, CONFIG_ERROR, "%s wants HOST or HOST:PORT, at most %u of them, not \"%s\"",
              p->k->name, CONFIG_BRIDGE_ADDRESSES_MAX, shown(word, buf));
      b->address_count = MAX(b->address_count, 1u);  // one mistake, one error
      return;
    }
    b->address[b->address_count].host = host;
    b->address[b->address_count++].port = port;
  }
  if (b->address_count == 0) {
    problem(p, CONFIG_ERROR, "%s wants HOST or HOST:PORT", p->k->name);
  }
}

// The marker for no prefix.
static struct bytes prefix_of(struct bytes word) {
  return bytes_equal_str(word, "\"\"") ? bytes_of(NULL, 0) : word;
}

// topic PATTERN [out|in|both [QOS [LOCAL-PREFIX [REMOTE-PREFIX]]]]
static void on_topic(struct parser *p, void *field) {
  struct config *c = p->config;
  struct config_bridge_topic t = {.bridge = c->bridge_count - 1, .direction = BRIDGE_OUT};
  struct bytes rest = value_of(p);
  struct bytes pattern = next_word(&rest);
  struct bytes direction = next_word(&rest);
  struct bytes qos = next_word(&rest);
  u64 number = 0;
  char buf[64];
  (void)field;
  t.pattern = prefix_of(pattern);
  t.local_prefix = prefix_of(next_word(&rest));
  t.remote_prefix = prefix_of(next_word(&rest));
  if (bytes_equal_str(direction, "in")) {
    t.direction = BRIDGE_IN;
  } else if (bytes_equal_str(direction, "both")) {
    t.direction = BRIDGE_BOTH;
  } else if (direction.len > 0 && !bytes_equal_str(direction, "out")) {
    problem(p, CONFIG_ERROR, "topic wants in, out or both behind its pattern, not \"%s\"",
            shown(direction, buf));
    return;
  }
  if (qos.len > 0 && bytes_to_u64(qos, 2, &number) != ERR_OK) {
    problem(p, CONFIG_ERROR, "topic wants a QoS from 0 to 2, not \"%s\"", shown(qos, buf));
    return;
  }
  t.qos = (u8)number;
  if (pattern.len == 0 ||
      (t.pattern.len == 0 && (t.local_prefix.len == 0 || t.remote_prefix.len == 0))) {
    problem(p, CONFIG_ERROR, "topic wants a pattern; an empty one (\"\") wants both prefixes");
    return;
  }
  if (c->bridge_topic_count == CONFIG_BRIDGE_TOPICS_MAX) {
    problem(p, CONFIG_ERROR, "more than %u topic lines", CONFIG_BRIDGE_TOPICS_MAX);
    return;
  }
  c->bridge_topic[c->bridge_topic_count++] = t;
}

// restart_timeout BASE [CAP [STABLE]]; with BASE alone it is fixed.
static void on_restart(struct parser *p, void *field) {
  struct config_bridge *b = bridge_of(p);
  struct bytes rest = value_of(p);
  u64 v[3] = {0};
  u32 count = 0;
  char buf[64];
  (void)field;
  for (struct bytes word = next_word(&rest); word.len > 0; word = next_word(&rest)) {
    if (count == ARRAY_COUNT(v) || bytes_to_u64(word, 86400, &v[count]) != ERR_OK ||
        v[count] == 0) {
      problem(p, CONFIG_ERROR, "%s wants seconds: BASE [CAP [STABLE]], not \"%s\"", p->k->name,
              shown(word, buf));
      return;
    }
    count++;
  }
  if (count == 0 || (count > 1 && v[1] < v[0])) {
    problem(p, CONFIG_ERROR, "%s wants seconds: BASE [CAP [STABLE]], CAP not below BASE",
            p->k->name);
    return;
  }
  b->restart_base_s = (u32)v[0];
  b->restart_cap_s = (u32)(count > 1 ? v[1] : v[0]);
  b->restart_stable_s = (u32)v[2];
}

// u8: the place of the value in a list of words.
static void take_word(struct parser *p, void *field, const char *const *words, const u8 *values,
                      u32 count) {
  char buf[64];
  for (u32 i = 0; i < count; i++) {
    if (bytes_equal_str(value_of(p), words[i])) {
      *(u8 *)field = values[i];
      return;
    }
  }
  problem(p, CONFIG_ERROR, "%s does not know \"%s\"", p->k->name, shown(value_of(p), buf));
}

static void on_start(struct parser *p, void *field) {
  static const char *const words[] = {"automatic", "lazy", "once"};
  static const u8 values[] = {0, 1, 2};
  take_word(p, field, words, values, ARRAY_COUNT(words));
}

static void on_version(struct parser *p, void *field) {
  static const char *const words[] = {"mqttv31", "mqttv311", "mqttv50"};
  static const u8 values[] = {3, 4, 5};
  take_word(p, field, words, values, ARRAY_COUNT(words));
}

#define OWN_TLS "urMQTT speaks TLS 1.3 with its own choice of ciphers"
#define OWN_TCP "TCP has its own timers here"
#define AT(field, function) BY(SCOPE_BRIDGE, struct config_bridge, field, function)

const struct keyword keywords_bridge[] = {
    {"connection", .take = on_connection},
    {"dns", .take = on_dns},
    {"address", AT(address, on_address)},
    {"addresses", AT(address, on_address)},
    {"topic", AT(name, on_topic)},
    {"restart_timeout", AT(restart_base_s, on_restart)},
    {"start_type", AT(start_type, on_start)},
    {"bridge_protocol_version", AT(protocol_version, on_version)},
    {"local_cleansession", AT(local_cleansession, take_choice)},
    {"cleansession", IN_BRIDGE(cleansession)},
    {"clientid", IN_BRIDGE(remote_clientid)},
    {"remote_clientid", IN_BRIDGE(remote_clientid)},
    {"username", IN_BRIDGE(remote_username)},
    {"remote_username", IN_BRIDGE(remote_username)},
    {"password", IN_BRIDGE(remote_password)},
    {"remote_password", IN_BRIDGE(remote_password)},
    {"local_clientid", IN_BRIDGE(local_clientid)},
    {"local_username", IN_BRIDGE(local_username)},
    {"local_password", IN_BRIDGE(local_password)},
    {"keepalive_interval", IN_BRIDGE(keepalive_interval_s), .least = 5, .most = 65535},
    {"idle_timeout", IN_BRIDGE(idle_timeout_s), .least = 1, .most = 86400},
    {"threshold", IN_BRIDGE(threshold), .least = 1, .most = 1000000},
    {"notifications", IN_BRIDGE(notifications)},
    {"notifications_local_only", IN_BRIDGE(notifications_local_only)},
    {"notification_topic", IN_BRIDGE(notification_topic)},
    {"round_robin", IN_BRIDGE(round_robin)},
    {"try_private", IN_BRIDGE(try_private)},
    {"bridge_alpn", IN_BRIDGE(alpn)},
    {"bridge_attempt_unsubscribe", IN_BRIDGE(attempt_unsubscribe)},
    {"bridge_bind_address", IN_BRIDGE(bind_address)},
    {"bridge_cafile", IN_BRIDGE(cafile)},
    {"bridge_capath", IN_BRIDGE(capath)},
    {"bridge_certfile", IN_BRIDGE(certfile)},
    {"bridge_keyfile", IN_BRIDGE(keyfile)},
    {"bridge_identity", IN_BRIDGE(identity)},
    {"bridge_psk", IN_BRIDGE(psk)},
    {"bridge_insecure", IN_BRIDGE(insecure)},
    {"bridge_max_packet_size", IN_BRIDGE(max_packet_size), .most = 268435455},
    {"bridge_max_topic_alias", IN_BRIDGE(max_topic_alias), .most = 65535},
    {"bridge_outgoing_retain", IN_BRIDGE(outgoing_retain)},
    {"bridge_receive_maximum", IN_BRIDGE(receive_maximum), .least = 1, .most = 65535},
    {"bridge_session_expiry_interval", IN_BRIDGE(session_expiry_interval_s)},
    {"bridge_tls_use_os_certs", IN_BRIDGE(tls_use_os_certs)},
    {"bridge_reload_type", .fate = FATE_MAPPED, .why = "reload leaves a working bridge alone"},
    {"bridge_tls_version", .fate = FATE_IGNORED, .why = OWN_TLS},
    {"bridge_ciphers", .fate = FATE_IGNORED, .why = OWN_TLS},
    {"bridge_ciphers_tls1.3", .fate = FATE_IGNORED, .why = OWN_TLS},
    {"bridge_tcp_keepalive", .fate = FATE_IGNORED, .why = OWN_TCP},
    {"bridge_tcp_user_timeout", .fate = FATE_IGNORED, .why = OWN_TCP},
    {"bridge_require_ocsp", .fate = FATE_REFUSED,
     .why = "a revoked certificate of the other side would be taken"},
    {.name = NULL},
};
