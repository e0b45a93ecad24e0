// SPDX-License-Identifier: Apache-2.0
// Rules and passwords in force. Compiling them is in security_check.c, which knows no broker.
#include "admin/security.h"

#include "base/fmt.h"
#include "broker/acl.h"
#include "broker/broker.h"
#include "dynsec/dynsec.h"
#include "server/server.h"

#define HALF_LEAST (64u << 10)
static_assert(BROKER_ACCESS_SETS >= CONFIG_LISTENERS_MAX, "a set a listener");

struct security {
  struct siphash_key key;
  struct dynsec *dynsec[2];      // NULL: never loaded
  struct span dynsec_memory[2];  // empty: not configured at start
  u32 dynsec_active;
  u64 dynsec_file;  // hash of the file that was taken over; 0 = none
  struct span half[2];
  struct span arena;            // for argon2id; empty = none
  u64 arena_room_len;           // what the machine had when it was wanted
  u32 active;                   // the half in force
  struct security_rules rules;  // in it
};

// --- in force

// With an arena that does not fit the start goes on: security_load says what is wrong, and where.
static void take_arena(struct security *s, struct carve *carve, const struct config *c) {
  struct bytes file;
  u32 line;
  u64 len = c != NULL ? security_argon_kib(c, &file, &line) * 1024ull : 0;
  s->arena_room_len = carve_left(carve);
  if (len > 0 && len + SECURITY_REST_BYTES <= s->arena_room_len) {
    s->arena = carve_take(carve, (usize)len, 64);
  }
}

struct span security_arena(const struct security *s) {
  return s->arena;
}

struct security *security_init(struct carve *carve, const struct config *c) {
  u64 need = c == NULL ? 0 : security_bytes(c);
  u64 len = ALIGN_UP(MAX(MAX(need * 2, carve->total_len / 512), (u64)HALF_LEAST), 64ull);
  struct span own = carve_take(carve, sizeof(struct security), 64);
  struct security *s = (struct security *)(void *)own.ptr;
  if (s != NULL && c != NULL && c->dynsec) {
    u64 most = MAX(MAX(carve->total_len / 128, 16 * (u64)c->dynsec_file.data.len), 1ull << 20);
    s->dynsec_memory[0] = carve_take(carve, (usize)most, 64);
    s->dynsec_memory[1] = carve_take(carve, (usize)most, 64);
    s = s->dynsec_memory[1].ptr == NULL ? NULL : s;
  }
  for (u32 i = 0; i < 2 && s != NULL; i++) {
    s->half[i] = carve_take(carve, (usize)len, 64);
    s = s->half[i].ptr == NULL ? NULL : s;
  }
  if (s != NULL) {
    (void)plat_random(span_of(&s->key, sizeof s->key));
    take_arena(s, carve, c);
  }
  return s;
}

static bool find_password(const void *ctx, const struct access_who *who,
                          struct password_hash *out) {
  return password_find(ctx, who->username, out);
}

static bool find_scram(const void *ctx, const struct access_who *who, struct password_hash *out) {
  return password_find_scram(ctx, who->username, out);
}

static void complain(struct config_report *report, const char *file, u32 line, const char *text) {
  struct config_problem *q = &report->problem[MIN(report->count, CONFIG_PROBLEMS_MAX - 1)];
  *q = (struct config_problem){.severity = CONFIG_ERROR, .line = line};
  report->count = MIN(report->count + 1, CONFIG_PROBLEMS_MAX);
  report->error_count++;
  (void)fmt_z(q->file, sizeof q->file, "%s", file);
  (void)fmt_z(q->text, sizeof q->text, "%s", text);
}

static void fill_random(struct span out) {
  (void)plat_random(out);
}

// Where a client is connected from, as getClient shows it: the address without its port.
static bool client_address(const struct session *session, struct writer *out) {
  struct server_client at;
  if (!server_client(session, &at)) {
    return false;
  }
  struct bytes peer = bytes_str(at.peer);
  usize end = peer.len;
  while (end > 0 && peer.ptr[end - 1] != ':') {
    end--;
  }
  peer = end > 0 ? bytes_sub(peer, 0, end - 1) : peer;
  if (peer.len > 2 && peer.ptr[0] == '[') {
    peer = bytes_sub(peer, 1, peer.len - 2);
  }
  write_bytes(out, peer);
  return true;
}

