// SPDX-License-Identifier: Apache-2.0
// A serial port: a 16550 in I/O space, or a PL011 (Arm) in memory. Bytes wait in a ring until the
// port takes them; a full ring drops and counts. Nothing blocks but uart_drain, which has a bound.
#pragma once
#include "base/bytes.h"

#define UART_RING 65536u

enum uart_kind { UART_NONE, UART_16550, UART_PL011 };

struct uart {
  enum uart_kind kind;
  u16 port;           // 16550
  volatile u8 *regs;  // PL011
  bool regs_16;       // its registers are accessed by 16 bits, else by 32
  u32 head;           // next byte to send; free running
  u32 tail;           // next free place; free running
  u64 dropped;        // bytes
  u8 ring[UART_RING];
};

// 115200 8N1, FIFO on, receive interrupt on. False (and UART_NONE) when nothing answers there.
bool uart_init(struct uart *u, u16 port);
// A PL011 whose speed the firmware has set; receive interrupt on. regs: mapped uncached.
void uart_init_pl011(struct uart *u, volatile u8 *regs, bool regs_16);
// "\n" goes out as "\r\n". Sends what the port takes at once.
void uart_write(struct uart *u, struct bytes text);
// Sends what the port takes now. True when nothing is left.
bool uart_pump(struct uart *u);
// Sends the rest, waiting at most `tries` looks at the port.
void uart_drain(struct uart *u, u32 tries);
u32 uart_read(struct uart *u, struct span out);
