// SPDX-License-Identifier: Apache-2.0
// A 16550 serial port at an I/O port. Bytes wait in a ring until the port takes them; a full ring
// drops and counts. Nothing blocks but uart_drain, which has a bound.
#pragma once
#include "base/bytes.h"

#define UART_RING 65536u

struct uart {
  u16 port;     // 0 = no such device
  u32 head;     // next byte to send; free running
  u32 tail;     // next free place; free running
  u64 dropped;  // bytes
  u8 ring[UART_RING];
};

// 115200 8N1, FIFO on, receive interrupt on. False (and port 0) when nothing answers there.
bool uart_init(struct uart *u, u16 port);
// "\n" goes out as "\r\n". Sends what the port takes at once.
void uart_write(struct uart *u, struct bytes text);
// Sends what the port takes now. True when nothing is left.
bool uart_pump(struct uart *u);
// Sends the rest, waiting at most `tries` looks at the port.
void uart_drain(struct uart *u, u32 tries);
u32 uart_read(struct uart *u, struct span out);
