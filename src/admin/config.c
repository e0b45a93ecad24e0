// SPDX-License-Identifier: Apache-2.0
// urmqtt.conf by a table of keywords. What mosquitto knows and we do not honour is named, never
// swallowed: harmless ones as notes, those whose loss would open or break a broker as errors.
#include "admin/config.h"

#include "admin/conf.h"
#include "admin/config_known.h"
#include "admin/ustar.h"
#include "base/fmt.h"

#define MAIN_FILE "urmqtt.conf"

struct parser {
  struct bytes tar;
  struct config *config;
  struct config_report *report;
  struct bytes file;  // name of the file being read
  struct bytes text;
  struct conf_line line;
  const char *name;   // of the keyword being taken
  bool per_listener;  // per_listener_settings true: allow_anonymous is each listener's own
};

static void PRINTF_LIKE(3, 4)
    problem(struct parser *p, enum config_severity severity, const char *format, ...) {
  struct config_report *r = p->report;
  r->error_count += severity == CONFIG_ERROR ? 1 : 0;
  if (r->count == CONFIG_PROBLEMS_MAX) {
    return;
  }
  struct config_problem *q = &r->problem[r->count++];
  struct writer w = writer_init(span_of(q->text, sizeof q->text - 1));
  __builtin_va_list args;
  __builtin_va_start(args, format);
  fmt_v(&w, format, args);
  __builtin_va_end(args);
  q->text[w.pos] = 0;
  q->severity = severity;
  q->line = p->line.number;
  w = writer_init(span_of(q->file, sizeof q->file - 1));
  fmt_escaped(&w, p->file);
  q->file[w.pos] = 0;
}

static struct bytes value_of(const struct parser *p) {
  return bytes_part(p->text, p->line.value);
}
static struct bytes keyword_of(const struct parser *p) {
  return bytes_part(p->text, p->line.keyword);
}

// A word of foreign text for a message, escaped and short.
static const char *shown(struct bytes b, char buf[64]) {
  struct writer w = writer_init(span_of(buf, 63));
  fmt_escaped(&w, bytes_of(b.ptr, MIN(b.len, (usize)40)));
  buf[w.pos] = 0;
  return buf;
}

static bool take_number(struct parser *p, u64 least, u64 most, u64 *out) {
  char buf[64];
  if (bytes_to_u64(value_of(p), most, out) == ERR_OK && *out >= least) {
    return true;
  }
  problem(p, CONFIG_ERROR, "%s wants a number from %llu to %llu, not \"%s\"", p->name,
          (unsigned long long)least, (unsigned long long)most, shown(value_of(p), buf));
  return false;
}

// Leaves *out as it is when the value is neither, so that one mistake is one error.
static bool take_bool(struct parser *p, bool *out) {
  char buf[64];
  struct bytes v = value_of(p);
  bool yes = bytes_equal_str(v, "true") || bytes_equal_str(v, "1");
  if (yes || bytes_equal_str(v, "false") || bytes_equal_str(v, "0")) {
    *out = yes;
    return true;
  }
  problem(p, CONFIG_ERROR, "%s wants true or false, not \"%s\"", p->name, shown(v, buf));
  return false;
}

// The file's last name: mosquitto's files carry absolute paths, a bundle holds names.
static struct bytes base_name(struct bytes path) {
  usize from = 0;
  for (usize i = 0; i < path.len; i++) {
    from = path.ptr[i] == '/' ? i + 1 : from;
  }
  return bytes_skip(path, from);
}

static void take_file(struct parser *p, struct bytes *data, struct bytes *name) {
  char buf[64];
  struct bytes v = value_of(p);
  *name = base_name(v);
  if (v.len == 0) {
    problem(p, CONFIG_ERROR, "%s wants the name of a file in the bundle", p->name);
  } else if (ustar_find(p->tar, v, data) != ERR_OK && ustar_find(p->tar, *name, data) != ERR_OK) {
    problem(p, CONFIG_ERROR, "%s: the bundle has no file \"%s\"", p->name, shown(*name, buf));
  } else if (data->len == 0) {
    problem(p, CONFIG_ERROR, "%s: the file \"%s\" is empty", p->name, shown(*name, buf));
  }
}

static struct config_listener *current(struct parser *p) {
  struct config *c = p->config;
  if (c->listener_count == 0) {
    problem(p, CONFIG_ERROR, "%s must stand after the `listener` line that it is for", p->name);
    return NULL;
  }
  return &c->listener[c->listener_count - 1];
}

static struct bytes next_word(struct bytes *rest) {
  usize from = 0;
  while (from < rest->len && rest->ptr[from] == ' ') {
    from++;
  }
  struct bytes b = bytes_skip(*rest, from);
  usize end = bytes_find(b, ' ');
  *rest = bytes_skip(b, end);
  return bytes_sub(b, 0, end);
}

// --- keywords

