// SPDX-License-Identifier: Apache-2.0
// Keywords of the broker as a whole: limits, sessions, retained messages, storage, bridges.
#include "admin/keyword.h"

// u32 seconds. mosquitto: a number and h, d, w, m or y.
static void on_expiration(struct parser *p, void *field) {
  char buf[64];
  struct bytes v = value_of(p);
  u64 number = 0;
  u64 unit = 0;
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
    problem(p, CONFIG_ERROR, "%s wants a number and one of h d w m y, not \"%s\"", p->k->name,
            shown(v, buf));
    return;
  }
  *(u32 *)field = (u32)MIN(number * unit, (u64)U32_MAX - 1);
}

static void on_persistence(struct parser *p, void *field) {
  take_bool(p, field);
  if (p->config->persistence) {
    problem(p, CONFIG_WARNING,
            "served from RAM: there is no storage yet, a restart forgets sessions and messages");
  }
}

#define OWN_MEMORY "urMQTT divides the machine's memory itself"
#define WITH_DISK "there is no storage yet"
#define BREAKS "ignoring it would break what you rely on"

const struct keyword keywords_broker[] = {
    {"max_inflight_messages", BY(SCOPE_GLOBAL, struct config, max_inflight_messages, take_limit),
     .most = 65535},
    {"max_queued_messages", BY(SCOPE_GLOBAL, struct config, max_queued_messages, take_limit),
     .most = 60000},
    {"max_packet_size", IN_CONFIG(max_packet_size), .least = 20, .most = 268435455},
    {"max_keepalive", IN_CONFIG(max_keepalive), .most = 65535},
    {"max_topic_alias", IN_CONFIG(max_topic_alias), .most = 65535},
    {"persistent_client_expiration",
     BY(SCOPE_GLOBAL, struct config, persistent_client_expiration_s, on_expiration)},
    {"retain_available", IN_CONFIG(retain_available)},
    {"persistence", BY(SCOPE_GLOBAL, struct config, persistence, on_persistence)},
    {"persistence_location", .fate = FATE_IGNORED, .why = WITH_DISK},
    {"persistence_file", .fate = FATE_IGNORED, .why = WITH_DISK},
    {"autosave_interval", .fate = FATE_IGNORED, .why = WITH_DISK},
    {"autosave_on_changes", .fate = FATE_IGNORED, .why = WITH_DISK},
    {"queue_qos0_messages", .fate = FATE_IGNORED,
     .why = "messages of QoS 0 are not queued for clients that are away"},
    {"memory_limit", .fate = FATE_IGNORED, .why = OWN_MEMORY},
    {"max_inflight_bytes", .fate = FATE_IGNORED, .why = OWN_MEMORY},
    {"max_queued_bytes", .fate = FATE_IGNORED, .why = OWN_MEMORY},
    {"store_clean_interval", .fate = FATE_IGNORED, .why = OWN_MEMORY},
    {"packet_buffer_size", .fate = FATE_IGNORED, .why = OWN_MEMORY},
    {"upgrade_outgoing_qos", .fate = FATE_IGNORED,
     .why = "messages keep the QoS they were published with"},
    {"retry_interval", .fate = FATE_IGNORED,
     .why = "MQTT allows no repetition within a connection"},
    {"sys_interval", .fate = FATE_IGNORED, .why = "there are no $SYS topics yet"},
    {"global_max_clients", .fate = FATE_REFUSED, .why = "use max_connections after each listener"},
    {"global_max_connections", .fate = FATE_REFUSED,
     .why = "use max_connections after each listener"},
    {"message_size_limit", .fate = FATE_REFUSED,
     .why = "use max_packet_size, which counts the whole packet"},
    {"retain_expiry_interval", .fate = FATE_REFUSED, .why = BREAKS},
    {"connection", .fate = FATE_REFUSED, .why = BREAKS},
    {.name = NULL},
};
