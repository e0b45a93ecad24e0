// SPDX-License-Identifier: Apache-2.0
// PROXY protocol, both versions. A listener expects exactly the version it was configured for: a
// header that may or may not be there would let any client say who it is.
#include "server/proxy.h"

#define V2_HEAD 16u
#define TLV_HEAD 3u
#define TLV_SSL 0x20u
#define TLV_SSL_CN 0x22u
#define SSL_FIXED 5u  // client flags and verify result

static const u8 v2_signature[12] = {0x0d, 0x0a, 0x0d, 0x0a, 0x00, 0x0d,
                                    0x0a, 0x51, 0x55, 0x49, 0x54, 0x0a};

// --- version 1: a line of text

// The next word up to a space; false at the end of the line or with an empty word.
static bool take_word(struct bytes *line, struct bytes *word) {
  usize end = bytes_find(*line, ' ');
  *word = bytes_sub(*line, 0, end);
  *line = bytes_skip(*line, MIN(end + 1, line->len));
  return end > 0;
}

static bool parse_address(struct bytes text, bool v6, struct ip_addr *out) {
  u32 v4;
  if (v6) {
    return ip_parse6(text, out);
  }
  bool good = ip_parse4(text, &v4);
  *out = good ? ip_of4(v4) : IP_NONE;
  return good;
}

static bool parse_port(struct bytes text, u16 *out) {
  u64 v = 0;
  bool canonical = text.len == 1 || (text.len > 1 && text.ptr[0] != '0');
  if (!canonical || bytes_to_u64(text, U16_MAX, &v) != ERR_OK) {
    return false;
  }
  *out = (u16)v;
  return true;
}

static enum err parse_v1_line(struct bytes line, struct proxy_peer *out) {
  struct bytes word[6];
  u32 count = 0;
  while (count < ARRAY_COUNT(word) && take_word(&line, &word[count])) {
    count++;
  }
  if (count < 2 || !bytes_equal_str(word[0], "PROXY")) {
    return ERR_MALFORMED;
  }
  if (bytes_equal_str(word[1], "UNKNOWN")) {
    return ERR_OK;
  }
  bool v6 = bytes_equal_str(word[1], "TCP6");
  struct ip_addr own;
  u16 own_port;
  bool good = count == 6 && line.len == 0 && (v6 || bytes_equal_str(word[1], "TCP4")) &&
              parse_address(word[2], v6, &out->address) && parse_address(word[3], v6, &own) &&
              parse_port(word[4], &out->port) && parse_port(word[5], &own_port);
  out->known = good;
  return good ? ERR_OK : ERR_MALFORMED;
}

static enum err parse_v1(struct bytes b, struct proxy_peer *out, u32 *len) {
  struct bytes prefix = BYTES_LIT("PROXY ");
  usize n = MIN(b.len, prefix.len);
  if (!bytes_equal(bytes_sub(b, 0, n), bytes_sub(prefix, 0, n))) {
    return ERR_MALFORMED;
  }
  struct bytes head = bytes_sub(b, 0, MIN(b.len, (usize)PROXY_V1_MAX));
  usize end = bytes_find(head, '\n');
  if (end == head.len) {
    return b.len < PROXY_V1_MAX ? ERR_SHORT : ERR_MALFORMED;
  }
  if (head.ptr[end - 1] != '\r') {
    return ERR_MALFORMED;
  }
  *len = (u32)end + 1;
  return parse_v1_line(bytes_sub(head, 0, end - 1), out);
}

// --- version 2: binary

// One TLV at the cursor: its type and value; false when it does not fit.
static bool take_tlv(struct reader *r, u8 *type, struct part *value) {
  *type = read_u8(r);
  *value = read_part(r, read_be16(r));
  return r->err == ERR_OK;
}

static bool parse_ssl(struct bytes head, struct part value, struct proxy_peer *out) {
  struct reader r = reader_init(bytes_sub(head, 0, value.off + value.len));
  r.pos = value.off;
  u8 flags = read_u8(&r);
  u32 verify = read_be32(&r);
  out->tls = (flags & 1) != 0;
  out->verified = (flags & 6) != 0 && verify == 0;
  while (r.err == ERR_OK && reader_left(&r) > 0) {
    u8 type;
    struct part sub;
    if (take_tlv(&r, &type, &sub) && type == TLV_SSL_CN) {
      out->name = sub;
    }
  }
  return r.err == ERR_OK;
}

static bool parse_tlvs(struct bytes head, u32 pos, struct proxy_peer *out) {
  struct reader r = reader_init(head);
  r.pos = pos;
  while (r.err == ERR_OK && reader_left(&r) > 0) {
    u8 type;
    struct part value;
    if (take_tlv(&r, &type, &value) && type == TLV_SSL && !parse_ssl(head, value, out)) {
      return false;
    }
  }
  return r.err == ERR_OK;
}

static enum err parse_v2(struct bytes b, struct proxy_peer *out, u32 *len) {
  usize n = MIN(b.len, sizeof v2_signature);
  if (memcmp(b.ptr, v2_signature, n) != 0) {
    return ERR_MALFORMED;
  }
  if (b.len < V2_HEAD) {
    return ERR_SHORT;
  }
  u8 command = b.ptr[12];
  u8 family = b.ptr[13];
  u32 total = V2_HEAD + load_be16(b.ptr + 14);
  u32 address_len = family == 0x11 ? 12 : family == 0x21 ? 36 : 0;
  bool local = command == 0x20;
  if ((command != 0x21 && !local) || total > PROXY_V2_MAX) {
    return ERR_MALFORMED;
  }
  if (!local && (address_len == 0 || total < V2_HEAD + address_len)) {
    return ERR_MALFORMED;  // a stream over IPv4 or IPv6 is what can come to a TCP port
  }
  if (b.len < total) {
    return ERR_SHORT;
  }
  *len = total;
  if (local) {
    return ERR_OK;
  }
  out->known = true;
  bool v6 = family == 0x21;
  const u8 *a = b.ptr + V2_HEAD;
  out->address = v6 ? ip_load6(a) : ip_of4(load_be32(a));
  out->port = load_be16(a + (v6 ? 32 : 8));
  return parse_tlvs(bytes_sub(b, 0, total), V2_HEAD + address_len, out) ? ERR_OK : ERR_MALFORMED;
}

enum err proxy_parse(struct bytes b, u32 version, struct proxy_peer *out, u32 *len) {
  ASSERT(version == 1 || version == 2);
  *out = (struct proxy_peer){.known = false};
  *len = 0;
  if (b.len == 0) {
    return ERR_SHORT;
  }
  return version == 1 ? parse_v1(b, out, len) : parse_v2(b, out, len);
}
