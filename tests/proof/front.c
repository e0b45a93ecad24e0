// SPDX-License-Identifier: Apache-2.0
// What comes from strangers before MQTT: the head of a WebSocket frame, and the names in a DNS
// message, whose pointers may lead anywhere.
#include "net/dns_message.c"
#include "proof.h"
#include "server/ws_frame.c"

// RFC 6455 5.2: what is taken is exactly what the bytes say, nothing is read behind them, and more
// is asked for only where a head is not whole.
void proof_ws_head(void) {
  struct bytes b = any_bytes(PROOF_MAX);
  struct ws_head h;
  enum err e = ws_head_parse(b, &h);
  PROVE(e == ERR_OK || e == ERR_SHORT || e == ERR_MALFORMED);
  if (e == ERR_SHORT) {
    PROVE(b.len < WS_HEAD_MAX);
    PROVE(b.len < 6 || (b.len < 8 && (b.ptr[1] & 0x7f) == 126) || (b.ptr[1] & 0x7f) == 127);
  }
  if (e == ERR_OK) {
    u8 seven = b.ptr[1] & 0x7f;
    PROVE(h.len <= b.len && h.len == (seven < 126 ? 6 : seven == 126 ? 8 : 14));
    PROVE((b.ptr[1] & 0x80) != 0 && (b.ptr[0] & 0x70) == 0);
    PROVE(h.opcode == (b.ptr[0] & 0x0f) && h.fin == (b.ptr[0] >> 7 != 0));
    PROVE(h.opcode < WS_CLOSE || (h.fin && h.payload_len <= WS_CONTROL_MAX));
    PROVE(h.payload_len >> 63 == 0 && (seven >= 126 || h.payload_len == seven));
    PROVE((seven != 126 || h.payload_len >= 126) && (seven != 127 || h.payload_len > U16_MAX));
    PROVE(h.mask[0] == b.ptr[h.len - 4] && h.mask[3] == b.ptr[h.len - 1]);
    PROOF_REACHED();
  }
}

// A pointer leads backwards and not into the header, a label lies in the message: every walk ends.
void proof_dns_follow(void) {
  struct bytes p = any_bytes(64);
  u32 at = nondet_u32();
  __CPROVER_assume(at <= p.len);
  u32 label = follow(p, at);
  if (label != END) {
    PROVE(label <= at);
    PROVE(label == at || label >= HEADER_LEN);
    PROVE(p.ptr[label] <= 63 && label + p.ptr[label] < p.len);
    PROOF_REACHED();
  }
}

void proof_dns_skip(void) {
  struct bytes p = any_bytes(64);
  u32 at = nondet_u32();
  __CPROVER_assume(at <= p.len);
  u32 behind = skip_name(p, at);
  if (behind != END) {
    PROVE(behind > at && behind <= p.len);
    PROOF_REACHED();
  }
}
