// SPDX-License-Identifier: Apache-2.0
// The small part of a C library that third-party code wants inside the kernel. Nothing of ours
// calls it: core code has base/. The memory functions memcpy, memmove, memset and memcmp are not
// here but in arch/*/mem.S.
//
// I1  malloc serves the library's error queue only (its objects come from tls/memory.c): a few
//     hundred bytes once a core and short strings, freed by ERR_clear_error. Its pool is fixed; an
//     empty pool is a NULL, which that code handles.
// I2  Texts are formatted for a log, from the library's own formats: d u x X c s with 0 and -
//     flags, width, precision and the length marks h l z.
// I3  getenv and sscanf exist for a debugging override that a kernel does not have.
#include "base/assert.h"
#include "base/mem.h"
#include "base/shared.h"
#include "plat/plat.h"

typedef __builtin_va_list va_list;
struct timeval {
  long tv_sec;
  long tv_usec;
};
char *strchr(const char *s, int c);
char *strdup(const char *s);
void qsort(void *base, usize count, usize size, int (*compare)(const void *, const void *));
int vsnprintf(char *out, usize cap, const char *format, va_list args);
int __isoc99_sscanf(const char *text, const char *format, ...);
int __isoc23_sscanf(const char *text, const char *format, ...);  // its name since glibc 2.38
char *getenv(const char *name);
NORETURN void abort(void);
int *__errno_location(void);
long time(long *out);
int gettimeofday(struct timeval *restrict out, void *restrict zone);
void *malloc(usize len);
void free(void *p);
void *realloc(void *p, usize len);

// --- Strings

void *memchr(const void *s, int byte, usize len) {
  const u8 *p = s;
  for (usize i = 0; i < len; i++) {
    if (p[i] == (u8)byte) {
      return (void *)(uptr)(p + i);
    }
  }
  return NULL;
}

usize strlen(const char *s) {
  usize len = 0;
  while (s[len] != 0) {
    len++;
  }
  return len;
}

int strncmp(const char *a, const char *b, usize len) {
  for (usize i = 0; i < len; i++) {
    u8 x = (u8)a[i];
    u8 y = (u8)b[i];
    if (x != y || x == 0) {
      return x - y;
    }
  }
  return 0;
}

int strcmp(const char *a, const char *b) {
  return strncmp(a, b, ~(usize)0);
}

char *strchr(const char *s, int c) {
  for (;; s++) {
    if (*s == (char)c) {
      return (char *)(uptr)s;
    }
    if (*s == 0) {
      return NULL;
    }
  }
}

// --- Sorting: heapsort, in place and without recursion.

static void swap(u8 *a, u8 *b, usize size) {
  for (usize i = 0; i < size; i++) {
    u8 t = a[i];
    a[i] = b[i];
    b[i] = t;
  }
}

static void sift_down(u8 *base, usize root, usize count, usize size,
                      int (*compare)(const void *, const void *)) {
  for (usize child = 2 * root + 1; child < count; child = 2 * root + 1) {
    if (child + 1 < count && compare(base + child * size, base + (child + 1) * size) < 0) {
      child++;
    }
    if (compare(base + root * size, base + child * size) >= 0) {
      return;
    }
    swap(base + root * size, base + child * size, size);
    root = child;
  }
}

void qsort(void *base, usize count, usize size, int (*compare)(const void *, const void *)) {
  for (usize i = count / 2; i > 0; i--) {
    sift_down(base, i - 1, count, size, compare);
  }
  for (usize end = count; end > 1; end--) {
    swap(base, (u8 *)base + (end - 1) * size, size);
    sift_down(base, 0, end - 1, size, compare);
  }
}

// --- Formatting

struct out {
  char *buf;
  usize cap;
  usize len;  // what a large enough buffer would hold
};

struct format {
  bool left;
  bool zero;
  bool is_long;
  u32 width;
  u32 precision;  // U32_MAX: none
};

static void put(struct out *o, char c) {
  if (o->len + 1 < o->cap) {
    o->buf[o->len] = c;
  }
  o->len++;
}

static void put_padded(struct out *o, const struct format *f, const char *s, usize len, char pad) {
  usize fill = f->width > len ? f->width - len : 0;
  for (usize i = 0; !f->left && i < fill; i++) {
    put(o, pad);
  }
  for (usize i = 0; i < len; i++) {
    put(o, s[i]);
  }
  for (usize i = 0; f->left && i < fill; i++) {
    put(o, ' ');
  }
}

static void put_number(struct out *o, const struct format *f, u64 value, bool negative, u32 base,
                       char ten) {
  char text[24];
  usize pos = sizeof text;
  do {
    u32 digit = (u32)(value % base);
    text[--pos] = (char)(digit < 10 ? '0' + digit : (u32)ten + digit - 10);
    value /= base;
  } while (value != 0);
  if (negative) {
    text[--pos] = '-';
  }
  ASSERT(pos < sizeof text);
  put_padded(o, f, text + pos, sizeof text - pos, f->zero && !f->left ? '0' : ' ');
}

