// SPDX-License-Identifier: Apache-2.0
// Connections: moves bytes tcp <-> tls <-> mqtt <-> broker, with back-pressure and deadlines.
#pragma once
#include "broker/broker.h"
#include "broker/password.h"
#include "net/tcp.h"
#include "server/trace.h"
#include "tls/tls.h"

struct server;

// Where the password of a user is looked up.
struct login_source {
  const void *ctx;
  // What a check must give; false: nobody may come in under this name, and *out is what a check
  // that must fail shall cost. NULL: there are no passwords.
  bool (*find)(const void *ctx, const struct access_who *who, struct password_hash *out);
  // The same for SCRAM: the keys, or a stand-in. NULL: nobody has any.
  bool (*find_scram)(const void *ctx, const struct access_who *who, struct password_hash *out);
};
// What of a client's certificate is its user name.
enum certificate_name {
  CERTIFICATE_NONE,         // nothing: the packet's user name counts
  CERTIFICATE_COMMON_NAME,  // mosquitto's use_identity_as_username
  CERTIFICATE_SUBJECT,      // use_subject_as_username: the whole, as RFC 2253 text
  CERTIFICATE_SAN_DNS,      // the first dNSName
  CERTIFICATE_SAN_EMAIL,    // the first rfc822Name
};
#define SERVER_LISTENERS_MAX 16u
#define SERVER_MOUNT_MAX 200u
#define SERVER_ORIGINS_MAX 8u
struct listener_config {
  u16 port;
  struct tls_context *tls;  // NULL = plain
  bool allow_anonymous;
  u8 certificate_name;  // enum certificate_name
  bool username_as_client_id;
  u8 access_set;               // of the broker's rules and of the passwords
  struct bytes client_prefix;  // client ids must begin so (clientid_prefixes); borrowed
  u32 max_connections;         // 0 = only the pool's limit
  u32 connection_rate;         // new connections a second, a second's worth at once; 0 = any
  u8 max_qos;
  bool relaxed;     // acknowledgements do not wait for the disk
  bool websockets;  // MQTT inside WebSocket (RFC 6455), behind TLS when `tls` is set
  struct bytes origins[SERVER_ORIGINS_MAX];  // allowed Origin values; borrowed for ever
  u32 origin_count;                          // 0 = any
  u8 proxy;              // 1 or 2: a PROXY header of that version comes first; 0 = none does
  bool proxy_needs_tls;  // version 2: the balancer must say that the client came by TLS
  u8 versions;           // bit = protocol level 3, 4, 5; 0 = all
  // Clients are told to go elsewhere: MQTT_USE_ANOTHER_SERVER or MQTT_SERVER_MOVED (0: they are
  // not), and where; the text is borrowed. It is also what a drain names, when there is one.
  enum mqtt_reason redirect;
  struct bytes server_reference;
  struct bytes mount;        // copied: what a listener began with stays until the program ends
  struct bytes id_prefix;    // of client ids given to its clients; borrowed; empty = the broker's
  bool ignore_client_dates;  // mosquitto's disable_client_cert_date_checks
  bool closed;               // nobody comes in, and server_recheck ends who is there
  struct ip_addr address;    // of this machine; IP_NONE = every one, 0.0.0.0 = every IPv4 one
};

struct server_limits {
  u32 connections;
  u32 handshakes;  // arenas: handshakes under way at once
  u32 connect_timeout_ms;
  u32 packet_size_max;      // a larger packet ends its connection (0x95)
  u64 packet_bytes;         // ceiling for packets being assembled, all together
  u32 accepted_max;         // mosquitto's global_max_connections; 0 = only the pool's limit
  struct span argon_arena;  // for checks of argon2id, aligned to 64, kept for ever; empty = none
  u32 *argon_lease;         // which core uses the arena, shared by all; NULL: it is one core's
  u32 fronts;               // connections of listeners with `websockets` or `proxy`
};
// Registers its stages with the loop: net_init comes before, net_flush is registered after. Takes
// core->net and core->broker, which must be there. ERR_NO_MEMORY.
enum err server_init(struct core *core, struct carve *carve, const struct server_limits *limits);
// ERR_EXISTS: the port is taken. ERR_LIMIT: too many listeners. Takes a reference to config->tls.
enum err server_listen(struct server *server, const struct listener_config *config);
// The n-th listener's configuration, from 0; false: there are not so many. Borrowed: good until the
// next server_listen or server_relisten.
bool server_listener(const struct server *server, u32 index, struct listener_config *out);
// Replaces what the listener of this port is about, for connections to come and, by server_recheck,
// those there are. Takes a reference to config->tls and drops the old one's. ERR_NOT_FOUND.
enum err server_relisten(struct server *server, const struct listener_config *config);
// Judges every connection again by its listener as it is now: certificates by the listener's
// context (tls_recheck), TLS where it is due, the protocol version, the user by the password entry
// he came in by (another entry ends him, also when it is of the same password). Who is no longer
// allowed gets DISCONNECT 0x87 and is ended. Handshakes under way are judged when they are done.
// Returns how many were ended.
u32 server_recheck(struct server *server);
// Takes over accepted_max and packet_size_max; the rest belongs to pools.
void server_change_limits(struct server *server, const struct server_limits *limits);
// The passwords of a set; logins under way keep what they have. source NULL: none.
void server_set_logins(struct server *server, u32 set, const struct login_source *source);
// What is logged, and who is told besides the console. Types are mosquitto's, by bit.
enum { SERVER_LOG_NOTICE = 2, SERVER_LOG_SUBSCRIBE = 5, SERVER_LOG_UNSUBSCRIBE = 6 };
struct server_log_config {
  u32 types;         // 1 << type
  bool connections;  // clients that come and go
  // One line without its end, borrowed for the call. NULL: nobody. Called from within the server
  // and the broker: it must not call either.
  void (*line)(u32 type, struct bytes text);
};
// Tells of every packet of this client from now on, also of connections to come; one at a time.
// `take` NULL: of nobody. It is called from within the server and the broker: it must not call
// either. client_id: at most 256 bytes, copied.
void server_trace(struct server *server, struct bytes client_id, server_trace_take *take,
                  void *ctx);
void server_set_log(struct server *server, const struct server_log_config *config);
// What the server knows of a connected client's connection.
struct server_client {
  u16 port;  // of the listener; 0 = a bridge of ours
  bool tls, websocket;
  bool rechecked;  // the connection is older than the last server_recheck
  u16 keep_alive_s;
  u64 idle_ns;  // since its last packet
  char peer[64];
};
// False: the client is offline.
bool server_client(const struct session *session, struct server_client *out);

struct server_stats {
  u64 accepted, refused, handshakes_full, handshakes_resumed, handshakes_failed, connect_timeouts,
      keepalive_timeouts;
  u64 packets_received[16],
      packets_sent[16];           // by enum mqtt_type; sent: those of the server itself
  u64 protocol_errors, connects;  // connects: CONNECTs answered by success
  u64 logins_good, logins_bad, logins_refused;  // passwords; refused: no place to wait
  u64 login_ns;                                 // spent on hashing
  u64 login_longest_ns;                         // of one slice of hashing
  u32 connections;
};
const struct server_stats *server_stats(const struct server *server);
// Ends every connection in order (DISCONNECT 0x8b for v5, or 0x9c with the listener's server
// reference; close_notify, FIN); true when all are
// gone. No connection is accepted any more.
bool server_drain(struct server *server);
