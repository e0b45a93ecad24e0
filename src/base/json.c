// SPDX-License-Identifier: Apache-2.0
// The reader: one step a token, with the grammar as a state. Why it is our own: docs/adr (JSON).
//
// I1  While a container is open its node's `next` is its parent; closing sets it to the node behind
//     (json.h I1), so the list of nodes is the stack.
#include "base/json.h"

#include "base/utf8.h"

enum expect { VALUE, FIRST_ELEMENT, FIRST_KEY, KEY, COLON, COMMA, END };

struct state {
  struct bytes text;
  struct json_node *node;
  u32 node_max;
  u32 pos;
  u32 count;
  u32 depth;
  u32 top;  // innermost open container, JSON_NONE at the root
  enum expect expect;
  enum err err;
  const char *what;
};

static void fail(struct state *s, enum err e, const char *what) {
  if (s->err == ERR_OK) {
    s->err = e;
    s->what = what;
  }
}

static bool is_digit(u8 c) {
  return c >= '0' && c <= '9';
}
static u8 at(const struct state *s, u32 pos) {  // 0 behind the end: never part of a token
  return pos < s->text.len ? s->text.ptr[pos] : 0;
}

static u32 add(struct state *s, u8 type, u32 off, u32 len) {
  if (s->count == s->node_max) {
    fail(s, ERR_LIMIT, "too many values");
    return JSON_NONE;
  }
  u32 i = s->count++;
  s->node[i] = (struct json_node){.off = off, .len = len, .next = s->count, .type = type};
  return i;
}

// --- tokens: each returns the position behind it, or sets the error

static u32 digits(const struct state *s, u32 pos) {
  while (is_digit(at(s, pos))) {
    pos++;
  }
  return pos;
}

static u32 number(struct state *s) {
  u32 pos = s->pos + (at(s, s->pos) == '-' ? 1u : 0u);
  u32 from = pos;
  pos = at(s, pos) == '0' ? pos + 1 : digits(s, pos);
  bool good = pos > from;
  if (good && at(s, pos) == '.') {
    from = pos + 1;
    pos = digits(s, from);
    good = pos > from;
  }
  if (good && (at(s, pos) | 0x20) == 'e') {
    from = pos + 1;
    from += at(s, from) == '+' || at(s, from) == '-' ? 1u : 0u;
    pos = digits(s, from);
    good = pos > from;
  }
  if (!good) {
    fail(s, ERR_MALFORMED, "not a number");
  }
  return pos;
}

static bool hex4(const struct state *s, u32 pos, u32 *out) {
  u32 v = 0;
  for (u32 i = 0; i < 4; i++) {
    u8 c = at(s, pos + i);
    u8 low = (u8)(c | 0x20);
    if (!is_digit(c) && (low < 'a' || low > 'f')) {
      return false;
    }
    v = v << 4 | (u32)(is_digit(c) ? c - '0' : low - 'a' + 10);
  }
  *out = v;
  return true;
}

// The escape at pos (a backslash): its length, 0 = none. *code is the character.
static u32 escape(const struct state *s, u32 pos, u32 *code) {
  static const char names[] = "\"\\/bfnrt";
  static const u8 codes[] = {'"', '\\', '/', 8, 12, 10, 13, 9};
  u8 c = at(s, pos + 1);
  for (u32 i = 0; i < sizeof codes; i++) {
    if (c == (u8)names[i]) {
      *code = codes[i];
      return 2;
    }
  }
  u32 low = 0;
  if (c != 'u' || !hex4(s, pos + 2, code) || *code == 0 || (*code >= 0xdc00 && *code < 0xe000)) {
    return 0;
  }
  if (*code < 0xd800 || *code >= 0xe000) {
    return 6;
  }
  if (at(s, pos + 6) != '\\' || at(s, pos + 7) != 'u' || !hex4(s, pos + 8, &low) || low < 0xdc00 ||
      low >= 0xe000) {
    return 0;
  }
  *code = 0x10000 + ((*code - 0xd800) << 10) + (low - 0xdc00);
  return 12;
}

static u32 string(struct state *s) {
  u32 pos = s->pos + 1;
  bool escaped = false;
  while (s->err == ERR_OK && pos < s->text.len && s->text.ptr[pos] != '"') {
    u32 code = 0;
    u32 len = s->text.ptr[pos] == '\\' ? escape(s, pos, &code) : 1;
    escaped |= s->text.ptr[pos] == '\\';
    if (len == 0 || s->text.ptr[pos] < 0x20) {
      s->pos = pos;
      fail(s, ERR_MALFORMED, len == 0 ? "not an escape" : "a control character in a string");
    }
    pos += len;
  }
  if (pos >= s->text.len) {
    fail(s, ERR_MALFORMED, "a string without its end");
    return pos;
  }
  u32 i = add(s, JSON_STRING, s->pos + 1, pos - s->pos - 1);
  if (i != JSON_NONE) {
    s->node[i].escaped = escaped;
  }
  return pos + 1;
}

static u32 word(struct state *s) {
  static const struct {
    const char *text;
    u8 type;
  } words[] = {{"null", JSON_NULL}, {"false", JSON_FALSE}, {"true", JSON_TRUE}};
  struct bytes rest = bytes_skip(s->text, s->pos);
  for (u32 i = 0; i < ARRAY_COUNT(words); i++) {
    struct bytes w = bytes_str(words[i].text);
    if (bytes_starts_with(rest, w)) {
      (void)add(s, words[i].type, s->pos, (u32)w.len);
      return s->pos + (u32)w.len;
    }
  }
  fail(s, ERR_MALFORMED, "not a value");
  return s->pos;
}

