// SPDX-License-Identifier: Apache-2.0
// Bridges of the configuration: names that are left out get mosquitto's defaults, certificates
// become contexts.
#include "admin/serve.h"
#include "base/fmt.h"
#include "net/dns.h"
#include "server/bridge.h"

#define SEC_NS 1000000000ull
#define NAMES_MAX 600u

// mosquitto: HOSTNAME.NAME, and "local." in front of that here.
static void fill_names(const struct config_bridge *c, struct bridge_config *k, char own[NAMES_MAX],
                       char local[NAMES_MAX]) {
  k->client_id = c->remote_clientid;
  if (k->client_id.len == 0) {
    u32 n = fmt_z(own, NAMES_MAX, "urmqtt.%.*s", (int)MIN(c->name.len, 500u),
                  (const char *)c->name.ptr);
    k->client_id = bytes_of(own, n);
  }
  k->local_client_id = c->local_clientid;
  if (k->local_client_id.len == 0) {
    u32 n = fmt_z(local, NAMES_MAX, "local.%.*s", (int)MIN(k->client_id.len, 580u),
                  (const char *)k->client_id.ptr);
    k->local_client_id = bytes_of(local, n);
  }
}

static u32 fill_topics(const struct config *c, u32 bridge, struct bridge_topic *out) {
  u32 n = 0;
  for (u32 i = 0; i < c->bridge_topic_count; i++) {
    const struct config_bridge_topic *t = &c->bridge_topic[i];
    if (t->bridge == bridge) {
      out[n++] = (struct bridge_topic){.pattern = t->pattern,
                                       .local_prefix = t->local_prefix,
                                       .remote_prefix = t->remote_prefix,
                                       .direction = t->direction,
                                       .qos = t->qos};
    }
  }
  return n;
}

// NULL with *good: none is wanted; NULL without: said on the console.
static struct tls_context *make_context(const struct config_bridge *c, bool *good) {
  *good = true;
  if (c->cafile.data.len == 0) {
    return NULL;
  }
  struct plat_wall wall = plat_wall();
  struct tls_time now = {.unix_s = wall.unix_ns / SEC_NS,
                         .lower_unix_s = wall.lower_unix_ns / SEC_NS,
                         .trusted = wall.quality >= CLOCK_RTC};
  struct tls_config t = {.client = true,
                         .ca = c->cafile.data,
                         .certificate = c->certfile.data,
                         .key = c->keyfile.data,
                         .alpn = c->alpn};
  static const char *const inputs[] = {"its settings", "bridge_certfile", "bridge_keyfile",
                                       "bridge_cafile", "its CRL"};
  struct tls_problem problem;
  struct tls_context *context = tls_context_new(&t, &now, &problem);
  if (context == NULL) {
    say("urmqtt.conf:%u: error: connection %.*s: %s, line %u: %s", c->line,
        (int)MIN(c->name.len, 100u), (const char *)c->name.ptr, inputs[problem.input], problem.line,
        problem.reason);
    *good = false;
  }
  return context;
}

static struct bridge_config make_config(const struct config_bridge *c) {
  struct bridge_config k = {
      .name = c->name,
      .address_count = c->address_count,
      .username = c->remote_username,
      .password = c->remote_password,
      .local_username = c->local_username,
      .notification_topic = c->notification_topic,
      .any_name = c->insecure,
      .version = c->protocol_version,
      .start = c->start_type,
      .clean = c->cleansession,
      .local_clean = c->local_cleansession == 0 ? c->cleansession : c->local_cleansession == 2,
      .try_private = c->try_private,
      .notifications = c->notifications,
      .notifications_local_only = c->notifications_local_only,
      .round_robin = c->round_robin,
      .outgoing_retain = c->outgoing_retain,
      .keep_alive_s = (u16)c->keepalive_interval_s,
      .restart_base_s = c->restart_base_s,
      .restart_cap_s = c->restart_cap_s,
      .idle_timeout_s = c->idle_timeout_s,
      .threshold = c->threshold,
      .session_expiry_s = c->session_expiry_interval_s,
      .packet_size_max = c->max_packet_size,
      .receive_maximum = (u16)c->receive_maximum};
  for (u32 i = 0; i < c->address_count; i++) {
    k.address[i].host = c->address[i].host;
    k.address[i].port = c->address[i].port;
  }
  return k;
}

static bool add(struct core *core, const struct config *c, u32 index, bool start) {
  static struct bridge_topic topics[CONFIG_BRIDGE_TOPICS_MAX];
  char own[NAMES_MAX];
  char local[NAMES_MAX];
  const struct config_bridge *b = &c->bridge[index];
  struct bridge_config k = make_config(b);
  bool good = true;
  fill_names(b, &k, own, local);
  k.topic_count = fill_topics(c, index, topics);
  k.topics = topics;
  k.tls = make_context(b, &good);
  if (good && start) {
    enum err e = bridge_add(core->server, &k);
    if (e != ERR_OK) {
      say("urmqtt.conf:%u: error: connection %.*s: %s", b->line, (int)MIN(b->name.len, 100u),
          (const char *)b->name.ptr,
          e == ERR_RANGE ? "a topic line is no topic, or a name is too long" : err_name(e));
      good = false;
    }
  }
  if (k.tls != NULL) {
    tls_context_unref(k.tls);
  }
  return good;
}

bool serve_bridges(struct core *core, struct carve *carve, const struct config *c, bool start) {
  static_assert(CONFIG_BRIDGE_ADDRESSES_MAX <= BRIDGE_ADDRESSES_MAX, "every address fits");
  bool good = true;
  dns_set_servers(core->net, c->dns, c->dns_count);
  if (c->bridge_count == 0) {
    return true;
  }
  if (start &&
      bridges_init(core, carve, c->bridge_count, MAX(c->bridge_topic_count, 1u)) != ERR_OK) {
    say("error: there is no memory for %u bridges", c->bridge_count);
    return false;
  }
  for (u32 i = 0; i < c->bridge_count; i++) {
    good &= add(core, c, i, start);
  }
  return good;
}
