// SPDX-License-Identifier: Apache-2.0
// Rules and passwords of a configuration, compiled and judged: for --check on any machine too.
#include "admin/security.h"

#include "base/fmt.h"
#include "broker/acl.h"
#include "dynsec/dynsec.h"

// --- the sets of a configuration

u32 security_sets(const struct config *c) {
  return c->per_listener_settings ? c->listener_count : 1;
}

const struct config_security *security_of(const struct config *c, u32 set) {
  return c->per_listener_settings ? &c->listener[set].security : &c->security;
}

u8 security_set(const struct config *c, u32 listener) {
  ASSERT(listener < CONFIG_LISTENERS_MAX);
  return (u8)(c->per_listener_settings ? listener : 0);
}

static bool given(const struct config_file *f) {
  return f->name.len > 0;
}

u64 security_bytes(const struct config *c) {
  u64 sum = 0;
  for (u32 i = 0; i < security_sets(c); i++) {
    const struct config_security *s = security_of(c, i);
    sum += given(&s->acl_file) ? acl_bytes(s->acl_file.data) : 0;
    sum += given(&s->password_file) ? password_bytes(s->password_file.data) : 0;
  }
  return sum;
}

u32 security_argon_kib(const struct config *c, struct bytes *file, u32 *line) {
  u32 most = 0;
  for (u32 i = 0; i <= security_sets(c); i++) {  // the last one: dynamic security's
    const struct config_file *f =
        i < security_sets(c) ? &security_of(c, i)->password_file : &c->dynsec_file;
    u32 where = 0;
    u32 kib = given(f) ? password_argon_kib(f->data, &where) : 0;
    if (kib > most) {
      most = kib;
      *file = f->name;
      *line = where;
    }
  }
  return most;
}

// --- complaints

struct complaints {
  struct config_report *report;
  struct bytes file;
};

static void add(struct complaints *c, u32 line, bool fatal, const char *text) {
  struct config_report *r = c->report;
  r->error_count += fatal ? 1 : 0;
  if (r->count == CONFIG_PROBLEMS_MAX) {
    return;
  }
  struct config_problem *q = &r->problem[r->count++];
  *q = (struct config_problem){.severity = fatal ? CONFIG_ERROR : CONFIG_WARNING, .line = line};
  struct writer w = writer_init(span_of(q->file, sizeof q->file - 1));
  fmt_escaped(&w, c->file);
  (void)fmt_z(q->text, sizeof q->text, "%s", text);
}

static void say_acl(void *user, const struct acl_complaint *c) {
  add(user, c->line, c->fatal, c->text);
}
static void say_password(void *user, const struct password_complaint *c) {
  add(user, c->line, c->fatal, c->text);
}

// --- compiling

static struct span take(struct span *memory, u64 len) {
  ASSERT(memory->len >= len);
  struct span s = {memory->ptr, (usize)len};
  *memory = span_of(memory->ptr + len, memory->len - (usize)len);
  return s;
}

enum err security_compile(const struct config *c, struct span memory, const struct siphash_key *key,
                          struct config_report *report, struct security_rules *out) {
  struct complaints say = {.report = report};
  bool good = true;
  *out = (struct security_rules){.acl = {NULL}};
  for (u32 i = 0; i < security_sets(c); i++) {
    const struct config_security *s = security_of(c, i);
    if (given(&s->acl_file)) {
      say.file = s->acl_file.name;
      out->acl[i] = acl_parse(s->acl_file.data, take(&memory, acl_bytes(s->acl_file.data)), key,
                              say_acl, &say);
      good &= out->acl[i] != NULL;
    }
    if (!given(&s->password_file)) {
      continue;
    }
    say.file = s->password_file.name;
    out->passwords[i] =
        password_parse(s->password_file.data, take(&memory, password_bytes(s->password_file.data)),
                       key, say_password, &say);
    good &= out->passwords[i] != NULL;
  }
  return good ? ERR_OK : ERR_INVALID;
}

static u64 dynsec_bytes(const struct config *c) {
  return ALIGN_UP(MAX(16 * (u64)c->dynsec_file.data.len, 1ull << 20), 64ull);
}

u64 security_check_bytes(const struct config *c) {
  return ALIGN_UP(security_bytes(c), 64ull) + (c->dynsec ? dynsec_bytes(c) : 0) + 64;
}

enum err security_check(const struct config *c, struct span memory, struct config_report *report) {
  static const struct siphash_key key = {1, 2};
  struct security_rules out;
  struct span table = take(&memory, c->dynsec ? dynsec_bytes(c) : 0);
  enum err e = security_compile(c, memory, &key, report, &out);
  if (c->dynsec && given(&c->dynsec_file)) {
    struct complaints say = {.report = report, .file = c->dynsec_file.name};
    struct dynsec_fault fault;
    struct dynsec *d = dynsec_init(NULL, table, &key, NULL);
    if (dynsec_load(d, c->dynsec_file.data, &fault) != ERR_OK) {
      add(&say, fault.line, true, fault.text);
      e = ERR_INVALID;
    }
  }
  return e;
}
