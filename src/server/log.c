// SPDX-License-Identifier: Apache-2.0
// Lines about connections: to the console and to whoever asked for them (server_set_log), limited
// in number so that a storm of clients does not become a storm of lines. Two budgets: what is wrong
// is not crowded out by who comes and goes.
#include "base/fmt.h"
#include "server/conn.h"

#define LOG_RATE 10u  // lines a second, of each budget
#define DETAIL_MAX 64u

static bool rate_allows(struct log_rate *r, u64 now_ns) {
  if (r->since_ns == 0 || now_ns - r->since_ns >= SEC_NS) {  // 0: the first line
    r->since_ns = MAX(now_ns, 1ull);
    r->left = LOG_RATE;
  }
  if (r->left == 0) {
    r->suppressed++;
    return false;
  }
  r->left--;
  return true;
}

static void write_peer(struct writer *w, const struct conn *c) {
  struct tcp_peer p;
  tcp_peer(c->tcp, &p);
  if (c->front != NULL && c->front->peer_known) {
    front_peer(w, c->front);
    write_str(w, " by way of ");
  }
  ip_write_port(w, p.address, p.port);
  fmt(w, " on %u: ", p.local_port);
}

static void write_line(struct server *s, u32 type, struct log_rate *rate, const struct conn *c,
                       const char *text, struct bytes detail) {
  if ((s->log.types >> type & 1) == 0 || !rate_allows(rate, s->core->now_ns)) {
    return;
  }
  char line[400];
  struct writer w = writer_init(span_of(line, sizeof line - 1));
  if (rate->suppressed > 0) {
    fmt(&w, "(%u lines left out)\n", rate->suppressed);
    rate->suppressed = 0;
  }
  u32 start = w.pos;
  if (c != NULL && c->tcp != NULL) {
    write_peer(&w, c);
  }
  write_str(&w, text);
  if (detail.len > 0) {
    write_str(&w, ": ");
    fmt_escaped(&w, bytes_sub(detail, 0, MIN(detail.len, (usize)DETAIL_MAX)));
  }
  w.err = ERR_OK;
  if (s->log.line != NULL) {
    s->log.line(type, bytes_of(line + start, w.pos - start));
  }
  line[w.pos++] = '\n';
  plat_console(writer_bytes(&w));
}

void server_log(struct server *s, const struct conn *c, const char *text, struct bytes detail) {
  write_line(s, SERVER_LOG_NOTICE, &s->log_wrong, c, text, detail);
}

void server_log_connection(const struct conn *c, const char *text) {
  struct server *s = c->server;
  if (s->log.connections) {
    struct bytes id = c->session != NULL ? session_client_id(c->session) : bytes_of(NULL, 0);
    write_line(s, SERVER_LOG_NOTICE, &s->log_usual, c, text, id);
  }
}

void server_log_filter(const struct conn *c, bool subscribe, struct bytes filter) {
  write_line(c->server, subscribe ? SERVER_LOG_SUBSCRIBE : SERVER_LOG_UNSUBSCRIBE,
             &c->server->log_usual, c, subscribe ? "subscribes" : "unsubscribes", filter);
}

bool server_logs_filters(const struct server *s, bool subscribe) {
  return (s->log.types >> (subscribe ? SERVER_LOG_SUBSCRIBE : SERVER_LOG_UNSUBSCRIBE) & 1) != 0;
}

void server_set_log(struct server *s, const struct server_log_config *config) {
  s->log = *config;
}
