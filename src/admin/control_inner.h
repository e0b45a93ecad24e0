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
  struct bytes client, user;  // who gave it
  u32 trial;                  // trial_number() when it arrived,
  bool rechecked;             // over a connection older than the last server_recheck
  bool keep_data;             // to be set by a command: its data stands beside its error
};
struct control_command {
  const char *name;
  // Writes its data; NULL, or why it was not done.
  const char *(*run)(struct control_call *c);
  const char *what;
};
i64 control_number(const struct control_call *c, const char *name, i64 standard);
// Its client's connection, as it is now.
bool control_rechecked(const struct core *core, struct bytes client);

// control_config.c: a bundle is read, given, tried, confirmed and taken back.
const char *control_config_get(struct control_call *c);
const char *control_config_put(struct control_call *c);
const char *control_config_confirm(struct control_call *c);
const char *control_config_diff(struct control_call *c);
const char *control_config_rollback(struct control_call *c);
// control_trace.c: a client's packets, as they come and go.
const char *control_trace_client(struct control_call *c);
// Sends what has been seen. A part of control_stage.
bool control_trace_stage(struct core *core);
// By name, without regard to case. NULL: there is no such command.
const struct control_command *control_find(struct bytes name);
