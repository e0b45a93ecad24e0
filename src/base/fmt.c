// SPDX-License-Identifier: Apache-2.0
#include "base/fmt.h"

struct spec {
  u32 width;
  bool zero;
  bool left;
  u32 longs;
  i32 precision;  // -1 = none
};

static void pad(struct writer *w, char c, u32 count) {
  for (u32 i = 0; i < count; i++) {
    write_u8(w, (u8)c);
  }
}

static void put_number(struct writer *w, u64 v, u32 base, bool negative, const struct spec *s) {
  char digits[24];
  u32 n = 0;
  do {
    digits[n++] = "0123456789abcdef"[v % base];
    v /= base;
  } while (v != 0);
  u32 total = n + (negative ? 1 : 0);
  u32 fill = s->width > total ? s->width - total : 0;
  if (!s->zero && !s->left) {
    pad(w, ' ', fill);
  }
  if (negative) {
    write_u8(w, '-');
  }
  if (s->zero) {
    pad(w, '0', fill);
  }
  while (n > 0) {
    write_u8(w, (u8)digits[--n]);
  }
  if (s->left) {
    pad(w, ' ', fill);
  }
}

static void put_string(struct writer *w, const char *text, const struct spec *s) {
  u32 len = 0;
  while ((s->precision < 0 || len < (u32)s->precision) && text[len] != 0) {
    len++;
  }
  u32 fill = s->width > len ? s->width - len : 0;
  if (!s->left) {
    pad(w, ' ', fill);
  }
  write_bytes(w, bytes_of(text, len));
  if (s->left) {
    pad(w, ' ', fill);
  }
}

// Parses flags, width, precision and length after '%'; returns the conversion character's place.
static const char *parse_spec(const char *f, struct spec *s, __builtin_va_list *args) {
  *s = (struct spec){.precision = -1};
  for (; *f == '0' || *f == '-'; f++) {
    s->zero = s->zero || *f == '0';
    s->left = s->left || *f == '-';
  }
  for (; *f >= '0' && *f <= '9'; f++) {
    s->width = s->width * 10 + (u32)(*f - '0');
  }
  if (f[0] == '.' && f[1] == '*') {
    s->precision = __builtin_va_arg(*args, int);
    f += 2;
  }
  for (; *f == 'l' || *f == 'z'; f++) {
    s->longs++;
  }
  s->zero = s->zero && !s->left;
  return f;
}

static u64 take_unsigned(const struct spec *s, __builtin_va_list *args) {
  return s->longs ? __builtin_va_arg(*args, u64) : __builtin_va_arg(*args, u32);
}

static void put_signed(struct writer *w, const struct spec *s, __builtin_va_list *args) {
  i64 v = s->longs ? __builtin_va_arg(*args, i64) : __builtin_va_arg(*args, i32);
  put_number(w, v < 0 ? (u64)0 - (u64)v : (u64)v, 10, v < 0, s);
}

static void put_conversion(struct writer *w, char c, const struct spec *s,
                           __builtin_va_list *args) {
  switch (c) {
  case 's': put_string(w, __builtin_va_arg(*args, const char *), s); break;
  case 'c': write_u8(w, (u8) __builtin_va_arg(*args, int)); break;
  case 'd': put_signed(w, s, args); break;
  case 'u': put_number(w, take_unsigned(s, args), 10, false, s); break;
  case 'x': put_number(w, take_unsigned(s, args), 16, false, s); break;
  case 'p': put_number(w, (uptr) __builtin_va_arg(*args, void *), 16, false, s); break;
  case '%': write_u8(w, '%'); break;
  default: assert_fail("fmt.c", "unknown conversion in a format of our own");
  }
}

void fmt_v(struct writer *w, const char *format, __builtin_va_list args) {
  __builtin_va_list copy;
  __builtin_va_copy(copy, args);
  for (const char *f = format; *f != 0; f++) {
    if (*f != '%') {
      write_u8(w, (u8)*f);
      continue;
    }
    struct spec s;
    f = parse_spec(f + 1, &s, &copy);
    put_conversion(w, *f, &s, &copy);
  }
  __builtin_va_end(copy);
}

void fmt(struct writer *w, const char *format, ...) {
  __builtin_va_list args;
  __builtin_va_start(args, format);
  fmt_v(w, format, args);
  __builtin_va_end(args);
}

u32 fmt_z(char *buf, u32 cap, const char *format, ...) {
  ASSERT(cap >= 1);
  struct writer w = writer_init(span_of(buf, cap - 1));
  __builtin_va_list args;
  __builtin_va_start(args, format);
  fmt_v(&w, format, args);
  __builtin_va_end(args);
  buf[w.pos] = 0;
  return w.pos;
}

void fmt_escaped(struct writer *w, struct bytes b) {
  for (usize i = 0; i < b.len; i++) {
    u8 c = b.ptr[i];
    if (c >= 0x20 && c < 0x7f && c != '\\') {
      write_u8(w, c);
    } else {
      fmt(w, "\\x%02x", c);
    }
  }
}
