// SPDX-License-Identifier: Apache-2.0
// $SYS: one table of topics with the place of their value; a value that has not changed is not
// published again.
//
// I1  Every value is a 64-bit count or a level that its owner never lets fall below zero; what is
//     computed here (disconnected) is a difference of two levels of the same owner.
// I2  Clients cannot write below $SYS (broker/publish.c), and wildcards at the first level do not
//     match it [MQTT-4.7.2-1].
#include "admin/sys.h"

#include "admin/cores.h"
#include "admin/load.h"
#include "admin/serve.h"
#include "admin/serve_store.h"
#include "admin/syslog.h"
#include "admin/task.h"
#include "base/fmt.h"
#include "net/admit.h"

#define SEC_NS 1000000000ull
#define HOUR_NS (3600 * SEC_NS)
#define DAY_S 86400u
#define WARN_DAYS 30u
#define PREFIX "$SYS/broker/"
#define UNKNOWN U64_MAX

struct own {  // values computed here
  u64 sent[16];
  u64 uptime_s, time_s, disconnected, heap, heap_maximum, dropped_frames, nothing, syslog_sent,
      syslog_dropped;
  struct serve_store_stats store;
};

struct admission {  // of net/admit.h, what is shown
  u32 slots, used, expected, waiting;
  struct admit_stats stats;
};

enum source { FROM_BROKER, FROM_SERVER, FROM_NET, FROM_ADMISSION, FROM_OWN, SOURCE_COUNT };
struct item {
  const char *name;
  u8 source;
  u8 size;
  u16 at;
};
#define ITEM(name, source, type, field) \
  { name, source, sizeof(((struct type *)0)->field), OFFSETOF(struct type, field) }
#define BROKER(name, field) ITEM(name, FROM_BROKER, broker_stats, field)
#define DROPPED(name, why) BROKER("publish/messages/dropped/" name, dropped[why])
#define SERVER(name, field) ITEM(name, FROM_SERVER, server_stats, field)
#define NET(name, field) ITEM(name, FROM_NET, net_stats, field)
#define ADMISSION(name, field) ITEM("network/admission/" name, FROM_ADMISSION, admission, field)
#define OWN(name, field) ITEM(name, FROM_OWN, own, field)

