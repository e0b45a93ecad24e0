// SPDX-License-Identifier: Apache-2.0
// Bridges: connections that we open to other brokers, as mosquitto configures them. A bridge is a
// client on both sides: towards the other broker over TCP and TLS, towards our own through a
// session in it, whose stream is translated packet by packet (topics by prefixes, 5.0 to 3.1.1).
//
// Nothing here waits: what the other side does not take stays queued in the session, within the
// ceilings that hold for every client. All of it belongs to core 0.
#pragma once
#include "server/server.h"

#define BRIDGE_ADDRESSES_MAX 8u
#define BRIDGE_TEXT_MAX 1024u  // of each name, password and topic of a bridge

enum bridge_start { BRIDGE_AUTOMATIC, BRIDGE_LAZY, BRIDGE_ONCE };
enum bridge_direction { BRIDGE_TOPIC_OUT = 1, BRIDGE_TOPIC_IN = 2 };
struct bridge_topic {  // `topic PATTERN DIRECTION QOS LOCAL REMOTE`
  struct bytes pattern, local_prefix, remote_prefix;
  u8 direction;  // of enum bridge_direction, one or both
  u8 qos;
};
struct bridge_config {  // texts are copied
  struct bytes name;
  struct {
    struct bytes host;  // a DNS name or dotted IPv4
    u16 port;
  } address[BRIDGE_ADDRESSES_MAX];
  u32 address_count;
  struct bytes client_id, username, password;  // towards the other broker; client_id not empty
  struct bytes local_client_id, local_username;
  struct bytes notification_topic;    // empty: $SYS/broker/connection/CLIENT-ID/state
  const struct bridge_topic *topics;  // read by bridge_add only
  u32 topic_count;
  struct tls_context *tls;  // NULL = plain; a reference is taken
  bool any_name;            // bridge_insecure: the server's name is not compared
  u8 version;               // 3, 4 or 5
  u8 start;                 // enum bridge_start
  bool clean, local_clean;  // sessions end with the connection: there, and here
  bool try_private, notifications, notifications_local_only, round_robin, outgoing_retain;
  u16 keep_alive_s;
  u32 restart_base_s, restart_cap_s;
  u32 idle_timeout_s, threshold;  // lazy
  u32 session_expiry_s, packet_size_max;
  u16 receive_maximum;
};

// Makes room for `count` bridges with `topics` topic lines in all; once, after server_init.
// ERR_NO_MEMORY. Registers a timer kind of its own.
enum err bridges_init(struct core *core, struct carve *carve, u32 count, u32 topics);
// Adds a bridge and starts it as configured. ERR_LIMIT; ERR_RANGE: a text is longer than
// BRIDGE_TEXT_MAX or a topic is none; ERR_NO_MEMORY.
enum err bridge_add(struct server *server, const struct bridge_config *config);

struct bridge_state {
  struct bytes name;
  bool connected;
  u32 attempts;      // since it was last connected
  const char *last;  // why the last attempt or connection ended; "" = it has not
  u64 messages_in, messages_out, dropped;
};
// The n-th bridge; false: there are not so many.
bool bridge_state(const struct server *server, u32 index, struct bridge_state *out);
