// SPDX-License-Identifier: Apache-2.0
// urmqttctl's connection to the broker. What fails ends the program with 1 and says what and where.
#pragma once
#include "base/bytes.h"

#define CTL_TOPIC "$CONTROL/urmqtt/v1"

struct ctl_options {
  const char *host;
  int port;  // 0: 8883 with TLS, else 1883
  const char *cafile, *cert, *key;
  const char *user, *password;
  bool json;
};

void die(const char *what, const char *why) __attribute__((noreturn));
// "HOST:PORT", for messages.
const char *ctl_where(void);
void ctl_connect(const struct ctl_options *o);
// Sends a request and waits for its answer, borrowed until the next.
struct bytes ctl_ask(struct bytes request);
// What comes on CTL_TOPIC "/trace" from now on.
void ctl_on_trace(void (*take)(struct bytes line));
// Lets at most `ms` pass; what arrives is taken.
void ctl_wait(int ms);
void ctl_close(void);