static const struct item items[] = {
    // mosquitto's
    OWN("uptime", uptime_s),
    BROKER("clients/total", clients_total),
    BROKER("clients/maximum", clients_maximum),
    BROKER("clients/connected", clients_connected),
    BROKER("clients/active", clients_connected),
    OWN("clients/disconnected", disconnected),
    OWN("clients/inactive", disconnected),
    BROKER("clients/expired", clients_expired),
    BROKER("messages/received", messages_received),
    BROKER("messages/sent", messages_sent),
    BROKER("messages/stored", messages_stored),
    BROKER("store/messages/count", messages_stored),
    BROKER("store/messages/bytes", message_bytes_stored),
    BROKER("subscriptions/count", subscriptions),
    BROKER("shared_subscriptions/count", shared_subscriptions),
    BROKER("retained messages/count", retained),
    OWN("heap/current", heap),
    OWN("heap/maximum", heap_maximum),
    BROKER("bytes/received", bytes_received),
    BROKER("bytes/sent", bytes_sent),
    BROKER("publish/messages/dropped", publish_dropped),
    BROKER("publish/messages/received", publish_received),
    BROKER("publish/messages/sent", publish_sent),
    BROKER("publish/bytes/received", publish_bytes_received),
    BROKER("publish/bytes/sent", publish_bytes_sent),
    BROKER("packet/out/count", queued),
    BROKER("packet/out/bytes", queued_bytes),
    SERVER("connections/socket/count", connections),
    SERVER("mqtt/connect/received", packets_received[MQTT_CONNECT]),
    SERVER("mqtt/publish/received", packets_received[MQTT_PUBLISH]),
    SERVER("mqtt/puback/received", packets_received[MQTT_PUBACK]),
    SERVER("mqtt/pubrec/received", packets_received[MQTT_PUBREC]),
    SERVER("mqtt/pubrel/received", packets_received[MQTT_PUBREL]),
    SERVER("mqtt/pubcomp/received", packets_received[MQTT_PUBCOMP]),
    SERVER("mqtt/subscribe/received", packets_received[MQTT_SUBSCRIBE]),
    SERVER("mqtt/unsubscribe/received", packets_received[MQTT_UNSUBSCRIBE]),
    SERVER("mqtt/pingreq/received", packets_received[MQTT_PINGREQ]),
    SERVER("mqtt/disconnect/received", packets_received[MQTT_DISCONNECT]),
    SERVER("mqtt/auth/received", packets_received[MQTT_AUTH]),
    OWN("mqtt/connack/sent", sent[MQTT_CONNACK]),
    OWN("mqtt/publish/sent", sent[MQTT_PUBLISH]),
    OWN("mqtt/puback/sent", sent[MQTT_PUBACK]),
    OWN("mqtt/pubrec/sent", sent[MQTT_PUBREC]),
    OWN("mqtt/pubrel/sent", sent[MQTT_PUBREL]),
    OWN("mqtt/pubcomp/sent", sent[MQTT_PUBCOMP]),
    OWN("mqtt/suback/sent", sent[MQTT_SUBACK]),
    OWN("mqtt/unsuback/sent", sent[MQTT_UNSUBACK]),
    OWN("mqtt/pingresp/sent", sent[MQTT_PINGRESP]),
    OWN("mqtt/disconnect/sent", sent[MQTT_DISCONNECT]),
    OWN("mqtt/auth/sent", sent[MQTT_AUTH]),
    // ours
    OWN("time", time_s),
    SERVER("tls/handshakes", handshakes_full),
    SERVER("tls/resumed", handshakes_resumed),
    SERVER("tls/failed", handshakes_failed),
    BROKER("retained messages/bytes", retained_bytes),
    BROKER("inflight/count", inflight),
    BROKER("inflight/bytes", inflight_bytes),
    DROPPED("queue full", BROKER_DROPPED_QUEUE),
    DROPPED("made room", BROKER_DROPPED_OLD),
    DROPPED("global ceiling", BROKER_DROPPED_GLOBAL),
    DROPPED("expired", BROKER_DROPPED_EXPIRED),
    DROPPED("too large", BROKER_DROPPED_TOO_LARGE),
    DROPPED("not retained", BROKER_DROPPED_RETAINED),
    SERVER("connections/accepted", accepted),
    SERVER("connections/refused", refused),
    SERVER("connections/protocol errors", protocol_errors),
    SERVER("connections/timeouts/connect", connect_timeouts),
    SERVER("connections/timeouts/keepalive", keepalive_timeouts),
    NET("network/tcp/open", tcp_open),
    NET("network/tcp/retransmits", tcp_retransmits),
    NET("network/tcp/refused", tcp_refused),
    ADMISSION("slots", slots),
    ADMISSION("used", used),
    ADMISSION("expected", expected),
    ADMISSION("waiting", waiting),
    ADMISSION("answered", stats.entered),
    ADMISSION("begun", stats.begun),
    ADMISSION("parked", stats.parked),
    ADMISSION("resumed", stats.resumed),
    ADMISSION("expired", stats.expired),
    ADMISSION("given up", stats.given_up),
    NET("network/admission/cookies/sent", tcp_cookies_sent),
    NET("network/admission/cookies/good", tcp_cookies_good),
    NET("network/bytes/received", rx_bytes),
    NET("network/bytes/sent", tx_bytes),
    OWN("network/frames/dropped", dropped_frames),
    OWN("log/syslog/sent", syslog_sent),
    OWN("log/syslog/dropped", syslog_dropped),
    OWN("store/disk/state", store.state),
    OWN("store/disk/records", store.records),
    OWN("store/disk/bytes", store.bytes),
    OWN("store/disk/flushes", store.flushes),
    OWN("store/disk/left out", store.left_out),
    OWN("store/disk/free", store.free),
};

static const struct item loads[] = {
    BROKER("messages/received", messages_received),
    BROKER("messages/sent", messages_sent),
    BROKER("publish/dropped", publish_dropped),
    BROKER("publish/received", publish_received),
    BROKER("publish/sent", publish_sent),
    BROKER("bytes/received", bytes_received),
    BROKER("bytes/sent", bytes_sent),
    SERVER("sockets", accepted),
    SERVER("connections", connects),
};

enum { CERTIFICATE, CA, CRL, KIND_COUNT };
static const char *const kinds[KIND_COUNT] = {"certificate", "ca", "crl"};

static struct {
  struct own own;
  u64 last[ARRAY_COUNT(items)];  // published; UNKNOWN = never
  struct load load[ARRAY_COUNT(loads)];
  u64 load_last[ARRAY_COUNT(loads)][LOAD_WINDOWS];
  u64 days_last[SERVER_LISTENERS_MAX][KIND_COUNT];
  u64 warned_day[SERVER_LISTENERS_MAX][KIND_COUNT];  // days left when last said
  u64 stepped_ns, hour_ns;
  u32 interval_s;
  u32 hours;
  struct admin_task task;
  bool version_out;
} sys;

// --- publishing

