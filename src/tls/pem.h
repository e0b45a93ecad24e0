// SPDX-License-Identifier: Apache-2.0
// PEM (RFC 7468) as users have it: text around the blocks, CR LF, several blocks in one file.
//
// I1  Pure functions over the text: nothing is allocated, results are offsets into it.
// I2  Lines count from 1; a problem names the line a person has to look at.
#pragma once
#include "base/bytes.h"

enum pem_kind {
  PEM_CERTIFICATE,
  PEM_CRL,
  PEM_KEY_PKCS8,
  PEM_KEY_PKCS1,      // RSA PRIVATE KEY
  PEM_KEY_SEC1,       // EC PRIVATE KEY
  PEM_KEY_ENCRYPTED,  // ENCRYPTED PRIVATE KEY, or any key with "Proc-Type: 4,ENCRYPTED"
  PEM_OTHER,
};
struct pem_cursor {
  u32 pos;
  u32 line;  // of pos, from 0
};
struct pem_block {
  enum pem_kind kind;
  u32 line;           // of the BEGIN line
  struct part label;  // between "-----BEGIN " and "-----"
  struct part body;   // base64 lines, headers excluded
};

// Next block after the cursor. ERR_NOT_FOUND: no more. ERR_MALFORMED: block->line and *reason (a
// static text) say what is wrong.
NODISCARD enum err pem_next(struct bytes text, struct pem_cursor *cursor, struct pem_block *block,
                            const char **reason);
// Base64 of a block's body into `der`; at most body.len * 3 / 4 + 3 bytes. ERR_MALFORMED for a
// foreign character or broken padding (*line: where), ERR_SPACE when it does not fit.
NODISCARD enum err pem_decode(struct bytes text, const struct pem_block *block, struct span der,
                              u32 *der_len, u32 *line);
