// SPDX-License-Identifier: Apache-2.0
// A TLS 1.3 client that a test steers message by message (RFC 8446): X25519,
// TLS_AES_128_GCM_SHA256, no resumption. What it sends after the ServerHello is the caller's: any
// bytes become handshake messages, are counted in the transcript, and are encrypted with the right
// keys, so that a hostile but able peer can be played. It believes every server.
#pragma once
#include <openssl/curve25519.h>
#include <openssl/hkdf.h>
#include <openssl/hmac.h>
#include <openssl/sha.h>

#include "tls/cipher.h"
#include "tls/tls_test_support.h"

struct raw_client {
  SHA256_CTX transcript;
  u8 secret[32];  // the schedule's current secret: handshake, then master
  u8 client_secret[32], server_secret[32];
  struct tls_record keys;  // read: what the server writes
  struct tls_cipher_cache *cache;
  u8 private_key[32];
};

static inline void raw_transcript(const struct raw_client *c, u8 out[32]) {
  SHA256_CTX copy = c->transcript;
  SHA256_Final(out, &copy);
}

// HKDF-Expand-Label (7.1) to 32 bytes.
static inline void raw_expand(u8 out[32], const u8 secret[32], const char *label,
                              struct bytes context) {
  u8 info[128];
  struct writer w = writer_init(span_of(info, sizeof info));
  write_be16(&w, 32);
  write_u8(&w, (u8)(6 + strlen(label)));
  write_str(&w, "tls13 ");
  write_str(&w, label);
  write_u8(&w, (u8)context.len);
  write_bytes(&w, context);
  HKDF_expand(out, 32, EVP_sha256(), secret, 32, info, w.pos);
}

static inline void raw_derived(u8 secret[32]) {
  u8 empty[32];
  SHA256(NULL, 0, empty);
  raw_expand(secret, secret, "derived", bytes_of(empty, 32));
}

static inline void raw_use(struct raw_client *c, const u8 read[32], const u8 write[32]) {
  tls_record_fini(&c->keys, c->cache);
  c->keys = (struct tls_record){.cipher_suite = TLS_AES_128_GCM_SHA256};
  memcpy(c->keys.read.secret, read, 32);
  memcpy(c->keys.write.secret, write, 32);
  tls_record_start(&c->keys);
}

// The ClientHello as a record; `alpn` offers mqtt. Returns its length.
static inline u32 raw_hello(struct raw_client *c, struct span out, bool alpn) {
  static const u8 offers[] = {
      0, 43, 0, 3,  2, 3,  4,                         // supported_versions: 1.3
      0, 10, 0, 4,  0, 2,  0, 29,                     // supported_groups: X25519
      0, 13, 0, 10, 0, 8,  4, 3,  8, 7,  8, 4, 5, 3,  // signature_algorithms
      0, 45, 0, 2,  1, 1,                             // psk_dhe_ke: tickets
      0, 51, 0, 38, 0, 36, 0, 29, 0, 32,              // key_share
  };
  static const u8 mqtt[] = {0, 16, 0, 7, 0, 5, 4, 'm', 'q', 't', 't'};
  u8 public_key[32];
  memset(c->private_key, 0x42, sizeof c->private_key);
  X25519_public_from_private(public_key, c->private_key);
  u32 extensions_len = sizeof offers + 32 + (alpn ? sizeof mqtt : 0);
  u32 body_len = 2 + 32 + 1 + 4 + 2 + 2 + extensions_len;
  struct writer w = writer_init(out);
  write_bytes(&w, BYTES_LIT("\x16\x03\x01"));
  write_be16(&w, (u16)(4 + body_len));
  write_u8(&w, 1);
  write_u8(&w, 0);
  write_be16(&w, (u16)body_len);
  write_be16(&w, 0x0303);
  write_bytes(&w, bytes_of(c->private_key, 32));  // any random
  write_bytes(&w, BYTES_LIT("\x00\x00\x02\x13\x01\x01\x00"));
  write_be16(&w, (u16)extensions_len);
  write_bytes(&w, alpn ? bytes_of(mqtt, sizeof mqtt) : bytes_of(NULL, 0));
  write_bytes(&w, bytes_of(offers, sizeof offers));
  write_bytes(&w, bytes_of(public_key, 32));
  ASSERT(w.err == ERR_OK);
  SHA256_Init(&c->transcript);
  SHA256_Update(&c->transcript, out.ptr + 5, w.pos - 5);
  return w.pos;
}

