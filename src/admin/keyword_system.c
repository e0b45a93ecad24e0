// SPDX-License-Identifier: Apache-2.0
// Keywords of the machine: its network (ours), and mosquitto's of the process and of logs.
#include "admin/keyword.h"

// `install auto SERIAL [force]` (setup.h).
static void on_install(struct parser *p, void *field) {
  struct bytes rest = value_of(p);
  struct bytes how = next_word(&rest);
  struct bytes serial = next_word(&rest);
  struct bytes force = next_word(&rest);
  (void)field;
  if (!bytes_equal_str(how, "auto") || serial.len == 0 || next_word(&rest).len > 0 ||
      (force.len > 0 && !bytes_equal_str(force, "force"))) {
    problem(p, CONFIG_ERROR, "install wants: auto SERIAL-OF-THE-DISK [force]");
    return;
  }
  p->config->install_serial = serial;
  p->config->install_force = force.len > 0;
}

static bool parse_mac(struct bytes text, u8 mac[6]) {
  if (text.len != 17) {
    return false;
  }
  for (u32 i = 0; i < 17; i++) {
    u8 c = text.ptr[i];
    u8 low = (u8)(c | 0x20);
    bool hex = (c >= '0' && c <= '9') || (low >= 'a' && low <= 'f');
    if (i % 3 == 2 ? c != ':' : !hex) {
      return false;
    }
    u8 digit = (u8)(c <= '9' ? c - '0' : low - 'a' + 10);
    if (i % 3 == 0) {
      mac[i / 3] = (u8)(digit << 4);
    } else if (i % 3 == 1) {
      mac[i / 3] |= digit;
    }
  }
  return true;
}

// ADDRESS/PREFIX of either family.
static bool parse_interface(struct bytes text, struct ip_addr *address, u8 *prefix_len) {
  usize slash = bytes_find(text, '/');
  u64 prefix = 0;
  if (slash == text.len || !ip_parse(bytes_sub(text, 0, slash), address)) {
    return false;
  }
  u32 most = ip_is4(*address) ? 32 : 128;
  *prefix_len = 0;
  if (bytes_to_u64(bytes_skip(text, slash + 1), most, &prefix) != ERR_OK || prefix == 0) {
    return false;
  }
  *prefix_len = (u8)prefix;
  return true;
}

// An IPv6 address that a machine may have (RFC 4291 2.5, 2.7).
static bool usable6(struct ip_addr a) {
  return !ip_is4(a) && !ip_is_multicast6(a) && a.hi != 0;
}

static bool take_ip6(struct bytes v, struct net_if6_config *out) {
  if (bytes_equal_str(v, "auto") || bytes_equal_str(v, "off")) {
    out->mode = bytes_equal_str(v, "auto") ? NET_IP6_AUTO : NET_IP6_OFF;
    return true;
  }
  out->mode = NET_IP6_STATIC;
  return parse_interface(v, &out->address, &out->prefix_len) && usable6(out->address);
}

// The first word: how IPv4 gets its address; an IPv6 address there means that there is none.
static bool take_first(struct bytes v, struct config_network *n) {
  struct ip_addr a;
  n->dhcp = bytes_equal_str(v, "dhcp");
  if (n->dhcp || bytes_equal_str(v, "off")) {
    return true;
  }
  if (parse_interface(v, &a, &n->prefix_len) && ip_is4(a)) {
    n->address = ip_to4(a);
    return n->address != 0;
  }
  n->prefix_len = 0;
  return take_ip6(v, &n->ip6);
}

static bool take_gateway6(struct bytes v, struct net_if6_config *out) {
  return ip_parse6(v, &out->gateway) && usable6(out->gateway);
}

