// SPDX-License-Identifier: Apache-2.0
// The bundle's entries, part by part: octal numbers, the checksum, the block of zeros, the name;
// then one header by their contracts; then the walk by the header's. Any bytes, any place, any
// length to 65 535. In a negative twin the contracts of the parts promise a byte that is not there.
#ifdef NEGATIVE
#define OVER 1u
#endif
#include "admin/ustar.h"
#include "contracts.h"

// clang-format off
static bool octal(const u8 *p, u32 len, u64 *out)
__CPROVER_requires((len == 8 || len == 12) && __CPROVER_r_ok(p, len - OVER))
__CPROVER_requires(__CPROVER_rw_ok(out, sizeof *out))
__CPROVER_assigns(*out)
__CPROVER_ensures(__CPROVER_return_value == 0 || __CPROVER_return_value == 1);

static bool checksum_good(const u8 *h)
__CPROVER_requires(__CPROVER_r_ok(h, 512 - OVER))
__CPROVER_assigns()
__CPROVER_ensures(__CPROVER_return_value == 0 || __CPROVER_return_value == 1);

static bool all_zero(const u8 *h)
__CPROVER_requires(__CPROVER_r_ok(h, 512 - OVER))
__CPROVER_assigns()
__CPROVER_ensures(__CPROVER_return_value == 0 || __CPROVER_return_value == 1);

static bool name_plain(struct bytes n)
__CPROVER_requires(n.len <= 100 && (n.len <= OVER || __CPROVER_r_ok(n.ptr, n.len - OVER)))
__CPROVER_assigns()
__CPROVER_ensures(__CPROVER_return_value == 0 || (n.len > 0 && n.ptr[0] != '/'));

static enum err read_header(struct bytes tar, u32 *pos, struct ustar_entry *out, u8 *type)
__CPROVER_requires(__CPROVER_rw_ok(pos, sizeof *pos) && __CPROVER_rw_ok(out, sizeof *out))
__CPROVER_requires(__CPROVER_rw_ok(type, 1) && tar.len <= PROOF_MAX)
__CPROVER_requires(*pos <= tar.len && tar.len - *pos >= USTAR_BLOCK)
__CPROVER_requires(__CPROVER_r_ok(tar.ptr, tar.len))
__CPROVER_assigns(*pos, *out, *type)
__CPROVER_ensures(*pos <= tar.len && *pos >= __CPROVER_old(*pos))
__CPROVER_ensures(__CPROVER_return_value != ERR_OK || *pos >= __CPROVER_old(*pos) + USTAR_BLOCK)
__CPROVER_ensures(__CPROVER_return_value != ERR_OK || out->name.len <= 100)
__CPROVER_ensures(__CPROVER_return_value != ERR_OK || out->name.off <= tar.len)
__CPROVER_ensures(__CPROVER_return_value != ERR_OK || out->name.len <= tar.len - out->name.off)
__CPROVER_ensures(__CPROVER_return_value != ERR_OK || out->data.off <= *pos)
__CPROVER_ensures(__CPROVER_return_value != ERR_OK || out->data.len <= *pos - out->data.off)
__CPROVER_ensures(__CPROVER_return_value != ERR_OK || *type == '5' ||
                  (out->name.len > 0 && tar.ptr[out->name.off] != '/'));
// clang-format on
#include "admin/ustar.c"

static u8 *block(usize len) {
  u8 *b = malloc(len);
  __CPROVER_assume(b != NULL);
  return b;
}

void proof_octal(void) {
  u64 out;
  u32 len = nondet_bool() ? 8 : 12;
  (void)octal(block(len - OVER), len, &out);
}

void proof_checksum(void) {
  (void)checksum_good(block(USTAR_BLOCK - OVER));
}

void proof_zero(void) {
  (void)all_zero(block(USTAR_BLOCK - OVER));
}

void proof_name(void) {
  u32 len = nondet_u32();
  __CPROVER_assume(len <= 100 && len >= OVER);
  (void)name_plain(bytes_of(block(len - OVER), len));
}

void proof_header(void) {
  struct bytes tar = any_bytes(PROOF_MAX);
  u32 pos = nondet_u32();
  struct ustar_entry e;
  u8 type;
  if (read_header(tar, &pos, &e, &type) == ERR_OK && e.name.len == 100) {
    PROOF_REACHED();
  }
}

void proof_next(void) {
  struct bytes tar = any_bytes(PROOF_MAX);
  u32 pos = nondet_u32();
  struct ustar_entry e;
  __CPROVER_assume(pos <= tar.len);
  u32 before = pos;
  if (ustar_next(tar, &pos, &e) == ERR_OK) {
    PROVE(pos > before && pos <= tar.len);
    PROVE(e.name.off <= tar.len && e.name.len <= tar.len - e.name.off);
    PROVE(e.data.off <= pos && e.data.len <= pos - e.data.off);
    PROVE(e.name.len > 0 && e.name.len <= 100 && tar.ptr[e.name.off] != '/');
    if (e.data.len > 512) {
      PROOF_REACHED();
    }
  }
}
