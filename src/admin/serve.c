// SPDX-License-Identifier: Apache-2.0
#include "admin/serve.h"

#include "admin/log.h"
#include "admin/source.h"
#include "base/fmt.h"

#define SEC_NS 1000000000ull
#define FRONT_BYTES 512u  // of a connection by WebSocket or PROXY, red zones and rounding included

void say(const char *format, ...) {
  char line[512];
  struct writer w = writer_init(span_of(line, sizeof line - 1));
  __builtin_va_list args;
  __builtin_va_start(args, format);
  fmt_v(&w, format, args);
  __builtin_va_end(args);
  struct bytes text = writer_bytes(&w);
  log_line(bytes_starts_with(text, BYTES_LIT("warning")) ? LOG_WARNING : LOG_INFORMATION, text);
  line[w.pos++] = '\n';
  plat_console(bytes_of(line, w.pos));
}

// --- configuration

static void print_problem(const struct config_problem *p) {
  char line[512];
  struct writer w = writer_init(span_of(line, sizeof line));
  config_problem_text(p, &w);
  log_line(p->severity == CONFIG_ERROR ? LOG_ERROR : LOG_WARNING,
           bytes_of(line, w.pos > 0 ? w.pos - 1 : 0));
  plat_console(writer_bytes(&w));
}

// Two of each: what is in use, and what a reload reads.
static struct {
  struct config config[2];
  struct source source[2];
  u32 now;  // the one in use, when there is one
  bool any;
} read;
static struct limits limits_start;  // before any configuration
static bool limits_known;

static u32 spare(void) {
  return read.any ? 1 - read.now : read.now;
}

static enum serve_found parse(u32 k) {
  static struct config_report report;
  struct source *s = &read.source[k];
  say("configuration: %s", s->name);
  enum err e = config_parse(s->tar, &read.config[k], &report);
  for (u32 i = 0; i < report.count; i++) {
    print_problem(&report.problem[i]);
  }
  if (e != ERR_OK) {
    say("configuration: %u errors; nothing of it is used", report.error_count);
    source_release(s);
    return SERVE_BAD;
  }
  return SERVE_GOOD;
}

// Errors elsewhere do not cost the machine its address: whoever looks after it can reach it.
static bool network_only(const struct config *c) {
  return !read.any && c->network_count > 0 && !c->network_wrong;
}

const struct config *serve_config(struct carve *carve) {
  if (!source_find(carve, &read.source[0])) {
    say("no configuration: urMQTT answers ping and nothing else.");
    say("  It wants urmqtt.conf with at least one `listener`, and the files it names, in a "
        "folder;");
    say("  put that into the image: build/tools/urmqtt-stamp ISO FOLDER -o NEW-ISO");
    say("  or give the machine a CD or disk labelled CIDATA or URMQTT (ISO 9660 or FAT) with "
        "these");
    say("  files in its root folder: xorriso -as mkisofs -r -V CIDATA -o VOLUME.iso FOLDER");
    return NULL;
  }
  read.any = parse(0) == SERVE_GOOD;
  if (!read.any) {
    struct config *c = &read.config[0];
    say("urMQTT answers ping and nothing else%s.",
        network_only(c) ? ", at the address of its network lines, which are good" : "");
  }
  return serve_current();
}

const struct config *serve_current(void) {
  return read.any ? &read.config[read.now] : NULL;
}

const char *serve_source_name(void) {
  ASSERT(read.any);
  return read.source[read.now].name;
}

enum serve_found serve_candidate(const struct config **out) {
  u32 k = spare();
  struct source *s = &read.source[k];
  *out = &read.config[k];
  if (!source_read(read.any ? &read.source[read.now] : NULL, s)) {
    say("no configuration is there any more");
    return SERVE_NOTHING;
  }
  if (!s->again) {
    say("the configuration (%s) was read at the start and cannot be read again: start the machine "
        "again",
        s->name);
    return SERVE_SAME;
  }
  if (read.any && bytes_equal(s->tar, read.source[read.now].tar)) {
    say("the configuration (%s) has not changed", s->name);
    source_release(s);
    return SERVE_SAME;
  }
  return parse(k);
}

