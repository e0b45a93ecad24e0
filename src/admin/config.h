// SPDX-License-Identifier: Apache-2.0
// Configuration: a ustar bundle with urmqtt.conf (mosquitto's dialect and our keywords) and the
// files it names. Pure: bytes in, a checked structure out, every complaint with file, line and
// reason. The keywords themselves stand in keyword_*.c.
#pragma once
#include "base/ip.h"
#include "net/net.h"

#define CONFIG_LISTENERS_MAX 16u
#define CONFIG_NETWORKS_MAX 4u
#define CONFIG_PROBLEMS_MAX 64u
#define CONFIG_DNS_MAX 4u
#define CONFIG_CONSOLE_USERS_MAX 8u
#define CONFIG_CONSOLE_NAME_MAX 256u
#define CONFIG_CAPATH_MAX 16u
#define CONFIG_BRIDGES_MAX 32u
#define CONFIG_BRIDGE_ADDRESSES_MAX 8u
#define CONFIG_BRIDGE_TOPICS_MAX 256u  // of all bridges
#define CONFIG_ORIGINS_MAX 8u

struct config_file {  // a file of the bundle
  struct bytes data;  // borrowed from the bundle; empty = not set
  struct bytes name;  // its last name, as the configuration has it
};
// Who may come in and do what: mosquitto's keywords that are every listener's, or with
// per_listener_settings true each listener's own.
struct config_security {
  bool allow_anonymous;
  bool acl_subscribe_check;  // ours: SUBSCRIBE of what cannot be read is refused
  // Set when their name is; an empty file is one too (nobody, nothing).
  struct config_file password_file, acl_file, psk_file;
};
struct config_files {  // the files of a folder of the bundle
  struct bytes data[CONFIG_CAPATH_MAX];
  u32 count;
  struct bytes name;
};
struct config_listener {
  u16 port;
  u32 line;                // of the `listener` keyword
  struct ip_addr address;  // IP_NONE = every address of this machine
  bool websockets;
  bool http_api;    // mosquitto's web interface: not served
  bool served;      // false: understood, and nobody listens (a warning has said why)
  bool unservable;  // the parser's own: its place is none that this machine has
  struct config_file cafile, certfile, keyfile, crlfile;
  struct config_files capath;
  struct config_security security;  // in force here, whichever way it was written
  u8 anonymous;                     // listener_allow_anonymous: 0 = not said, 1 = false, 2 = true
  bool require_certificate, disable_client_cert_date_checks;
  bool use_identity_as_username, use_subject_as_username, use_username_as_clientid;
  u8 use_san_as_username;  // 0 = not, 1 = dNSName, 2 = rfc822Name
  u32 max_connections;     // 0 = no limit of its own
  u8 max_qos;
  bool durability_relaxed;
  u8 versions;  // 1 << protocol level; 0 = all
  u32 max_topic_alias, max_topic_alias_broker;
  struct bytes mount_point, auto_id_prefix;  // empty = none, the broker's
  u8 proxy;  // version of the PROXY header that comes first; 0 = none
  bool proxy_needs_tls;
  struct bytes origin[CONFIG_ORIGINS_MAX];  // allowed to browsers; borrowed; none = all
  u32 origin_count;
};
// One `connection` with its keywords. Parsed; nothing connects yet.
struct config_bridge {
  struct bytes name;
  u32 line;
  struct {
    struct bytes host;
    u16 port;
  } address[CONFIG_BRIDGE_ADDRESSES_MAX];
  u32 address_count;
  struct bytes remote_clientid, remote_username, remote_password;
  struct bytes local_clientid, local_username, local_password;
  struct bytes notification_topic, alpn, identity, psk, bind_address;
  struct config_file cafile, certfile, keyfile;
  struct config_files capath;
  u8 protocol_version;    // 3, 4 or 5
  u8 start_type;          // 0 automatic, 1 lazy, 2 once
  u8 local_cleansession;  // 0 = as cleansession, 1 = false, 2 = true
  bool cleansession, try_private, notifications, notifications_local_only, round_robin;
  bool attempt_unsubscribe, outgoing_retain, insecure, tls_use_os_certs;
  u32 keepalive_interval_s, idle_timeout_s, threshold, max_packet_size, max_topic_alias;
  u32 receive_maximum, session_expiry_interval_s;
  u32 restart_base_s, restart_cap_s, restart_stable_s;  // base = cap: fixed
};
enum config_direction { BRIDGE_OUT = 1, BRIDGE_IN = 2, BRIDGE_BOTH = 3 };
struct config_bridge_topic {
  u32 bridge;
  struct bytes pattern;  // empty: the prefixes are the topics
  struct bytes local_prefix, remote_prefix;
  u8 direction;
  u8 qos;
};
struct config_network {
  bool dhcp;
  bool has_mac;  // `network mac 52:54:00:12:34:56 ...` binds to that NIC, otherwise in order
  u8 mac[6];
  u32 address;  // 0 without dhcp: no IPv4
  u8 prefix_len;
  u32 gateway;
  struct net_if6_config ip6;
};
struct config {
  struct config_listener listener[CONFIG_LISTENERS_MAX];
  u32 listener_count;
  struct config_network network[CONFIG_NETWORKS_MAX];
  u32 network_count;                // 0 = DHCP on every NIC
  bool network_wrong;               // a network line has an error: none of them is to be used
  struct config_security security;  // of all listeners, unless per_listener_settings
  bool per_listener_settings;
  struct config_bridge bridge[CONFIG_BRIDGES_MAX];
  u32 bridge_count;
  struct config_bridge_topic bridge_topic[CONFIG_BRIDGE_TOPICS_MAX];
  u32 bridge_topic_count;
  struct bytes console_user[CONFIG_CONSOLE_USERS_MAX];  // who may command us over MQTT
  u32 console_user_count;
  struct ip_addr dns[CONFIG_DNS_MAX];  // name servers; before those of DHCP
  u32 dns_count;
  u32 max_inflight_messages, max_queued_messages, max_packet_size, max_keepalive;
  u32 max_inflight_bytes, max_queued_bytes;        // of one client; 0 = none
  u32 message_size_limit;                          // of a payload; 0 = none
  u64 memory_limit;                                // of stored messages; 0 = none
  u32 global_max_clients, global_max_connections;  // 0 = none
  u32 retain_expiry_interval_min;                  // 0 = never
  u32 sys_interval_s;                              // 0 = no $SYS
  struct bytes auto_id_prefix;
  bool allow_zero_length_clientid;
  bool queue_qos0_messages, upgrade_outgoing_qos, allow_duplicate_messages, connection_messages;
  bool log_topic;      // log_dest topic: lines go to $SYS/broker/log/... too
  bool log_syslog;     // log_dest syslog: and to syslog_server
  u8 syslog_facility;  // log_facility
  u16 syslog_port;     // 0 = there is no syslog_server
  struct ip_addr syslog_server;
  u32 log_types;                       // 1 << enum config_log
  u32 persistent_client_expiration_s;  // 0 = never
  struct bytes clientid_prefixes;      // empty = any
  bool dynsec;                         // mosquitto's dynamic security plugin is named
  struct config_file dynsec_file;      // its plugin_opt_config_file
  bool check_retain_source;
  bool retain_available;
  bool persistence;         // mosquitto's: with a disk it is always so, without one it cannot be
  bool storage_required;    // without a disk nothing is served
  bool durability_relaxed;  // acknowledgements do not wait for the disk
  struct bytes install_serial;  // `install auto`: of the disk; empty: not asked for
  bool install_force;           // whatever is on it
};

