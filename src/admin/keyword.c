// SPDX-License-Identifier: Apache-2.0
// What the parts of the table share: finding a row, and taking values of the usual kinds.
#include "admin/keyword.h"

#include "admin/ustar.h"
#include "base/fmt.h"

#define NEAR 4u  // words that differ in as many places do not resemble each other

static const struct keyword *const tables[] = {keywords_listener, keywords_front,  keywords_broker,
                                               keywords_security, keywords_plugin, keywords_bridge,
                                               keywords_system};

const struct keyword *keyword_find(struct bytes word) {
  for (u32 t = 0; t < ARRAY_COUNT(tables); t++) {
    for (const struct keyword *k = tables[t]; k->name != NULL; k++) {
      struct bytes name = bytes_str(k->name);
      bool family = name.ptr[name.len - 1] == '_';  // plugin_opt_WHATEVER
      if (family ? bytes_starts_with(word, name) : bytes_equal(word, name)) {
        return k;
      }
    }
  }
  return NULL;
}

// Differing characters at equal places, plus the difference in length: enough for a slip of a key.
static u32 distance(struct bytes a, struct bytes b) {
  u32 d = (u32)(a.len > b.len ? a.len - b.len : b.len - a.len);
  usize n = MIN(a.len, b.len);
  usize tail = 0;
  while (tail < n && a.ptr[a.len - 1 - tail] == b.ptr[b.len - 1 - tail]) {
    tail++;
  }
  u32 front = 0;
  for (usize i = 0; i + tail < n; i++) {
    front += a.ptr[i] != b.ptr[i] ? 1 : 0;
  }
  return d + front;
}

const char *keyword_nearest(struct bytes word) {
  const char *best = NULL;
  u32 least = NEAR;
  for (u32 t = 0; t < ARRAY_COUNT(tables); t++) {
    for (const struct keyword *k = tables[t]; k->name != NULL; k++) {
      u32 d = distance(word, bytes_str(k->name));
      if (d < least) {
        least = d;
        best = k->name;
      }
    }
  }
  return best;
}

const char *keyword_fate(enum keyword_fate fate) {
  static const char *const words[] = {"kept", "mapped", "ignored", "refused"};
  ASSERT((u32)fate < ARRAY_COUNT(words));
  return words[fate];
}

void problem(struct parser *p, enum config_severity severity, const char *format, ...) {
  struct config_report *r = p->report;
  r->error_count += severity == CONFIG_ERROR ? 1 : 0;
  if (r->count == CONFIG_PROBLEMS_MAX) {
    return;
  }
  struct config_problem *q = &r->problem[r->count++];
  struct writer w = writer_init(span_of(q->text, sizeof q->text - 1));
  __builtin_va_list args;
  __builtin_va_start(args, format);
  fmt_v(&w, format, args);
  __builtin_va_end(args);
  q->text[w.pos] = 0;
  q->severity = severity;
  q->line = p->line.number;
  w = writer_init(span_of(q->file, sizeof q->file - 1));
  fmt_escaped(&w, p->file);
  q->file[w.pos] = 0;
}

struct bytes value_of(const struct parser *p) {
  return bytes_part(p->text, p->line.value);
}

const char *shown(struct bytes b, char buf[64]) {
  struct writer w = writer_init(span_of(buf, 63));
  fmt_escaped(&w, bytes_of(b.ptr, MIN(b.len, (usize)40)));
  buf[w.pos] = 0;
  return buf;
}

struct bytes next_word(struct bytes *rest) {
  usize from = 0;
  while (from < rest->len && rest->ptr[from] == ' ') {
    from++;
  }
  struct bytes b = bytes_skip(*rest, from);
  usize end = bytes_find(b, ' ');
  *rest = bytes_skip(b, end);
  return bytes_sub(b, 0, end);
}

bool take_number(struct parser *p, u64 least, u64 most, u64 *out) {
  char buf[64];
  if (bytes_to_u64(value_of(p), most, out) == ERR_OK && *out >= least) {
    return true;
  }
  problem(p, CONFIG_ERROR, "%s wants a number from %llu to %llu, not \"%s\"", p->k->name,
          (unsigned long long)least, (unsigned long long)most, shown(value_of(p), buf));
  return false;
}

void take_bool(struct parser *p, void *field) {
  char buf[64];
  bool *out = field;
  struct bytes v = value_of(p);
  bool yes = bytes_equal_str(v, "true") || bytes_equal_str(v, "1");
  if (yes || bytes_equal_str(v, "false") || bytes_equal_str(v, "0")) {
    *out = yes;
    return;
  }
  problem(p, CONFIG_ERROR, "%s wants true or false, not \"%s\"", p->k->name, shown(v, buf));
}

static u64 most_of(const struct parser *p, u64 type_most) {
  return p->k->most != 0 ? p->k->most : type_most;
}

void take_u8(struct parser *p, void *field) {
  u64 v = 0;
  if (take_number(p, p->k->least, most_of(p, 255u), &v)) {
    *(u8 *)field = (u8)v;
  }
}

void take_u32(struct parser *p, void *field) {
  u64 v = 0;
  if (take_number(p, p->k->least, most_of(p, U32_MAX), &v)) {
    *(u32 *)field = (u32)v;
  }
}

