// SPDX-License-Identifier: Apache-2.0
// What SQLite wants of a C library besides mem* (ISO C 7.26, 7.12.7.3). The functions are renamed to store_*
// with SQLite itself, so that it has nothing in common with the rest of the program.
#include <stddef.h>

size_t strlen(const char *s) {
  size_t len = 0;
  while (s[len] != 0) {
    len++;
  }
  return len;
}

int strncmp(const char *a, const char *b, size_t len) {
  for (size_t i = 0; i < len; i++) {
    unsigned char x = (unsigned char)a[i];
    unsigned char y = (unsigned char)b[i];
    if (x != y || x == 0) {
      return x - y;
    }
  }
  return 0;
}

int strcmp(const char *a, const char *b) {
  return strncmp(a, b, (size_t)-1);
}

char *strrchr(const char *s, int c) {
  const char *last = NULL;
  do {
    last = *s == (char)c ? s : last;
  } while (*s++ != 0);
  return (char *)last;
}

static size_t run(const char *s, const char *set, int in) {
  size_t n = 0;
  for (; s[n] != 0; n++) {
    const char *p = set;
    while (*p != 0 && *p != s[n]) {
      p++;
    }
    if ((*p != 0) != in) {
      break;
    }
  }
  return n;
}

size_t strspn(const char *s, const char *set) {
  return run(s, set, 1);
}

size_t strcspn(const char *s, const char *set) {
  return run(s, set, 0);
}

double fabs(double x) {
  return x < 0 ? -x : x;
}
