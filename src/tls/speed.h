// SPDX-License-Identifier: Apache-2.0
// What the cryptography costs on this processor: each primitive a few times, the quickest counts.
// For diagnostics; the clock is the caller's.
#pragma once
#include "tls/tls.h"

struct tls_speed {
  const char *name;
  u64 ns;     // the quickest of `rounds`
  u32 bytes;  // worked on in that time; 0 = it is one operation
};
#define TLS_SPEED_MAX 20u
// Fills up to TLS_SPEED_MAX rows; returns how many. After tls_init, on a stack of
// TLS_HANDSHAKE_STACK_BYTES.
u32 tls_speed(u64 (*now_ns)(void), u32 rounds, struct tls_speed rows[TLS_SPEED_MAX]);

struct tls_speed_shake {
  u64 server_ns;  // the server's share of a full mutual handshake, the quickest of `rounds`
  u64 whole_ns;   // with the client's
  bool done;
};
// Full mutual handshakes in memory, P-256 keys and certificates made for it, dates judged by `now`.
// arenas: two of TLS_ARENA_BYTES, 16-aligned; wire: 16 KiB.
struct tls_speed_shake tls_speed_handshake(u64 (*now_ns)(void), const struct tls_time *now,
                                           u32 rounds, struct span arenas[2], struct span wire);
