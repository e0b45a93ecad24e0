// SPDX-License-Identifier: Apache-2.0
// Addresses as text.
#include "base/ip.h"

#include "base/fmt.h"

bool ip_parse4(struct bytes text, u32 *out) {
  u32 v = 0;
  for (u32 i = 0; i < 4; i++) {
    usize end = bytes_find(text, '.');
    u64 part = 0;
    bool canonical = end == 1 || (end > 1 && text.ptr[0] != '0');  // 010 is 8 to some
    if ((i < 3) != (end < text.len) || !canonical ||
        bytes_to_u64(bytes_sub(text, 0, end), 255, &part) != ERR_OK) {
      return false;
    }
    v = v << 8 | (u32)part;
    text = end < text.len ? bytes_skip(text, end + 1) : text;
  }
  *out = v;
  return true;
}

static int hex_digit(u8 c) {
  if (c >= '0' && c <= '9') {
    return c - '0';
  }
  u8 l = (u8)(c | 0x20);
  return l >= 'a' && l <= 'f' ? l - 'a' + 10 : -1;
}

// Up to four hexadecimal digits at *pos; false when there is none.
static bool take_group(struct bytes text, u32 *pos, u16 *out) {
  u32 value = 0;
  u32 digits = 0;
  while (*pos < text.len && digits < 4 && hex_digit(text.ptr[*pos]) >= 0) {
    value = value << 4 | (u32)hex_digit(text.ptr[(*pos)++]);
    digits++;
  }
  *out = (u16)value;
  return digits > 0;
}

#define NO_GAP U32_MAX

// The groups of `text`, `all` of them or less with a gap, and where "::" stands among them (NO_GAP:
// nowhere). False: not of that form.
static bool take_groups(struct bytes text, u32 all, u16 group[8], u32 *count, u32 *gap) {
  u32 pos = 0;
  *count = 0;
  *gap = NO_GAP;
  if (text.len >= 2 && text.ptr[0] == ':' && text.ptr[1] == ':') {
    *gap = 0;
    pos = 2;
  }
  while (pos < text.len && *count < all) {
    if (!take_group(text, &pos, &group[*count])) {
      return false;
    }
    (*count)++;
    if (pos == text.len) {
      break;
    }
    if (text.ptr[pos++] != ':' || pos == text.len) {
      return false;
    }
    if (text.ptr[pos] == ':') {
      if (*gap != NO_GAP) {
        return false;
      }
      *gap = *count;
      pos++;
    }
  }
  return pos == text.len && (*gap == NO_GAP ? *count == all : *count < all);
}

// Takes an IPv4 address off the end of `text` (RFC 4291 2.2, form 3).
static bool take_dotted(struct bytes *text, u32 *v4) {
  usize start = text->len;
  while (start > 0 && text->ptr[start - 1] != ':') {
    start--;
  }
  if (start < 2 || !ip_parse4(bytes_skip(*text, start), v4)) {
    return false;
  }
  bool gap = text->ptr[start - 2] == ':';
  *text = bytes_sub(*text, 0, gap ? start : start - 1);
  return true;
}

bool ip_parse6(struct bytes text, struct ip_addr *out) {
  u16 group[8];
  u32 count;
  u32 gap;
  u32 v4 = 0;
  bool dotted = text.len <= IP_TEXT_MAX && take_dotted(&text, &v4);
  if (text.len > IP_TEXT_MAX || !take_groups(text, dotted ? 6 : 8, group, &count, &gap)) {
    return false;
  }
  if (dotted) {
    group[count++] = (u16)(v4 >> 16);
    group[count++] = (u16)v4;
  }
  u8 wire[16] = {0};
  for (u32 i = 0; i < count; i++) {  // groups behind the gap stand at the end
    u32 to = i < gap ? i : i + 8 - count;
    store_be16(wire + 2 * to, group[i]);
  }
  *out = ip_load6(wire);
  return true;
}

bool ip_parse(struct bytes text, struct ip_addr *out) {
  u32 v4;
  if (ip_parse4(text, &v4)) {
    *out = ip_of4(v4);
    return true;
  }
  return ip_parse6(text, out);
}

// RFC 5952 4.2: the longest run of at least two zero groups, the first of equal ones, becomes "::".
static u32 longest_zeros(const u8 wire[16], u32 *len) {
  u32 best = 8;
  *len = 1;
  for (u32 i = 0; i < 8; i++) {
    u32 n = 0;
    while (i + n < 8 && load_be16(wire + 2 * (i + n)) == 0) {
      n++;
    }
    if (n > *len) {
      best = i;
      *len = n;
    }
  }
  return best;
}

void ip_write(struct writer *w, struct ip_addr a) {
  if (ip_is4(a)) {
    u32 v = ip_to4(a);
    fmt(w, "%u.%u.%u.%u", v >> 24, v >> 16 & 255, v >> 8 & 255, v & 255);
    return;
  }
  u8 wire[16];
  u32 len;
  ip_store6(wire, a);
  u32 gap = longest_zeros(wire, &len);
  for (u32 i = 0; i < 8;) {
    if (i == gap) {
      fmt(w, "::");
      i += len;
    } else {
      fmt(w, i == 0 || i == gap + len ? "%x" : ":%x", load_be16(wire + 2 * i));
      i++;
    }
  }
}

void ip_write_port(struct writer *w, struct ip_addr a, u16 port) {
  bool v4 = ip_is4(a);
  write_str(w, v4 ? "" : "[");
  ip_write(w, a);
  fmt(w, v4 ? ":%u" : "]:%u", port);
}