// Opens a record in place: its content without padding; *type is the inner one.
static inline struct bytes raw_open(struct raw_client *c, struct span record, u8 *type) {
  u8 nonce[12];
  usize len = 0;
  memcpy(nonce, c->keys.read.iv, 12);
  for (u32 i = 0; i < 8; i++) {
    nonce[4 + i] ^= (u8)(c->keys.read.sequence >> (56 - 8 * i));
  }
  c->keys.read.sequence++;
  const EVP_AEAD_CTX *aead = cipher_context(c->cache, &c->keys.read, cipher_suite_find(0x1301));
  int ok = EVP_AEAD_CTX_open(aead, record.ptr + 5, &len, record.len - 5, nonce, 12, record.ptr + 5,
                             record.len - 5, record.ptr, 5);
  ASSERT(ok == 1);
  while (len > 0 && record.ptr[5 + len - 1] == 0) {
    len--;
  }
  ASSERT(len > 0);
  *type = record.ptr[5 + len - 1];
  return bytes_of(record.ptr + 5, len - 1);
}

// The ServerHello's message: into the handshake's keys.
static inline void raw_server_hello(struct raw_client *c, struct bytes hello) {
  u8 shared[32];
  u8 hash[32];
  const u8 zero[32] = {0};
  usize len = 0;
  // The key share stands in the extensions: 00 33 00 24 00 1d 00 20 and the key.
  static const u8 mark[] = {0, 51, 0, 36, 0, 29, 0, 32};
  usize at = 0;
  while (at + sizeof mark + 32 < hello.len && memcmp(hello.ptr + at, mark, sizeof mark) != 0) {
    at++;
  }
  ASSERT(at + sizeof mark + 32 <= hello.len);
  X25519(shared, c->private_key, hello.ptr + at + sizeof mark);
  SHA256_Update(&c->transcript, hello.ptr, hello.len);
  HKDF_extract(c->secret, &len, EVP_sha256(), zero, 32, NULL, 0);
  raw_derived(c->secret);
  HKDF_extract(c->secret, &len, EVP_sha256(), shared, 32, c->secret, 32);
  raw_transcript(c, hash);
  raw_expand(c->client_secret, c->secret, "c hs traffic", bytes_of(hash, 32));
  raw_expand(c->server_secret, c->secret, "s hs traffic", bytes_of(hash, 32));
  raw_use(c, c->server_secret, c->client_secret);
}

// The server's Finished is in the transcript: the application's secrets, to be used after the own
// Finished went out.
static inline void raw_master(struct raw_client *c, u8 read[32], u8 write[32]) {
  u8 hash[32];
  const u8 zero[32] = {0};
  usize len = 0;
  raw_derived(c->secret);
  HKDF_extract(c->secret, &len, EVP_sha256(), zero, 32, c->secret, 32);
  raw_transcript(c, hash);
  raw_expand(write, c->secret, "c ap traffic", bytes_of(hash, 32));
  raw_expand(read, c->secret, "s ap traffic", bytes_of(hash, 32));
}

static inline void raw_finished(const struct raw_client *c, u8 out[32]) {
  u8 key[32];
  u8 hash[32];
  unsigned len = 0;
  raw_expand(key, c->client_secret, "finished", bytes_of(NULL, 0));
  raw_transcript(c, hash);
  HMAC(EVP_sha256(), key, 32, hash, 32, out, &len);
}

// What a CertificateVerify signs (4.4.3): 130 bytes.
static inline void raw_to_sign(const struct raw_client *c, u8 out[130]) {
  memset(out, ' ', 64);
  memcpy(out + 64, "TLS 1.3, client CertificateVerify", 34);
  raw_transcript(c, out + 98);
}
