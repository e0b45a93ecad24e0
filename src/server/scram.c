// SPDX-License-Identifier: Apache-2.0
// SCRAM-SHA-256: the grammar of RFC 5802 7 and the sums of its section 3.
//
// An attribute is a letter, '=' and a value of one byte at least without ',' and NUL. Those that
// nobody has defined are passed over (RFC 5802 5.1), a mandatory extension ("m=") ends the
// exchange.
#include "server/scram.h"

#include "base/base64.h"
#include "base/fmt.h"
#include "base/utf8.h"
#include "tls/kdf.h"

// Takes the text before the next comma and the comma. False: there is none, and all is taken.
static bool take(struct bytes in, u32 *pos, struct part *out) {
  struct bytes rest = bytes_skip(in, *pos);
  usize len = bytes_find(rest, ',');
  *out = (struct part){*pos, (u32)len};
  *pos += (u32)len + (len < rest.len ? 1 : 0);
  return len < rest.len;
}

// "x=value": cuts the front off. False: it is not that attribute, or has no value.
static bool attribute(struct bytes in, struct part *p, u8 letter) {
  struct bytes text = bytes_part(in, *p);
  if (text.len < 3 || text.ptr[0] != letter || text.ptr[1] != '=') {
    return false;
  }
  *p = (struct part){p->off + 2, p->len - 2};
  return true;
}

static bool is_letter(u8 c) {
  return (c | 32) >= 'a' && (c | 32) <= 'z';
}

// Any attribute; its value is UTF-8.
static bool is_extension(struct bytes text) {
  return text.len >= 3 && is_letter(text.ptr[0]) && text.ptr[1] == '=' &&
         utf8_valid(text.ptr, (u32)text.len);
}

static bool is_nonce(struct bytes text) {
  for (usize i = 0; i < text.len; i++) {
    if (text.ptr[i] < 0x21 || text.ptr[i] > 0x7e) {
      return false;
    }
  }
  return text.len > 0 && text.len <= SCRAM_NONCE_MAX;
}

// What follows the '=' at text[i]: ',' for "2C", '=' for "3D", else 0.
static u8 escaped(struct bytes text, usize i) {
  if (text.len - i < 3) {
    return 0;
  }
  const u8 *at = text.ptr + i;
  u8 comma = at[1] == '2' && at[2] == 'C' ? ',' : 0;
  return at[1] == '3' && at[2] == 'D' ? '=' : comma;
}

static bool is_name(struct bytes text) {
  for (usize i = 0; i < text.len; i++) {
    if (text.ptr[i] == '=' && escaped(text, i) == 0) {
      return false;
    }
  }
  return utf8_text(text.ptr, (u32)text.len);
}

// gs2-header: binding flag and authorisation identity.
static const char *take_header(struct bytes in, u32 *pos, struct scram_first *out) {
  struct part flag, other;
  if (!take(in, pos, &flag) || !take(in, pos, &other)) {
    return "SCRAM: the GS2 header is cut off";
  }
  struct bytes f = bytes_part(in, flag);
  if (f.len > 2 && f.ptr[0] == 'p' && f.ptr[1] == '=') {
    return "SCRAM: channel binding is not supported";
  }
  if (!bytes_equal_str(f, "n") && !bytes_equal_str(f, "y")) {
    return "SCRAM: the GS2 header must begin with n or y";
  }
  if (other.len != 0) {
    return "SCRAM: nobody may act for another user (authzid)";
  }
  out->binding_missed = f.ptr[0] == 'y';
  return NULL;
}

const char *scram_first(struct bytes in, struct scram_first *out) {
  u32 pos = 0;
  *out = (struct scram_first){.binding_missed = false};
  if (in.len > U16_MAX) {
    return "SCRAM: the message is too long";
  }
  const char *bad = take_header(in, &pos, out);
  if (bad != NULL) {
    return bad;
  }
  out->bare = (struct part){pos, (u32)in.len - pos};
  bool more = take(in, &pos, &out->name);
  struct part extension = out->name;
  if (attribute(in, &extension, 'm')) {
    return "SCRAM: an extension that must be understood (m=)";
  }
  if (!more || !attribute(in, &out->name, 'n') || !is_name(bytes_part(in, out->name))) {
    return "SCRAM: the user's name is missing or malformed";
  }
  more = take(in, &pos, &out->nonce);
  if (!attribute(in, &out->nonce, 'r') || !is_nonce(bytes_part(in, out->nonce))) {
    return "SCRAM: the nonce is missing, malformed or longer than 128 bytes";
  }
  while (more) {
    more = take(in, &pos, &extension);
    if (!is_extension(bytes_part(in, extension))) {
      return "SCRAM: a malformed extension";
    }
  }
  return NULL;
}

u32 scram_name(struct bytes name, u8 *to) {
  u32 len = 0;
  for (usize i = 0; i < name.len; i++) {
    bool escape = name.ptr[i] == '=';
    to[len++] = escape ? escaped(name, i) : name.ptr[i];
    i += escape ? 2 : 0;
  }
  return len;
}

