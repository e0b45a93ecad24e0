// SPDX-License-Identifier: Apache-2.0
// I1  install_image_read has looked at every piece: data inside the image, places in whole blocks,
//     not behind INSTALL_END, nothing but the two kinds meant for it in block 0.
#include "admin/install_image.h"

enum {
  AT_VERSION = 16,
  AT_COUNT = 20,
  AT_LEN = 24,
  AT_NAME = 32,
  AT_SLOT = 64,
  AT_PIECES = 512,
  AT_DATA_DIGEST = 4032,
  AT_DIGEST = 4064,
  HEADER_LEN = 4096,
  PIECE_LEN = 32
};
static_assert(AT_PIECES + INSTALL_PIECES_MAX * PIECE_LEN <= AT_DATA_DIGEST, "pieces fit");
static_assert(AT_NAME + INSTALL_VERSION_MAX == AT_SLOT, "the name fits");

#define INSTALL_FROM (1ull << 20)
#define INSTALL_END (66ull << 20)  // where the partition for data begins

struct bytes install_image_behind(struct bytes blob) {
  if (blob.len < HEADER_LEN || memcmp(blob.ptr, INSTALL_MAGIC, 16) != 0) {
    return blob;
  }
  return bytes_skip(blob, (usize)MIN(load_le64(blob.ptr + AT_LEN), (u64)blob.len));
}

static bool digest_good(install_digest *digest, struct bytes data, const u8 *want) {
  u8 got[32];
  digest(data, got);
  return memcmp(got, want, sizeof got) == 0;
}

struct install_piece install_image_piece(const struct install_image *m, u32 idx) {
  ASSERT(idx < m->count);
  const u8 *p = m->all.ptr + AT_PIECES + (usize)idx * PIECE_LEN;
  struct install_piece out = {load_le32(p), load_le64(p + 8), load_le64(p + 16), {0}};
  u64 from = load_le64(p + 24);
  out.data = from == 0 ? bytes_of(NULL, 0) : bytes_sub(m->all, (usize)from, (usize)out.len);
  return out;
}

static bool place_good(u64 at, u64 len) {
  return at % INSTALL_BLOCK == 0 && len % INSTALL_BLOCK == 0 && len > 0 && at >= INSTALL_FROM &&
         at <= INSTALL_END && len <= INSTALL_END - at;
}

static bool piece_good(const struct install_image *m, const u8 *p) {
  u32 kind = load_le32(p);
  u64 at = load_le64(p + 8);
  u64 len = load_le64(p + 16);
  u64 from = load_le64(p + 24);
  bool inside = from == 0 || (from >= HEADER_LEN && from <= m->all.len && len <= m->all.len - from);
  if (kind == INSTALL_CODE || kind == INSTALL_MARK) {
    return at == 0 && len == INSTALL_BLOCK && from != 0 && inside;
  }
  return kind >= INSTALL_LAYOUT && kind <= INSTALL_SLOT_B && place_good(at, len) && inside;
}

enum err install_image_read(struct bytes blob, install_digest *digest, struct install_image *out) {
  if (blob.len < HEADER_LEN) {
    return ERR_SHORT;
  }
  const u8 *h = blob.ptr;
  if (memcmp(h, INSTALL_MAGIC, 16) != 0 || load_le32(h + AT_VERSION) != 1) {
    return ERR_UNSUPPORTED;
  }
  if (!digest_good(digest, bytes_sub(blob, 0, AT_DIGEST), h + AT_DIGEST)) {
    return ERR_CORRUPT;
  }
  u64 len = load_le64(h + AT_LEN);
  if (len < HEADER_LEN || len > blob.len) {
    return ERR_SHORT;
  }
  *out = (struct install_image){.all = bytes_sub(blob, 0, (usize)len),
                                .count = load_le32(h + AT_COUNT)};
  out->slot_at = load_le64(h + AT_SLOT);
  struct bytes name = bytes_sub(blob, AT_NAME, INSTALL_VERSION_MAX);
  while (name.len > 0 && name.ptr[name.len - 1] == 0) {
    name.len--;
  }
  out->version = name;
  if (!digest_good(digest, bytes_skip(out->all, HEADER_LEN), h + AT_DATA_DIGEST)) {
    return ERR_CORRUPT;
  }
  bool good = out->count > 0 && out->count <= INSTALL_PIECES_MAX && place_good(out->slot_at, 512);
  u32 code = 0;
  u32 mark = 0;
  for (u32 i = 0; good && i < out->count; i++) {
    const u8 *p = h + AT_PIECES + (usize)i * PIECE_LEN;
    good = piece_good(out, p);
    code += load_le32(p) == INSTALL_CODE;
    mark += load_le32(p) == INSTALL_MARK;
  }
  return good && code == 1 && mark == 1 ? ERR_OK : ERR_MALFORMED;
}
