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

// The listener that a line is for: the last one, or before any the one on port 1883.
static struct config_listener *listener_of(struct parser *p) {
  if (p->current != NULL) {
    return p->current;
  }
  if (!p->implied_used) {
    p->implied_used = true;
    p->implied.line = p->line.number;
  }
  return &p->implied;
}

// The structure that a row's target lies in; NULL: said.
static void *scope_of(struct parser *p) {
  struct config *c = p->config;
  switch ((enum keyword_scope)p->k->scope) {
  case SCOPE_GLOBAL: return c;
  case SCOPE_LISTENER: return listener_of(p);
  case SCOPE_SECURITY: return c->per_listener_settings ? &listener_of(p)->security : &c->security;
  case SCOPE_BRIDGE:
    if (c->bridge_count > 0) {
      return &c->bridge[c->bridge_count - 1];
    }
    problem(p, CONFIG_ERROR, "%s must stand after the `connection` line that it is for",
            p->k->name);
    return NULL;
  }
  return NULL;
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
  } else if (p->k->fate == FATE_MAPPED && !p->k->told) {
    problem(p, CONFIG_NOTE, "%s: %s", shown(word, buf), p->k->why);
  }
  if (p->k->take != NULL) {
    u8 *base = scope_of(p);
    if (base != NULL) {
      p->k->take(p, base + p->k->at);
    }
  }
}

// --- lines

// The next file of an included folder; false: the folder is done, and the file that named it goes
// on.
static bool next_file(struct parser *p) {
  struct bytes name = bytes_of(NULL, 0);
  p->number = p->pos = 0;
  if (folder_next(p->tar, p->outer.dir, ".conf", p->file, &name, &p->text)) {
    p->file = name;
    return true;
  }
  p->outer.active = false;
  p->file = p->outer.file;
  p->text = p->outer.text;
  p->pos = p->outer.pos;
  p->number = p->outer.number;
  return false;
}

static bool next_line(struct parser *p) {
  while (!conf_next(p->text, &p->pos, &p->number, &p->line)) {
    if (!p->outer.active) {
      return false;
    }
    (void)next_file(p);
  }
  return true;
}

// --- what only the whole file shows

