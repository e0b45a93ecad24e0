// SPDX-License-Identifier: Apache-2.0
// Keywords of a listener: where it listens, its TLS, its limits.
#include "admin/keyword.h"

// listener PORT [ADDRESS]
static void on_listener(struct parser *p, void *field) {
  struct config *c = p->config;
  struct bytes rest = value_of(p);
  struct bytes port = next_word(&rest);
  struct bytes address = next_word(&rest);
  char buf[64];
  u64 number = 0;
  (void)field;
  if (bytes_to_u64(port, 65535, &number) != ERR_OK || number == 0) {
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
  if (address.len > 0 && !bytes_equal_str(address, "0.0.0.0")) {
    problem(p, CONFIG_ERROR,
            "listener %u: an address (\"%s\") is not supported: a listener serves all addresses of "
            "this machine; leave it out if that is what you want",
            (u32)number, shown(address, buf));
    return;
  }
  c->listener[c->listener_count++] =
      (struct config_listener){.port = (u16)number, .line = p->line.number, .max_qos = 2};
}

// u32; -1 is no limit, which is 0 here.
static void on_max_connections(struct parser *p, void *field) {
  u64 number = 0;
  if (bytes_equal_str(value_of(p), "-1")) {
    *(u32 *)field = 0;
  } else if (take_number(p, 1, 10000000, &number)) {
    *(u32 *)field = (u32)number;
  }
}

#define OPENS "ignoring it would let in whom you keep out"
#define BREAKS "ignoring it would break what you rely on"
#define OWN_TLS "urMQTT speaks TLS 1.3 with its own choice of ciphers"

const struct keyword keywords_listener[] = {
    {"listener", .take = on_listener},
    {"cafile", IN_LISTENER(cafile)},
    {"certfile", IN_LISTENER(certfile)},
    {"keyfile", IN_LISTENER(keyfile)},
    {"crlfile", IN_LISTENER(crlfile)},
    {"require_certificate", IN_LISTENER(require_certificate)},
    {"use_identity_as_username", IN_LISTENER(use_identity_as_username)},
    {"max_connections",
     BY(SCOPE_LISTENER, struct config_listener, max_connections, on_max_connections)},
    {"max_qos", IN_LISTENER(max_qos), .most = 2},
    {"tls_version", .fate = FATE_IGNORED, .why = OWN_TLS},
    {"ciphers", .fate = FATE_IGNORED, .why = OWN_TLS},
    {"ciphers_tls1.3", .fate = FATE_IGNORED, .why = OWN_TLS},
    {"dhparamfile", .fate = FATE_IGNORED, .why = OWN_TLS},
    {"tls_keyform", .fate = FATE_IGNORED, .why = OWN_TLS},
    {"socket_domain", .fate = FATE_IGNORED, .why = "urMQTT serves IPv4"},
    {"websockets_log_level", .fate = FATE_IGNORED, .why = "urMQTT logs to its console"},
    {"bind_interface", .fate = FATE_REFUSED, .why = OPENS},
    {"accept_protocol_versions", .fate = FATE_REFUSED, .why = OPENS},
    {"psk_hint", .fate = FATE_REFUSED, .why = OPENS},
    {"disable_client_cert_date_checks", .fate = FATE_REFUSED, .why = BREAKS},
    {"mount_point", .fate = FATE_REFUSED, .why = BREAKS},
    {"max_topic_alias_broker", .fate = FATE_REFUSED, .why = BREAKS},
    {"http_dir", .fate = FATE_REFUSED, .why = BREAKS},
    {"capath", .fate = FATE_REFUSED,
     .why = "put the certificates into one file and name it with cafile"},
    {"bind_address", .fate = FATE_REFUSED, .why = "write `listener PORT`"},
    {"port", .fate = FATE_REFUSED, .why = "write `listener PORT`"},
    {.name = NULL},
};
