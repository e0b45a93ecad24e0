// SPDX-License-Identifier: Apache-2.0
// The PC's console devices: the serial port COM1, VGA text memory, the PS/2 keyboard.
#include "arch/cpu.h"
#include "plat/metal/machine.h"

#define COM1 0x3f8u
#define KEYBOARD_DATA 0x60u
#define KEYBOARD_STATUS 0x64u
#define VGA_TEXT_PHYS 0xb8000u
#define SCAN_LEFT_SHIFT 0x2au
#define SCAN_RIGHT_SHIFT 0x36u
#define SCAN_RELEASED 0x80u

static bool shift_held;

// Set 1 scan codes of a US keyboard, without and with shift; 0 = nothing we pass on.
static const char keys_plain[] =
    "\0\0331234567890-=\b\tqwertyuiop[]\n\0asdfghjkl;'`\0\\zxcvbnm,./\0*\0 ";
static const char keys_shift[] =
    "\0\033!@#$%^&*()_+\b\tQWERTYUIOP{}\n\0ASDFGHJKL:\"~\0|ZXCVBNM<>?\0*\0 ";

void machine_serial_start(struct uart *u) {
  uart_init(u, COM1);
}

void *machine_text_screen(void) {
  return metal_boot->path == BOOT_MULTIBOOT2_EFI ? NULL
                                                 : metal_map_mmio(VGA_TEXT_PHYS, 80 * 25 * 2);
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

bool machine_key(u8 *out) {
  for (u32 i = 0; i < 16; i++) {
    u8 status = cpu_in8(KEYBOARD_STATUS);
    if (status == 0xff || (status & 1) == 0) {
      return false;  // no controller, or nothing typed
    }
    u8 c = key_of(cpu_in8(KEYBOARD_DATA));
    if (c != 0) {
      *out = c;
      return true;
    }
  }
  return false;
}

const char *machine_serial_name(void) {
  return "115200 at 0x3f8";
}