struct span serve_room(void) {
  ASSERT(read.any);
  return source_room(&read.source[read.now]);
}

enum serve_found serve_given(struct bytes giver, u32 len, const struct config **out) {
  u32 k = spare();
  ASSERT(read.any);
  *out = &read.config[k];
  return source_given(&read.source[read.now], giver, len, &read.source[k]) ? parse(k) : SERVE_BAD;
}

struct bytes serve_tar(void) {
  ASSERT(read.any);
  return read.source[read.now].tar;
}

struct bytes serve_candidate_tar(void) {
  return read.source[spare()].tar;
}

void serve_candidate_try(void) {
  ASSERT(read.any);
  read.now = spare();
}

void serve_candidate_drop(void) {
  source_release(&read.source[spare()]);
}

// The server's listeners borrow from the source in use, and every one of them was replaced.
void serve_candidate_take(void) {
  if (read.any) {
    source_release(&read.source[read.now]);
  }
  read.now = spare();
  read.any = true;
}

static void configured_limits(const struct config *c, struct limits *l) {
  struct broker_limits *b = &l->broker;
  u32 alias = 0;
  u32 alias_out = 0;
  for (u32 i = 0; i < c->listener_count; i++) {
    alias = MAX(alias, c->listener[i].max_topic_alias);
    alias_out = MAX(alias_out, c->listener[i].max_topic_alias_broker);
  }
  b->session_inflight_max =
      c->max_inflight_messages != 0 ? c->max_inflight_messages : b->session_inflight_max;
  b->session_queued_max =
      c->max_queued_messages != 0 ? c->max_queued_messages : b->session_queued_max;
  b->packet_size_max = c->max_packet_size != 0 ? c->max_packet_size : b->packet_size_max;
  b->keep_alive_max = (u16)MIN(c->max_keepalive, U16_MAX);
  b->topic_alias_max = (u16)alias;
  b->retain_available = c->retain_available;
  b->session_inflight_bytes_max = c->max_inflight_bytes;
  b->session_queued_bytes_max = c->max_queued_bytes;
  b->topic_alias_max_out = (u16)alias_out;
  b->payload_size_max = c->message_size_limit;
  b->clients_max = c->global_max_clients;
  b->retained_expiry_s = (u32)MIN((u64)c->retain_expiry_interval_min * 60, (u64)U32_MAX);
  b->allow_empty_client_id = c->allow_zero_length_clientid;
  b->queue_qos0 = c->queue_qos0_messages;
  b->upgrade_outgoing_qos = c->upgrade_outgoing_qos;
  b->client_id_prefix = c->auto_id_prefix.len > 0 ? c->auto_id_prefix : BYTES_LIT("auto-");
  b->check_retain_source = c->check_retain_source;
  b->v4_expiry_s =
      c->persistent_client_expiration_s != 0 ? c->persistent_client_expiration_s : U32_MAX;
  l->server.packet_size_max = b->packet_size_max;
  for (u32 i = 0; i < c->listener_count; i++) {
    if (c->listener[i].websockets || c->listener[i].proxy != 0) {
      l->server.fronts = MIN(l->server.connections, (u32)(l->core_len / 64 / FRONT_BYTES));
    }
  }
  l->server.accepted_max = c->global_max_connections;
  if (c->memory_limit != 0) {
    b->message_bytes = ALIGN_DOWN(MIN(b->message_bytes, MAX(c->memory_limit, 1ull << 20)), 4096ull);
  }
}

void serve_limits(const struct config *c, struct limits *l) {
  if (!limits_known) {
    limits_start = *l;
    limits_known = true;
  }
  if (c != NULL) {
    configured_limits(c, l);
  }
}