static const char *parse_format(const char *p, struct format *f) {
  *f = (struct format){.precision = U32_MAX};
  for (; *p == '-' || *p == '0'; p++) {
    f->left |= *p == '-';
    f->zero |= *p == '0';
  }
  for (; *p >= '0' && *p <= '9'; p++) {
    f->width = f->width * 10 + (u32)(*p - '0');
  }
  if (*p == '.') {
    f->precision = 0;
    for (p++; *p >= '0' && *p <= '9'; p++) {
      f->precision = f->precision * 10 + (u32)(*p - '0');
    }
  }
  for (; *p == 'l' || *p == 'z' || *p == 'h'; p++) {
    f->is_long |= *p != 'h';
  }
  return p;
}

int vsnprintf(char *buf, usize cap, const char *format, va_list args) {
  struct out o = {buf, cap, 0};
  for (const char *p = format; *p != 0; p++) {
    if (*p != '%') {
      put(&o, *p);
      continue;
    }
    struct format f;
    p = parse_format(p + 1, &f);
    if (*p == 0) {
      break;
    }
    if (*p == 's') {
      const char *s = __builtin_va_arg(args, const char *);
      s = s == NULL ? "(null)" : s;
      usize len = 0;
      while (len < f.precision && s[len] != 0) {
        len++;
      }
      put_padded(&o, &f, s, len, ' ');
    } else if (*p == 'd' || *p == 'i') {
      i64 v = f.is_long ? __builtin_va_arg(args, i64) : __builtin_va_arg(args, int);
      put_number(&o, &f, v < 0 ? 0 - (u64)v : (u64)v, v < 0, 10, 'a');
    } else if (*p == 'u' || *p == 'x' || *p == 'X') {
      u64 v = f.is_long ? __builtin_va_arg(args, u64) : __builtin_va_arg(args, u32);
      put_number(&o, &f, v, false, *p == 'u' ? 10 : 16, *p == 'X' ? 'A' : 'a');
    } else {
      char c = *p == 'c' ? (char)__builtin_va_arg(args, int) : *p;
      put_padded(&o, &f, &c, 1, ' ');
    }
  }
  if (cap != 0) {
    buf[MIN(o.len, cap - 1)] = 0;
  }
  return (int)o.len;
}

int __isoc99_sscanf(const char *text, const char *format, ...) {
  (void)text, (void)format;
  return 0;
}

int __isoc23_sscanf(const char *text, const char *format, ...) {
  (void)text, (void)format;
  return 0;
}

char *getenv(const char *name) {
  (void)name;
  return NULL;
}

// --- Memory for the error queue: runs of small blocks in a fixed pool.

#define POOL_BLOCK 64u
#define POOL_COUNT 512u
static u32 pool_lock;  // every core's error queue: pairs with itself
static u8 pool[POOL_COUNT][POOL_BLOCK] ALIGNED(16);
static u8 pool_run[POOL_COUNT];    // blocks in the run that starts here; 0 = none starts here
static u8 pool_taken[POOL_COUNT];  // 1 = part of a run

void *malloc(usize len) {
  if (len > 64u * POOL_BLOCK) {
    return NULL;
  }
  u32 need = MAX(1u, (u32)((len + POOL_BLOCK - 1) / POOL_BLOCK));
  u32 free_run = 0;
  void *found = NULL;
  shared_lock(&pool_lock);
  for (u32 i = 0; i < POOL_COUNT && found == NULL; i++) {
    free_run = pool_taken[i] != 0 ? 0 : free_run + 1;
    if (free_run == need) {
      u32 first = i + 1 - need;
      memset(pool_taken + first, 1, need);
      pool_run[first] = (u8)need;
      found = pool[first];
    }
  }
  shared_unlock(&pool_lock);
  return found;
}

static u32 pool_index(const void *p) {
  usize off = (usize)((const u8 *)p - pool[0]);
  ASSERT(off < sizeof pool);
  ASSERT(off % POOL_BLOCK == 0);
  ASSERT(pool_run[off / POOL_BLOCK] != 0);
  return (u32)(off / POOL_BLOCK);
}

void free(void *p) {
  if (p == NULL) {
    return;
  }
  u32 first = pool_index(p);
  shared_lock(&pool_lock);
  memset(pool_taken + first, 0, pool_run[first]);
  pool_run[first] = 0;
  shared_unlock(&pool_lock);
}

void *realloc(void *p, usize len) {
  void *fresh = malloc(len);
  if (fresh != NULL && p != NULL) {
    memcpy(fresh, p, MIN(len, (usize)pool_run[pool_index(p)] * POOL_BLOCK));
    free(p);
  }
  return fresh;
}

char *strdup(const char *s) {
  usize len = strlen(s) + 1;
  char *copy = malloc(len);
  if (copy != NULL) {
    memcpy(copy, s, len);
  }
  return copy;
}

// --- Time, errors, the end

long time(long *out) {
  long now = (long)(plat_wall().unix_ns / 1000000000u);
  if (out != NULL) {
    *out = now;
  }
  return now;
}

int gettimeofday(struct timeval *restrict out, void *restrict zone) {
  (void)zone;
  u64 now_ns = plat_wall().unix_ns;
  out->tv_sec = (long)(now_ns / 1000000000u);
  out->tv_usec = (long)(now_ns % 1000000000u / 1000u);
  return 0;
}

int *__errno_location(void) {
  static int last_error;
  return &last_error;
}

void abort(void) {
  plat_crash("E90", "The cryptographic library found its own state broken.");
}