void take_u64(struct parser *p, void *field) {
  u64 v = 0;
  if (take_number(p, p->k->least, most_of(p, U64_MAX), &v)) {
    *(u64 *)field = v;
  }
}

void take_choice(struct parser *p, void *field) {
  u32 errors = p->report->error_count;
  bool yes = false;
  take_bool(p, &yes);
  if (p->report->error_count == errors) {
    *(u8 *)field = yes ? 2 : 1;
  }
}

void take_limit(struct parser *p, void *field) {
  u64 v = 0;
  u64 most = most_of(p, U32_MAX);
  if (take_number(p, 0, most, &v)) {
    *(u32 *)field = (u32)(v == 0 ? most : v);
  }
}

void take_positive(struct parser *p, void *field) {
  u64 v = 0;
  if (bytes_equal_str(value_of(p), "-1")) {
    *(u32 *)field = 0;
  } else if (take_number(p, 1, 10000000, &v)) {
    *(u32 *)field = (u32)v;
  }
}

void take_id_prefix(struct parser *p, void *field) {
  if (value_of(p).len > CONFIG_ID_PREFIX_MAX) {
    problem(p, CONFIG_ERROR, "%s is longer than %u bytes", p->k->name, CONFIG_ID_PREFIX_MAX);
    return;
  }
  take_text(p, field);
}

void take_text(struct parser *p, void *field) {
  struct bytes v = value_of(p);
  if (v.len == 0) {
    problem(p, CONFIG_ERROR, "%s wants a value", p->k->name);
    return;
  }
  *(struct bytes *)field = v;
}

// The file's last name: mosquitto's files carry absolute paths, a bundle holds names.
static struct bytes base_name(struct bytes path) {
  usize from = 0;
  for (usize i = 0; i < path.len; i++) {
    from = path.ptr[i] == '/' ? i + 1 : from;
  }
  return bytes_skip(path, from);
}

void take_file(struct parser *p, void *field) {
  char buf[64];
  struct config_file *f = field;
  struct bytes v = value_of(p);
  struct bytes relative = v.len > 0 && v.ptr[0] == '/' ? bytes_skip(v, 1) : v;
  f->name = base_name(v);
  if (v.len == 0) {
    problem(p, CONFIG_ERROR, "%s wants the name of a file in the bundle", p->k->name);
  } else if (ustar_find(p->tar, relative, &f->data) != ERR_OK &&
             ustar_find(p->tar, f->name, &f->data) != ERR_OK) {
    problem(p, CONFIG_ERROR, "%s: the bundle has no file \"%s\"", p->k->name, shown(f->name, buf));
  } else if (f->data.len == 0) {
    problem(p, CONFIG_ERROR, "%s: the file \"%s\" is empty", p->k->name, shown(f->name, buf));
  }
}

static bool less(struct bytes a, struct bytes b) {
  usize n = MIN(a.len, b.len);
  int order = n == 0 ? 0 : memcmp(a.ptr, b.ptr, n);
  return order != 0 ? order < 0 : a.len < b.len;
}

// Does `name` lie in folder `dir` itself?
static bool in_folder(struct bytes name, struct bytes dir) {
  usize end = dir.len;
  return dir.len > 0 && name.len > end + 1 && name.ptr[end] == '/' &&
         bytes_starts_with(name, dir) &&
         bytes_find(bytes_skip(name, end + 1), '/') + end + 1 == name.len;
}

static bool ends_with(struct bytes name, const char *suffix) {
  struct bytes s = bytes_str(suffix);
  return name.len >= s.len && bytes_equal(bytes_skip(name, name.len - s.len), s);
}

bool folder_next(struct bytes tar, struct bytes dir, const char *suffix, struct bytes after,
                 struct bytes *name, struct bytes *data) {
  while (dir.len > 0 && dir.ptr[dir.len - 1] == '/') {
    dir.len--;
  }
  while (dir.len > 0 && dir.ptr[0] == '/') {
    dir = bytes_skip(dir, 1);
  }
  struct bytes last = base_name(dir);
  struct ustar_entry e;
  u32 pos = 0;
  bool found = false;
  while (ustar_next(tar, &pos, &e) == ERR_OK) {
    struct bytes n = bytes_part(tar, e.name);
    bool here = in_folder(n, dir) || in_folder(n, last);
    if (here && ends_with(n, suffix) && (after.len == 0 || less(after, n)) &&
        (!found || less(n, *name))) {
      *name = n;
      *data = bytes_part(tar, e.data);
      found = true;
    }
  }
  return found;
}

void take_files(struct parser *p, void *field) {
  char buf[64];
  struct config_files *f = field;
  struct bytes name = bytes_of(NULL, 0);
  struct bytes data = bytes_of(NULL, 0);
  f->name = value_of(p);
  f->count = 0;
  while (folder_next(p->tar, f->name, "", name, &name, &data)) {
    if (f->count == CONFIG_CAPATH_MAX) {
      problem(p, CONFIG_ERROR, "%s: more than %u files in \"%s\"", p->k->name, CONFIG_CAPATH_MAX,
              shown(f->name, buf));
      return;
    }
    if (data.len > 0) {
      f->data[f->count++] = data;
    }
  }
  if (f->count == 0) {
    problem(p, CONFIG_ERROR, "%s: the bundle has no files in a folder \"%s\"", p->k->name,
            shown(f->name, buf));
  }
}
