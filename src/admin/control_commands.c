// SPDX-License-Identifier: Apache-2.0
// The commands of the console over MQTT, one function each, and their table.
#include "admin/control_inner.h"
#include "admin/log.h"
#include "admin/reload.h"
#include "admin/sys.h"
#include "base/fmt.h"
#include "server/bridge.h"

#define PAGE_DEFAULT 100
#define FILTER_MAX 4096u
#define SEC_NS 1000000000ull

i64 control_number(const struct control_call *c, const char *name, i64 standard) {
  i64 v = standard;
  (void)json_int(c->j, json_member(c->j, c->node, name), 0, 1000000000, &v);
  return v;
}

static bool flag(const struct control_call *c, const char *name) {
  bool v = false;
  (void)json_bool(c->j, json_member(c->j, c->node, name), &v);
  return v;
}

static const struct session *named(const struct control_call *c, u8 room[CONTROL_NAME_MAX],
                                   const char **bad) {
  struct bytes id;
  *bad = NULL;
  if (!json_string(c->j, json_member(c->j, c->node, "clientid"), span_of(room, CONTROL_NAME_MAX),
                   &id)) {
    *bad = "Invalid/missing clientid";
    return NULL;
  }
  const struct session *s = broker_session(c->core->broker, id);
  *bad = s == NULL ? "Client not found" : NULL;
  return s;
}

// --- clients

static void put_client(struct control_call *c, const struct session *s, bool verbose) {
  struct json_out *o = c->out;
  struct broker_session_info info;
  struct server_client at;
  bool has_username;
  struct bytes username = session_username(s, &has_username);
  broker_session_info(s, &info);
  json_open(o, '{');
  json_field_string(o, "clientid", session_client_id(s));
  if (has_username) {
    json_field_string(o, "username", username);
  }
  json_field_bool(o, "connected", info.connected);
  if (verbose) {
    json_field_int(o, "protocol", info.version);
    json_field_int(o, "subscriptions", info.subscriptions);
    json_field_int(o, "queued", info.queued);
    json_field_int(o, "queuedBytes", (i64)info.queued_bytes);
    json_field_int(o, "inflight", info.inflight);
    json_field_int(o, "inboundQos2", info.inbound_qos2);
    json_field_int(o, "sessionExpiry", info.expiry_s);
    if (server_client(s, &at)) {
      json_field_string(o, "address", bytes_str(at.peer));
      json_field_int(o, "port", at.port);
      json_field_bool(o, "tls", at.tls);
      json_field_bool(o, "websocket", at.websocket);
      json_field_int(o, "keepAlive", at.keep_alive_s);
      json_field_int(o, "idleSeconds", (i64)(at.idle_ns / SEC_NS));
    }
  }
  json_close(o, '}');
}

static const char *list_clients(struct control_call *c) {
  const struct broker *b = c->core->broker;
  i64 offset = control_number(c, "offset", 0);
  i64 count = control_number(c, "count", PAGE_DEFAULT);
  bool verbose = flag(c, "verbose");
  u64 cursor = 0;
  i64 at = 0;
  json_key(c->out, "data");
  json_open(c->out, '{');
  json_field_int(c->out, "totalCount", broker_stats(b)->clients_total);
  json_key(c->out, "clients");
  json_open(c->out, '[');
  for (const struct session *s = broker_next_session(b, &cursor); s != NULL && at < offset + count;
       s = broker_next_session(b, &cursor), at++) {
    if (at >= offset) {
      put_client(c, s, verbose);
    }
  }
  json_close(c->out, ']');
  json_close(c->out, '}');
  return NULL;
}

static const char *get_client(struct control_call *c) {
  u8 room[CONTROL_NAME_MAX];
  const char *bad;
  const struct session *s = named(c, room, &bad);
  if (s == NULL) {
    return bad;
  }
  json_key(c->out, "data");
  json_open(c->out, '{');
  json_key(c->out, "client");
  put_client(c, s, true);
  json_close(c->out, '}');
  return NULL;
}

static const char *list_subscriptions(struct control_call *c) {
  u8 room[CONTROL_NAME_MAX];
  u8 filter[FILTER_MAX];
  const char *bad;
  const struct session *s = named(c, room, &bad);
  if (s == NULL) {
    return bad;
  }
  i64 offset = control_number(c, "offset", 0);
  i64 count = control_number(c, "count", PAGE_DEFAULT);
  i64 at = 0;
  u32 cursor = 0;
  struct broker_subscription sub;
  json_key(c->out, "data");
  json_open(c->out, '{');
  json_key(c->out, "subscriptions");
  json_open(c->out, '[');
  for (; session_next_subscription(s, &cursor, span_of(filter, sizeof filter), &sub) &&
         at < offset + count;
       at++) {
    if (at < offset) {
      continue;
    }
    json_open(c->out, '{');
    json_field_string(c->out, "topic", sub.filter);
    if (sub.group.len > 0) {
      json_field_string(c->out, "group", sub.group);
    }
    json_field_int(c->out, "qos", sub.qos);
    json_field_bool(c->out, "noLocal", sub.no_local);
    json_field_bool(c->out, "retainAsPublished", sub.retain_as_published);
    json_field_int(c->out, "identifier", sub.identifier);
    json_close(c->out, '}');
  }
  json_close(c->out, ']');
  json_close(c->out, '}');
  return NULL;
}

