// SPDX-License-Identifier: Apache-2.0
// The grid of characters and its two ways onto glass. See screen.h.
//
// I1  row < rows and col <= cols: a line is wrapped when the next character comes, not before.
// I2  shown[][] is what the glass shows; 0 there means "unknown" and is always redrawn.
#include "dev/screen.h"

#define GLYPH_W 8u
#define GLYPH_H 16u
#define TEXT_ATTRIBUTE 0x0700u

static void grid_init(struct screen *s, u32 cols, u32 rows) {
  s->cols = MIN(cols, SCREEN_COLS_MAX);
  s->rows = MIN(rows, SCREEN_ROWS_MAX);
  s->row = 0;
  s->col = 0;
  memset(s->want, ' ', sizeof s->want);
  memset(s->shown, 0, sizeof s->shown);
  s->dirty = true;
}

void screen_init_text(struct screen *s, void *memory) {
  ASSERT(memory != NULL);
  *s = (struct screen){.text = memory};
  grid_init(s, 80, 25);
}

void screen_init_frame(struct screen *s, const struct screen_frame *frame) {
  ASSERT(frame->pixels != NULL);
  ASSERT(frame->bytes_per_pixel == 3 || frame->bytes_per_pixel == 4);
  *s = (struct screen){.frame = *frame};
  grid_init(s, frame->width / GLYPH_W, frame->height / GLYPH_H);
}

static void next_line(struct screen *s) {
  s->col = 0;
  if (s->row + 1 < s->rows) {
    s->row++;
    return;
  }
  memmove(s->want[0], s->want[1], (usize)(s->rows - 1) * SCREEN_COLS_MAX);
  memset(s->want[s->rows - 1], ' ', SCREEN_COLS_MAX);
}

static void put(struct screen *s, u8 c) {
  if (c == '\n') {
    next_line(s);
  } else if (c == '\r') {
    s->col = 0;
  } else if (c == '\b') {
    s->col -= s->col > 0 ? 1 : 0;
  } else {
    if (s->col == s->cols) {
      next_line(s);
    }
    s->want[s->row][s->col++] = c >= ' ' && c < 127 ? c : '?';
  }
  ASSERT(s->row < s->rows);
  ASSERT(s->col <= s->cols);
}

void screen_write(struct screen *s, struct bytes text) {
  if (s->cols == 0 || s->rows == 0) {
    return;
  }
  for (usize i = 0; i < text.len; i++) {
    put(s, text.ptr[i]);
  }
  s->dirty = true;
}

static void draw_glyph(const struct screen_frame *f, u32 row, u32 col, u8 c) {
  const u8 *glyph = screen_font[c - ' '];
  for (u32 y = 0; y < GLYPH_H; y++) {
    volatile u8 *line = f->pixels + (usize)(row * GLYPH_H + y) * f->pitch +
                        (usize)col * GLYPH_W * f->bytes_per_pixel;
    for (u32 x = 0; x < GLYPH_W; x++) {
      u32 v = (glyph[y] << x & 0x80) != 0 ? f->foreground : f->background;
      if (f->bytes_per_pixel == 4) {
        ((volatile u32 *)(volatile void *)line)[x] = v;
      } else {
        line[3 * x] = (u8)v;
        line[3 * x + 1] = (u8)(v >> 8);
        line[3 * x + 2] = (u8)(v >> 16);
      }
    }
  }
}

void screen_flush(struct screen *s) {
  if (!s->dirty) {
    return;
  }
  s->dirty = false;
  for (u32 row = 0; row < s->rows; row++) {
    for (u32 col = 0; col < s->cols; col++) {
      u8 c = s->want[row][col];
      if (c == s->shown[row][col]) {
        continue;
      }
      s->shown[row][col] = c;
      if (s->text != NULL) {
        s->text[row * 80 + col] = (u16)(TEXT_ATTRIBUTE | c);
      } else {
        draw_glyph(&s->frame, row, col, c);
      }
    }
  }
}