// --- grammar

static void open(struct state *s, bool object) {
  if (s->depth == JSON_DEPTH_MAX) {
    fail(s, ERR_LIMIT, "nested too deeply");
    return;
  }
  u32 i = add(s, object ? JSON_OBJECT : JSON_ARRAY, s->pos, 0);
  if (i == JSON_NONE) {
    return;
  }
  s->node[i].next = s->top;
  s->top = i;
  s->depth++;
  s->pos++;
  s->expect = object ? FIRST_KEY : FIRST_ELEMENT;
}

static void value_done(struct state *s) {
  s->expect = s->top == JSON_NONE ? END : COMMA;
}

static void close(struct state *s) {
  struct json_node *n = &s->node[s->top];
  s->top = n->next;
  n->next = s->count;
  ASSERT(s->depth > 0);
  s->depth--;
  s->pos++;
  n->len = s->pos - n->off;
  value_done(s);
}

static void value(struct state *s, u8 c) {
  if (c == '{' || c == '[') {
    open(s, c == '{');
    return;
  }
  if (c == '"') {
    s->pos = string(s);
  } else if (c == '-' || is_digit(c)) {
    u32 end = number(s);
    if (s->err == ERR_OK) {
      (void)add(s, JSON_NUMBER, s->pos, end - s->pos);
      s->pos = end;
    }
  } else {
    s->pos = word(s);
  }
  value_done(s);
}

// One token, which begins with c.
static void step(struct state *s, u8 c) {
  bool in_object = s->top != JSON_NONE && s->node[s->top].type == JSON_OBJECT;
  bool may_close = s->expect == COMMA || s->expect == FIRST_ELEMENT || s->expect == FIRST_KEY;
  if (may_close && c == (in_object ? '}' : ']')) {
    close(s);
    return;
  }
  switch (s->expect) {
  case VALUE:
  case FIRST_ELEMENT: value(s, c); return;
  case FIRST_KEY:
  case KEY:
    if (c != '"') {
      fail(s, ERR_MALFORMED, "a member's name in quotes is missing");
      return;
    }
    s->pos = string(s);
    s->expect = COLON;
    return;
  case COLON:
  case COMMA:
    if (c != (s->expect == COLON ? ':' : ',')) {
      fail(s, ERR_MALFORMED, s->expect == COLON ? "a colon is missing" : "a comma is missing");
      return;
    }
    s->pos++;
    s->expect = s->expect == COMMA && in_object ? KEY : VALUE;
    return;
  case END: fail(s, ERR_MALFORMED, "something stands behind the value"); return;
  }
}

enum err json_parse(struct bytes text, struct json_node *nodes, u32 node_max, struct json *out,
                    struct json_fault *fault) {
  struct state s = {
      .text = text, .node = nodes, .node_max = node_max, .top = JSON_NONE, .expect = VALUE};
  if (text.len >= U32_MAX) {
    fail(&s, ERR_LIMIT, "too long");
  }
  while (s.err == ERR_OK && s.pos < text.len) {
    u8 c = text.ptr[s.pos];
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      s.pos++;
    } else {
      step(&s, c);
    }
  }
  if (s.err == ERR_OK && s.expect != END) {
    fail(&s, ERR_MALFORMED, "the text ends too early");
  }
  if (s.err == ERR_OK && !utf8_valid(text.ptr, (u32)text.len)) {
    s.pos = 0;
    fail(&s, ERR_MALFORMED, "not UTF-8");
  }
  *out = (struct json){.text = text, .node = nodes, .count = s.err == ERR_OK ? s.count : 0};
  *fault = (struct json_fault){.off = s.pos, .line = 1, .what = s.what};
  for (u32 i = 0; s.err != ERR_OK && i < MIN((usize)s.pos, text.len); i++) {
    fault->line += text.ptr[i] == '\n' ? 1 : 0;
  }
  return s.err;
}

// The writer's side of an escape lives here, beside its reader.
bool json_string(const struct json *j, u32 node, struct span buf, struct bytes *out) {
  if (json_type(j, node) != JSON_STRING) {
    return false;
  }
  const struct json_node *n = &j->node[node];
  struct state s = {.text = bytes_sub(j->text, n->off, n->len)};
  struct writer w = writer_init(buf);
  for (u32 pos = 0; pos < n->len;) {
    u32 code = s.text.ptr[pos];
    if (code != '\\') {
      write_u8(&w, (u8)code);
      pos++;
      continue;
    }
    u32 len = escape(&s, pos, &code);
    ASSERT(len > 0);  // json_parse has seen it
    pos += len;
    if (code < 0x80) {
      write_u8(&w, (u8)code);
    } else if (code < 0x800) {
      write_u8(&w, (u8)(0xc0 | code >> 6));
    } else if (code < 0x10000) {
      write_u8(&w, (u8)(0xe0 | code >> 12));
    } else {
      write_u8(&w, (u8)(0xf0 | code >> 18));
      write_u8(&w, (u8)(0x80 | (code >> 12 & 63)));
    }
    if (code >= 0x800) {
      write_u8(&w, (u8)(0x80 | (code >> 6 & 63)));
    }
    if (code >= 0x80) {
      write_u8(&w, (u8)(0x80 | (code & 63)));
    }
  }
  *out = writer_bytes(&w);
  return w.err == ERR_OK;
}