static bool publish(struct core *core, const char *topic, const char *text) {
  return broker_publish(core->broker, bytes_str(topic), bytes_str(text), 2, true, core->now_ns);
}

// The figures of each core, as it copied them itself (cores_do).
static struct figures {
  struct broker_stats broker;
  struct server_stats server;
  struct net_stats net;
  struct admission admission;
} figures[PLAT_CORE_MAX];

static void copy_figures(struct core *core, void *unused) {
  struct figures *f = &figures[core->id];
  (void)unused;
  f->broker = *broker_stats(core->broker);
  f->server = *server_stats(core->server);
  f->net = *net_stats(core->net);
  const struct admit *a = net_admission(core->net);
  f->admission = (struct admission){a->slots, a->used, a->expected, a->waiting, a->stats};
}

static u64 read_one(const struct item *i, const struct figures *f) {
  const void *const sources[SOURCE_COUNT] = {&f->broker, &f->server, &f->net, &f->admission,
                                             &sys.own};
  const u8 *p = (const u8 *)sources[i->source] + i->at;
  ASSERT(i->size == 4 || i->size == 8);
  return i->size == 8 ? load_le64(p) : load_le32(p);
}

// Of all cores together. (A maximum is the sum of theirs, so at most too large.)
static u64 read_item(const struct item *i) {
  u64 sum = 0;
  for (u32 k = 0; k < (i->source == FROM_OWN ? 1 : cores_count()); k++) {
    sum += read_one(i, &figures[k]);
  }
  return sum;
}

static void publish_items(struct core *core) {
  char topic[96];
  char text[40];
  for (u32 k = 0; k < ARRAY_COUNT(items); k++) {
    u64 v = read_item(&items[k]);
    if (v == sys.last[k]) {
      continue;
    }
    (void)fmt_z(topic, sizeof topic, PREFIX "%s", items[k].name);
    (void)fmt_z(text, sizeof text, k == 0 ? "%llu seconds" : "%llu", (unsigned long long)v);
    sys.last[k] = publish(core, topic, text) ? v : UNKNOWN;
  }
}

static void publish_loads(struct core *core) {
  static const char *const windows[LOAD_WINDOWS] = {"1min", "5min", "15min"};
  char topic[96];
  char text[40];
  u64 ms = MAX((core->now_ns - sys.stepped_ns) / 1000000, 1ull);
  sys.stepped_ns = core->now_ns;
  for (u32 k = 0; k < ARRAY_COUNT(loads); k++) {
    load_step(&sys.load[k], read_item(&loads[k]), ms);
    for (u32 i = 0; i < LOAD_WINDOWS; i++) {
      u64 v = load_hundredths(&sys.load[k], i);
      if (v == sys.load_last[k][i]) {
        continue;
      }
      (void)fmt_z(topic, sizeof topic, PREFIX "load/%s/%s", loads[k].name, windows[i]);
      (void)fmt_z(text, sizeof text, "%llu.%02llu", (unsigned long long)(v / 100),
                  (unsigned long long)(v % 100));
      sys.load_last[k][i] = publish(core, topic, text) ? v : UNKNOWN;
    }
  }
}

// --- expiry

// Whole days from now to each date; UNKNOWN: there is no such thing on this listener.
static bool days_left(const struct listener_config *l, u64 days[KIND_COUNT]) {
  if (l->tls == NULL) {
    return false;
  }
  struct tls_context_info info;
  tls_context_info(l->tls, &info);
  const u64 ends[KIND_COUNT] = {info.certificate_not_after_s, info.ca_not_after_s,
                                info.crl_next_update_s};
  u64 now_s = plat_wall().unix_ns / SEC_NS;
  for (u32 k = 0; k < KIND_COUNT; k++) {
    days[k] = ends[k] == U64_MAX ? UNKNOWN : ends[k] > now_s ? (ends[k] - now_s) / DAY_S : 0;
  }
  return true;
}

static void publish_expiry(struct core *core) {
  struct listener_config l;
  char topic[96];
  char text[24];
  u64 days[KIND_COUNT];
  for (u32 i = 0; server_listener(core->server, i, &l); i++) {
    for (u32 k = 0; days_left(&l, days) && k < KIND_COUNT; k++) {
      if (days[k] == sys.days_last[i][k]) {
        continue;
      }
      (void)fmt_z(topic, sizeof topic, PREFIX "tls/%u/%s/days", l.port, kinds[k]);
      (void)fmt_z(text, sizeof text, "%llu", (unsigned long long)days[k]);
      bool out = publish(core, topic, days[k] == UNKNOWN ? "" : text);  // empty: it is gone
      sys.days_last[i][k] = out ? days[k] : UNKNOWN;
    }
  }
}

