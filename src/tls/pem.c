// SPDX-License-Identifier: Apache-2.0
// PEM text into blocks and blocks into DER (RFC 7468; headers of RFC 1421 are recognised only to
// name an encrypted key). Works line by line; the state is a position, results are offsets.
#include "tls/pem.h"

#define DASHES "-----"
#define DASHES_LEN 5u

struct line {
  u32 off;
  u32 len;  // without line end and trailing spaces
};

// The line at the cursor, and the cursor behind it. False at the end of the text.
static bool take_line(struct bytes text, struct pem_cursor *c, struct line *line) {
  ASSERT(text.len <= U32_MAX);
  ASSERT(c->pos <= text.len);
  if (c->pos == text.len) {
    return false;
  }
  u32 end = c->pos;
  while (end < text.len && text.ptr[end] != '\n') {
    end++;
  }
  line->off = c->pos;
  line->len = end - c->pos;
  while (line->len > 0 && (text.ptr[line->off + line->len - 1] == '\r' ||
                           text.ptr[line->off + line->len - 1] == ' ' ||
                           text.ptr[line->off + line->len - 1] == '\t')) {
    line->len--;
  }
  c->pos = end < text.len ? end + 1 : end;
  c->line++;
  return true;
}

// "-----BEGIN label-----" or END: the label; an empty part when the line is not one.
static struct part label_of(struct bytes text, struct line line, struct bytes word) {
  struct bytes l = bytes_sub(text, line.off, line.len);
  u32 frame = DASHES_LEN + (u32)word.len;
  if (l.len <= frame + DASHES_LEN || !bytes_starts_with(l, BYTES_LIT(DASHES)) ||
      !bytes_starts_with(bytes_skip(l, DASHES_LEN), word) ||
      !bytes_equal_str(bytes_skip(l, l.len - DASHES_LEN), DASHES)) {
    return (struct part){0, 0};
  }
  return (struct part){line.off + frame, line.len - frame - DASHES_LEN};
}

static enum pem_kind kind_of(struct bytes label) {
  static const struct {
    const char *label;
    enum pem_kind kind;
  } kinds[] = {
      {"CERTIFICATE", PEM_CERTIFICATE},
      {"X509 CERTIFICATE", PEM_CERTIFICATE},
      {"X509 CRL", PEM_CRL},
      {"PRIVATE KEY", PEM_KEY_PKCS8},
      {"RSA PRIVATE KEY", PEM_KEY_PKCS1},
      {"EC PRIVATE KEY", PEM_KEY_SEC1},
      {"ENCRYPTED PRIVATE KEY", PEM_KEY_ENCRYPTED},
  };
  for (u32 i = 0; i < ARRAY_COUNT(kinds); i++) {
    if (bytes_equal_str(label, kinds[i].label)) {
      return kinds[i].kind;
    }
  }
  return PEM_OTHER;
}

// Reads lines up to the END of this block.
static enum err take_body(struct bytes text, struct pem_cursor *c, struct pem_block *block,
                          const char **reason) {
  struct line line;
  block->body = (struct part){c->pos, 0};
  while (take_line(text, c, &line)) {
    struct part end = label_of(text, line, BYTES_LIT("END "));
    if (end.len != 0) {
      block->body.len = line.off - block->body.off;
      if (!bytes_equal(bytes_part(text, end), bytes_part(text, block->label))) {
        block->line = c->line;
        *reason = "END names another thing than BEGIN";
        return ERR_MALFORMED;
      }
      return ERR_OK;
    }
    if (label_of(text, line, BYTES_LIT("BEGIN ")).len != 0) {
      break;
    }
    struct bytes l = bytes_sub(text, line.off, line.len);
    if (bytes_find(l, ':') != l.len) {  // a header of RFC 1421: the body starts after it
      block->body.off = c->pos;
      if (bytes_starts_with(l, BYTES_LIT("Proc-Type:"))) {
        block->kind = PEM_KEY_ENCRYPTED;
      }
    }
  }
  *reason = "BEGIN without END";
  return ERR_MALFORMED;
}

enum err pem_next(struct bytes text, struct pem_cursor *cursor, struct pem_block *block,
                  const char **reason) {
  struct line line;
  while (take_line(text, cursor, &line)) {
    struct part label = label_of(text, line, BYTES_LIT("BEGIN "));
    if (label.len != 0) {
      *block = (struct pem_block){.line = cursor->line, .label = label};
      block->kind = kind_of(bytes_part(text, label));
      return take_body(text, cursor, block, reason);
    }
  }
  return ERR_NOT_FOUND;
}

// 0..63, 64 for '=', 65 for space and line ends, 66 for anything else.
static u32 sextet(u8 c) {
  if (c >= 'A' && c <= 'Z') {
    return c - 'A';
  }
  if (c >= 'a' && c <= 'z') {
    return c - 'a' + 26u;
  }
  if (c >= '0' && c <= '9') {
    return c - '0' + 52u;
  }
  switch (c) {
  case '+': return 62;
  case '/': return 63;
  case '=': return 64;
  case ' ':
  case '\t':
  case '\r':
  case '\n': return 65;
  default: return 66;
  }
}

enum err pem_decode(struct bytes text, const struct pem_block *block, struct span der, u32 *der_len,
                    u32 *line) {
  struct bytes body = bytes_part(text, block->body);
  struct writer w = writer_init(der);
  u32 bits = 0;
  u32 count = 0;
  u32 padding = 0;
  *line = block->line + 1;
  for (usize i = 0; i < body.len; i++) {
    u32 v = sextet(body.ptr[i]);
    *line += body.ptr[i] == '\n';
    if (v == 65) {
      continue;
    }
    padding += v == 64;
    if (v == 66 || (v != 64 && padding != 0) || padding > 2) {
      return ERR_MALFORMED;
    }
    bits = bits << 6 | (v & 63);
    count++;
    if (count % 4 == 0) {
      write_u8(&w, (u8)(bits >> 16));
      if (padding < 2) {
        write_u8(&w, (u8)(bits >> 8));
      }
      if (padding < 1) {
        write_u8(&w, (u8)bits);
      }
    }
  }
  *der_len = w.pos;
  if (count % 4 != 0 || count == 0) {
    return ERR_MALFORMED;
  }
  return w.err;
}
