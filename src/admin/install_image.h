// SPDX-License-Identifier: Apache-2.0
// The installation image: what is the same on every installed disk, as pieces with their places.
// Made by image/mkinstall, handed to the kernel by the loader, trusted as the kernel is; its
// digests find a medium that was read badly. docs/formats/install.md.
#pragma once
#include "base/bytes.h"
#include "base/err.h"

#define INSTALL_BLOCK 512u
#define INSTALL_MAGIC "urMQTT-install1\n"  // 16 bytes, no NUL
#define INSTALL_PIECES_MAX 110u
#define INSTALL_VERSION_MAX 32u

enum install_kind {
  INSTALL_CODE = 1,  // of block 0, on an installed disk
  INSTALL_MARK,      // of block 0, while it is being installed
  INSTALL_LAYOUT,    // of the EFI partition: where its files lie; an upgrade finds it unchanged
  INSTALL_LOADER,
  INSTALL_SLOT_A,  // the kernels
  INSTALL_SLOT_B,
};

struct install_piece {
  u32 kind;           // enum install_kind
  u64 at;             // byte of the disk
  u64 len;            // bytes
  struct bytes data;  // len bytes, or empty: zeros
};

struct install_image {
  struct bytes all;  // from the magic to its end
  struct bytes version;
  u32 count;    // pieces
  u64 slot_at;  // byte of the disk: the block that says which slot counts
};

typedef void install_digest(struct bytes data, u8 out[32]);

// Reads an image at the start of `blob`, which may be longer. ERR_UNSUPPORTED: it is none, or of
// another version; ERR_SHORT: cut off; ERR_CORRUPT: a digest is wrong; ERR_MALFORMED: a piece
// that cannot be.
NODISCARD enum err install_image_read(struct bytes blob, install_digest *digest,
                                      struct install_image *out);
// What the loader has put behind an image in the same module (GRUB joins what `initrd` names);
// `blob` itself when it is none. Nothing of the image but its length is looked at.
struct bytes install_image_behind(struct bytes blob);
// Piece `idx` < count.
struct install_piece install_image_piece(const struct install_image *m, u32 idx);