// network dhcp|off|ADDRESS/PREFIX [gateway G] [ip6 auto|off|ADDRESS/PREFIX] [gateway6 G] [mac M]
static bool take_network(struct parser *p) {
  struct config *c = p->config;
  struct config_network n = {.ip6 = {.mode = NET_IP6_AUTO}};
  struct bytes rest = value_of(p);
  struct bytes first = next_word(&rest);
  char buf[64];
  if (!take_first(first, &n)) {
    problem(p, CONFIG_ERROR,
            "network wants off, dhcp or ADDRESS/PREFIX (as 192.0.2.10/24), not \"%s\"",
            shown(first, buf));
    return false;
  }
  for (struct bytes word = next_word(&rest); word.len > 0; word = next_word(&rest)) {
    struct bytes v = next_word(&rest);
    if ((bytes_equal_str(word, "gateway") && ip_parse4(v, &n.gateway)) ||
        (bytes_equal_str(word, "ip6") && take_ip6(v, &n.ip6)) ||
        (bytes_equal_str(word, "gateway6") && take_gateway6(v, &n.ip6))) {
      continue;
    }
    if (bytes_equal_str(word, "mac") && parse_mac(v, n.mac)) {
      n.has_mac = true;
      continue;
    }
    problem(p, CONFIG_ERROR,
            "network wants `gateway ADDRESS`, `ip6 auto`, `ip6 off`, `ip6 ADDRESS/PREFIX`, "
            "`gateway6 ADDRESS` or `mac 52:54:00:12:34:56`, not \"%s\"",
            shown(word, buf));
    return false;
  }
  if (c->network_count == CONFIG_NETWORKS_MAX) {
    problem(p, CONFIG_ERROR, "more than %u network lines", CONFIG_NETWORKS_MAX);
    return false;
  }
  c->network[c->network_count++] = n;
  return true;
}

static void on_network(struct parser *p, void *field) {
  (void)field;
  p->config->network_wrong = !take_network(p) || p->config->network_wrong;
}

// include_dir DIR: config.c reads its files before the next line of this one.
static void on_include(struct parser *p, void *field) {
  char buf[64];
  struct bytes name;
  struct bytes data;
  struct bytes dir = value_of(p);
  (void)field;
  if (p->outer.active) {
    problem(p, CONFIG_ERROR, "include_dir stands in a file that was included itself");
  } else if (dir.len == 0) {
    problem(p, CONFIG_ERROR, "include_dir wants the name of a folder");
  } else if (!folder_next(p->tar, dir, ".conf", bytes_of(NULL, 0), &name, &data)) {
    problem(p, CONFIG_WARNING, "include_dir: the bundle has no .conf files in a folder \"%s\"",
            shown(dir, buf));
  } else {
    p->outer.active = true;
    p->outer.dir = dir;
    p->outer.file = p->file;
    p->outer.text = p->text;
    p->outer.pos = p->pos;
    p->outer.number = p->number;
    p->file = p->text = bytes_of(NULL, 0);
    p->pos = p->number = 0;
  }
}

static void on_log_dest(struct parser *p, void *field) {
  char buf[64];
  struct bytes rest = value_of(p);
  struct bytes word = next_word(&rest);
  bool console = bytes_equal_str(word, "stdout") || bytes_equal_str(word, "stderr");
  if (bytes_equal_str(word, "topic")) {
    *(bool *)field = true;
  } else if (bytes_equal_str(word, "syslog")) {
    p->config->log_syslog = true;
  } else if (bytes_equal_str(word, "none")) {
    problem(p, CONFIG_WARNING,
            "log_dest none has no effect here: the console always shows the log");
  } else if (!console) {
    problem(p, CONFIG_WARNING, "log_dest %s has no effect here: urMQTT logs to its console",
            shown(word, buf));
  }
}

