// SPDX-License-Identifier: Apache-2.0
// A client's connection, for administrators.
#include "base/fmt.h"
#include "server/conn.h"

bool server_client(const struct session *session, struct server_client *out) {
  const struct conn *c = session_user(session);
  if (c == NULL) {
    return false;
  }
  *out = (struct server_client){.port = c->from->config.port,
                                .tls = c->tls_due,
                                .websocket = c->from->config.websockets,
                                .rechecked = c->rechecked,
                                .keep_alive_s = c->keep_alive_s,
                                .idle_ns = c->server->core->now_ns - c->last_in_ns};
  struct writer w = writer_init(span_of(out->peer, sizeof out->peer - 1));
  if (c->front != NULL && c->front->peer_known) {
    front_peer(&w, c->front);
  } else if (c->tcp != NULL) {
    struct tcp_peer p;
    tcp_peer(c->tcp, &p);
    ip_write_port(&w, p.address, p.port);
  }
  out->peer[w.pos] = 0;
  return true;
}
