// SPDX-License-Identifier: Apache-2.0
// Keywords of the machine: its network (ours), and mosquitto's of the process and of logs.
#include "admin/keyword.h"

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

// network dhcp|ADDRESS/PREFIX [gateway G] [mac M]
static void on_network(struct parser *p, void *field) {
  struct config *c = p->config;
  struct config_network n = {0};
  struct bytes rest = value_of(p);
  struct bytes first = next_word(&rest);
  char buf[64];
  (void)field;
  usize slash = bytes_find(first, '/');
  u64 prefix = 0;
  n.dhcp = bytes_equal_str(first, "dhcp");
  if (!n.dhcp && (slash == first.len || !parse_ip4(bytes_sub(first, 0, slash), &n.address) ||
                  bytes_to_u64(bytes_skip(first, slash + 1), 32, &prefix) != ERR_OK)) {
    problem(p, CONFIG_ERROR, "network wants dhcp or ADDRESS/PREFIX (as 192.0.2.10/24), not \"%s\"",
            shown(first, buf));
    return;
  }
  n.prefix_len = (u8)prefix;
  for (struct bytes word = next_word(&rest); word.len > 0; word = next_word(&rest)) {
    struct bytes v = next_word(&rest);
    if (bytes_equal_str(word, "gateway") && parse_ip4(v, &n.gateway)) {
      continue;
    }
    if (bytes_equal_str(word, "mac") && parse_mac(v, n.mac)) {
      n.has_mac = true;
      continue;
    }
    problem(p, CONFIG_ERROR,
            "network wants `gateway ADDRESS` or `mac 52:54:00:12:34:56`, not \"%s\"",
            shown(word, buf));
    return;
  }
  if (c->network_count == CONFIG_NETWORKS_MAX) {
    problem(p, CONFIG_ERROR, "more than %u network lines", CONFIG_NETWORKS_MAX);
    return;
  }
  c->network[c->network_count++] = n;
}

#define NO_PROCESS "urMQTT is no process of an operating system"
#define ON_CONSOLE "urMQTT logs to its console"

const struct keyword keywords_system[] = {
    {"network", .take = on_network},
    {"pid_file", .fate = FATE_IGNORED, .why = NO_PROCESS},
    {"user", .fate = FATE_IGNORED, .why = NO_PROCESS},
    {"log_dest", .fate = FATE_IGNORED, .why = ON_CONSOLE},
    {"log_type", .fate = FATE_IGNORED, .why = ON_CONSOLE},
    {"log_facility", .fate = FATE_IGNORED, .why = ON_CONSOLE},
    {"log_timestamp", .fate = FATE_IGNORED, .why = ON_CONSOLE},
    {"log_timestamp_format", .fate = FATE_IGNORED, .why = ON_CONSOLE},
    {"connection_messages", .fate = FATE_IGNORED, .why = ON_CONSOLE},
    {"set_tcp_nodelay", .fate = FATE_IGNORED, .why = "urMQTT never delays small packets"},
    {"include_dir", .fate = FATE_REFUSED, .why = "put its lines into urmqtt.conf"},
    {.name = NULL},
};
