// SPDX-License-Identifier: Apache-2.0
#include "admin/config_known.h"

// mosquitto's keywords that change nothing here, and why.
static const char no_process[] = "urMQTT is no process of an operating system";
static const char on_console[] = "urMQTT logs to its console";
static const char own_tls[] = "urMQTT speaks TLS 1.3 with its own choice of ciphers";
static const char own_memory[] = "urMQTT divides the machine's memory itself";
static const char with_disk[] = "there is no storage yet";
static const struct known harmless[] = {
    {"pid_file", no_process},
    {"user", no_process},
    {"log_dest", on_console},
    {"log_type", on_console},
    {"log_facility", on_console},
    {"log_timestamp", on_console},
    {"log_timestamp_format", on_console},
    {"connection_messages", on_console},
    {"websockets_log_level", on_console},
    {"persistence_location", with_disk},
    {"persistence_file", with_disk},
    {"autosave_interval", with_disk},
    {"autosave_on_changes", with_disk},
    {"set_tcp_nodelay", "urMQTT never delays small packets"},
    {"socket_domain", "urMQTT serves IPv4"},
    {"sys_interval", "there are no $SYS topics yet"},
    {"tls_version", own_tls},
    {"ciphers", own_tls},
    {"ciphers_tls1.3", own_tls},
    {"dhparamfile", own_tls},
    {"tls_keyform", own_tls},
    {"queue_qos0_messages", "messages of QoS 0 are not queued for clients that are away"},
    {"memory_limit", own_memory},
    {"max_inflight_bytes", own_memory},
    {"max_queued_bytes", own_memory},
    {"upgrade_outgoing_qos", "messages keep the QoS they were published with"},
    {"retry_interval", "MQTT allows no repetition within a connection"},
    {"store_clean_interval", own_memory},
    {"packet_buffer_size", own_memory},
};
// Those whose loss would let people in or break what users rely on.
static const char opens[] = "ignoring it would let in whom you keep out";
static const char breaks[] = "ignoring it would break what you rely on";
static const char use_listener[] = "write `listener PORT`";
static const struct known refused[] = {
    {"acl_file", opens},
    {"password_file", opens},
    {"psk_file", opens},
    {"psk_hint", opens},
    {"plugin", opens},
    {"auth_plugin", opens},
    {"global_plugin", opens},
    {"plugin_opt_", opens},
    {"auth_opt_", opens},
    {"clientid_prefixes", opens},
    {"check_retain_source", opens},
    {"bind_interface", opens},
    {"accept_protocol_versions", opens},
    {"websockets_origin", opens},
    {"listener_allow_anonymous", "use per_listener_settings true and allow_anonymous"},
    {"disable_client_cert_date_checks", breaks},
    {"global_max_clients", "use max_connections after each listener"},
    {"global_max_connections", "use max_connections after each listener"},
    {"message_size_limit", "use max_packet_size, which counts the whole packet"},
    {"connection", breaks},
    {"mount_point", breaks},
    {"use_subject_as_username", "use use_identity_as_username (the certificate's common name)"},
    {"use_username_as_clientid", breaks},
    {"include_dir", "put its lines into urmqtt.conf"},
    {"capath", "put the certificates into one file and name it with cafile"},
    {"max_topic_alias_broker", breaks},
    {"retain_expiry_interval", breaks},
    {"auto_id_prefix", breaks},
    {"enable_proxy_protocol", breaks},
    {"http_dir", breaks},
    {"bind_address", use_listener},
    {"port", use_listener},
};

static const struct known *find_known(const struct known *list, u32 count, struct bytes word) {
  for (u32 i = 0; i < count; i++) {
    struct bytes name = bytes_str(list[i].name);
    bool family = name.ptr[name.len - 1] == '_';  // plugin_opt_WHATEVER
    if (family ? bytes_starts_with(word, name) : bytes_equal(word, name)) {
      return &list[i];
    }
  }
  return NULL;
}

const struct known *config_harmless(struct bytes word) {
  return find_known(harmless, ARRAY_COUNT(harmless), word);
}

const struct known *config_refused(struct bytes word) {
  return find_known(refused, ARRAY_COUNT(refused), word);
}

// Differing characters at equal places, plus the difference in length: enough for a slip of a key.
static u32 distance(struct bytes a, struct bytes b) {
  u32 d = (u32)(a.len > b.len ? a.len - b.len : b.len - a.len);
  usize n = MIN(a.len, b.len);
  usize tail = 0;
  while (tail < n && a.ptr[a.len - 1 - tail] == b.ptr[b.len - 1 - tail]) {
    tail++;
  }
  u32 front = 0;
  for (usize i = 0; i + tail < n; i++) {
    front += a.ptr[i] != b.ptr[i] ? 1 : 0;
  }
  return d + front;
}

void config_nearer(struct bytes word, const char *name, const char **best, u32 *least) {
  u32 d = distance(word, bytes_str(name));
  if (d < *least) {
    *least = d;
    *best = name;
  }
}

void config_nearest_known(struct bytes word, const char **best, u32 *least) {
  for (u32 i = 0; i < ARRAY_COUNT(harmless); i++) {
    config_nearer(word, harmless[i].name, best, least);
  }
  for (u32 i = 0; i < ARRAY_COUNT(refused); i++) {
    config_nearer(word, refused[i].name, best, least);
  }
}
