// SPDX-License-Identifier: Apache-2.0
// urmqtt.conf, line by line through the table of keywords, and what only the whole file shows. What
// mosquitto knows and we do not honour is named, never swallowed.
#include "admin/config.h"

#include "admin/keyword.h"
#include "admin/ustar.h"
#include "base/fmt.h"

#define MAIN_FILE "urmqtt.conf"

static void unknown(struct parser *p, struct bytes word) {
  char buf[64];
  const char *best = keyword_nearest(word);
  if (best != NULL) {
    problem(p, CONFIG_ERROR, "unknown keyword \"%s\"; did you mean \"%s\"?", shown(word, buf),
            best);
  } else {
    problem(p, CONFIG_ERROR, "unknown keyword \"%s\"", shown(word, buf));
  }
}

// The structure that a row's target lies in; NULL: said.
static void *scope_of(struct parser *p) {
  struct config *c = p->config;
  bool own =
      p->k->scope == SCOPE_LISTENER || (p->k->scope == SCOPE_SECURITY && c->per_listener_settings);
  if (!own) {
    return p->k->scope == SCOPE_SECURITY ? (void *)&c->security : c;
  }
  if (c->listener_count == 0) {
    problem(p, CONFIG_ERROR, "%s must stand after the `listener` line that it is for", p->k->name);
    return NULL;
  }
  struct config_listener *l = &c->listener[c->listener_count - 1];
  return p->k->scope == SCOPE_SECURITY ? (void *)&l->security : l;
}

static void take_line(struct parser *p) {
  char buf[64];
  struct bytes word = bytes_part(p->text, p->line.keyword);
  p->k = keyword_find(word);
  if (p->k == NULL) {
    unknown(p, word);
    return;
  }
  if (p->k->fate == FATE_REFUSED) {
    problem(p, CONFIG_ERROR, "%s is not supported: %s", shown(word, buf), p->k->why);
    return;
  }
  if (p->k->fate == FATE_IGNORED) {
    problem(p, CONFIG_WARNING, "%s has no effect here: %s", shown(word, buf), p->k->why);
  } else if (p->k->fate == FATE_MAPPED) {
    problem(p, CONFIG_NOTE, "%s: %s", shown(word, buf), p->k->why);
  }
  if (p->k->take != NULL) {
    u8 *base = scope_of(p);
    if (base != NULL) {
      p->k->take(p, base + p->k->at);
    }
  }
}

// --- what only the whole file shows

static void check_listener(struct parser *p, struct config_listener *l) {
  bool any =
      l->certfile.data.len + l->keyfile.data.len + l->cafile.data.len + l->crlfile.data.len > 0;
  p->line.number = l->line;
  if (!p->config->per_listener_settings) {
    l->security = p->config->security;
  }
  if (any && (l->certfile.data.len == 0 || l->keyfile.data.len == 0)) {
    problem(p, CONFIG_ERROR, "listener %u has no %s", l->port,
            l->certfile.data.len == 0 ? "certfile" : "keyfile");
  }
  if (l->require_certificate && l->cafile.data.len == 0) {
    problem(p, CONFIG_ERROR, "listener %u has require_certificate but no cafile to judge by",
            l->port);
  }
  if (l->proxy_needs_tls && l->proxy != 2) {
    problem(p, CONFIG_ERROR,
            "listener %u has proxy_protocol_v2_require_tls without "
            "enable_proxy_protocol 2",
            l->port);
  }
  if (l->origin_count > 0 && !l->websockets) {
    problem(p, CONFIG_WARNING, "listener %u has websockets_origin, but no protocol websockets",
            l->port);
  }
  // A load balancer that ends TLS hands the certificate's name over in its header.
  bool named_by_proxy = l->proxy == 2 && l->proxy_needs_tls;
  if (l->use_identity_as_username && !l->require_certificate && !named_by_proxy) {
    problem(p, CONFIG_ERROR,
            "listener %u has use_identity_as_username without require_certificate true", l->port);
  }
  if (!l->security.allow_anonymous && !l->use_identity_as_username) {
    problem(p, CONFIG_ERROR,
            "nobody could connect to listener %u: give use_identity_as_username true or "
            "allow_anonymous true",
            l->port);
  }
  if (l->security.allow_anonymous && !any) {
    problem(p, CONFIG_WARNING, "listener %u is open to everybody who can reach it, without TLS",
            l->port);
  }
}

enum err config_parse(struct bytes tar, struct config *out, struct config_report *report) {
  memset(report, 0, sizeof *report);
  *out = (struct config){.max_inflight_messages = 20,
                         .max_queued_messages = 1000,
                         .max_packet_size = 2000000,
                         .max_topic_alias = 10,
                         .retain_available = true};
  struct parser p = {.tar = tar, .config = out, .report = report, .file = BYTES_LIT(MAIN_FILE)};
  enum err e = ustar_find(tar, p.file, &p.text);
  if (e != ERR_OK) {
    problem(&p, CONFIG_ERROR,
            e == ERR_NOT_FOUND ? "the bundle has no file of this name"
                               : "the bundle is no ustar archive of regular files");
    return ERR_INVALID;
  }
  u32 pos = 0;
  u32 number = 0;
  while (conf_next(p.text, &pos, &number, &p.line)) {
    take_line(&p);
  }
  p.line.number = 0;
  if (out->listener_count == 0) {
    problem(&p, CONFIG_ERROR, "no `listener PORT` line");
  }
  for (u32 i = 0; i < out->listener_count; i++) {
    check_listener(&p, &out->listener[i]);
  }
  return report->error_count > 0 ? ERR_INVALID : ERR_OK;
}

void config_problem_text(const struct config_problem *p, struct writer *w) {
  static const char *const words[] = {"note", "warning", "error"};
  if (p->line != 0) {
    fmt(w, "%s:%u: %s: %s\n", p->file, p->line, words[p->severity], p->text);
  } else {
    fmt(w, "%s: %s: %s\n", p->file, words[p->severity], p->text);
  }
}
