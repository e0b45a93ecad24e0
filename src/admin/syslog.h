// SPDX-License-Identifier: Apache-2.0
// The log to another machine: RFC 5424 messages over UDP (RFC 5426), with `log_dest syslog` and
// `syslog_server ADDRESS [PORT]`. Lines are read from the ring that log.c keeps anyway.
//
// I1  Nothing waits: what the network does not take now is tried again a moment later, and what the
//     ring has lost by then is counted, and told in place of the lines.
#pragma once
#include "admin/config.h"
#include "loop/core.h"

void syslog_configure(const struct config *c);
// Sends a few lines; true when it did. A part of log_stage.
bool syslog_stage(struct core *core);
struct syslog_stats {
  u64 sent, dropped;
};
const struct syslog_stats *syslog_stats(void);

#define SYSLOG_MESSAGE_MAX 480u  // every receiver takes as much (RFC 5424 6.1)
struct syslog_line {
  u8 facility;  // 0..23
  u32 type;     // enum config_log
  u64 unix_s;   // 0: the time is not known
  struct bytes text;
};
// One message; a text that is too long is cut. w has SYSLOG_MESSAGE_MAX bytes of room.
void syslog_write(struct writer *w, const struct syslog_line *line);