static const char *kick_client(struct control_call *c) {
  u8 room[CONTROL_NAME_MAX];
  struct bytes id;
  if (!json_string(c->j, json_member(c->j, c->node, "clientid"), span_of(room, sizeof room), &id)) {
    return "Invalid/missing clientid";
  }
  return broker_kick(c->core->broker, id, MQTT_ADMINISTRATIVE_ACTION, c->now_ns)
             ? NULL
             : "Client is not connected";
}

static const char *why_dropped(struct control_call *c) {
  u8 room[CONTROL_NAME_MAX];
  const char *bad;
  const struct session *s = named(c, room, &bad);
  if (s == NULL) {
    return bad;
  }
  struct broker_session_info info;
  broker_session_info(s, &info);
  json_key(c->out, "data");
  json_open(c->out, '{');
  json_key(c->out, "dropped");
  json_open(c->out, '{');
  for (u32 i = 0; i < BROKER_DROPPED_COUNT; i++) {
    json_field_int(c->out, broker_drop_name((enum broker_drop)i), info.dropped[i]);
  }
  json_close(c->out, '}');
  json_close(c->out, '}');
  return NULL;
}

// --- the broker

static const char *list_bridges(struct control_call *c) {
  struct bridge_state s;
  json_key(c->out, "data");
  json_open(c->out, '{');
  json_key(c->out, "bridges");
  json_open(c->out, '[');
  for (u32 i = 0; bridge_state(c->core->server, i, &s); i++) {
    json_open(c->out, '{');
    json_field_string(c->out, "name", s.name);
    json_field_bool(c->out, "connected", s.connected);
    json_field_int(c->out, "attempts", s.attempts);
    json_field_string(c->out, "last", bytes_str(s.last));
    json_field_int(c->out, "messagesIn", (i64)s.messages_in);
    json_field_int(c->out, "messagesOut", (i64)s.messages_out);
    json_field_int(c->out, "dropped", (i64)s.dropped);
    json_close(c->out, '}');
  }
  json_close(c->out, ']');
  json_close(c->out, '}');
  return NULL;
}

static const char *get_metrics(struct control_call *c) {
  static u8 text[32768];
  struct writer w = writer_init(span_of(text, sizeof text));
  sys_metrics(c->core, &w);
  ASSERT(w.err == ERR_OK);
  json_key(c->out, "data");
  json_open(c->out, '{');
  json_field_string(c->out, "text", writer_bytes(&w));
  json_close(c->out, '}');
  return NULL;
}

// Lines from `since` (their number) on; `next` is the number to ask for then.
static const char *get_logs(struct control_call *c) {
  u64 at = (u64)control_number(c, "since", 0);
  i64 count = control_number(c, "count", PAGE_DEFAULT);
  struct log_entry e;
  json_key(c->out, "data");
  json_open(c->out, '{');
  json_key(c->out, "lines");
  json_open(c->out, '[');
  for (; count > 0 && log_entry(&at, &e); count--, at++) {
    json_open(c->out, '{');
    json_field_int(c->out, "number", (i64)at);
    json_field_int(c->out, "time", (i64)e.unix_s);
    json_field_string(c->out, "text", e.text);
    json_close(c->out, '}');
  }
  json_close(c->out, ']');
  json_field_int(c->out, "next", (i64)at);
  json_close(c->out, '}');
  return NULL;
}

bool control_rechecked(const struct core *core, struct bytes client) {
  struct server_client at;
  const struct session *s = broker_session(core->broker, client);
  return s == NULL || !server_client(s, &at) || at.rechecked;
}

static const char *do_reload(struct control_call *c) {
  return reload(c->core) ? NULL : "the configuration was not taken over: getLogs says why";
}

static const char *list_commands(struct control_call *c);
static const struct control_command commands[] = {
    {"listCommands", list_commands, "this list"},
    {"listClients", list_clients, "sessions: offset, count, verbose"},
    {"getClient", get_client, "one session: clientid"},
    {"listSubscriptions", list_subscriptions, "what a client has subscribed to: clientid"},
    {"kickClient", kick_client, "ends a client's connection: clientid"},
    {"whyDropped", why_dropped, "a client's messages that were dropped, by reason: clientid"},
    {"traceClient", control_trace_client,
     "a client's packets for a while: clientid, seconds (0 ends)"},
    {"listBridges", list_bridges, "connections to other brokers"},
    {"getMetrics", get_metrics, "every counter, as Prometheus text"},
    {"getLogs", get_logs, "lines of the console: since, count"},
    {"reload", do_reload, "reads the configuration again"},
    {"configGet", control_config_get, "the configuration's files; one in pieces: file, offset"},
    {"configPut", control_config_put,
     "a new one, on trial: length, sha256, offset, chunk, seconds"},
    {"configConfirm", control_config_confirm, "it stays; over a connection made since"},
    {"configDiff", control_config_diff, "what is on trial, against the one before"},
    {"configRollback", control_config_rollback, "the one before the trial comes back"},
};

static const char *list_commands(struct control_call *c) {
  json_key(c->out, "data");
  json_open(c->out, '{');
  json_key(c->out, "commands");
  json_open(c->out, '[');
  for (u32 i = 0; i < ARRAY_COUNT(commands); i++) {
    json_open(c->out, '{');
    json_field_string(c->out, "command", bytes_str(commands[i].name));
    json_field_string(c->out, "what", bytes_str(commands[i].what));
    json_close(c->out, '}');
  }
  json_close(c->out, ']');
  json_close(c->out, '}');
  return NULL;
}

const struct control_command *control_find(struct bytes name) {
  for (u32 i = 0; i < ARRAY_COUNT(commands); i++) {
    if (bytes_equal_nocase(name, commands[i].name)) {
      return &commands[i];
    }
  }
  return NULL;
}
