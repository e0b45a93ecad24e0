// SPDX-License-Identifier: Apache-2.0
// Borrowed views, and the two cursors through which every byte of a protocol is read and written.
//
// I1  A cursor's error is sticky: after the first failed step nothing is read or written any more,
// reads give 0.
//     A decoder reads like the table in its specification and checks once, at the end.
// I2  pos <= end always; offsets are u32, so no input of 4 GiB or more is ever wrapped in a cursor.
// I3  A cursor never owns its bytes.
#pragma once
#include "base/assert.h"
#include "base/cc.h"
#include "base/err.h"
#include "base/mem.h"

struct bytes {  // borrowed, read-only
  const u8 *ptr;
  usize len;
};

struct span {  // borrowed, writable
  u8 *ptr;
  usize len;
};

// A part of a packet: offsets, never pointers (verification rule: pointer spans make loop proofs
// fail).
struct part {
  u32 off;
  u32 len;
};

#define BYTES_LIT(s) ((struct bytes){(const u8 *)(s), sizeof(s) - 1})

static inline struct bytes bytes_of(const void *ptr, usize len) {
  return (struct bytes){ptr, len};
}
static inline struct bytes bytes_str(const char *s) {
  return (struct bytes){(const u8 *)s, strlen(s)};
}
static inline struct span span_of(void *ptr, usize len) {
  return (struct span){ptr, len};
}
static inline struct bytes span_bytes(struct span s) {
  return (struct bytes){s.ptr, s.len};
}

// The part [off, off+len) of b; both inside b (asserted).
static inline struct bytes bytes_sub(struct bytes b, usize off, usize len) {
  ASSERT(off <= b.len);
  ASSERT(len <= b.len - off);
  return (struct bytes){b.ptr + off, len};
}
static inline struct bytes bytes_part(struct bytes b, struct part p) {
  return bytes_sub(b, p.off, p.len);
}
static inline struct bytes bytes_skip(struct bytes b, usize off) {
  return bytes_sub(b, off, b.len - off);
}
bool bytes_equal(struct bytes a, struct bytes b);
bool bytes_equal_str(struct bytes a, const char *s);
// The same, with A to Z taken for a to z.
bool bytes_equal_nocase(struct bytes a, const char *s);
bool bytes_starts_with(struct bytes a, struct bytes prefix);
// Index of the first `byte` in b, or b.len.
usize bytes_find(struct bytes b, u8 byte);
// Decimal digits only, no sign, no space; ERR_MALFORMED or ERR_RANGE (> max).
NODISCARD enum err bytes_to_u64(struct bytes b, u64 max, u64 *out);

struct reader {
  const u8 *base;
  u32 pos;
  u32 end;
  enum err err;
};

static inline struct reader reader_init(struct bytes b) {
  ASSERT(b.len <= U32_MAX);
  return (struct reader){.base = b.ptr, .pos = 0, .end = (u32)b.len, .err = ERR_OK};
}
static inline u32 reader_left(const struct reader *r) {
  return r->end - r->pos;
}
// True when `len` more bytes are there; sets ERR_SHORT otherwise.
static inline bool reader_need(struct reader *r, u32 len) {
  if (r->err == ERR_OK && r->end - r->pos < len) {
    r->err = ERR_SHORT;
  }
  return r->err == ERR_OK;
}
static inline u8 read_u8(struct reader *r) {
  return reader_need(r, 1) ? r->base[r->pos++] : 0;
}
static inline u16 read_be16(struct reader *r) {
  if (!reader_need(r, 2)) {
    return 0;
  }
  u16 v = load_be16(r->base + r->pos);
  r->pos += 2;
  return v;
}
static inline u32 read_be32(struct reader *r) {
  if (!reader_need(r, 4)) {
    return 0;
  }
  u32 v = load_be32(r->base + r->pos);
  r->pos += 4;
  return v;
}
// Takes the next `len` bytes as a part of the input; an empty part on error.
static inline struct part read_part(struct reader *r, u32 len) {
  if (!reader_need(r, len)) {
    return (struct part){0, 0};
  }
  struct part p = {r->pos, len};
  r->pos += len;
  return p;
}
static inline struct bytes reader_bytes(const struct reader *r, struct part p) {
  ASSERT(p.off <= r->end);
  ASSERT(p.len <= r->end - p.off);
  return (struct bytes){r->base + p.off, p.len};
}
static inline void reader_fail(struct reader *r, enum err e) {
  if (r->err == ERR_OK) {
    r->err = e;
  }
}

struct writer {
  u8 *base;
  u32 pos;
  u32 end;
  enum err err;
};

static inline struct writer writer_init(struct span s) {
  ASSERT(s.len <= U32_MAX);
  return (struct writer){.base = s.ptr, .pos = 0, .end = (u32)s.len, .err = ERR_OK};
}
static inline u32 writer_left(const struct writer *w) {
  return w->end - w->pos;
}
static inline struct bytes writer_bytes(const struct writer *w) {
  return (struct bytes){w->base, w->pos};
}
static inline bool writer_need(struct writer *w, u32 len) {
  if (w->err == ERR_OK && w->end - w->pos < len) {
    w->err = ERR_SPACE;
  }
  return w->err == ERR_OK;
}
static inline void write_u8(struct writer *w, u8 v) {
  if (writer_need(w, 1)) {
    w->base[w->pos++] = v;
  }
}
static inline void write_be16(struct writer *w, u16 v) {
  if (writer_need(w, 2)) {
    store_be16(w->base + w->pos, v);
    w->pos += 2;
  }
}
static inline void write_be32(struct writer *w, u32 v) {
  if (writer_need(w, 4)) {
    store_be32(w->base + w->pos, v);
    w->pos += 4;
  }
}
static inline void write_bytes(struct writer *w, struct bytes b) {
  if (b.len > U32_MAX) {
    w->err = w->err == ERR_OK ? ERR_SPACE : w->err;
    return;
  }
  if (b.len != 0 && writer_need(w, (u32)b.len)) {
    memcpy(w->base + w->pos, b.ptr, b.len);
    w->pos += (u32)b.len;
  }
}
void write_str(struct writer *w, const char *s);
