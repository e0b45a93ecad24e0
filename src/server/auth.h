// SPDX-License-Identifier: Apache-2.0
// Enhanced authentication (MQTT 5.0, 4.12) by SCRAM-SHA-256: what is held of an exchange between
// the client's first message and his last, for CONNECT and for re-authentication.
//
// I1  conn->authing says that conn->auth is one of these; in CONN_AUTH always, in CONN_OPEN while
//     the client authenticates again, else never.
// I2  An exchange ends after AUTH_WAIT_NS; a prefix of addresses holds at most a quarter of the
//     places.
// I3  A CONNECT waits in an extent of the exchange's own: conn->packet is free for AUTH packets.
// I4  Who is told of a failure at CONNECT is told the same for every cause, after the tarpit of
//     passwords; only a malformed first message is answered at once.
#pragma once
#include "loop/carve.h"
#include "server/login.h"
#include "server/scram.h"

#define AUTH_METHOD "SCRAM-SHA-256"
#define AUTH_WAIT_NS 10000000000ull

struct auth {
  struct conn *conn;
  u8 *packet;  // the CONNECT; NULL = re-authentication
  u32 packet_len;
  u32 flow;
  struct part name;  // in the CONNECT, unescaped there
  u64 deadline_ns;
  u32 credential;  // the entry that it is about
  bool known;      // the user is there
  struct scram scram;
};
struct auths {
  struct pool pool;
  u16 flow[LOGIN_FLOWS];  // places that a prefix holds
};

// False: no memory.
bool auth_init(struct server *s, struct carve *carve);