void serve_relimit(struct core *core, const struct config *c) {
  struct limits l = limits_start;
  serve_limits(c, &l);
  broker_change_limits(core->broker, &l.broker);
  server_change_limits(core->server, &l.server);
}

// --- TLS

bool serve_has_tls(const struct config_listener *l) {
  return l->certfile.data.len > 0 || l->keyfile.data.len > 0;
}

static const char *scheme(const struct config_listener *l) {
  if (l->websockets) {
    return serve_has_tls(l) ? "wss" : "ws";
  }
  return serve_has_tls(l) ? "mqtts" : "mqtt";
}

static void print_context(const struct config_listener *l, const struct tls_context *t) {
  struct tls_context_info info;
  tls_context_info(t, &info);
  u64 now_s = plat_wall().unix_ns / SEC_NS;
  u64 days =
      info.certificate_not_after_s > now_s ? (info.certificate_not_after_s - now_s) / 86400 : 0;
  say("listener %u: server key %s, certificate good for %llu days, %u CAs, %u revoked", l->port,
      info.key_type, (unsigned long long)days, info.ca_count, info.revoked_count);
}

// One key for the program's life, so that a reload costs nobody his ticket.
static const u8 *ticket_key(void) {
  static u8 key[TLS_TICKET_KEY_BYTES];
  static bool made;
  if (!made) {
    (void)plat_random(span_of(key, sizeof key));
    made = true;
  }
  return key;
}

static struct tls_context *make_context(const struct config_listener *l) {
  struct plat_wall wall = plat_wall();
  struct tls_time now = {.unix_s = wall.unix_ns / SEC_NS,
                         .lower_unix_s = wall.lower_unix_ns / SEC_NS,
                         .trusted = wall.quality >= CLOCK_RTC};
  struct tls_config t = {.certificate = l->certfile.data,
                         .key = l->keyfile.data,
                         .ca = l->cafile.data,
                         .more_ca = l->capath.data,
                         .more_ca_count = l->capath.count,
                         .crl = l->crlfile.data,
                         .require_certificate = l->require_certificate,
                         .tickets = true,
                         .cached_chains = 4096};
  struct tls_problem problem = {.line = 0};
  memcpy(t.ticket_key, ticket_key(), sizeof t.ticket_key);
  struct tls_context *context = tls_context_new(&t, &now, &problem);
  mem_wipe(t.ticket_key, sizeof t.ticket_key);
  if (context == NULL) {
    struct config_problem shown;
    config_tls_problem(l, &problem, &shown);
    print_problem(&shown);
    return NULL;
  }
  return context;
}

struct tls_context *serve_context(const struct config_listener *l, bool quiet) {
  struct tls_context *context = make_context(l);
  if (context != NULL && !quiet) {
    print_context(l, context);
  }
  return context;
}

u32 serve_cores(const struct config *c, u64 memory_len) {
  u32 have = plat_core_count();
  if (have > 1 && c != NULL && c->dynsec) {
    say("cores: 1 of %u: dynamic security is not shared between cores yet", have);
    return 1;
  }
  u32 cores = limits_cores(memory_len, have);
  if (cores < have) {
    say("cores: %u of %u: each wants 32 MiB of memory", cores, have);
  }
  return cores;
}

static struct security *security;

bool serve_security_init(struct carve *carve, const struct config *c) {
  security = security_init(carve, c);
  return security != NULL;
}

struct span serve_security_arena(void) {
  return security_arena(security);
}

bool serve_security(struct core *core, const struct config *c) {
  static struct config_report report;
  report.count = report.error_count = 0;
  enum err e = security_load(security, core, c, &report);
  for (u32 i = 0; i < report.count; i++) {
    print_problem(&report.problem[i]);
  }
  return e == ERR_OK;
}

void serve_security_also(struct core *core, const struct config *c) {
  security_also(security, core, c);
}

