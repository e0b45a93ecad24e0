// SPDX-License-Identifier: Apache-2.0
// Keywords of a listener: where it listens, its TLS, its limits. What mosquitto takes before the
// first `listener` is that of a listener on port 1883, which such a keyword brings into being.
#include "admin/keyword.h"

// An address after `listener` or bind_address. This machine has no other programs: a listener for
// loopback or a path is one for nobody.
static void take_address(struct parser *p, struct bytes text, struct config_listener *l) {
  char buf[64];
  struct ip_addr address;
  l->address = IP_NONE;
  if (text.len == 0 || bytes_equal_str(text, "::")) {
    return;  // both families
  }
  if (bytes_equal_str(text, "localhost") || text.ptr[0] == '/') {
    l->unservable = true;
  } else if (ip_parse(text, &address)) {
    l->address = address;
    l->unservable = ip_is4(address) ? ip_to4(address) >> 24 == 127 : address.hi == 0;
  } else {
    problem(p, CONFIG_ERROR,
            "%s: \"%s\" is not an address; leave it out to serve every address of this machine",
            p->k->name, shown(text, buf));
  }
}

// listener PORT [ADDRESS]; listener 0 PATH
static void on_listener(struct parser *p, void *field) {
  struct config *c = p->config;
  struct bytes rest = value_of(p);
  struct bytes port = next_word(&rest);
  struct bytes address = next_word(&rest);
  char buf[64];
  u64 number = 0;
  (void)field;
  bool path = address.len > 0 && address.ptr[0] == '/';
  if (bytes_to_u64(port, 65535, &number) != ERR_OK || (number == 0) != path) {
    problem(p, CONFIG_ERROR, "listener wants a port from 1 to 65535, not \"%s\"", shown(port, buf));
    return;
  }
  for (u32 i = 0; i < c->listener_count; i++) {
    if (c->listener[i].port == number) {
      problem(p, CONFIG_ERROR, "port %u has a listener already (line %u)", (u32)number,
              c->listener[i].line);
      return;
    }
  }
  if (c->listener_count == CONFIG_LISTENERS_MAX) {
    problem(p, CONFIG_ERROR, "more than %u listeners", CONFIG_LISTENERS_MAX);
    return;
  }
  u32 errors = p->report->error_count;
  struct config_listener l = config_listener_default();
  l.port = (u16)number;
  l.line = p->line.number;
  take_address(p, address, &l);
  if (p->report->error_count == errors) {
    p->current = &c->listener[c->listener_count++];
    *p->current = l;
  }
}

// The listener that no `listener` line makes.
static struct config_listener *implied(struct parser *p) {
  if (!p->implied_used) {
    p->implied_used = true;
    p->implied.line = p->line.number;
  }
  return &p->implied;
}

static void on_bind_address(struct parser *p, void *field) {
  struct bytes rest = value_of(p);
  (void)field;
  take_address(p, next_word(&rest), implied(p));
}

static void on_port(struct parser *p, void *field) {
  u64 number = 0;
  (void)field;
  if (take_number(p, 1, 65535, &number)) {
    implied(p)->port = (u16)number;
  }
}

// u8: a list of 3, 4, 5 with commas between them.
static void on_versions(struct parser *p, void *field) {
  char buf[64];
  struct bytes v = value_of(p);
  u8 mask = 0;
  for (usize i = 0; i < v.len; i++) {
    u8 c = v.ptr[i];
    if (c >= '3' && c <= '5') {
      mask |= (u8)(1u << (c - '0'));
    } else if (c != ',' && c != ' ') {
      mask = 0;
      break;
    }
  }
  if (mask == 0) {
    problem(p, CONFIG_ERROR, "%s wants some of 3,4,5, not \"%s\"", p->k->name, shown(v, buf));
    return;
  }
  *(u8 *)field = mask;
}

static void on_mount_point(struct parser *p, void *field) {
  char buf[64];
  struct bytes v = value_of(p);
  bool wild = bytes_find(v, '+') < v.len || bytes_find(v, '#') < v.len;
  if (v.len == 0 || wild || v.len > CONFIG_MOUNT_MAX) {
    problem(p, CONFIG_ERROR, "%s wants the beginning of a topic (at most %u bytes), not \"%s\"",
            p->k->name, CONFIG_MOUNT_MAX, shown(v, buf));
    return;
  }
  *(struct bytes *)field = v;
}

#define OPENS "ignoring it would let in whom you keep out"
#define OWN_TLS "urMQTT speaks TLS 1.3 with its own choice of ciphers"

const struct keyword keywords_listener[] = {
    {"listener", .take = on_listener},
    {"port", .take = on_port},
    {"bind_address", .take = on_bind_address},
    {"cafile", IN_LISTENER(cafile)},
    {"capath", IN_LISTENER(capath)},
    {"certfile", IN_LISTENER(certfile)},
    {"keyfile", IN_LISTENER(keyfile)},
    {"crlfile", IN_LISTENER(crlfile)},
    {"require_certificate", IN_LISTENER(require_certificate)},
    {"use_identity_as_username", IN_LISTENER(use_identity_as_username)},
    {"disable_client_cert_date_checks", IN_LISTENER(disable_client_cert_date_checks)},
    {"listener_allow_anonymous",
     BY(SCOPE_LISTENER, struct config_listener, anonymous, take_choice)},
    {"listener_auto_id_prefix",
     BY(SCOPE_LISTENER, struct config_listener, auto_id_prefix, take_id_prefix)},
    {"mount_point", BY(SCOPE_LISTENER, struct config_listener, mount_point, on_mount_point)},
    {"accept_protocol_versions", BY(SCOPE_LISTENER, struct config_listener, versions, on_versions)},
    {"max_connections", BY(SCOPE_LISTENER, struct config_listener, max_connections, take_positive)},
    {"max_qos", IN_LISTENER(max_qos), .most = 2},
    {"listener_durability",
     BY(SCOPE_LISTENER, struct config_listener, durability_relaxed, take_durability)},
    {"max_topic_alias", IN_LISTENER(max_topic_alias), .most = 65535},
    {"max_topic_alias_broker", IN_LISTENER(max_topic_alias_broker), .most = 65535},
    {"tls_version", .fate = FATE_MAPPED, .why = "urMQTT speaks TLS 1.3 and nothing older"},
    {"ciphers", .fate = FATE_IGNORED, .why = OWN_TLS},
    {"ciphers_tls1.3", .fate = FATE_IGNORED, .why = OWN_TLS},
    {"dhparamfile", .fate = FATE_IGNORED, .why = OWN_TLS},
    {"tls_keyform", .fate = FATE_IGNORED, .why = OWN_TLS},
    {"tls_engine", .fate = FATE_IGNORED, .why = OWN_TLS},
    {"tls_engine_kpass_sha1", .fate = FATE_IGNORED, .why = OWN_TLS},
    {"socket_domain", .fate = FATE_IGNORED, .why = "urMQTT serves IPv4"},
    {"http_dir", .fate = FATE_IGNORED, .why = "urMQTT serves no web pages"},
    {"websockets_headers_size", .fate = FATE_IGNORED, .why = "headers have their own bound here"},
    {"websockets_log_level", .fate = FATE_IGNORED, .why = "urMQTT logs to its console"},
    {"bind_interface", .fate = FATE_REFUSED, .why = OPENS ": write `listener PORT ADDRESS`"},
    {"psk_hint", .fate = FATE_REFUSED, .why = OPENS},
    {.name = NULL},
};
