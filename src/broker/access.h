// SPDX-License-Identifier: Apache-2.0
// What a client may do, as asked by the broker and answered by a set of rules (acl.h, dynsec.h).
#pragma once
#include "base/bytes.h"

// Kinds of access; an ACL rule holds a set of the first two.
enum access_kind {
  ACCESS_READ = 1,   // a message of this topic may be delivered
  ACCESS_WRITE = 2,  // it may be published
  ACCESS_SUBSCRIBE = 4,
  ACCESS_UNSUBSCRIBE = 8,
};

// Who asks.
struct access_who {
  struct bytes username;
  struct bytes client_id;
  bool has_username;  // false: anonymous; a user name of no bytes is one
};

// A set of rules. `topic` is a topic name for READ and WRITE, a filter otherwise (of a shared
// subscription the whole, $share/GROUP/FILTER).
struct access_rules {
  const void *ctx;
  bool (*allows)(const void *ctx, const struct access_who *who, enum access_kind kind,
                 struct bytes topic);
};
