// SPDX-License-Identifier: Apache-2.0
// Tables. Widths count characters of UTF-8, not bytes.
#include "ctl_table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl_link.h"

#define COLUMNS_MAX 12u

static struct {
  char *(*row)[COLUMNS_MAX];
  usize count, room;
} rows;

static void *memory(void *old, usize bytes) {
  void *p = realloc(old, bytes);
  if (p == NULL) {
    die("memory", strerror(errno));
  }
  return p;
}

static u32 width(const char *s) {
  u32 n = 0;
  for (; *s != 0; s++) {
    n += (*s & 0xc0) != 0x80;
  }
  return n;
}

// C0, DEL and C1 (U+0080..U+009F) would move the cursor or worse; a backslash becomes two.
static char *escaped(struct bytes s) {
  char *out = memory(NULL, s.len * 4 + 1);
  usize n = 0;
  for (usize i = 0; i < s.len; i++) {
    u8 c = s.ptr[i];
    bool c1 = c == 0xc2 && i + 1 < s.len && s.ptr[i + 1] < 0xa0;
    if (c < 0x20 || c == 0x7f || c1) {
      c = c1 ? s.ptr[++i] : c;
      n += (usize)sprintf(out + n, "\\x%02x", c);
    } else {
      if (c == '\\') {
        out[n++] = '\\';
      }
      out[n++] = (char)c;
    }
  }
  out[n] = 0;
  return out;
}

char *ctl_text(const struct json *j, u32 node) {
  if (node == JSON_NONE || json_type(j, node) == JSON_NULL) {
    return escaped(BYTES_LIT("-"));
  }
  const struct json_node *n = &j->node[node];
  if (json_type(j, node) == JSON_STRING) {
    u8 *room = memory(NULL, n->len + 1);
    struct bytes s = bytes_of(room, 0);
    (void)json_string(j, node, span_of(room, n->len + 1), &s);
    char *text = escaped(s);
    free(room);
    return text;
  }
  if (json_type(j, node) == JSON_TRUE || json_type(j, node) == JSON_FALSE) {
    return escaped(json_type(j, node) == JSON_TRUE ? BYTES_LIT("yes") : BYTES_LIT("no"));
  }
  return escaped(bytes_sub(j->text, n->off, n->len));
}

void ctl_row(const struct ctl_column *columns, const struct json *j, u32 object) {
  if (rows.count == rows.room) {
    rows.room = rows.room * 2 + 64;
    rows.row = memory(rows.row, rows.room * sizeof *rows.row);
  }
  for (u32 i = 0; columns[i].key != NULL; i++) {
    ASSERT(i < COLUMNS_MAX);
    rows.row[rows.count][i] = ctl_text(j, json_member(j, object, columns[i].key));
  }
  rows.count++;
}

static void put_cell(const char *text, u32 wide, bool right, bool last) {
  u32 pad = wide - width(text);
  if (right) {
    printf("%*s%s", (int)pad, "", text);
  } else {
    printf("%s%*s", text, last ? 0 : (int)pad, "");
  }
  printf("%s", last ? "\n" : "  ");
}

void ctl_print_rows(const struct ctl_column *columns) {
  u32 wide[COLUMNS_MAX];
  u32 n = 0;
  for (; columns[n].key != NULL; n++) {
    wide[n] = width(columns[n].heading);
    for (usize r = 0; r < rows.count; r++) {
      wide[n] = MAX(wide[n], width(rows.row[r][n]));
    }
  }
  for (u32 i = 0; i < n; i++) {
    put_cell(columns[i].heading, wide[i], columns[i].right, i + 1 == n);
  }
  for (usize r = 0; r < rows.count; r++) {
    for (u32 i = 0; i < n; i++) {
      put_cell(rows.row[r][i], wide[i], columns[i].right, i + 1 == n);
      free(rows.row[r][i]);
    }
  }
  rows.count = 0;
}

void ctl_print_object(const struct json *j, u32 object) {
  u32 wide = 0;
  for (u32 k = json_first(j, object); k != JSON_NONE; k = json_after(j, object, k)) {
    wide = MAX(wide, j->node[k].len);
  }
  for (u32 k = json_first(j, object); k != JSON_NONE; k = json_after(j, object, k)) {
    char *key = ctl_text(j, k);
    char *value = ctl_text(j, json_value(j, k));
    printf("%-*s  %s\n", (int)wide, key, value);
    free(key);
    free(value);
  }
}
