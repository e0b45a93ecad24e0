// SPDX-License-Identifier: Apache-2.0
// Transmit memory: what is to be sent is written once, into one of these, and stays there until it
// is acknowledged by the peer *and* given back by the device.
//
// I1  refs = 1 for the connection's queue (until acknowledged) + 1 for each frame in the device
//     that reads it.
// I2  Bytes [off, off+len) are final once the buffer has been handed to tcp_send; the writer may
//     still append behind them through tcp_tail until another buffer is sent.
// I3  Two sizes: small for acknowledgements, large (one page) for records. A reserve of small ones
//     is for control traffic only (PUBACK, DISCONNECT, alerts), so that they always find a buffer.
#pragma once
#include "base/list.h"
#include "plat/plat.h"

#define TXBUF_SMALL 512u
#define TXBUF_LARGE 4096u

struct net;

struct txbuf {
  struct link link;
  u8 *data;  // capacity `cap`
  u16 cap;
  u16 off;  // first byte
  u16 len;  // bytes from off
  u16 refs;
};

enum txbuf_use { TXBUF_DATA, TXBUF_CONTROL };
// A buffer that holds at least min_len (<= TXBUF_LARGE) bytes; NULL when its pool (for data: less
// the reserve) is empty. OWNED, refs = 1.
struct txbuf *txbuf_take(struct net *net, u32 min_len, enum txbuf_use use);
void txbuf_ref(struct txbuf *b);
void txbuf_unref(struct net *net, struct txbuf *b CONSUMES);
