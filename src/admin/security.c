// SPDX-License-Identifier: Apache-2.0
// Rules and passwords in force. Compiling them is in security_check.c, which knows no broker.
#include "admin/security.h"

#include "base/fmt.h"
#include "broker/acl.h"
#include "broker/broker.h"
#include "server/server.h"

#define HALF_LEAST (64u << 10)
static_assert(BROKER_ACCESS_SETS >= CONFIG_LISTENERS_MAX, "a set a listener");

struct security {
  struct siphash_key key;
  struct span half[2];
  u32 active;  // the half in force
};

// --- in force

struct security *security_init(struct carve *carve, const struct config *c) {
  u64 need = c == NULL ? 0 : security_bytes(c);
  u64 len = ALIGN_UP(MAX(MAX(need * 2, carve->total_len / 512), (u64)HALF_LEAST), 64ull);
  struct span own = carve_take(carve, sizeof(struct security), 64);
  struct security *s = (struct security *)(void *)own.ptr;
  for (u32 i = 0; i < 2 && s != NULL; i++) {
    s->half[i] = carve_take(carve, (usize)len, 64);
    s = s->half[i].ptr == NULL ? NULL : s;
  }
  if (s != NULL) {
    (void)plat_random(span_of(&s->key, sizeof s->key));
  }
  return s;
}

static bool find_password(const void *ctx, const struct access_who *who,
                          struct password_hash *out) {
  return password_find(ctx, who->username, out);
}

enum err security_load(struct security *s, struct core *core, const struct config *c,
                       struct config_report *report) {
  struct security_rules out;
  u32 next = 1 - s->active;
  if (security_bytes(c) > s->half[next].len) {
    struct config_problem *q = &report->problem[MIN(report->count, CONFIG_PROBLEMS_MAX - 1)];
    *q = (struct config_problem){.severity = CONFIG_ERROR};
    report->count = MIN(report->count + 1, CONFIG_PROBLEMS_MAX);
    report->error_count++;
    (void)fmt_z(q->file, sizeof q->file, "urmqtt.conf");
    (void)fmt_z(q->text, sizeof q->text,
                "acl_file and password_file need %llu KiB and there are %llu: restart, or give the "
                "machine more memory",
                (unsigned long long)security_bytes(c) >> 10,
                (unsigned long long)s->half[next].len >> 10);
    return ERR_NO_MEMORY;
  }
  TRY(security_compile(c, s->half[next], &s->key, report, &out));
  for (u32 i = 0; i < BROKER_ACCESS_SETS; i++) {
    bool there = i < security_sets(c);
    struct access_rules rules = {.ctx = there ? out.acl[i] : NULL, .allows = acl_allows};
    struct login_source source = {.ctx = there ? out.passwords[i] : NULL, .find = find_password};
    broker_set_access(core->broker, i, rules.ctx != NULL ? &rules : NULL,
                      there && security_of(c, i)->acl_subscribe_check);
    server_set_logins(core->server, i, source.ctx != NULL ? &source : NULL);
  }
  s->active = next;
  return ERR_OK;
}
