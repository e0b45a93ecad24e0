// SPDX-License-Identifier: Apache-2.0
// 16550 UART (National PC16550D): the transmitter's FIFO holds 16 bytes and says only when it is
// empty, so that many go out at each look. PL011 (Arm DDI 0183): it says when it is full.
#include "dev/uart.h"

#include "arch/cpu.h"

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
#define P_DATA 0x00u
#define P_FLAGS 0x18u
#define P_LINE 0x2cu
#define P_CONTROL 0x30u
#define P_INTERRUPTS 0x38u
#define P_CLEAR 0x44u
#define P_FLAG_NO_DATA 0x10u
#define P_FLAG_FULL 0x20u
#define P_LINE_8_BITS_FIFO 0x70u
#define P_CONTROL_ON 0x301u  // enable, transmit, receive
#define P_RECEIVE_TIMEOUT 0x50u

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
  u->kind = UART_16550;
  return true;
}

static u32 reg_read(const struct uart *u, u32 off) {
  return u->regs_16 ? cpu_mmio_read16(u->regs + off) : cpu_mmio_read32(u->regs + off);
}

static void reg_write(const struct uart *u, u32 off, u32 v) {
  if (u->regs_16) {
    cpu_mmio_write16(u->regs + off, (u16)v);
  } else {
    cpu_mmio_write32(u->regs + off, v);
  }
}

// The divisors stay as they are: the reference clock is known to the firmware alone. Writing the
// line register while the port is on is what the manual forbids, so it is only done when it
// differs.
void uart_init_pl011(struct uart *u, volatile u8 *regs, bool regs_16) {
  ASSERT(regs != NULL);
  *u = (struct uart){.kind = UART_PL011, .regs = regs, .regs_16 = regs_16};
  if ((reg_read(u, P_LINE) & 0xff) != P_LINE_8_BITS_FIFO ||
      (reg_read(u, P_CONTROL) & P_CONTROL_ON) != P_CONTROL_ON) {
    reg_write(u, P_CONTROL, 0);
    reg_write(u, P_LINE, P_LINE_8_BITS_FIFO);
    reg_write(u, P_CONTROL, P_CONTROL_ON);
  }
  reg_write(u, P_CLEAR, 0x7ff);
  reg_write(u, P_INTERRUPTS, P_RECEIVE_TIMEOUT);  // a received byte wakes the core
}

static void put(struct uart *u, u8 c) {
  if (u->tail - u->head == UART_RING) {
    u->dropped++;
    return;
  }
  u->ring[u->tail++ % UART_RING] = c;
}

// How many bytes the port takes at once now.
static u32 room(const struct uart *u) {
  if (u->kind == UART_16550) {
    return (cpu_in8((u16)(u->port + REG_STATUS)) & STATUS_EMPTY) != 0 ? FIFO_LEN : 0;
  }
  return (reg_read(u, P_FLAGS) & P_FLAG_FULL) == 0 ? 1 : 0;
}

static void send(const struct uart *u, u8 c) {
  if (u->kind == UART_16550) {
    cpu_out8((u16)(u->port + REG_DATA), c);
  } else {
    reg_write(u, P_DATA, c);
  }
}

bool uart_pump(struct uart *u) {
  ASSERT(u->tail - u->head <= UART_RING);
  u32 n = 1;
  while (u->head != u->tail && n != 0) {
    n = room(u);
    for (u32 i = 0; i < n && u->head != u->tail; i++) {
      send(u, u->ring[u->head++ % UART_RING]);
    }
  }
  return u->head == u->tail;
}

void uart_write(struct uart *u, struct bytes text) {
  if (u->kind == UART_NONE) {
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
  for (u32 i = 0; i < tries && !uart_pump(u); i++) {
    cpu_relax();
  }
}

static bool received(const struct uart *u) {
  if (u->kind == UART_16550) {
    return (cpu_in8((u16)(u->port + REG_STATUS)) & STATUS_RECEIVED) != 0;
  }
  return (reg_read(u, P_FLAGS) & P_FLAG_NO_DATA) == 0;
}

u32 uart_read(struct uart *u, struct span out) {
  u32 n = 0;
  while (u->kind != UART_NONE && n < out.len && received(u)) {
    out.ptr[n++] =
        u->kind == UART_16550 ? cpu_in8((u16)(u->port + REG_DATA)) : (u8)reg_read(u, P_DATA);
  }
  return n;
}