// syslog_server ADDRESS [PORT]
static void on_syslog_server(struct parser *p, void *field) {
  struct config *c = p->config;
  struct bytes rest = value_of(p);
  struct bytes address = next_word(&rest);
  struct bytes word = next_word(&rest);
  u64 port = SYSLOG_PORT;
  char buf[64];
  (void)field;
  if (!ip_parse(address, &c->syslog_server) || rest.len > 0 ||
      (word.len > 0 && (bytes_to_u64(word, 65535, &port) != ERR_OK || port == 0))) {
    problem(p, CONFIG_ERROR, "syslog_server wants ADDRESS or ADDRESS PORT, not \"%s\"",
            shown(value_of(p), buf));
    return;
  }
  c->syslog_port = (u16)port;
}

// mosquitto's: 0 to 7 of local0 to local7.
static void on_log_facility(struct parser *p, void *field) {
  u64 n = 0;
  char buf[64];
  if (bytes_to_u64(value_of(p), 7, &n) != ERR_OK) {
    problem(p, CONFIG_ERROR, "log_facility wants a number from 0 to 7, not \"%s\"",
            shown(value_of(p), buf));
    return;
  }
  *(u8 *)field = (u8)(SYSLOG_LOCAL + n);
}

// u32: 1 << enum config_log
static void on_log_type(struct parser *p, void *field) {
  static const char *const names[] = {"error", "warning",   "notice",      "information",
                                      "debug", "subscribe", "unsubscribe", "websockets"};
  u32 *mask = field;
  char buf[64];
  struct bytes v = value_of(p);
  if (!p->log_types_set) {  // the first one replaces the default
    p->log_types_set = true;
    *mask = 0;
  }
  for (u32 i = 0; i < ARRAY_COUNT(names); i++) {
    if (bytes_equal_str(v, names[i])) {
      *mask |= 1u << i;
      return;
    }
  }
  if (bytes_equal_str(v, "all")) {
    *mask = U32_MAX;
  } else if (bytes_equal_str(v, "none")) {
    *mask = 0;
  } else if (!bytes_equal_str(v, "internal")) {
    problem(p, CONFIG_ERROR, "log_type: there is no type \"%s\"", shown(v, buf));
  }
}

// May be repeated: each names a user who may command the broker over MQTT.
static void on_console_user(struct parser *p, void *field) {
  struct config *c = p->config;
  struct bytes v = value_of(p);
  (void)field;
  if (v.len == 0 || v.len > CONFIG_CONSOLE_NAME_MAX ||
      c->console_user_count == CONFIG_CONSOLE_USERS_MAX) {
    problem(p, CONFIG_ERROR,
            "console_user wants one user name of at most %u bytes, at most %u times",
            CONFIG_CONSOLE_NAME_MAX, CONFIG_CONSOLE_USERS_MAX);
    return;
  }
  c->console_user[c->console_user_count++] = v;
}

#define NO_PROCESS "urMQTT is no process of an operating system"
#define ON_CONSOLE "urMQTT logs to its console"

const struct keyword keywords_system[] = {
    {"network", .take = on_network},
    {"install", .take = on_install},
    {"include_dir", .take = on_include},
    {"console_user", .take = on_console_user},
    {"log_dest", BY(SCOPE_GLOBAL, struct config, log_topic, on_log_dest),
     MAPPED("the console always shows the log; topic publishes it too, syslog sends it to "
            "syslog_server, the others are left out")},
    {"syslog_server", .take = on_syslog_server},
    {"log_type", BY(SCOPE_GLOBAL, struct config, log_types, on_log_type)},
    {"connection_messages", IN_CONFIG(connection_messages)},
    {"log_facility", BY(SCOPE_GLOBAL, struct config, syslog_facility, on_log_facility)},
    {"log_timestamp", .fate = FATE_IGNORED, .why = ON_CONSOLE},
    {"log_timestamp_format", .fate = FATE_IGNORED, .why = ON_CONSOLE},
    {"pid_file", .fate = FATE_IGNORED, .why = NO_PROCESS},
    {"user", .fate = FATE_IGNORED, .why = NO_PROCESS},
    {"set_tcp_nodelay", .fate = FATE_IGNORED, .why = "urMQTT never delays small packets"},
    {.name = NULL},
};
