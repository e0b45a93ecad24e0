// SPDX-License-Identifier: Apache-2.0
// The packets of one client, in both directions, as they cross its connection: for an administrator
// who looks for a fault. One branch on a bit of the connection when nobody looks.
#pragma once
#include "mqtt/packet.h"

struct conn;

#define TRACE_TOPIC_MAX 256u

struct server_packet {
  bool out;
  u8 type;   // enum mqtt_type
  u8 flags;  // of the fixed header
  u32 len;   // of the whole packet
  u32 id;    // 0: it has none, or it stands behind a long topic
  // Of PUBLISH, and the first filter of SUBSCRIBE and UNSUBSCRIBE; borrowed, not yet validated, at
  // most TRACE_TOPIC_MAX bytes of it.
  struct bytes topic;
  bool payload_known;
  u32 payload_len;
};
typedef void server_trace_take(void *ctx, const struct server_packet *p);

struct trace {
  server_trace_take *take;  // NULL: off
  void *ctx;
  u32 client_len;
  u8 client[256];
  // The outgoing stream: the first bytes of the packet that is being sent.
  bool lost;  // its boundaries are not known yet
  u32 have;
  u32 left;  // bytes of it to come, once its fixed header is there
  bool headed;
  u8 head[MQTT_FIXED_MAX + 2 + TRACE_TOPIC_MAX + 2 + 5];
};

// Called by the server's files for a connection that is traced (but for trace_entered). What is
// known of a packet by its first bytes `b`; false: not even its fixed header.
bool trace_read(u8 version, bool out, struct bytes b, struct server_packet *p);
void trace_tell(struct conn *c, const struct server_packet *p);
// Bytes of the broker's stream; mid_packet: they begin within a packet.
void trace_out(struct conn *c, struct bytes stream, bool mid_packet);
// A client has come in by this CONNECT.
void trace_entered(struct conn *c, u32 connect_len);