void sys_check_expiry(struct core *core) {
  static const char *const names[KIND_COUNT] = {"the server certificate", "a CA", "the CRL"};
  struct listener_config l;
  u64 days[KIND_COUNT];
  for (u32 i = 0; server_listener(core->server, i, &l); i++) {
    for (u32 k = 0; days_left(&l, days) && k < KIND_COUNT; k++) {
      bool soon = days[k] <= WARN_DAYS;
      if (soon && days[k] != sys.warned_day[i][k]) {
        say("warning: listener %u: %s %s", l.port, names[k],
            days[k] == 0 ? "ends today or has ended" : "ends soon");
        say("  days left: %llu; put a new one into the configuration and reload",
            (unsigned long long)days[k]);
      }
      sys.warned_day[i][k] = soon ? days[k] : UNKNOWN;
    }
  }
}

// --- time

static void collect(struct core *core) {
  copy_figures(core, NULL);
  cores_do(copy_figures, NULL);
  struct own *o = &sys.own;
  o->uptime_s = core->now_ns / SEC_NS;
  o->time_s = plat_wall().unix_ns / SEC_NS;
  o->disconnected = o->dropped_frames = 0;
  o->heap = tls_heap_used();
  memset(o->sent, 0, sizeof o->sent);
  for (u32 k = 0; k < cores_count(); k++) {
    const struct figures *f = &figures[k];
    ASSERT(f->broker.clients_total >= f->broker.clients_connected);
    o->disconnected += f->broker.clients_total - f->broker.clients_connected;
    o->heap += f->broker.message_bytes_stored;
    for (u32 i = 0; i < ARRAY_COUNT(o->sent); i++) {
      o->sent[i] += f->broker.packets_sent[i] + f->server.packets_sent[i];
    }
    for (u32 i = 0; i < ARRAY_COUNT(f->net.rx_dropped); i++) {
      o->dropped_frames += f->net.rx_dropped[i];
    }
  }
  o->heap_maximum = MAX(o->heap_maximum, o->heap);
  o->syslog_sent = syslog_stats()->sent;
  o->syslog_dropped = syslog_stats()->dropped;
  serve_store_stats(&o->store);
}

static void publish_all(struct core *core) {
  collect(core);
  if (!sys.version_out) {
    sys.version_out = publish(core, PREFIX "version", "urMQTT version " URMQTT_VERSION);
  }
  publish_items(core);
  publish_loads(core);
  publish_expiry(core);
}

void sys_metrics(struct core *core, struct writer *w) {
  collect(core);
  for (u32 k = 0; k < ARRAY_COUNT(items); k++) {
    write_str(w, "urmqtt_");
    for (const char *p = items[k].name; *p != 0; p++) {
      write_u8(w, *p == '/' || *p == ' ' ? '_' : (u8)*p);
    }
    fmt(w, " %llu\n", (unsigned long long)read_item(&items[k]));
  }
}

// At the next multiple of the interval, by the wall clock, as mosquitto 2.1.
static void arm(struct core *core) {
  u64 next = sys.hour_ns;
  if (sys.interval_s != 0) {
    u64 interval = sys.interval_s * SEC_NS;
    next = MIN(next, core->now_ns + interval - plat_wall().unix_ns % interval);
  }
  wheel_arm(&core->wheel, sys.task.timer, next);
}

static void run(struct core *core) {
  if (core->now_ns >= sys.hour_ns) {
    sys.hour_ns = core->now_ns + HOUR_NS;
    sys_check_expiry(core);
    if (++sys.hours % 24 == 0) {
      (void)server_recheck(core->server);  // a certificate ends while its connection lives
    }
  }
  if (sys.interval_s != 0) {
    publish_all(core);
  }
  arm(core);
}

bool sys_start(struct core *core, u32 interval_s) {
  memset(&sys, 0, sizeof sys);
  memset(sys.last, 0xff, sizeof sys.last);  // UNKNOWN
  memset(sys.load_last, 0xff, sizeof sys.load_last);
  memset(sys.days_last, 0xff, sizeof sys.days_last);
  memset(sys.warned_day, 0xff, sizeof sys.warned_day);
  if (!admin_task_start(core, &sys.task, run)) {
    return false;
  }
  core->now_ns = plat_now_ns();
  sys.stepped_ns = core->now_ns;
  sys.hour_ns = core->now_ns + HOUR_NS;
  sys.interval_s = interval_s;
  sys_check_expiry(core);
  if (interval_s != 0) {
    publish_all(core);
  }
  arm(core);
  return true;
}

void sys_set_interval(struct core *core, u32 interval_s) {
  sys.interval_s = interval_s;
  arm(core);
}
