// SPDX-License-Identifier: Apache-2.0
// Keywords of what stands before MQTT on a listener: WebSocket and the PROXY protocol.
#include "admin/keyword.h"

static void on_protocol(struct parser *p, void *field) {
  struct bytes v = value_of(p);
  char buf[64];
  struct config_listener *l = field;
  l->websockets = bytes_equal_str(v, "websockets");
  l->http_api = bytes_equal_str(v, "http_api");
  if (!l->websockets && !l->http_api && !bytes_equal_str(v, "mqtt")) {
    problem(p, CONFIG_ERROR, "protocol is mqtt, websockets or http_api, not \"%s\"", shown(v, buf));
  }
}

// May be repeated: each adds one origin that browsers may come from.
static void on_origin(struct parser *p, void *field) {
  struct config_listener *l = field;
  if (l->origin_count == CONFIG_ORIGINS_MAX) {
    problem(p, CONFIG_ERROR, "more than %u lines of websockets_origin", CONFIG_ORIGINS_MAX);
    return;
  }
  take_text(p, &l->origin[l->origin_count]);
  l->origin_count += l->origin[l->origin_count].len > 0;
}

const struct keyword keywords_front[] = {
    {"protocol", .scope = SCOPE_LISTENER, .at = 0, .take = on_protocol},
    {"websockets_origin", .scope = SCOPE_LISTENER, .at = 0, .take = on_origin},
    {"enable_proxy_protocol", IN_LISTENER(proxy), .least = 1, .most = 2},
    {"proxy_protocol_v2_require_tls", IN_LISTENER(proxy_needs_tls)},
    {.name = NULL},
};