static void on_listener(struct parser *p) {
  struct config *c = p->config;
  struct bytes rest = value_of(p);
  struct bytes port = next_word(&rest);
  struct bytes address = next_word(&rest);
  char buf[64];
  u64 number = 0;
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

enum listener_field {
  F_CA,
  F_CERT,
  F_KEY,
  F_CRL,
  F_REQUIRE,
  F_IDENTITY,
  F_ANONYMOUS,
  F_MAX_CONNECTIONS,
  F_MAX_QOS
};

static void on_listener_field(struct parser *p, u32 field) {
  u64 number = 0;
  if (field == F_ANONYMOUS && !p->per_listener) {  // of all listeners, wherever it stands
    (void)take_bool(p, &p->config->allow_anonymous);
    return;
  }
  struct config_listener *l = current(p);
  if (l == NULL) {
    return;
  }
  switch (field) {
  case F_CA: take_file(p, &l->cafile, &l->cafile_name); break;
  case F_CERT: take_file(p, &l->certfile, &l->certfile_name); break;
  case F_KEY: take_file(p, &l->keyfile, &l->keyfile_name); break;
  case F_CRL: take_file(p, &l->crlfile, &l->crlfile_name); break;
  case F_REQUIRE: (void)take_bool(p, &l->require_certificate); break;
  case F_IDENTITY: (void)take_bool(p, &l->use_identity_as_username); break;
  case F_ANONYMOUS: (void)take_bool(p, &l->allow_anonymous); break;
  case F_MAX_CONNECTIONS:
    if (bytes_equal_str(value_of(p), "-1")) {
      l->max_connections = 0;
    } else if (take_number(p, 1, 10000000, &number)) {
      l->max_connections = (u32)number;
    }
    break;
  default:
    if (take_number(p, 0, 2, &number)) {
      l->max_qos = (u8)number;
    }
    break;
  }
}

enum number_field { N_INFLIGHT, N_QUEUED, N_PACKET, N_KEEPALIVE, N_ALIAS };

static void on_number(struct parser *p, u32 field) {
  static const u64 most[] = {65535, 60000, 268435455, 65535, 65535};
  struct config *c = p->config;
  u64 v = 0;
  if (!take_number(p, field == N_PACKET ? 20 : 0, most[field], &v)) {
    return;
  }
  switch (field) {
  case N_INFLIGHT: c->max_inflight_messages = v == 0 ? 65535 : (u32)v; break;
  case N_QUEUED: c->max_queued_messages = v == 0 ? 60000 : (u32)v; break;
  case N_PACKET: c->max_packet_size = (u32)v; break;
  case N_KEEPALIVE: c->max_keepalive = (u32)v; break;
  default: c->max_topic_alias = (u32)v; break;
  }
}

// mosquitto: a number and h, d, w, m or y.
static void on_expiration(struct parser *p, u32 field) {
  char buf[64];
  struct bytes v = value_of(p);
  u64 number = 0;
  u64 unit = 0;
  (void)field;
  if (v.len >= 2) {
    u8 c = v.ptr[v.len - 1];
    unit = c == 'h'   ? 3600u
           : c == 'd' ? 86400u
           : c == 'w' ? 604800u
           : c == 'm' ? 2592000u
           : c == 'y' ? 31536000u
                      : 0;
  }
  if (unit == 0 || bytes_to_u64(bytes_sub(v, 0, v.len - 1), 1000, &number) != ERR_OK ||
      number == 0) {
    problem(p, CONFIG_ERROR, "%s wants a number and one of h d w m y, not \"%s\"", p->name,
            shown(v, buf));
    return;
  }
  p->config->persistent_client_expiration_s = (u32)MIN(number * unit, (u64)U32_MAX - 1);
}

static void on_retain(struct parser *p, u32 field) {
  (void)field;
  (void)take_bool(p, &p->config->retain_available);
}

static void on_per_listener(struct parser *p, u32 field) {
  (void)field;
  if (take_bool(p, &p->per_listener) && p->config->listener_count > 0) {
    problem(p, CONFIG_ERROR, "per_listener_settings must stand before the first listener");
  }
}

static void on_zero_length(struct parser *p, u32 field) {
  bool allowed = true;
  (void)field;
  if (take_bool(p, &allowed) && !allowed) {
    problem(p, CONFIG_ERROR,
            "allow_zero_length_clientid false is not supported yet: clients without an "
            "identifier are given one");
  }
}

static void on_protocol(struct parser *p, u32 field) {
  (void)field;
  if (!bytes_equal_str(value_of(p), "mqtt")) {
    problem(p, CONFIG_ERROR, "only `protocol mqtt` is served; websockets are not supported yet");
  }
}

static void on_persistence(struct parser *p, u32 field) {
  (void)field;
  if (take_bool(p, &p->config->persistence) && p->config->persistence) {
    problem(p, CONFIG_WARNING,
            "served from RAM: there is no storage yet, a restart forgets sessions and messages");
  }
}

static bool parse_ip4(struct bytes text, u32 *out) {
  u32 v = 0;
  for (u32 i = 0; i < 4; i++) {
    usize dot = bytes_find(text, '.');
    u64 part = 0;
    if ((i < 3) != (dot < text.len) ||
        bytes_to_u64(bytes_sub(text, 0, dot), 255, &part) != ERR_OK) {
      return false;
    }
    v = v << 8 | (u32)part;
    text = dot < text.len ? bytes_skip(text, dot + 1) : text;
  }
  *out = v;
  return true;
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

// network dhcp|ADDRESS/PREFIX [gateway G] [mac M]
static void on_network(struct parser *p, u32 field) {
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

static void on_listener_line(struct parser *p, u32 field) {
  (void)field;
  on_listener(p);
}

static const struct {
  const char *name;
  void (*take)(struct parser *p, u32 field);
  u32 field;
} honoured[] = {
    {"listener", on_listener_line, 0},
    {"cafile", on_listener_field, F_CA},
    {"certfile", on_listener_field, F_CERT},
    {"keyfile", on_listener_field, F_KEY},
    {"crlfile", on_listener_field, F_CRL},
    {"require_certificate", on_listener_field, F_REQUIRE},
    {"use_identity_as_username", on_listener_field, F_IDENTITY},
    {"allow_anonymous", on_listener_field, F_ANONYMOUS},
    {"max_connections", on_listener_field, F_MAX_CONNECTIONS},
    {"max_qos", on_listener_field, F_MAX_QOS},
    {"max_inflight_messages", on_number, N_INFLIGHT},
    {"max_queued_messages", on_number, N_QUEUED},
    {"max_packet_size", on_number, N_PACKET},
    {"max_keepalive", on_number, N_KEEPALIVE},
    {"max_topic_alias", on_number, N_ALIAS},
    {"persistent_client_expiration", on_expiration, 0},
    {"retain_available", on_retain, 0},
    {"persistence", on_persistence, 0},
    {"per_listener_settings", on_per_listener, 0},
    {"allow_zero_length_clientid", on_zero_length, 0},
    {"protocol", on_protocol, 0},
    {"network", on_network, 0},
};

static void unknown(struct parser *p) {
  char buf[64];
  struct bytes word = keyword_of(p);
  const char *best = NULL;
  u32 least = CONFIG_NEAR;
  for (u32 i = 0; i < ARRAY_COUNT(honoured); i++) {
    config_nearer(word, honoured[i].name, &best, &least);
  }
  config_nearest_known(word, &best, &least);
  if (best != NULL) {
    problem(p, CONFIG_ERROR, "unknown keyword \"%s\"; did you mean \"%s\"?", shown(word, buf),
            best);
  } else {
    problem(p, CONFIG_ERROR, "unknown keyword \"%s\"", shown(word, buf));
  }
}

static void take_line(struct parser *p) {
  char buf[64];
  struct bytes word = keyword_of(p);
  for (u32 i = 0; i < ARRAY_COUNT(honoured); i++) {
    if (bytes_equal_str(word, honoured[i].name)) {
      p->name = honoured[i].name;
      honoured[i].take(p, honoured[i].field);
      return;
    }
  }
  const struct known *k = config_harmless(word);
  if (k != NULL) {
    problem(p, CONFIG_WARNING, "%s has no effect here: %s", k->name, k->why);
    return;
  }
  k = config_refused(word);
  if (k != NULL) {
    problem(p, CONFIG_ERROR, "%s is not supported: %s", shown(word, buf), k->why);
    return;
  }
  unknown(p);
}

// What only the whole file shows.
static void check_listener(struct parser *p, struct config_listener *l) {
  bool any = l->certfile.len + l->keyfile.len + l->cafile.len + l->crlfile.len > 0;
  p->line.number = l->line;
  if (!p->per_listener) {
    l->allow_anonymous = p->config->allow_anonymous;
  }
  if (any && (l->certfile.len == 0 || l->keyfile.len == 0)) {
    problem(p, CONFIG_ERROR, "listener %u has no %s", l->port,
            l->certfile.len == 0 ? "certfile" : "keyfile");
  }
  if (l->require_certificate && l->cafile.len == 0) {
    problem(p, CONFIG_ERROR, "listener %u has require_certificate but no cafile to judge by",
            l->port);
  }
  if (l->use_identity_as_username && !l->require_certificate) {
    problem(p, CONFIG_ERROR,
            "listener %u has use_identity_as_username without require_certificate true", l->port);
  }
  if (!l->allow_anonymous && !l->use_identity_as_username) {
    problem(p, CONFIG_ERROR,
            "nobody could connect to listener %u: give use_identity_as_username true or "
            "allow_anonymous true",
            l->port);
  }
  if (l->allow_anonymous && !any) {
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
