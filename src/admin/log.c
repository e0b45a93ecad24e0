// SPDX-License-Identifier: Apache-2.0
// The ring of lines on their way to $SYS/broker/log/...; a full one loses the newest, counted.
#include "admin/log.h"

#include "admin/syslog.h"
#include "base/fmt.h"
#include "broker/broker.h"
#include "loop/mailbox.h"
#include "server/server.h"

#define RING 32u
#define TEXT_MAX 240u
#define SEC_NS 1000000000ull

static_assert((u32)LOG_NOTICE == SERVER_LOG_NOTICE && (u32)LOG_SUBSCRIBE == SERVER_LOG_SUBSCRIBE &&
                  (u32)LOG_UNSUBSCRIBE == SERVER_LOG_UNSUBSCRIBE,
              "the same numbers");

static struct {
  bool on;
  u32 types;
  u32 first, count;  // of the ring
  u32 lost;
  struct {
    u8 type;
    u16 len;
    u8 text[TEXT_MAX];
  } line[RING];
} ring;

#define KEPT 256u
static struct {
  u64 count;  // lines so far
  struct {
    u64 unix_s;
    u8 type;
    u16 len;
    u8 text[TEXT_MAX];
  } line[KEPT];
} kept;

static void keep(u32 type, struct bytes text) {
  u32 at = (u32)(kept.count++ % KEPT);
  kept.line[at].type = (u8)type;
  kept.line[at].unix_s = plat_wall().unix_ns / SEC_NS;
  kept.line[at].len = (u16)MIN(text.len, (usize)TEXT_MAX);
  memcpy(kept.line[at].text, text.ptr, kept.line[at].len);
}

bool log_entry(u64 *number, struct log_entry *out) {
  u64 oldest = kept.count > KEPT ? kept.count - KEPT : 0;
  *number = MAX(*number, oldest);
  if (*number >= kept.count) {
    return false;
  }
  u32 at = (u32)(*number % KEPT);
  *out = (struct log_entry){.unix_s = kept.line[at].unix_s,
                            .type = kept.line[at].type,
                            .text = bytes_of(kept.line[at].text, kept.line[at].len)};
  return true;
}

bool log_wants(u32 type) {
  return (ring.types >> type & 1) != 0;
}

u64 log_next(void) {
  return kept.count;
}

// --- lines of other cores

static CORE_LOCAL struct core *away;  // NULL: this is core 0
static CORE_LOCAL u32 away_lost;

void log_from(struct core *core) {
  ASSERT(core->id != 0);
  away = core;
}

static void send_line(u32 type, struct bytes text) {
  u32 len = (u32)MIN(text.len, (usize)TEXT_MAX);
  struct span body = mailbox_put(away, 0, MAIL_DATA, MAIL_ADMIN, 8 + len, false);
  if (body.ptr == NULL) {
    away_lost++;
    return;
  }
  store_le32(body.ptr, type);
  store_le32(body.ptr + 4, away_lost);
  memcpy(body.ptr + 8, text.ptr, len);
  away_lost = 0;
}

void log_mail(struct core *core, u32 from, struct span body) {
  (void)core, (void)from;
  ASSERT(body.len >= 8);
  ring.lost += load_le32(body.ptr + 4);
  log_line(load_le32(body.ptr), bytes_of(body.ptr + 8, body.len - 8));
}

void log_line(u32 type, struct bytes text) {
  if (away != NULL) {
    send_line(type, text);
    return;
  }
  keep(type, text);
  if (!ring.on || (ring.types >> type & 1) == 0) {
    return;
  }
  if (ring.count == RING) {
    ring.lost++;
    return;
  }
  u32 at = (ring.first + ring.count++) % RING;
  ring.line[at].type = (u8)type;
  ring.line[at].len = (u16)MIN(text.len, (usize)TEXT_MAX);
  memcpy(ring.line[at].text, text.ptr, ring.line[at].len);
}

static void publish(struct core *core, u32 type, struct bytes text) {
  static const char *const topics[] = {"E", "W", "N", "I", "D", "M/subscribe", "M/unsubscribe",
                                       "WS"};
  char topic[48];
  u8 payload[TEXT_MAX + 24];
  struct writer w = writer_init(span_of(payload, sizeof payload));
  ASSERT(type < ARRAY_COUNT(topics));
  (void)fmt_z(topic, sizeof topic, "$SYS/broker/log/%s", topics[type]);
  fmt(&w, "%llu: ", (unsigned long long)(plat_wall().unix_ns / SEC_NS));
  write_bytes(&w, text);  // foreign bytes were escaped when the line was made
  (void)broker_publish(core->broker, bytes_str(topic), writer_bytes(&w), 2, false, core->now_ns);
}

bool log_stage(struct core *core, void *unused) {
  (void)unused;
  bool did = syslog_stage(core) || ring.count > 0;
  if (ring.count > 0 && ring.lost > 0) {
    char text[48];
    u32 len = fmt_z(text, sizeof text, "(%u lines left out)", ring.lost);
    publish(core, LOG_WARNING, bytes_of(text, len));
    ring.lost = 0;
  }
  for (; ring.count > 0; ring.count--) {
    publish(core, ring.line[ring.first].type,
            bytes_of(ring.line[ring.first].text, ring.line[ring.first].len));
    ring.first = (ring.first + 1) % RING;
  }
  return did;
}

void log_configure(const struct config *c) {
  ring.on = c->log_topic;
  ring.types = c->log_types;
  syslog_configure(c);
}

void log_attach(const struct config *c, struct core *core) {
  struct server_log_config config = {
      .types = c->log_types, .connections = c->connection_messages, .line = log_line};
  server_set_log(core->server, &config);
}
