// SPDX-License-Identifier: Apache-2.0
// 16550 UART (National PC16550D). The transmitter's FIFO holds 16 bytes and says only when it is
// empty, so that many go out at each look.
#include "dev/uart.h"

#include "arch/x86_64/cpu.h"

#define FIFO_LEN 16u
#define REG_DATA 0u
#define REG_INTERRUPT 1u
#define REG_FIFO 2u
#define REG_LINE 3u
#define REG_MODEM 4u
#define REG_STATUS 5u
#define REG_SCRATCH 7u
#define LINE_8N1 0x03u
#define LINE_DIVISOR 0x80u
#define STATUS_RECEIVED 0x01u
#define STATUS_EMPTY 0x20u
#define MODEM_DTR_RTS_OUT2 0x0bu

bool uart_init(struct uart *u, u16 port) {
  ASSERT(port != 0);
  *u = (struct uart){0};
  cpu_out8((u16)(port + REG_SCRATCH), 0x5a);
  if (cpu_in8((u16)(port + REG_SCRATCH)) != 0x5a) {
    return false;
  }
  cpu_out8((u16)(port + REG_INTERRUPT), 0);
  cpu_out8((u16)(port + REG_LINE), LINE_DIVISOR);
  cpu_out8((u16)(port + REG_DATA), 1);  // 115200
  cpu_out8((u16)(port + REG_INTERRUPT), 0);
  cpu_out8((u16)(port + REG_LINE), LINE_8N1);
  cpu_out8((u16)(port + REG_FIFO), 0x07);
  cpu_out8((u16)(port + REG_MODEM), MODEM_DTR_RTS_OUT2);
  cpu_out8((u16)(port + REG_INTERRUPT), 0x01);  // a received byte wakes the core
  u->port = port;
  return true;
}

static void put(struct uart *u, u8 c) {
  if (u->tail - u->head == UART_RING) {
    u->dropped++;
    return;
  }
  u->ring[u->tail++ % UART_RING] = c;
}

bool uart_pump(struct uart *u) {
  ASSERT(u->tail - u->head <= UART_RING);
  while (u->head != u->tail && (cpu_in8((u16)(u->port + REG_STATUS)) & STATUS_EMPTY) != 0) {
    for (u32 i = 0; i < FIFO_LEN && u->head != u->tail; i++) {
      cpu_out8((u16)(u->port + REG_DATA), u->ring[u->head++ % UART_RING]);
    }
  }
  return u->head == u->tail;
}

void uart_write(struct uart *u, struct bytes text) {
  if (u->port == 0) {
    return;
  }
  for (usize i = 0; i < text.len; i++) {
    if (text.ptr[i] == '\n') {
      put(u, '\r');
    }
    put(u, text.ptr[i]);
  }
  uart_pump(u);
}

void uart_drain(struct uart *u, u32 tries) {
  for (u32 i = 0; i < tries && u->port != 0 && !uart_pump(u); i++) {
    cpu_relax();
  }
}

u32 uart_read(struct uart *u, struct span out) {
  u32 n = 0;
  while (u->port != 0 && n < out.len &&
         (cpu_in8((u16)(u->port + REG_STATUS)) & STATUS_RECEIVED) != 0) {
    out.ptr[n++] = cpu_in8((u16)(u->port + REG_DATA));
  }
  return n;
}
