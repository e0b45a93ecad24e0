// SPDX-License-Identifier: Apache-2.0
#include "admin/syslog.h"

#include "admin/log.h"
#include "base/fmt.h"
#include "net/net.h"

#define LINES_A_TURN 8u
#define AGAIN_NS 100000000ull
#define SOURCE_PORT 514

static struct {
  bool on;
  u8 facility;
  u16 port;
  struct ip_addr server;
  u64 next;    // number of the line that goes next
  u64 untold;  // lines lost since the last message that said so
  u64 again_ns;
  struct syslog_stats stats;
} state;

// 6.2.3: UTC, by the days of the civil calendar (years begin in March, so that the leap day is
// last).
static void write_time(struct writer *w, u64 unix_s) {
  u64 days = unix_s / 86400 + 719468;
  u32 second = (u32)(unix_s % 86400);
  u64 era = days / 146097;
  u32 of_era = (u32)(days % 146097);
  u32 year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
  u32 of_year = of_era - (365 * year + year / 4 - year / 100);
  u32 month = (5 * of_year + 2) / 153;
  u32 day = of_year - (153 * month + 2) / 5 + 1;
  month = month < 10 ? month + 3 : month - 9;
  fmt(w, "%04u-%02u-%02uT%02u:%02u:%02uZ", (u32)(era * 400) + year + (month <= 2 ? 1 : 0), month,
      day, second / 3600, second / 60 % 60, second % 60);
}

// 6.2.1
static u32 severity(u32 type) {
  switch (type) {
  case LOG_ERROR: return 3;
  case LOG_WARNING: return 4;
  case LOG_NOTICE: return 5;
  case LOG_DEBUG: return 7;
  default: return 6;
  }
}

void syslog_write(struct writer *w, const struct syslog_line *line) {
  ASSERT(line->facility <= 23);
  fmt(w, "<%u>1 ", line->facility * 8 + severity(line->type));
  if (line->unix_s == 0) {
    fmt(w, "-");
  } else {
    write_time(w, line->unix_s);
  }
  // The receiver knows the address it came from; no process, no kind of message, no structured
  // data.
  fmt(w, " - urmqtt - - - ");
  ASSERT(w->err == ERR_OK);
  write_bytes(w, bytes_sub(line->text, 0, MIN(line->text.len, w->end - w->pos)));
}

static enum err send(struct core *core, const struct syslog_line *line) {
  u8 message[SYSLOG_MESSAGE_MAX];
  struct writer w = writer_init(span_of(message, sizeof message));
  syslog_write(&w, line);
  struct udp_packet p = {.target = state.server,
                         .source_port = SOURCE_PORT,
                         .target_port = state.port,
                         .payload = writer_bytes(&w)};
  return udp_send_to(core->net, &p);
}

// What is missing comes first, where it was. False: not now.
static bool tell_lost(struct core *core) {
  char text[48];
  if (state.untold == 0) {
    return true;
  }
  u32 len = fmt_z(text, sizeof text, "(%llu lines left out)", (unsigned long long)state.untold);
  struct syslog_line line = {state.facility, LOG_WARNING, plat_wall().unix_ns / 1000000000ull,
                             bytes_of(text, len)};
  if (send(core, &line) != ERR_OK) {
    return false;
  }
  state.untold = 0;
  return true;
}

bool syslog_stage(struct core *core) {
  struct log_entry e;
  bool did = false;
  if (!state.on || core->now_ns < state.again_ns) {
    return false;
  }
  for (u32 i = 0; i < LINES_A_TURN; i++) {
    u64 at = state.next;
    if (!log_entry(&at, &e)) {
      break;
    }
    state.untold += at - state.next;  // the ring went on without us
    state.stats.dropped += at - state.next;
    state.next = at;
    struct syslog_line line = {state.facility, e.type, e.unix_s, e.text};
    if (log_wants(e.type) && (!tell_lost(core) || send(core, &line) != ERR_OK)) {
      state.again_ns = core->now_ns + AGAIN_NS;
      break;
    }
    state.stats.sent += log_wants(e.type) ? 1 : 0;
    state.next = at + 1;
    did = true;
  }
  return did;
}

void syslog_configure(const struct config *c) {
  bool on = c->log_syslog && c->syslog_port != 0;
  bool same = on && state.on && ip_equal(state.server, c->syslog_server);
  state.on = on;
  state.server = c->syslog_server;
  state.port = c->syslog_port;
  state.facility = c->syslog_facility;
  state.again_ns = 0;
  u64 oldest = 0;
  struct log_entry e;
  if (!same && log_entry(&oldest, &e)) {
    state.next = oldest;  // from the start on, as far as it is still there
    state.untold = 0;
  }
}

const struct syslog_stats *syslog_stats(void) {
  return &state.stats;
}
