// SPDX-License-Identifier: Apache-2.0
// Configuration: a ustar bundle with urmqtt.conf (mosquitto's dialect and our keywords) and the
// files it names. Pure: bytes in, a checked structure out, every complaint with file, line and
// reason. The keywords themselves stand in keyword_*.c.
#pragma once
#include "base/bytes.h"

#define CONFIG_LISTENERS_MAX 16u
#define CONFIG_NETWORKS_MAX 4u
#define CONFIG_PROBLEMS_MAX 64u
#define CONFIG_ORIGINS_MAX 8u

struct config_file {  // a file of the bundle
  struct bytes data;  // borrowed from the bundle; empty = not set
  struct bytes name;  // its last name, as the configuration has it
};
// Who may come in and do what: mosquitto's keywords that are every listener's, or with
// per_listener_settings true each listener's own.
struct config_security {
  bool allow_anonymous;
  struct config_file password_file, acl_file, psk_file;
};
struct config_listener {
  u16 port;
  u32 line;  // of the `listener` keyword
  struct config_file cafile, certfile, keyfile, crlfile;
  struct config_security security;  // in force here, whichever way it was written
  bool require_certificate, use_identity_as_username;
  u32 max_connections;  // 0 = no limit of its own
  u8 max_qos;
  bool websockets;
  struct bytes origin[CONFIG_ORIGINS_MAX];  // allowed to browsers; borrowed; none = all
  u32 origin_count;
  u8 proxy;  // version of the PROXY header that comes first; 0 = none
  bool proxy_needs_tls;
};
struct config_network {
  bool dhcp;
  bool has_mac;  // `network mac 52:54:00:12:34:56 ...` binds to that NIC, otherwise in order
  u8 mac[6];
  u32 address;
  u8 prefix_len;
  u32 gateway;
};
struct config {
  struct config_listener listener[CONFIG_LISTENERS_MAX];
  u32 listener_count;
  struct config_network network[CONFIG_NETWORKS_MAX];
  u32 network_count;                // 0 = DHCP on every NIC
  struct config_security security;  // of all listeners, unless per_listener_settings
  bool per_listener_settings;
  u32 max_inflight_messages, max_queued_messages, max_packet_size, max_keepalive, max_topic_alias;
  u32 persistent_client_expiration_s;  // 0 = never
  bool retain_available;
  bool persistence;  // accepted: served from RAM with a warning until there is a disk
};

enum config_severity { CONFIG_NOTE, CONFIG_WARNING, CONFIG_ERROR };
struct config_problem {
  enum config_severity severity;
  char file[64];
  u32 line;        // 0 = the file as a whole
  char text[200];  // a TLS reason of 160 and its listener fit
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
struct tls_problem;
// A listener's TLS problem as one of the configuration: file, line and text.
void config_tls_problem(const struct config_listener *l, const struct tls_problem *p,
                        struct config_problem *out);
// Writes one problem as `file:line: error: text` and a newline.
void config_problem_text(const struct config_problem *p, struct writer *w);
