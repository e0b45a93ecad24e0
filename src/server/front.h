// SPDX-License-Identifier: Apache-2.0
// What stands before MQTT in a connection's stream: a PROXY header, a WebSocket. Only connections
// of listeners that want one have a front; the others pay a NULL pointer.
#pragma once
#include "server/proxy.h"
#include "server/ws_frame.h"

struct conn;
struct budget;

#define FRONT_NAME_MAX 64u

struct front {
  struct ws ws;
  bool request_due;  // the upgrade request has not been answered
  bool close_sent;   // our CLOSE frame is out: nothing follows it
  bool peer_known;   // address and port below are the client's
  u16 peer_port;
  struct ip_addr peer;
  u8 name_len;  // common name that the balancer verified; 0 = none
  u8 name[FRONT_NAME_MAX];
};

// Whether MQTT goes out in WebSocket frames.
bool front_frames(const struct conn *c);
// `n` bytes of content stand WS_OUT_HEAD_MAX behind the start of `at`: puts the frame's head before
// them, at the start. Returns bytes of the frame.
u32 front_frame(struct span at, u32 n);

// The client that the balancer named, as address and port.
void front_peer(struct writer *w, const struct front *f);

// The PROXY header: takes it off the stream when it is whole. False: nothing more can be done now
// (more bytes are needed, or the connection ends).
bool front_proxy(struct conn *c);
// The next piece of the MQTT stream; answers requests, PING and CLOSE on the way. Empty: none is
// there. front_used gives bytes of it back, before raw_used does.
struct span front_slice(struct conn *c, struct budget *b);
void front_used(struct conn *c, u32 len);
// Ends the WebSocket with a CLOSE frame: the last thing before close_notify and FIN.
void front_close(struct conn *c);
