// SPDX-License-Identifier: Apache-2.0
// TCP header and options (RFC 9293 3.1, 3.2; RFC 7323; RFC 2018). One step a loop turn.
#include "net/tcp_conn.h"

enum {
  OPT_END = 0,
  OPT_NOP = 1,
  OPT_MSS = 2,
  OPT_SCALE = 3,
  OPT_SACK_OK = 4,
  OPT_SACK = 5,
  OPT_TS = 8
};

static void take_block(const u8 *p, u32 len, u32 i, struct tcp_options *out) {
  if (len >= 10 + 8 * i) {
    out->sack[i] = (struct sack_block){load_be32(p + 2 + 8 * i), load_be32(p + 6 + 8 * i)};
    out->sack_count = (u8)(i + 1);
  }
}

// RFC 2018 3: two bytes and one to four blocks of eight.
static void take_sack(const u8 *p, u32 len, struct tcp_options *out) {
  if (len % 8 == 2 && len >= 10 && len <= 34) {
    take_block(p, len, 0, out);
    take_block(p, len, 1, out);
    take_block(p, len, 2, out);
    take_block(p, len, 3, out);
  }
}

// One option of at least two bytes, wholly inside [p, p+len).
static void take(const u8 *p, u32 len, struct tcp_options *out) {
  switch (p[0]) {
  case OPT_MSS: out->mss = len == 4 ? load_be16(p + 2) : out->mss; break;
  case OPT_SCALE:
    if (len == 3) {
      out->has_shift = true;
      out->shift = MIN(p[2], 14);  // RFC 7323 2.3
    }
    break;
  case OPT_SACK_OK: out->sack_permitted = len == 2; break;
  case OPT_SACK: take_sack(p, len, out); break;
  case OPT_TS:
    if (len == 10) {
      out->has_ts = true;
      out->ts_value = load_be32(p + 2);
      out->ts_echo = load_be32(p + 6);
    }
    break;
  default: break;  // unknown options are skipped by their length
  }
}

bool tcp_options_parse(const u8 *options, u32 len, struct tcp_options *out) {
  *out = (struct tcp_options){0};
  u32 pos = 0;
  while (pos < len)
    LOOP_ASSIGNS(pos, *out)
  LOOP_INVARIANT(pos <= len && out->shift <= 14 && (out->has_shift || out->shift == 0))
  LOOP_INVARIANT(out->sack_count <= SACK_MAX)
  LOOP_INVARIANT(out->has_ts || (out->ts_value == 0 && out->ts_echo == 0))
  LOOP_DECREASES(len - pos)
  {
    u8 kind = options[pos];
    if (kind == OPT_END) {
      return true;
    }
    if (kind == OPT_NOP) {
      pos++;
      continue;
    }
    if (len - pos < 2 || options[pos + 1] < 2 || options[pos + 1] > len - pos) {
      return false;
    }
    take(options + pos, options[pos + 1], out);
    pos += options[pos + 1];
  }
  return true;
}

bool tcp_header_parse(const u8 *h, u32 have, u32 segment_len, struct segment *out) {
  if (have < TCP_LEN) {
    return false;
  }
  out->header_len = (u8)((h[12] >> 4) * 4);
  if (out->header_len < TCP_LEN || out->header_len > have || out->header_len > segment_len) {
    return false;
  }
  out->source_port = load_be16(h);
  out->target_port = load_be16(h + 2);
  out->seq = load_be32(h + 4);
  out->ack = load_be32(h + 8);
  out->flags = h[13] & 0x3f;
  out->window = load_be16(h + 14);
  out->len = segment_len - out->header_len;
  if (!tcp_options_parse(h + TCP_LEN, (u32)out->header_len - TCP_LEN, &out->opt)) {
    out->opt = (struct tcp_options){0};
  }
  return true;
}