// Dynamic security starts from its file; a reload with the same file keeps what has changed since.
// Another file is read beside what is in force, and takes its place when it is good.
static enum err load_dynsec(struct security *s, struct core *core, const struct config *c,
                            struct config_report *report) {
  struct dynsec_fault fault;
  u64 hash = siphash(&s->key, c->dynsec_file.data) | 1;
  if (hash == s->dynsec_file) {
    return ERR_OK;
  }
  if (s->dynsec_memory[0].ptr == NULL) {
    complain(report, "urmqtt.conf", 0, "dynamic security counts from the next start");
    return ERR_NO_MEMORY;
  }
  u32 next = s->dynsec_file == 0 ? s->dynsec_active : 1 - s->dynsec_active;
  if (s->dynsec[next] == NULL) {
    s->dynsec[next] = dynsec_init(core->broker, s->dynsec_memory[next], &s->key, fill_random);
    dynsec_set_address(s->dynsec[next], client_address);
  }
  if (dynsec_load(s->dynsec[next], c->dynsec_file.data, &fault) != ERR_OK) {
    char name[64];
    struct writer w = writer_init(span_of(name, sizeof name - 1));
    fmt_escaped(&w, c->dynsec_file.name);
    name[w.pos] = 0;
    complain(report, name, fault.line, fault.text);
    return ERR_INVALID;
  }
  if (next != s->dynsec_active) {
    dynsec_follow(s->dynsec[next], s->dynsec[s->dynsec_active]);
    s->dynsec_active = next;
  }
  s->dynsec_file = hash;
  return ERR_OK;
}

// Whether the arena that was taken at start is large enough for every hash of this configuration.
static enum err check_arena(const struct security *s, const struct core *core,
                            const struct config *c, struct config_report *report) {
  struct bytes file = bytes_of(NULL, 0);
  u32 line = 0;
  u32 kib = security_argon_kib(c, &file, &line);
  if (kib <= s->arena.len / 1024) {
    return ERR_OK;
  }
  char name[64];
  char text[160];
  struct writer w = writer_init(span_of(name, sizeof name - 1));
  fmt_escaped(&w, file);
  name[w.pos] = 0;
  if (core->turns == 0 && s->arena.len == 0) {
    (void)fmt_z(text, sizeof text,
                "a hash of argon2id wants %u KiB of memory beside %llu MiB for the rest: this "
                "machine has %llu MiB",
                kib, SECURITY_REST_BYTES >> 20, (unsigned long long)s->arena_room_len >> 20);
  } else {
    (void)fmt_z(text, sizeof text,
                "a hash of argon2id wants %u KiB of memory, and %llu KiB were set aside at start: "
                "restart",
                kib, (unsigned long long)s->arena.len >> 10);
  }
  complain(report, name, line, text);
  return ERR_NO_MEMORY;
}

void security_also(const struct security *s, struct core *core, const struct config *c) {
  for (u32 i = 0; i < BROKER_ACCESS_SETS; i++) {
    bool there = i < security_sets(c);
    struct access_rules rules = {.ctx = there ? s->rules.acl[i] : NULL, .allows = acl_allows};
    struct login_source source = {.ctx = there ? s->rules.passwords[i] : NULL,
                                  .find = find_password};
    if (source.ctx != NULL && password_stats(source.ctx).scram > 0) {
      source.find_scram = find_scram;
    }
    broker_set_access(core->broker, i, rules.ctx != NULL ? &rules : NULL,
                      there && security_of(c, i)->acl_subscribe_check);
    server_set_logins(core->server, i, source.ctx != NULL ? &source : NULL);
  }
}

enum err security_load(struct security *s, struct core *core, const struct config *c,
                       struct config_report *report) {
  struct security_rules out;
  u32 next = 1 - s->active;
  if (security_bytes(c) > s->half[next].len) {
    char text[160];
    (void)fmt_z(text, sizeof text,
                "acl_file and password_file need %llu KiB and there are %llu: restart, or give the "
                "machine more memory",
                (unsigned long long)security_bytes(c) >> 10,
                (unsigned long long)s->half[next].len >> 10);
    complain(report, "urmqtt.conf", 0, text);
    return ERR_NO_MEMORY;
  }
  TRY(check_arena(s, core, c, report));
  TRY(security_compile(c, s->half[next], &s->key, report, &out));
  if (c->dynsec) {
    TRY(load_dynsec(s, core, c, report));
  }
  s->rules = out;
  security_also(s, core, c);
  if (c->dynsec) {
    struct dynsec *d = s->dynsec[s->dynsec_active];
    struct access_rules rules = {.ctx = d, .allows = dynsec_allows};
    struct login_source source = {.ctx = d, .find = dynsec_find};
    (void)broker_set_control(core->broker, BYTES_LIT(DYNSEC_TOPIC), dynsec_control, d);
    broker_set_access(core->broker, 0, &rules, true);
    server_set_logins(core->server, 0, &source);
  }
  s->active = next;
  return ERR_OK;
}