bool scram_name_is(struct bytes name, struct bytes plain) {
  usize at = 0;
  for (usize i = 0; i < name.len; i++, at++) {
    bool escape = name.ptr[i] == '=';
    u8 c = escape ? escaped(name, i) : name.ptr[i];
    if (at >= plain.len || plain.ptr[at] != c) {
      return false;
    }
    i += escape ? 2 : 0;
  }
  return at == plain.len;
}

static void add(struct scram *s, struct bytes piece) {
  tls_hmac_add(&s->client, piece);
  tls_hmac_add(&s->server, piece);
}

void scram_begin(struct scram *s, struct bytes first, const struct scram_first *f,
                 const struct scram_keys *keys, struct bytes own, struct writer *out) {
  u8 salt[BASE64_LEN(SCRAM_SALT_MAX)];
  struct bytes nonce = bytes_part(first, f->nonce);
  ASSERT(nonce.len <= SCRAM_NONCE_MAX);
  ASSERT(own.len > 0 && own.len <= SCRAM_NONCE_OWN);
  ASSERT(keys->salt.len <= SCRAM_SALT_MAX);
  memcpy(s->stored, keys->stored, SCRAM_KEY_LEN);
  tls_hmac_begin(&s->client, bytes_of(keys->stored, SCRAM_KEY_LEN));
  tls_hmac_begin(&s->server, bytes_of(keys->server, SCRAM_KEY_LEN));
  s->binding_missed = f->binding_missed;
  memcpy(s->nonce, nonce.ptr, nonce.len);
  memcpy(s->nonce + nonce.len, own.ptr, own.len);
  s->nonce_len = (u8)(nonce.len + own.len);
  u32 begin = out->pos;
  write_str(out, "r=");
  write_bytes(out, bytes_of(s->nonce, s->nonce_len));
  write_str(out, ",s=");
  write_bytes(out, bytes_of(salt, base64_encode(keys->salt, span_of(salt, sizeof salt))));
  fmt(out, ",i=%u", keys->iterations);
  ASSERT(out->err == ERR_OK);
  // AuthMessage: client-first-bare "," server-first "," client-final-without-proof
  add(s, bytes_part(first, f->bare));
  add(s, BYTES_LIT(","));
  add(s, bytes_skip(writer_bytes(out), begin));
  add(s, BYTES_LIT(","));
}

// Reads client-final-message up to its proof. NULL: good; *without is the length of what stands
// before ",p=".
static const char *read_final(const struct scram *s, struct bytes in, u8 proof[SCRAM_KEY_LEN],
                              u32 *without) {
  u32 pos = 0, len = 0;
  struct part p;
  if (in.len > U16_MAX) {
    return "SCRAM: the message is too long";
  }
  // base64 of the GS2 header, of which there are two: "n,," and "y,,"
  bool more = take(in, &pos, &p);
  if (!more || !attribute(in, &p, 'c') ||
      !bytes_equal_str(bytes_part(in, p), s->binding_missed ? "eSws" : "biws")) {
    return "SCRAM: another channel binding than at first";
  }
  more = take(in, &pos, &p);
  if (!more || !attribute(in, &p, 'r') ||
      !bytes_equal(bytes_part(in, p), bytes_of(s->nonce, s->nonce_len))) {
    return "SCRAM: another nonce";
  }
  while (more) {
    u32 before = pos;
    more = take(in, &pos, &p);
    if (!more && attribute(in, &p, 'p')) {
      *without = before - 1;
      bool good = p.len == BASE64_LEN(SCRAM_KEY_LEN) &&
                  base64_decode(bytes_part(in, p), span_of(proof, SCRAM_KEY_LEN), &len) &&
                  len == SCRAM_KEY_LEN;
      return good ? NULL : "SCRAM: the proof is not base64 of 32 bytes";
    }
    if (!is_extension(bytes_part(in, p))) {
      return "SCRAM: a malformed extension";
    }
  }
  return "SCRAM: the proof is missing";
}

const char *scram_final(struct scram *s, struct bytes in, struct writer *out) {
  u8 proof[SCRAM_KEY_LEN], signature[SCRAM_KEY_LEN], sum[SCRAM_KEY_LEN];
  u8 text[BASE64_LEN(SCRAM_KEY_LEN)];
  u32 without = 0;
  const char *bad = read_final(s, in, proof, &without);
  if (bad != NULL) {
    return bad;
  }
  add(s, bytes_sub(in, 0, without));
  tls_hmac_end(&s->client, signature);
  for (u32 i = 0; i < SCRAM_KEY_LEN; i++) {
    proof[i] ^= signature[i];  // ClientKey, if it is right
  }
  tls_sha256(bytes_of(proof, sizeof proof), sum);
  bool good = kdf_equal(sum, s->stored, SCRAM_KEY_LEN);
  mem_wipe(proof, sizeof proof);
  tls_hmac_end(&s->server, signature);
  if (!good) {
    return "SCRAM: no such user, or another password";
  }
  write_str(out, "v=");
  u32 len = base64_encode(bytes_of(signature, sizeof signature), span_of(text, sizeof text));
  write_bytes(out, bytes_of(text, len));
  return NULL;
}

void scram_fini(struct scram *s) {
  mem_wipe(s, sizeof *s);
}
