// SPDX-License-Identifier: Apache-2.0
// An acl_file's meaning a second time, slow and in another way, for tests: the text is read anew
// for each question with the C library, placeholders are put in as text, filters are matched by
// recursion. Nothing is shared with acl.c. Test code only.
#pragma once
#include <ctype.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool slow_match(const char *f, const char *t) {
  if (strcmp(f, "#") == 0) {
    return true;
  }
  size_t fl = strcspn(f, "/");
  size_t tl = strcspn(t, "/");
  if (!(fl == 1 && f[0] == '+') && !(fl == tl && strncmp(f, t, fl) == 0)) {
    return false;
  }
  if (t[tl] == 0) {
    return f[fl] == 0 || strcmp(f + fl, "/#") == 0;
  }
  return f[fl] == '/' && slow_match(f + fl + 1, t + tl + 1);
}

// Level by level, %c and %u replaced.
static void slow_expand(const char *f, const char *id, const char *user, char *out) {
  *out = 0;
  for (;;) {
    size_t n = strcspn(f, "/");
    if (n == 2 && strncmp(f, "%c", 2) == 0) {
      strcat(out, id);
    } else if (n == 2 && strncmp(f, "%u", 2) == 0) {
      strcat(out, user);
    } else {
      strncat(out, f, n);
    }
    if (f[n] == 0) {
      return;
    }
    strcat(out, "/");
    f += n + 1;
  }
}

static bool slow_has_user(const char *f) {
  for (;; f = strchr(f, '/') + 1) {
    if (strncmp(f, "%u", 2) == 0 && (f[2] == '/' || f[2] == 0)) {
      return true;
    }
    if (strchr(f, '/') == NULL) {
      return false;
    }
  }
}

// One pass over the file for one question: does a rule of this kind (pattern or own) with this
// access ('d', 'r', 'w') match? user NULL = anonymous.
static bool slow_any(const char *file, bool pattern, char access, const char *user, const char *id,
                     const char *topic, bool *patterns_there) {
  char line[512], current[512] = "", full[2048];
  bool own = user == NULL;
  bool found = false;
  while (*file != 0) {
    size_t n = strcspn(file, "\n");
    snprintf(line, sizeof line, "%.*s", (int)n, file);
    file += n + (file[n] == '\n' ? 1 : 0);
    while (n > 0 && isspace((unsigned char)line[n - 1])) {
      line[--n] = 0;
    }
    char *save = NULL;
    char *word = line[0] == '#' ? NULL : strtok_r(line, " ", &save);
    if (word == NULL) {
      continue;
    }
    if (strcmp(word, "user") == 0) {
      char *name = save + strspn(save, " ");
      snprintf(current, sizeof current, "%s", name);
      own = user != NULL && strcmp(current, user) == 0;
      continue;
    }
    bool is_pattern = strcmp(word, "pattern") == 0;
    char *mode = strtok_r(NULL, " ", &save);
    char *filter = save + strspn(save, " ");
    if (*filter == 0) {
      filter = mode;
      mode = "readwrite";
    }
    *patterns_there |= is_pattern;
    bool fits = access == 'd' ? strcmp(mode, "deny") == 0
                              : strcmp(mode, "readwrite") == 0 ||
                                    strcmp(mode, access == 'r' ? "read" : "write") == 0;
    if (is_pattern != pattern || !fits || (!pattern && !own) ||
        (filter[0] == '$') != (topic[0] == '$') ||
        (pattern && user == NULL && slow_has_user(filter))) {
      continue;
    }
    snprintf(full, sizeof full, "%s", filter);
    if (pattern) {
      slow_expand(filter, id, user == NULL ? "" : user, full);
    }
    found |= slow_match(full, topic);
  }
  return found;
}

static bool slow_allows(const char *file, const char *user, const char *id, bool write,
                        const char *topic) {
  char access = write ? 'w' : 'r';
  bool patterns = false;
  if (slow_any(file, false, 'd', user, id, topic, &patterns)) {
    return false;
  }
  if (slow_any(file, false, access, user, id, topic, &patterns)) {
    return true;
  }
  if (!patterns || strpbrk(id, "+#") != NULL || (user != NULL && strpbrk(user, "+#") != NULL)) {
    return false;
  }
  return !slow_any(file, true, 'd', user, id, topic, &patterns) &&
         slow_any(file, true, access, user, id, topic, &patterns);
}