static void check_tls_files(struct parser *p, const struct config_listener *l, bool any) {
  if (any && (l->certfile.data.len == 0 || l->keyfile.data.len == 0)) {
    problem(p, CONFIG_ERROR, "listener %u has no %s", l->port,
            l->certfile.data.len == 0 ? "certfile" : "keyfile");
  }
  if (l->require_certificate && l->cafile.data.len == 0 && l->capath.count == 0) {
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
  bool identity = l->use_identity_as_username;
  if (config_names_by_certificate(l) && !l->require_certificate && !(identity && named_by_proxy)) {
    problem(p, CONFIG_ERROR, "listener %u has %s without require_certificate true", l->port,
            identity                     ? "use_identity_as_username"
            : l->use_subject_as_username ? "use_subject_as_username"
                                         : "use_san_as_username");
  }
  if ((identity ? 1 : 0) + (l->use_subject_as_username ? 1 : 0) + (l->use_san_as_username != 0) >
      1) {
    problem(p, CONFIG_ERROR,
            "listener %u: only one of use_identity_as_username, use_subject_as_username and "
            "use_san_as_username can be the user's name",
            l->port);
  }
}

// Whether anybody will listen there; says why not.
static bool is_served(struct parser *p, const struct config_listener *l) {
  if (l->unservable) {
    problem(p, CONFIG_WARNING,
            "listener %u is for programs on the same machine; there are none here, so nobody "
            "listens",
            l->port);
    return false;
  }
  if (l->http_api) {
    problem(p, CONFIG_WARNING,
            "listener %u is mosquitto's HTTP interface, which is not served: nobody listens",
            l->port);
    return false;
  }
  return true;
}

bool config_names_by_certificate(const struct config_listener *l) {
  return l->use_identity_as_username || l->use_subject_as_username || l->use_san_as_username != 0;
}

static void check_listener(struct parser *p, struct config_listener *l) {
  bool any = l->certfile.data.len + l->keyfile.data.len + l->cafile.data.len + l->crlfile.data.len +
                 l->capath.count >
             0;
  p->line.number = l->line;
  if (!p->config->per_listener_settings) {
    l->security = p->config->security;
  }
  if (l->anonymous != 0) {
    l->security.allow_anonymous = l->anonymous == 2;
  }
  check_tls_files(p, l, any);
  l->served = is_served(p, l);
  if (!l->served) {
    return;
  }
  bool passwords = l->security.password_file.name.len > 0;
  if (!l->security.allow_anonymous && !config_names_by_certificate(l) && !passwords &&
      !p->config->dynsec) {
    problem(p, CONFIG_ERROR,
            "nobody could connect to listener %u: give use_identity_as_username true, a "
            "password_file or allow_anonymous true",
            l->port);
  }
  if (passwords && !any) {
    problem(p, CONFIG_WARNING, "passwords of listener %u cross the network readable: no TLS",
            l->port);
  }
  if (l->security.allow_anonymous && !any) {
    problem(p, CONFIG_WARNING, "listener %u is open to everybody who can reach it, without TLS",
            l->port);
  }
}

// The listener of keywords before any `listener` line, last as in mosquitto.
static void add_implied(struct parser *p) {
  struct config *c = p->config;
  if (!p->implied_used) {
    return;
  }
  p->line.number = p->implied.line;
  p->implied.port = p->implied.port != 0 ? p->implied.port : 1883;
  bool taken = c->listener_count == CONFIG_LISTENERS_MAX;
  for (u32 i = 0; i < c->listener_count; i++) {
    taken |= c->listener[i].port == p->implied.port;
  }
  if (taken) {
    problem(p, CONFIG_ERROR,
            "a listener's keyword before the first `listener` line makes one on port %u, which is "
            "there already: put it behind the line that it is for",
            p->implied.port);
    return;
  }
  if (c->listener_count > 0) {
    problem(p, CONFIG_WARNING,
            "a listener's keyword before the first `listener` line makes one more, on port %u, as "
            "in mosquitto",
            p->implied.port);
  }
  c->listener[c->listener_count++] = p->implied;
}

static void check_bridge(struct parser *p, const struct config_bridge *b) {
  if (b->psk.len > 0 || b->identity.len > 0) {
    problem(p, CONFIG_ERROR, "bridge_psk is not supported: use bridge_cafile");
  }
  if (b->capath.count > 0 && b->cafile.data.len == 0) {
    problem(p, CONFIG_ERROR,
            "put the CAs of bridge_capath into one file, and that into "
            "bridge_cafile");
  }
  if (b->tls_use_os_certs) {
    problem(p, CONFIG_ERROR, "there is no system's store of CAs here: use bridge_cafile");
  }
  if ((b->certfile.data.len > 0) != (b->keyfile.data.len > 0)) {
    problem(p, CONFIG_ERROR, "bridge_certfile and bridge_keyfile belong together");
  }
  if (b->certfile.data.len > 0 && b->cafile.data.len == 0) {
    problem(p, CONFIG_ERROR, "bridge_certfile wants bridge_cafile, to judge the other broker by");
  }
  if (b->bind_address.len > 0) {
    problem(p, CONFIG_WARNING, "bridge_bind_address is ignored: the address follows the route");
  }
}

static void check_dynsec(struct parser *p) {
  const struct config *c = p->config;
  bool files = c->security.password_file.name.len + c->security.acl_file.name.len > 0;
  p->line.number = 0;
  if (c->dynsec && c->dynsec_file.name.len == 0) {
    problem(p, CONFIG_ERROR, "dynamic security wants its file: plugin_opt_config_file");
  }
  if (c->dynsec && (c->per_listener_settings || files)) {
    problem(p, CONFIG_ERROR,
            "dynamic security beside password_file, acl_file or per_listener_settings is not "
            "supported: put users and rules into its file");
  }
}

static void check_whole(struct parser *p) {
  struct config *c = p->config;
  if (c->log_syslog && c->syslog_port == 0) {
    problem(p, CONFIG_WARNING, "log_dest syslog sends nothing without `syslog_server ADDRESS`");
  }
  check_dynsec(p);
  add_implied(p);
  for (u32 i = 0; i < c->listener_count; i++) {
    check_listener(p, &c->listener[i]);
  }
  for (u32 i = 0; i < c->bridge_count; i++) {
    p->line.number = c->bridge[i].line;
    if (c->bridge[i].address_count == 0) {
      problem(p, CONFIG_ERROR, "this connection has no address");
    }
    check_bridge(p, &c->bridge[i]);
  }
  p->line.number = 0;
  if (c->listener_count == 0) {
    problem(p, CONFIG_WARNING,
            "no `listener` line: mosquitto then serves its own machine only, and on this one lives "
            "nobody else. Write `listener 1883` and who may come in (allow_anonymous, "
            "cafile ...)");
  }
}

struct config_listener config_listener_default(void) {
  return (struct config_listener){
      .max_qos = 2, .max_topic_alias = 10, .max_topic_alias_broker = 10};
}

enum err config_parse(struct bytes tar, struct config *out, struct config_report *report) {
  memset(report, 0, sizeof *report);
  memset(out, 0, sizeof *out);
  out->max_inflight_messages = 20;
  out->max_queued_messages = 1000;
  out->max_packet_size = 2000000;
  out->retain_available = true;
  out->check_retain_source = true;
  out->sys_interval_s = 10;
  out->connection_messages = true;
  out->allow_zero_length_clientid = true;
  out->syslog_facility = SYSLOG_DAEMON;
  out->log_types = 1u << LOG_ERROR | 1u << LOG_WARNING | 1u << LOG_NOTICE | 1u << LOG_INFORMATION;
  struct parser p = {.tar = tar,
                     .config = out,
                     .report = report,
                     .file = BYTES_LIT(MAIN_FILE),
                     .implied = config_listener_default()};
  enum err e = ustar_find(tar, p.file, &p.text);
  if (e != ERR_OK) {
    problem(&p, CONFIG_ERROR,
            e == ERR_NOT_FOUND ? "the bundle has no file of this name"
                               : "the bundle is no ustar archive of regular files");
    return ERR_INVALID;
  }
  while (next_line(&p)) {
    take_line(&p);
  }
  check_whole(&p);
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
