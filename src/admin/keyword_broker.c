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
    problem(p, CONFIG_WARNING, "%s: %s", p->k->name, p->k->why);
  }
}

// storage required|optional
static void on_storage(struct parser *p, void *field) {
  char buf[64];
  struct bytes v = value_of(p);
  *(bool *)field = bytes_equal_str(v, "required");
  if (!bytes_equal_str(v, "required") && !bytes_equal_str(v, "optional")) {
    problem(p, CONFIG_ERROR, "storage wants required or optional, not \"%s\"", shown(v, buf));
  }
}

void take_durability(struct parser *p, void *field) {
  char buf[64];
  struct bytes v = value_of(p);
  *(bool *)field = bytes_equal_str(v, "relaxed");
  if (!bytes_equal_str(v, "relaxed") && !bytes_equal_str(v, "strict")) {
    problem(p, CONFIG_ERROR, "%s wants strict or relaxed, not \"%s\"", p->k->name, shown(v, buf));
  }
}

static void on_duplicates(struct parser *p, void *field) {
  take_bool(p, field);
  if (p->config->allow_duplicate_messages) {
    problem(p, CONFIG_NOTE, "%s: %s", p->k->name, p->k->why);
  }
}

#define OWN_MEMORY "urMQTT divides the machine's memory itself"
#define OWN_DISK \
  "kept on a disk that urMQTT has set up for itself, as it happens; without one in RAM only"
#define WITH_DISK "urMQTT writes to a disk of its own, not to files"

const struct keyword keywords_broker[] = {
    {"max_inflight_messages", BY(SCOPE_GLOBAL, struct config, max_inflight_messages, take_limit),
     .most = 65535},
    {"max_queued_messages", BY(SCOPE_GLOBAL, struct config, max_queued_messages, take_limit),
     .most = 60000},
    {"max_inflight_bytes", IN_CONFIG(max_inflight_bytes)},
    {"max_queued_bytes", IN_CONFIG(max_queued_bytes)},
    {"max_packet_size", IN_CONFIG(max_packet_size), .least = 20, .most = 268435455},
    {"message_size_limit", IN_CONFIG(message_size_limit), .most = 268435455},
    {"max_keepalive", IN_CONFIG(max_keepalive), .most = 65535},
    {"memory_limit", IN_CONFIG(memory_limit), .fate = FATE_MAPPED,
     .why = "bounds the stored messages; the rest of the memory is divided at start"},
    {"global_max_clients", BY(SCOPE_GLOBAL, struct config, global_max_clients, take_positive)},
    {"global_max_connections",
     BY(SCOPE_GLOBAL, struct config, global_max_connections, take_positive)},
    {"persistent_client_expiration",
     BY(SCOPE_GLOBAL, struct config, persistent_client_expiration_s, on_expiration)},
    {"retain_available", IN_CONFIG(retain_available)},
    {"retain_expiry_interval", IN_CONFIG(retain_expiry_interval_min)},
    {"queue_qos0_messages", IN_CONFIG(queue_qos0_messages)},
    {"upgrade_outgoing_qos", IN_CONFIG(upgrade_outgoing_qos)},
    {"allow_duplicate_messages",
     BY(SCOPE_GLOBAL, struct config, allow_duplicate_messages, on_duplicates),
     MAPPED("overlapping subscriptions get one copy, with the highest QoS")},
    {"sys_interval", IN_CONFIG(sys_interval_s), .most = 65535},
    {"auto_id_prefix", BY(SCOPE_GLOBAL, struct config, auto_id_prefix, take_id_prefix)},
    {"persistence", BY(SCOPE_GLOBAL, struct config, persistence, on_persistence), MAPPED(OWN_DISK)},
    {"retained_persistence", BY(SCOPE_GLOBAL, struct config, persistence, on_persistence),
     MAPPED(OWN_DISK)},
    {"storage", BY(SCOPE_GLOBAL, struct config, storage_required, on_storage)},
    {"durability", BY(SCOPE_GLOBAL, struct config, durability_relaxed, take_durability)},
    {"persistence_location", .fate = FATE_IGNORED, .why = WITH_DISK},
    {"persistence_file", .fate = FATE_IGNORED, .why = WITH_DISK},
    {"autosave_interval", .fate = FATE_IGNORED, .why = WITH_DISK},
    {"autosave_on_changes", .fate = FATE_IGNORED, .why = WITH_DISK},
    {"store_clean_interval", .fate = FATE_IGNORED, .why = OWN_MEMORY},
    {"packet_buffer_size", .fate = FATE_IGNORED, .why = OWN_MEMORY},
    {"retry_interval", .fate = FATE_IGNORED,
     .why = "MQTT allows no repetition within a connection"},
    {"enable_control_api", .fate = FATE_IGNORED, .why = "there is no $CONTROL yet"},
    {.name = NULL},
};