#define SYSLOG_DAEMON 3u  // facilities of RFC 5424 6.2.1; log_facility N is local N
#define SYSLOG_LOCAL 16u
#define SYSLOG_PORT 514u

enum config_log {
  LOG_ERROR,
  LOG_WARNING,
  LOG_NOTICE,
  LOG_INFORMATION,
  LOG_DEBUG,
  LOG_SUBSCRIBE,
  LOG_UNSUBSCRIBE,
  LOG_WEBSOCKETS,
};

enum config_severity { CONFIG_NOTE, CONFIG_WARNING, CONFIG_ERROR };
struct config_problem {
  enum config_severity severity;
  char file[64];
  u32 line;  // 0 = the file as a whole
  char text[256];
};
struct config_report {
  struct config_problem problem[CONFIG_PROBLEMS_MAX];
  u32 count;
  u32 error_count;  // counts on beyond CONFIG_PROBLEMS_MAX
};
// Parses the bundle. `out` borrows from it. ERR_INVALID when report->error_count > 0 (out is then
// not to be used). Semantic checks of certificates (pair, expiry) are made by config_check_tls.
enum err config_parse(struct bytes tar, struct config *out, struct config_report *report);
// Loads each TLS listener's certificate, key, CA and CRL (tls_init must have been called) and adds
// what is wrong to the report: a key that does not match, an encrypted key, an expired CA. now_s is
// the lower bound of the time in seconds since 1970. ERR_INVALID when there are errors.
enum err config_check_tls(const struct config *config, u64 now_s, struct config_report *report);
// What names the clients of this listener by their certificate.
bool config_names_by_certificate(const struct config_listener *l);
struct tls_problem;
// A listener's TLS problem as one of the configuration: file, line and text.
void config_tls_problem(const struct config_listener *l, const struct tls_problem *p,
                        struct config_problem *out);
// Writes one problem as `file:line: error: text` and a newline.
void config_problem_text(const struct config_problem *p, struct writer *w);
