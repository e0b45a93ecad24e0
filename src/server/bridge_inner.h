// SPDX-License-Identifier: Apache-2.0
// What the files of a bridge share: its life (bridge.c), what comes in (bridge_in.c), what goes out
// (bridge_out.c), topics (bridge_map.c), and the hooks that a connection calls.
//
// B1  conn and session are set together from CONNACK until the connection ends; before CONNACK conn
//     alone. While conn is NULL the session is detached and queues.
// B2  The local session always speaks 5.0, whatever the other broker speaks, and never hears what
//     it published itself (no local).
// B3  A packet that bridge_out took from the session is whole in `out` before a byte of it leaves.
#pragma once
#include "server/bridge.h"
#include "server/conn.h"

// A topic as it leaves; a longer one is dropped and counted.
#define BRIDGE_TOPIC_OUT_MAX 4096u

enum bridge_phase { BRIDGE_OFF, BRIDGE_WAITING, BRIDGE_RESOLVING, BRIDGE_OPENING, BRIDGE_UP };

struct bridge_rule {           // a topic line with its filters put together
  struct bytes local, remote;  // filters
  struct bytes local_prefix, remote_prefix;
  u8 direction, qos;
};

struct bridge {
  struct server *server;
  struct bridge_config config;
  struct server_listener from;  // what its connection takes for a listener
  struct conn *conn;
  struct tcp_conn *tcp;  // while it opens
  struct session *session;
  struct bridge_rule *rules;
  u32 rule_count;
  u32 timer;
  u8 phase;
  u8 qos_max;            // the other broker's
  bool private_refused;  // the other broker does not know mosquitto's mark of a bridge
  u16 remote_receive_max;
  u32 remote_packet_max;  // 0 = any
  u32 address_idx;        // to be tried next
  u32 attempts;
  u32 wait_s;  // before the last attempt
  u32 idle_s;
  u64 ping_ns;  // when one is due
  u64 messages_in, messages_out, dropped;
  const char *last;
  // The packet on its way out (B3).
  u8 *out;  // an extent of out_cap bytes; NULL = none
  u32 out_cap, out_have, out_len;
  u32 out_from;  // bytes of `out` that the head replaces
  u32 out_pos;   // of head and rest together
  u32 head_len;
  u8 head[16 + BRIDGE_TOPIC_OUT_MAX];
  u8 fixed[8];  // of a packet whose length is not known yet
  u32 fixed_len;
  u8 own[32];  // PINGREQ and acknowledgements of our own, to go out between packets
  u32 own_len;
};

// --- bridge.c
void bridge_lost(struct bridge *b, const char *why);  // the connection or attempt is over
bool bridge_is(const struct conn *c);
struct bridge *bridge_of(const struct conn *c);
// CONNACK: success or the other broker's reason. False: the connection ends.
bool bridge_connack(struct bridge *b, const struct mqtt_connack *a);

// --- bridge_map.c
// Topics from here to there and back. `out` holds the result; 0: no rule wants it there.
u32 bridge_map_out(const struct bridge *b, struct bytes topic, struct span out);
u32 bridge_map_in(const struct bridge *b, struct bytes topic, struct span out);

// --- bridge_out.c
u32 bridge_pull(struct conn *c, struct span out);  // as broker_pull
bool bridge_has_output(const struct conn *c);
bool bridge_mid_packet(const struct conn *c);
void bridge_out_reset(struct bridge *b);
// A small packet of our own; false: there is no room for it now.
bool bridge_say(struct bridge *b, struct bytes packet);

// --- bridge_in.c
enum packet_use bridge_packet(struct conn *c, const struct mqtt_header *h, struct bytes packet);

// --- bridge_session.c; each sets `last` when it fails
bool bridge_send_connect(struct bridge *b);
bool bridge_remote_subscribe(struct bridge *b);  // and says that we are there
// Connects and subscribes `c` to our own broker: c->session is set.
bool bridge_local_open(struct bridge *b, struct conn *c, bool clean);
void bridge_notify_local(struct bridge *b, bool up);

// --- hooks of a connection (bridge.c)
void bridge_open(struct conn *c);  // TCP and TLS are there: CONNECT goes out
void bridge_gone(struct conn *c);  // the connection is freed
struct tls_handshake *bridge_handshake(struct conn *c, struct span arena,
                                       const struct tls_time *now);
