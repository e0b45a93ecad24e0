// SPDX-License-Identifier: Apache-2.0
// Text on a screen: either VGA text mode (cells of character and attribute) or a linear framebuffer
// with 8x16 glyphs. Writing changes only a grid in memory; screen_flush shows what differs, so that
// a burst of lines costs one redraw. Printable ASCII; other bytes appear as '?'.
#pragma once
#include "base/bytes.h"

#define SCREEN_COLS_MAX 240u
#define SCREEN_ROWS_MAX 80u

struct screen_frame {
  volatile u8 *pixels;  // mapped, write-combining
  u32 pitch;            // bytes a line
  u32 width;            // pixels
  u32 height;
  u32 bytes_per_pixel;  // 3 or 4
  u32 foreground;       // pixel values
  u32 background;
};

struct screen {
  volatile u16 *text;  // VGA text memory, or NULL
  struct screen_frame frame;
  u32 cols;  // 0 = no screen
  u32 rows;
  u32 row;
  u32 col;
  bool dirty;
  u8 want[SCREEN_ROWS_MAX][SCREEN_COLS_MAX];
  u8 shown[SCREEN_ROWS_MAX][SCREEN_COLS_MAX];
};

void screen_init_text(struct screen *s, void *memory);
void screen_init_frame(struct screen *s, const struct screen_frame *frame);
void screen_write(struct screen *s, struct bytes text);
void screen_flush(struct screen *s);

// Generated at build time (image/mkfont): 95 glyphs from ' ', 16 rows each, bit 7 leftmost.
extern const u8 screen_font[95][16];
