// SPDX-License-Identifier: Apache-2.0
// Between the console over MQTT (control.c) and its commands (control_commands.c).
#pragma once
#include "base/json.h"
#include "loop/core.h"
#include "server/server.h"

#define CONTROL_NAME_MAX 256u
#define CONTROL_ANSWER_MAX 65536u
#define CONTROL_RESERVE 512u  // of the answer: for errors

struct control_call {
  struct core *core;
  const struct json *j;
  u32 node;  // the command's object
  struct json_out *out;
  u64 now_ns;
};
struct control_command {
  const char *name;
  // Writes its data; NULL, or why it was not done.
  const char *(*run)(struct control_call *c);
  const char *what;
};
// By name, without regard to case. NULL: there is no such command.
const struct control_command *control_find(struct bytes name);
