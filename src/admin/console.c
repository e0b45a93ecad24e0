// SPDX-License-Identifier: Apache-2.0
// A small line reader: polls the console four times a second, because not every console can wake
// the machine, and runs whole lines. What is too long for a command is thrown away up to its end.
#include "admin/console.h"

#include "admin/reload.h"
#include "admin/serve.h"
#include "admin/task.h"

#define POLL_NS 250000000ull
#define LINE_MAX 80u
#define SEC_NS 1000000000ull

static struct {
  struct admin_task task;
  u8 line[LINE_MAX];
  u32 len;
  bool too_long;
  bool stop;
} console;

static void on_help(struct core *core);
static void on_status(struct core *core) {
  const struct server_stats *s = server_stats(core->server);
  const struct broker_stats *b = broker_stats(core->broker);
  say("urMQTT " URMQTT_VERSION ", up %llu seconds", (unsigned long long)(core->now_ns / SEC_NS));
  say("  %u connections, %u clients connected, %u known, %u subscriptions, %u retained messages",
      s->connections, b->clients_connected, b->clients_total, b->subscriptions, b->retained);
  say("  publishes: %llu in, %llu out, %llu dropped; %llu KiB of messages stored",
      (unsigned long long)b->publish_received, (unsigned long long)b->publish_sent,
      (unsigned long long)b->publish_dropped, (unsigned long long)(b->message_bytes_stored >> 10));
  say("  TLS: %llu handshakes, %llu resumed, %llu failed; %llu connections refused",
      (unsigned long long)s->handshakes_full, (unsigned long long)s->handshakes_resumed,
      (unsigned long long)s->handshakes_failed, (unsigned long long)s->refused);
}

// Objects taken now, the most there ever were, and how many there are: whether memory comes back.
static void on_pools(struct core *core) {
  const struct pool *p;
  for (u32 i = 0; (p = pool_listed(i)) != NULL; i++) {
    say("  pool %s: %u, at most %u of %u", p->name, pool_taken(p), p->count - p->free_low,
        p->count);
  }
  say("  timers armed: %u of %u", core->wheel.armed_count, core->wheel.count);
  say("  bytes of messages: %llu, of the TLS heap: %llu",
      (unsigned long long)broker_stats(core->broker)->message_bytes_stored,
      (unsigned long long)tls_heap_used());
}

static void on_reload(struct core *core) {
  (void)reload(core);
}

static void on_quit(struct core *core) {
  (void)core;
  console.stop = true;
}

static const struct {
  const char *name;
  void (*run)(struct core *core);
  const char *what;
} commands[] = {
    {"help", on_help, "this list"},
    {"status", on_status, "figures of this moment"},
    {"pools", on_pools, "how much of each pool is taken"},
    {"reload", on_reload, "read the configuration again; nothing changes when it has errors"},
    {"quit", on_quit, "tell every client and stop"},
    {"poweroff", on_quit, "the same"},
};

static void on_help(struct core *core) {
  (void)core;
  for (u32 i = 0; i < ARRAY_COUNT(commands); i++) {
    say("  %-10s %s", commands[i].name, commands[i].what);
  }
}

static void run_line(struct core *core) {
  struct bytes line = bytes_of(console.line, console.len);
  while (line.len > 0 && line.ptr[line.len - 1] == ' ') {
    line.len--;
  }
  if (line.len == 0) {
    return;
  }
  for (u32 i = 0; i < ARRAY_COUNT(commands) && !console.too_long; i++) {
    if (bytes_equal_str(line, commands[i].name)) {
      say("> %s", commands[i].name);
      commands[i].run(core);
      return;
    }
  }
  say("there is no such command; `help` lists them");
}

static void take(struct core *core, u8 c) {
  if (c == '\n' || c == '\r') {
    run_line(core);
    console.len = 0;
    console.too_long = false;
  } else if (c == 8 || c == 127) {  // backspace, delete
    console.len -= console.len > 0 ? 1 : 0;
  } else if (console.len == LINE_MAX) {
    console.too_long = true;
  } else {
    console.line[console.len++] = c;
  }
}

static void run(struct core *core) {
  u8 typed[64];
  u32 n = plat_console_read(span_of(typed, sizeof typed));
  ASSERT(n <= sizeof typed);
  for (u32 i = 0; i < n; i++) {
    take(core, typed[i]);
  }
  wheel_arm(&core->wheel, console.task.timer, core->now_ns + POLL_NS);
}

bool console_start(struct core *core) {
  if (!admin_task_start(core, &console.task, run)) {
    return false;
  }
  wheel_arm(&core->wheel, console.task.timer, core->now_ns + POLL_NS);
  return true;
}

bool console_stop_requested(void) {
  return console.stop;
}
