// SPDX-License-Identifier: Apache-2.0
// Text to the serial port and the screen at once; bytes back from the serial port and the keyboard.
// Writing never waits: the port's ring drops what does not fit, the screen's grid is shown when the
// core idles or at the latest 50 ms later.
#include "plat/metal/machine.h"

#define SCREEN_PERIOD_NS 50000000ull
#define DRAIN_TRIES 20000000u

static struct uart serial;
static struct screen screen;
static u64 screen_flushed_ns;
static bool up;
static bool clock_runs;
static u64 drops_told;

static void start_frame(const struct boot_framebuffer *f) {
  u64 len = (u64)f->pitch * f->height;
  volatile u8 *pixels = metal_map_wc(f->phys, len);
  if (pixels == NULL || f->width < 8 || f->height < 16) {
    return;
  }
  struct screen_frame frame = {.pixels = pixels,
                               .pitch = f->pitch,
                               .width = f->width,
                               .height = f->height,
                               .bytes_per_pixel = f->bits_per_pixel / 8u,
                               .foreground = 0xc8u << (f->red_shift & 31) |
                                             0xc8u << (f->green_shift & 31) |
                                             0xc8u << (f->blue_shift & 31),
                               .background = 0};
  screen_init_frame(&screen, &frame);
}

void console_init(const struct boot_info *info) {
  ASSERT(!up);
  machine_serial_start(&serial);
  void *text = info->screen.phys == 0 ? machine_text_screen() : NULL;
  if (info->screen.phys != 0) {
    start_frame(&info->screen);
  } else if (text != NULL) {
    screen_init_text(&screen, text);
  }
  up = true;
}

bool console_up(void) {
  return up;
}

void plat_console(struct bytes text) {
  uart_write(&serial, text);
  screen_write(&screen, text);
  u64 now = clock_runs ? plat_now_ns() : 0;
  if (now - screen_flushed_ns >= SCREEN_PERIOD_NS) {
    screen_flush(&screen);
    screen_flushed_ns = now;
  }
}

void console_fmt(const char *format, ...) {
  char buf[512];
  struct writer w = writer_init(span_of(buf, sizeof buf));
  __builtin_va_list args;
  __builtin_va_start(args, format);
  fmt_v(&w, format, args);
  __builtin_va_end(args);
  plat_console(writer_bytes(&w));
}

bool console_pump(void) {
  clock_runs = true;
  screen_flush(&screen);
  return uart_pump(&serial);
}

void console_drain(void) {
  screen_flush(&screen);
  uart_drain(&serial, DRAIN_TRIES);
}

u32 plat_console_read(struct span out) {
  u32 n = uart_read(&serial, out);
  while (n < out.len && machine_key(&out.ptr[n])) {
    n++;
  }
  return n;
}

void console_describe(struct writer *w) {
  fmt(w, "console: serial %s, screen %u x %u %s",
      serial.kind != UART_NONE ? machine_serial_name() : "none", screen.cols, screen.rows,
      screen.text != NULL ? "text" : "pixels in 8x16");
  if (serial.dropped != drops_told) {
    drops_told = serial.dropped;
    fmt(w, ", %lu bytes dropped", drops_told);
  }
  write_str(w, "\n");
}
