// SPDX-License-Identifier: Apache-2.0
// Text to the serial port and the screen at once; bytes back from the serial port and the PS/2
// keyboard. Writing never waits: the port's ring drops what does not fit, the screen's grid is
// shown when the core idles or at the latest 50 ms later.
#include "arch/x86_64/cpu.h"
#include "dev/screen.h"
#include "dev/uart.h"
#include "plat/metal/parts.h"

#define COM1 0x3f8u
#define SCREEN_PERIOD_NS 50000000ull
#define DRAIN_TRIES 20000000u
#define KEYBOARD_DATA 0x60u
#define KEYBOARD_STATUS 0x64u
#define VGA_TEXT_PHYS 0xb8000u
#define SCAN_LEFT_SHIFT 0x2au
#define SCAN_RIGHT_SHIFT 0x36u
#define SCAN_RELEASED 0x80u

static struct uart serial;
static struct screen screen;
static u64 screen_flushed_ns;
static bool up;
static bool clock_runs;
static bool shift_held;
static u64 drops_told;

// Set 1 scan codes of a US keyboard, without and with shift; 0 = nothing we pass on.
static const char keys_plain[] =
    "\0\0331234567890-=\b\tqwertyuiop[]\n\0asdfghjkl;'`\0\\zxcvbnm,./\0*\0 ";
static const char keys_shift[] =
    "\0\033!@#$%^&*()_+\b\tQWERTYUIOP{}\n\0ASDFGHJKL:\"~\0|ZXCVBNM<>?\0*\0 ";

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
  uart_init(&serial, COM1);
  if (info->screen.phys != 0) {
    start_frame(&info->screen);
  } else if (info->path != BOOT_MULTIBOOT2_EFI) {
    void *text = metal_map_mmio(VGA_TEXT_PHYS, 80 * 25 * 2);
    if (text != NULL) {
      screen_init_text(&screen, text);
    }
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
  return serial.port == 0 || uart_pump(&serial);
}

void console_drain(void) {
  screen_flush(&screen);
  uart_drain(&serial, DRAIN_TRIES);
}

static u8 key_of(u8 scan) {
  u8 code = scan & 0x7f;
  if (code == SCAN_LEFT_SHIFT || code == SCAN_RIGHT_SHIFT) {
    shift_held = (scan & SCAN_RELEASED) == 0;
    return 0;
  }
  if ((scan & SCAN_RELEASED) != 0 || code >= sizeof keys_plain - 1) {
    return 0;
  }
  return (u8)(shift_held ? keys_shift[code] : keys_plain[code]);
}

u32 plat_console_read(struct span out) {
  u32 n = uart_read(&serial, out);
  for (u32 i = 0; i < 16 && n < out.len; i++) {
    u8 status = cpu_in8(KEYBOARD_STATUS);
    if (status == 0xff || (status & 1) == 0) {
      break;  // no controller, or nothing typed
    }
    u8 c = key_of(cpu_in8(KEYBOARD_DATA));
    if (c != 0) {
      out.ptr[n++] = c;
    }
  }
  return n;
}

void console_describe(struct writer *w) {
  fmt(w, "console: serial %s, screen %u x %u %s", serial.port != 0 ? "115200 at 0x3f8" : "none",
      screen.cols, screen.rows, screen.text != NULL ? "text" : "pixels in 8x16");
  if (serial.dropped != drops_told) {
    drops_told = serial.dropped;
    fmt(w, ", %lu bytes dropped", drops_told);
  }
  write_str(w, "\n");
}
