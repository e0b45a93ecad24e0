// SPDX-License-Identifier: Apache-2.0
// Log lines as messages: $SYS/broker/log/E, W, N, I, D, WS, M/subscribe, M/unsubscribe, as
// mosquitto with `log_dest topic`. Lines wait in a short ring until the loop comes by, because they
// come from within the broker too.
#pragma once
#include "admin/config.h"
#include "loop/core.h"

// Types wanted, and whether lines go to topics at all.
void log_configure(const struct config *c);
// Lines of this core's server come here, of the types wanted.
void log_attach(const struct config *c, struct core *core);
// The core that runs this is no core 0: from now on its lines go to core 0 by mail.
void log_from(struct core *core);
// On core 0: a line of another core's, as MAIL_ADMIN brought it.
void log_mail(struct core *core, u32 from, struct span body);
// One line without its end; type of enum config_log. May be called from anywhere.
void log_line(u32 type, struct bytes text);
// The last lines of the console, whatever their type, by number from 0 on.
struct log_entry {
  u64 unix_s;
  u32 type;           // enum config_log
  struct bytes text;  // borrowed until the next line
};
// The line *number, or the oldest that is still there: *number is then its. False: there is none
// yet.
bool log_entry(u64 *number, struct log_entry *out);
bool log_wants(u32 type);  // by log_type
u64 log_next(void);        // the number that the next line will get
// A stage of the loop.
bool log_stage(struct core *core, void *unused);
