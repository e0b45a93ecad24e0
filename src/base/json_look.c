// SPDX-License-Identifier: Apache-2.0
// Looking into a document that was read, and writing one.
//
// I1  What is absent or of another type is an answer (JSON_NONE, false), so that a caller checks
//     once, at the end of a chain.
#include "base/fmt.h"
#include "base/json.h"

enum json_type json_type(const struct json *j, u32 node) {
  return node < j->count ? (enum json_type)j->node[node].type : JSON_NULL;
}

static bool is_container(const struct json *j, u32 node) {
  enum json_type t = json_type(j, node);
  return t == JSON_ARRAY || t == JSON_OBJECT;
}

u32 json_first(const struct json *j, u32 container) {
  bool any = is_container(j, container) && j->node[container].next > container + 1;
  return any ? container + 1 : JSON_NONE;
}

u32 json_after(const struct json *j, u32 container, u32 element) {
  ASSERT(container < element);
  ASSERT(element < j->count);
  u32 next = j->node[element].next;
  if (j->node[container].type == JSON_OBJECT) {  // behind the key stands its value
    next = j->node[next].next;
  }
  return next < j->node[container].next ? next : JSON_NONE;
}

u32 json_value(const struct json *j, u32 key) {
  return key < j->count ? j->node[key].next : JSON_NONE;
}

u32 json_count(const struct json *j, u32 container) {
  u32 n = 0;
  for (u32 i = json_first(j, container); i != JSON_NONE; i = json_after(j, container, i)) {
    n++;
  }
  return n;
}

u32 json_member(const struct json *j, u32 object, const char *name) {
  if (json_type(j, object) != JSON_OBJECT) {
    return JSON_NONE;
  }
  for (u32 i = json_first(j, object); i != JSON_NONE; i = json_after(j, object, i)) {
    if (json_is(j, i, name)) {
      return json_value(j, i);
    }
  }
  return JSON_NONE;
}

bool json_plain(const struct json *j, u32 node, struct bytes *out) {
  if (json_type(j, node) != JSON_STRING || j->node[node].escaped) {
    return false;
  }
  *out = bytes_sub(j->text, j->node[node].off, j->node[node].len);
  return true;
}

bool json_is(const struct json *j, u32 node, const char *text) {
  struct bytes s;
  u8 buf[64];
  if (json_type(j, node) == JSON_STRING && j->node[node].escaped) {
    return json_string(j, node, span_of(buf, sizeof buf), &s) && bytes_equal_str(s, text);
  }
  return json_plain(j, node, &s) && bytes_equal_str(s, text);
}

bool json_int(const struct json *j, u32 node, i64 least, i64 most, i64 *out) {
  if (json_type(j, node) != JSON_NUMBER) {
    return false;
  }
  struct bytes text = bytes_sub(j->text, j->node[node].off, j->node[node].len);
  bool negative = text.ptr[0] == '-';
  u64 v = 0;
  if (bytes_to_u64(bytes_skip(text, negative ? 1 : 0), U64_MAX / 2, &v) != ERR_OK) {
    return false;
  }
  i64 n = negative ? -(i64)v : (i64)v;
  if (n < least || n > most) {
    return false;
  }
  *out = n;
  return true;
}

bool json_bool(const struct json *j, u32 node, bool *out) {
  enum json_type t = json_type(j, node);
  if (t != JSON_TRUE && t != JSON_FALSE) {
    return false;
  }
  *out = t == JSON_TRUE;
  return true;
}

// --- Writing

struct json_out json_out_init(struct span s) {
  return (struct json_out){.w = writer_init(s)};
}

static void separate(struct json_out *o) {
  u32 bit = 1u << o->depth;
  if (!o->keyed && (o->filled & bit) != 0) {
    write_u8(&o->w, ',');
  }
  o->filled |= bit;
  o->keyed = false;
}

void json_open(struct json_out *o, char bracket) {
  ASSERT(bracket == '{' || bracket == '[');
  ASSERT(o->depth < 31);
  separate(o);
  write_u8(&o->w, (u8)bracket);
  o->depth++;
  o->filled &= ~(1u << o->depth);
}

void json_close(struct json_out *o, char bracket) {
  ASSERT(bracket == '}' || bracket == ']');
  ASSERT(o->depth > 0);
  ASSERT(!o->keyed);
  o->depth--;
  write_u8(&o->w, (u8)bracket);
}

void json_put_string(struct json_out *o, struct bytes s) {
  separate(o);
  write_u8(&o->w, '"');
  for (usize i = 0; i < s.len; i++) {
    u8 c = s.ptr[i];
    if (c == '"' || c == '\\') {
      write_u8(&o->w, '\\');
      write_u8(&o->w, c);
    } else if (c < 0x20) {
      fmt(&o->w, "\\u%04x", c);
    } else {
      write_u8(&o->w, c);
    }
  }
  write_u8(&o->w, '"');
}

void json_key(struct json_out *o, const char *key) {
  ASSERT(!o->keyed);
  json_put_string(o, bytes_str(key));
  write_u8(&o->w, ':');
  o->keyed = true;
}

void json_put_int(struct json_out *o, i64 v) {
  separate(o);
  fmt(&o->w, "%lld", (long long)v);
}

void json_put_bool(struct json_out *o, bool v) {
  separate(o);
  write_str(&o->w, v ? "true" : "false");
}

void json_put_null(struct json_out *o) {
  separate(o);
  write_str(&o->w, "null");
}

void json_put_raw(struct json_out *o, struct bytes text) {
  separate(o);
  write_bytes(&o->w, text);
}

void json_field_string(struct json_out *o, const char *key, struct bytes s) {
  json_key(o, key);
  json_put_string(o, s);
}

void json_field_int(struct json_out *o, const char *key, i64 v) {
  json_key(o, key);
  json_put_int(o, v);
}

void json_field_bool(struct json_out *o, const char *key, bool v) {
  json_key(o, key);
  json_put_bool(o, v);
}
