// SPDX-License-Identifier: Apache-2.0
// The plugin's file (dynamic-security.json), of 2.0 and 2.1: roles first, then groups, then
// clients, whatever their order in the file.
//
// I1  Reading a file twice gives the same as reading it once: entries that are there already are
//     passed over (mosquitto 2470).
#include "base/base64.h"
#include "base/fmt.h"
#include "dynsec/state.h"

#define TEXT_MAX 4096u

// 2.1: encoded_password; 2.0: password, salt (base64) and iterations.
static const char *read_password(const struct json *j, u32 node, struct object *client) {
  static u8 text[TEXT_MAX];
  struct bytes s;
  struct password_hash *h = &client->password;
  if (text_member(j, node, "encoded_password", span_of(text, sizeof text), &s)) {
    const char *bad = password_decode(s, h);
    client->has_password = bad == NULL;
    return bad;
  }
  i64 iterations = 0;
  u32 salt_len = 0;
  u32 hash_len = 0;
  if (!text_member(j, node, "password", span_of(text, sizeof text), &s)) {
    return NULL;  // a client without a password: nobody comes in by it
  }
  *h = (struct password_hash){.kind = PASSWORD_PBKDF2};
  bool good =
      base64_decode(s, span_of(h->hash, sizeof h->hash), &hash_len) &&
      hash_len == PASSWORD_HASH_LEN &&
      text_member(j, node, "salt", span_of(text, sizeof text), &s) &&
      base64_decode(s, span_of(h->salt, sizeof h->salt), &salt_len) && salt_len > 0 &&
      json_int(j, json_member(j, node, "iterations"), 1, PASSWORD_ITERATIONS_MAX, &iterations);
  h->hash_len = (u8)hash_len;
  h->salt_len = (u8)salt_len;
  h->iterations = (u32)iterations;
  client->has_password = good;
  return good ? NULL : "password, salt and iterations are no hash";
}

static const char *read_object(struct dynsec *d, const struct json *j, u32 node, enum kind kind) {
  static u8 text[TEXT_MAX];
  struct bytes name;
  if (!text_member(j, node, name_fields[kind], span_of(text, sizeof text), &name) ||
      name.len == 0) {
    return "an entry without its name";
  }
  if (object_find(d, kind, name) != NULL) {
    return NULL;  // I1
  }
  struct object *o = object_make(d, kind, name);
  if (o == NULL) {
    return "too little memory";
  }
  const char *bad = fill_texts(d, j, node, o);
  if (kind == ROLE) {
    (void)json_bool(j, json_member(j, node, "allowwildcardsubs"), &o->wildcard_subs);
    return bad != NULL ? bad : fill_acls(d, j, json_member(j, node, "acls"), o);
  }
  bad = bad != NULL ? bad : fill_roles(d, j, json_member(j, node, "roles"), &o->roles);
  if (kind == CLIENT) {
    (void)json_bool(j, json_member(j, node, "disabled"), &o->disabled);
    bad = bad != NULL ? bad : read_password(j, node, o);
    bad = bad != NULL ? bad : fill_groups(d, j, json_member(j, node, "groups"), &o->groups);
  }
  return bad;
}

static u32 line_of(const struct json *j, u32 node) {
  u32 line = 1;
  for (u32 i = 0; node < j->count && i < j->node[node].off; i++) {
    line += j->text.ptr[i] == '\n' ? 1 : 0;
  }
  return line;
}

static void read_defaults(struct dynsec *d, const struct json *j) {
  u32 m = json_member(j, 0, "defaultACLAccess");
  if (json_type(j, m) == JSON_ARRAY) {
    (void)fill_defaults(d, j, m);
    return;
  }
  for (u32 k = 0; k < DEFAULTS; k++) {
    (void)json_bool(j, json_member(j, m, default_names[k]), &d->defaults[k]);
  }
}

// Group membership may stand with the group too (2.0 writes it there).
static const char *read_members(struct dynsec *d, const struct json *j, u32 *at) {
  static u8 text[TEXT_MAX];
  u32 groups = json_member(j, 0, "groups");
  for (u32 i = json_first(j, groups); i != JSON_NONE; i = json_after(j, groups, i)) {
    struct bytes name;
    *at = i;
    if (text_member(j, i, "groupname", span_of(text, sizeof text), &name)) {
      struct object *g = object_find(d, GROUP, name);
      const char *bad = fill_clients(d, j, json_member(j, i, "clients"), g);
      if (bad != NULL) {
        return bad;
      }
    }
  }
  return NULL;
}

static const char *read_all(struct dynsec *d, const struct json *j, u32 *at) {
  static const struct {
    const char *key;
    enum kind kind;
  } parts[] = {{"roles", ROLE}, {"groups", GROUP}, {"clients", CLIENT}};
  static u8 text[TEXT_MAX];
  struct bytes name;
  if (json_type(j, 0) != JSON_OBJECT) {
    return "an object is wanted";
  }
  for (u32 p = 0; p < ARRAY_COUNT(parts); p++) {
    u32 array = json_member(j, 0, parts[p].key);
    for (u32 i = json_first(j, array); i != JSON_NONE; i = json_after(j, array, i)) {
      *at = i;
      const char *bad = read_object(d, j, i, parts[p].kind);
      if (bad != NULL) {
        return bad;
      }
    }
  }
  const char *bad = read_members(d, j, at);
  if (bad == NULL && text_member(j, 0, "anonymousGroup", span_of(text, sizeof text), &name)) {
    const struct object *g = object_find(d, GROUP, name);
    d->anonymous_group = g != NULL ? object_index(d, g) : NONE;
  }
  read_defaults(d, j);
  return bad;
}

enum err dynsec_load(struct dynsec *d, struct bytes file, struct dynsec_fault *fault) {
  struct json j;
  struct json_fault f;
  u32 at = 0;
  *fault = (struct dynsec_fault){.line = 0};
  if (json_parse(file, d->node, d->node_max, &j, &f) != ERR_OK) {
    fault->line = f.line;
    (void)fmt_z(fault->text, sizeof fault->text, "%s", f.what);
    return ERR_INVALID;
  }
  table_clear(d);
  const char *bad = read_all(d, &j, &at);
  if (bad == NULL) {
    return ERR_OK;
  }
  fault->line = line_of(&j, at);
  (void)fmt_z(fault->text, sizeof fault->text, "%s", bad);
  table_clear(d);
  return ERR_INVALID;
}
