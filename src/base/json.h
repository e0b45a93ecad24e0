// SPDX-License-Identifier: Apache-2.0
// JSON (RFC 8259) without allocation: a text becomes a flat list of nodes in the caller's array,
// and answers are written into a writer. For configuration files and commands of administrators,
// so it is strict: what is not JSON is refused with the place of the first fault.
//
// I1  Nodes stand in document order. An object's children are key, value, key, value; `next` of a
//     node is the index behind it and all its children. A node's text is a part of the input.
// I2  Text is UTF-8 (RFC 3629); U+0000 is refused in every spelling, unpaired surrogates too.
// I3  Numbers are kept as text: only integers are ever asked for, and there is no floating point.
// I4  Depth is bounded by JSON_DEPTH_MAX, and nothing recurses.
#pragma once
#include "base/bytes.h"

#define JSON_DEPTH_MAX 32u
#define JSON_NONE U32_MAX

enum json_type {
  JSON_NULL,
  JSON_FALSE,
  JSON_TRUE,
  JSON_NUMBER,
  JSON_STRING,
  JSON_ARRAY,
  JSON_OBJECT
};

struct json_node {
  u32 off;  // of the value's text; of a string: behind its first quote
  u32 len;  // of a string: without the quotes, escapes as they stand
  u32 next;
  u8 type;       // enum json_type
  bool escaped;  // a string with a backslash in it
};
struct json {
  struct bytes text;
  struct json_node *node;
  u32 count;
};
struct json_fault {
  u32 off;  // byte of the text
  u32 line;
  const char *what;  // static
};

// Reads the whole text into nodes[0..node_max); node 0 is the root value. ERR_MALFORMED with
// *fault; ERR_LIMIT: more nodes or levels than there is room for. `out` borrows text and nodes.
enum err json_parse(struct bytes text, struct json_node *nodes, u32 node_max, struct json *out,
                    struct json_fault *fault);

// --- Looking. Every function takes JSON_NONE for `node` and answers as for something absent.

enum json_type json_type(const struct json *j, u32 node);
// The first member of this name, JSON_NONE when there is none or `object` is no object.
u32 json_member(const struct json *j, u32 object, const char *name);
// Elements of an array, members (keys) of an object; JSON_NONE behind the last.
u32 json_first(const struct json *j, u32 container);
u32 json_after(const struct json *j, u32 container, u32 element);
// The value that belongs to a key.
u32 json_value(const struct json *j, u32 key);
u32 json_count(const struct json *j, u32 container);
// A string without escapes, as it lies there; false: no string, or one that must be decoded.
bool json_plain(const struct json *j, u32 node, struct bytes *out);
// Decodes a string into `buf` (len of the node is always enough). False: no string, or too long.
bool json_string(const struct json *j, u32 node, struct span buf, struct bytes *out);
bool json_is(const struct json *j, u32 node, const char *text);
// An integer from least to most; false: something else (1.0 and 1e3 too).
bool json_int(const struct json *j, u32 node, i64 least, i64 most, i64 *out);
bool json_bool(const struct json *j, u32 node, bool *out);

// --- Writing. Commas and quotes are set; what the caller gives must be UTF-8 (from MQTT it is).

struct json_out {
  struct writer w;  // sticky error: ERR_SPACE
  u32 depth;
  u32 filled;  // bit d: something stands already at depth d
  bool keyed;  // a key was written, its value follows
};
struct json_out json_out_init(struct span s);
void json_open(struct json_out *o, char bracket);  // '{' or '['
void json_close(struct json_out *o, char bracket);
void json_key(struct json_out *o, const char *key);
void json_put_string(struct json_out *o, struct bytes s);
void json_put_int(struct json_out *o, i64 v);
void json_put_bool(struct json_out *o, bool v);
void json_put_null(struct json_out *o);
// A value of a read document, as it stands there.
void json_put_raw(struct json_out *o, struct bytes text);
// Key and value at once.
void json_field_string(struct json_out *o, const char *key, struct bytes s);
void json_field_int(struct json_out *o, const char *key, i64 v);
void json_field_bool(struct json_out *o, const char *key, bool v);