static enum certificate_name name_of(const struct config_listener *l) {
  if (l->use_identity_as_username) {
    return CERTIFICATE_COMMON_NAME;
  }
  if (l->use_subject_as_username) {
    return CERTIFICATE_SUBJECT;
  }
  return l->use_san_as_username == 1   ? CERTIFICATE_SAN_DNS
         : l->use_san_as_username == 2 ? CERTIFICATE_SAN_EMAIL
                                       : CERTIFICATE_NONE;
}

struct listener_config serve_listener_config(const struct config *c, u32 index) {
  const struct config_listener *l = &c->listener[index];
  struct listener_config config = {.port = l->port,
                                   .address = l->address,
                                   .versions = l->versions,
                                   .allow_anonymous = l->security.allow_anonymous,
                                   .certificate_name = (u8)name_of(l),
                                   .username_as_client_id = l->use_username_as_clientid,
                                   .client_prefix = c->clientid_prefixes,
                                   .access_set = security_set(c, index),
                                   .max_connections = l->max_connections,
                                   .max_qos = l->max_qos,
                                   .relaxed = l->durability_relaxed,
                                   .websockets = l->websockets,
                                   .origin_count = l->origin_count,
                                   .proxy = l->proxy,
                                   .proxy_needs_tls = l->proxy_needs_tls,
                                   .mount = l->mount_point,
                                   .id_prefix = l->auto_id_prefix,
                                   .ignore_client_dates = l->disable_client_cert_date_checks};
  static_assert(sizeof config.origins == sizeof l->origin, "one list");
  memcpy(config.origins, l->origin, sizeof config.origins);
  return config;
}

bool serve_listeners(struct core *core, const struct config *c, bool listen) {
  bool good = true;
  for (u32 i = 0; i < c->listener_count; i++) {
    const struct config_listener *l = &c->listener[i];
    struct listener_config config = serve_listener_config(c, i);
    if (!l->served) {
      continue;
    }
    if (serve_has_tls(l)) {
      config.tls = serve_context(l, core->id != 0);
    }
    if (serve_has_tls(l) && config.tls == NULL) {
      good = false;
      continue;
    }
    if (listen) {
      enum err e = server_listen(core->server, &config);
      if (e != ERR_OK) {
        say("listener %u: error: %s", l->port, err_name(e));
        good = false;
      } else if (core->id == 0) {
        say("ready: %s on 0.0.0.0:%u%s", scheme(l), l->port,
            l->require_certificate ? " (client certificate required)" : "");
      }
    }
    if (config.tls != NULL) {
      tls_context_unref(config.tls);
    }
  }
  return good;
}

// --- addresses

// The configured network of this NIC: by MAC, else the n-th of those without one.
static const struct config_network *network_of(const struct config *c, u32 nic) {
  struct plat_nic info;
  plat_nic_info(nic, &info);
  u32 unnamed = 0;
  for (u32 i = 0; i < c->network_count; i++) {
    const struct config_network *n = &c->network[i];
    if (n->has_mac && memcmp(n->mac, info.mac, sizeof info.mac) == 0) {
      return n;
    }
  }
  for (u32 i = 0; i < c->network_count; i++) {
    const struct config_network *n = &c->network[i];
    if (!n->has_mac && unnamed++ == nic) {
      return n;
    }
  }
  return NULL;
}

void serve_addresses(struct core *core, const struct config *c) {
  c = c == NULL && network_only(&read.config[0]) ? &read.config[0] : c;
  for (u32 i = 0; i < plat_nic_count(); i++) {
    const struct config_network *n = c != NULL ? network_of(c, i) : NULL;
    struct net_if_config config = {.dhcp = true, .ip6 = {.mode = NET_IP6_AUTO}};
    if (n != NULL) {
      config = (struct net_if_config){.dhcp = n->dhcp,
                                      .address = n->address,
                                      .prefix_len = n->prefix_len,
                                      .gateway = n->gateway,
                                      .ip6 = n->ip6};
    }
    enum err e = net_configure(core->net, i, &config);
    if (e != ERR_OK) {
      say("network %u: error: %s", i, err_name(e));
    }
  }
}
