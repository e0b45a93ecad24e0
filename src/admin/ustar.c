// SPDX-License-Identifier: Apache-2.0
#include "admin/ustar.h"

enum {
  AT_SIZE = 124,
  AT_SUM = 148,
  AT_TYPE = 156,
  AT_MAGIC = 257,
  AT_PREFIX = 345,
  NAME_LEN = 100,
  MAGIC_USTA = 0x75737461  // "usta", and an r
};

// Octal digits, ended by NUL or space, in a field of `len` bytes.
static bool octal(const u8 *p, u32 len, u64 *out) {
  u64 v = 0;
  u32 i = 0;
  while (i < len && p[i] >= '0' && p[i] <= '7')
    LOOP_ASSIGNS(i, v)
  LOOP_INVARIANT(i <= len)
  LOOP_DECREASES(len - i)
  {
    v = v << 3 | (u64)(p[i] - '0');
    i++;
  }
  *out = v;
  return i > 0 && (i == len || p[i] == 0 || p[i] == ' ');
}

static bool checksum_good(const u8 *h) {
  u64 want = 0;
  u64 sum = 0;
  for (u32 i = 0; i < USTAR_BLOCK; i++)
    LOOP_ASSIGNS(i, sum)
  LOOP_INVARIANT(i <= USTAR_BLOCK)
  LOOP_DECREASES(USTAR_BLOCK - i)
  { sum += i >= AT_SUM && i < AT_SUM + 8 ? ' ' : h[i]; }
  return octal(h + AT_SUM, 8, &want) && want == sum;
}

static bool all_zero(const u8 *h) {
  u8 any = 0;
  for (u32 i = 0; i < USTAR_BLOCK; i++)
    LOOP_ASSIGNS(i, any)
  LOOP_INVARIANT(i <= USTAR_BLOCK)
  LOOP_DECREASES(USTAR_BLOCK - i)
  { any |= h[i]; }
  return any == 0;
}

// A plain relative name of a file: no slash at either end, no "..".
static bool name_plain(struct bytes n) {
  if (n.len == 0 || n.ptr[0] == '/' || n.ptr[n.len - 1] == '/') {
    return false;
  }
  for (usize i = 0; i + 1 < n.len; i++)
    LOOP_ASSIGNS(i)
  LOOP_INVARIANT(i < n.len)
  LOOP_DECREASES(n.len - i)
  {
    bool begins = i == 0 || n.ptr[i - 1] == '/';
    if (begins && n.ptr[i] == '.' && n.ptr[i + 1] == '.' &&
        (i + 2 == n.len || n.ptr[i + 2] == '/')) {
      return false;
    }
  }
  return true;
}

// One header at *pos, which has a whole block left.
static enum err read_header(struct bytes tar, u32 *pos, struct ustar_entry *out, u8 *type) {
  const u8 *h = tar.ptr + *pos;
  u64 size = 0;
  if (all_zero(h)) {
    return ERR_NOT_FOUND;
  }
  if (!checksum_good(h) || !octal(h + AT_SIZE, 12, &size) ||
      load_be32(h + AT_MAGIC) != MAGIC_USTA || h[AT_MAGIC + 4] != 'r') {
    return ERR_MALFORMED;
  }
  u64 left = tar.len - *pos - USTAR_BLOCK;
  if (size > left) {
    return ERR_MALFORMED;
  }
  u32 name_off = *pos;
  u32 name_len = (u32)bytes_find(bytes_of(h, NAME_LEN), 0);
  while (name_len > 2 && tar.ptr[name_off] == '.' && tar.ptr[name_off + 1] == '/')
    LOOP_ASSIGNS(name_off, name_len)
  LOOP_INVARIANT(name_off >= *pos && name_off - *pos <= NAME_LEN)
  LOOP_INVARIANT(name_len <= NAME_LEN - (name_off - *pos))
  LOOP_DECREASES(name_len)
  {
    name_off += 2;
    name_len -= 2;
  }
  *type = h[AT_TYPE];
  out->name = (struct part){name_off, name_len};
  out->data = (struct part){*pos + USTAR_BLOCK, (u32)size};
  *pos += USTAR_BLOCK + (u32)MIN(ALIGN_UP(size, (u64)USTAR_BLOCK), left);
  if (h[AT_PREFIX] != 0 || (*type != '0' && *type != 0 && *type != '5')) {
    return ERR_UNSUPPORTED;
  }
  return *type == '5' || name_plain(bytes_part(tar, out->name)) ? ERR_OK : ERR_UNSUPPORTED;
}

enum err ustar_next(struct bytes tar, u32 *pos, struct ustar_entry *out) {
  ASSERT(tar.len <= U32_MAX);
  while (*pos <= tar.len && tar.len - *pos >= USTAR_BLOCK)
    LOOP_ASSIGNS(*pos, *out)
  LOOP_INVARIANT(*pos <= tar.len && *pos >= __CPROVER_loop_entry(*pos))
  LOOP_DECREASES(tar.len - *pos)
  {
    u8 type = 0;
    enum err e = read_header(tar, pos, out, &type);
    if (e != ERR_OK || type != '5') {
      return e;
    }
  }
  return ERR_NOT_FOUND;
}

enum err ustar_find(struct bytes tar, struct bytes name, struct bytes *data) {
  struct ustar_entry e;
  u32 pos = 0;
  enum err r = ERR_OK;
  while ((r = ustar_next(tar, &pos, &e)) == ERR_OK) {
    if (bytes_equal(bytes_part(tar, e.name), name)) {
      *data = bytes_part(tar, e.data);
      return ERR_OK;
    }
  }
  return r;
}
