// SPDX-License-Identifier: Apache-2.0
// The TCP header and its options, for every segment of 0..60 bytes of header; and the
// length of a TLS record, for every header.
#include "net/tcp_conn.h"
#include "proof.h"
#include "tls/record.h"
#include "tls/tls.h"

void proof_tcp_options(void) {
  struct bytes in = any_bytes(40);
  struct tcp_options out;
  bool good = tcp_options_parse(in.ptr, (u32)in.len, &out);
  PROVE(out.shift <= 14);
  PROVE(out.has_shift || out.shift == 0);
  PROVE(out.sack_count <= SACK_MAX);
  PROVE(out.has_ts || (out.ts_value == 0 && out.ts_echo == 0));
  if (good && out.has_ts && out.sack_count == 1 && out.has_shift && out.sack_permitted &&
      out.mss == 1460) {
    PROOF_REACHED();
  }
}

void proof_tcp_header(void) {
  struct bytes in = any_bytes(60);
  u32 segment_len = nondet_u32();
  struct segment out;
  __CPROVER_assume(segment_len >= in.len);
  if (tcp_header_parse(in.ptr, (u32)in.len, segment_len, &out)) {
    PROVE(out.header_len >= 20 && out.header_len <= in.len && out.header_len % 4 == 0);
    PROVE(out.len == segment_len - out.header_len);
    PROVE(out.flags <= 0x3f && out.opt.shift <= 14);
    PROVE(out.seq == load_be32(in.ptr + 4) && out.ack == load_be32(in.ptr + 8));
    if (out.header_len == 60) {
      PROOF_REACHED();
    }
  } else {
    PROVE(in.len < 20 || (in.ptr[12] >> 4) < 5 || (in.ptr[12] >> 4) * 4u > in.len);
  }
}

void proof_tls_length(void) {
  u8 h[TLS_RECORD_HEAD] = {nondet_u8(), nondet_u8(), nondet_u8(), nondet_u8(), nondet_u8()};
  u32 body_len = (u32)h[3] << 8 | h[4];
  u32 len = tls_record_length(h);
  PROVE(len == 0 || (len >= TLS_RECORD_HEAD + TLS_RECORD_TAIL && len <= TLS_RECORD_MAX));
  PROVE(len == 0 || (h[0] == 23 && h[1] == 3 && h[2] == 3 && len == 5 + body_len));
  if (h[0] == 23 && h[1] == 3 && h[2] == 3 && body_len >= 17 && body_len <= 16384 + 256) {
    PROVE(len == 5 + body_len);  // RFC 8446 5.2: no legal record is refused
    if (len == TLS_RECORD_MAX) {
      PROOF_REACHED();
    }
  }
  if (len == 0) {
    u8 alert = tls_record_fault(h);
    PROVE(alert == TLS_ALERT_UNEXPECTED_MESSAGE || alert == TLS_ALERT_DECODE_ERROR ||
          alert == TLS_ALERT_RECORD_OVERFLOW);
  }
}
