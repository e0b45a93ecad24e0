// SPDX-License-Identifier: Apache-2.0
#include "tls/speed.h"

#include <openssl/aead.h>
#include <openssl/bn.h>
#include <openssl/curve25519.h>
#include <openssl/ec_key.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/nid.h>
#include <openssl/rsa.h>
#include <openssl/sha.h>

#include "tls/make.h"
#include "tls/record.h"

#define CONTENT_MAX 16384u

// What one operation works on.
struct bench {
  u8 public[32], private[32], shared[32], digest[32], signature[512];
  unsigned signature_len;
  EC_KEY *ec;
  RSA *rsa;
  EVP_AEAD_CTX aead;
  u8 data[CONTENT_MAX + 64];
  u32 len;
  bool failed;
};

static void key_pair(struct bench *b) {
  X25519_keypair(b->public, b->private);
}
static void derive(struct bench *b) {
  b->failed |= X25519(b->shared, b->private, b->public) != 1;
}
static void sign(struct bench *b) {
  b->failed |=
      ECDSA_sign(0, b->digest, sizeof b->digest, b->signature, &b->signature_len, b->ec) != 1;
}
static void verify(struct bench *b) {
  b->failed |=
      ECDSA_verify(0, b->digest, sizeof b->digest, b->signature, b->signature_len, b->ec) != 1;
}
static void rsa_sign(struct bench *b) {
  b->failed |= RSA_sign(NID_sha256, b->digest, sizeof b->digest, b->signature, &b->signature_len,
                        b->rsa) != 1;
}
static void rsa_verify(struct bench *b) {
  b->failed |= RSA_verify(NID_sha256, b->digest, sizeof b->digest, b->signature, b->signature_len,
                          b->rsa) != 1;
}
static void hash(struct bench *b) {
  SHA256(b->data, b->len, b->digest);
}
static void seal(struct bench *b) {
  static const u8 nonce[12];
  usize out = 0;
  b->failed |= EVP_AEAD_CTX_seal(&b->aead, b->data, &out, sizeof b->data, nonce, sizeof nonce,
                                 b->data, b->len, NULL, 0) != 1;
}

static u64 quickest(u64 (*now_ns)(void), u32 rounds, struct bench *b, void (*run)(struct bench *)) {
  u64 best = U64_MAX;
  for (u32 i = 0; i < rounds; i++) {
    u64 start = now_ns();
    run(b);
    best = MIN(best, now_ns() - start);
  }
  return best;
}

static u32 records(u64 (*now_ns)(void), u32 rounds, struct bench *b, struct tls_speed *rows) {
  static const struct {
    const char *name[3];
    bool chacha;
  } kinds[] = {
      {{"AES-128-GCM 64", "AES-128-GCM 1024", "AES-128-GCM 16384"}, false},
      {{"ChaCha20-Poly1305 64", "ChaCha20-Poly1305 1024", "ChaCha20-Poly1305 16384"}, true}};
  static const u32 sizes[] = {64, 1024, CONTENT_MAX};
  static const u8 key[32] = {1};
  u32 n = 0;
  for (u32 k = 0; k < ARRAY_COUNT(kinds); k++) {
    const EVP_AEAD *aead = kinds[k].chacha ? EVP_aead_chacha20_poly1305() : EVP_aead_aes_128_gcm();
    if (EVP_AEAD_CTX_init(&b->aead, aead, key, EVP_AEAD_key_length(aead),
                          EVP_AEAD_DEFAULT_TAG_LENGTH, NULL) != 1) {
      return n;
    }
    for (u32 i = 0; i < ARRAY_COUNT(sizes); i++) {
      b->len = sizes[i];
      u64 ns = quickest(now_ns, rounds, b, seal);
      rows[n++] = (struct tls_speed){kinds[k].name[i], ns, sizes[i]};
    }
    EVP_AEAD_CTX_cleanup(&b->aead);
  }
  return n;
}

static u32 signatures(u64 (*now_ns)(void), u32 rounds, struct bench *b, struct tls_speed *rows) {
  u32 n = 0;
  b->ec = EC_KEY_new_by_curve_name(NID_X9_62_prime256v1);
  if (b->ec != NULL && EC_KEY_generate_key(b->ec) == 1) {
    rows[n++] = (struct tls_speed){"P-256 sign", quickest(now_ns, rounds, b, sign), 0};
    rows[n++] = (struct tls_speed){"P-256 verify", quickest(now_ns, rounds, b, verify), 0};
  }
  EC_KEY_free(b->ec);
  BIGNUM *e = BN_new();
  b->rsa = RSA_new();
  if (e != NULL && b->rsa != NULL && BN_set_word(e, RSA_F4) == 1 &&
      RSA_generate_key_ex(b->rsa, 2048, e, NULL) == 1) {
    rows[n++] = (struct tls_speed){"RSA-2048 sign", quickest(now_ns, rounds, b, rsa_sign), 0};
    rows[n++] = (struct tls_speed){"RSA-2048 verify", quickest(now_ns, rounds, b, rsa_verify), 0};
  }
  RSA_free(b->rsa);
  BN_free(e);
  return n;
}

u32 tls_speed(u64 (*now_ns)(void), u32 rounds, struct tls_speed rows[TLS_SPEED_MAX]) {
  static struct bench b;
  u32 n = 0;
  b = (struct bench){.len = CONTENT_MAX};
  rows[n++] = (struct tls_speed){"X25519 key pair", quickest(now_ns, rounds, &b, key_pair), 0};
  rows[n++] = (struct tls_speed){"X25519 derive", quickest(now_ns, rounds, &b, derive), 0};
  n += signatures(now_ns, rounds, &b, rows + n);
  rows[n++] = (struct tls_speed){"SHA-256 16384", quickest(now_ns, rounds, &b, hash), CONTENT_MAX};
  n += records(now_ns, rounds, &b, rows + n);
  ASSERT(n <= TLS_SPEED_MAX);
  mem_wipe(&b, sizeof b);
  return b.failed ? 0 : n;
}

// --- The whole handshake

struct end {
  struct tls_handshake *hs;
  enum tls_step step;
  struct span out;
  u32 out_len;
  u64 ns;
};

static void run_end(u64 (*now_ns)(void), struct end *e, struct end *peer) {
  u32 consumed = 0;
  u32 produced = 0;
  u64 start = now_ns();
  e->step =
      tls_handshake_step(e->hs, bytes_of(peer->out.ptr, peer->out_len), &consumed,
                         span_of(e->out.ptr + e->out_len, e->out.len - e->out_len), &produced);
  e->ns += now_ns() - start;
  memmove(peer->out.ptr, peer->out.ptr + consumed, peer->out_len - consumed);
  peer->out_len -= consumed;
  e->out_len += produced;
}

static bool shake(u64 (*now_ns)(void), struct end *server, struct end *client) {
  for (u32 turn = 0; turn < 16; turn++) {
    if (client->step <= TLS_STEP_WANT_OUTPUT) {
      run_end(now_ns, client, server);
    }
    if (server->step <= TLS_STEP_WANT_OUTPUT && client->out_len > 0) {
      run_end(now_ns, server, client);
    }
    if (client->step > TLS_STEP_WANT_OUTPUT && server->step > TLS_STEP_WANT_OUTPUT) {
      break;
    }
  }
  return client->step == TLS_STEP_DONE && server->step == TLS_STEP_DONE;
}

static bool one_round(u64 (*now_ns)(void), struct tls_context *contexts[2],
                      const struct tls_time *now, struct span arenas[2], struct span wire,
                      struct tls_speed_shake *out) {
  static struct tls_record records_[2];
  u32 half = (u32)wire.len / 2;
  struct end server = {.out = span_of(wire.ptr, half)};
  struct end client = {.out = span_of(wire.ptr + half, half)};
  u64 start = now_ns();
  server.hs = tls_handshake_begin(contexts[0], arenas[0], now);
  server.ns = now_ns() - start;
  client.hs = tls_handshake_begin_client(contexts[1], arenas[1], now, BYTES_LIT("server"), false);
  if (!shake(now_ns, &server, &client)) {
    tls_handshake_abort(server.hs);
    tls_handshake_abort(client.hs);
    return false;
  }
  u64 end = now_ns();
  tls_handshake_finish(server.hs, &records_[0], NULL);
  server.ns += now_ns() - end;
  tls_handshake_finish(client.hs, &records_[1], NULL);
  out->server_ns = MIN(out->server_ns, server.ns);
  out->whole_ns = MIN(out->whole_ns, now_ns() - start);
  return true;
}

static struct bytes certificate(const struct tls_made *m) {
  return bytes_of(m->certificate, m->certificate_len);
}
static struct bytes key_of(const struct tls_made *m) {
  return bytes_of(m->key, m->key_len);
}

struct tls_speed_shake tls_speed_handshake(u64 (*now_ns)(void), const struct tls_time *now,
                                           u32 rounds, struct span arenas[2], struct span wire) {
  static struct tls_made ca, server, client;
  struct tls_speed_shake out = {.server_ns = U64_MAX, .whole_ns = U64_MAX};
  struct tls_problem problem;
  struct tls_make m = {.common_name = BYTES_LIT("measurement"),
                       .ca = true,
                       .not_before_s = now->lower_unix_s - MIN(now->lower_unix_s, 86400ull),
                       .not_after_s = now->unix_s + 86400};
  bool made = tls_make(&m, &ca);
  m.issuer = &ca;
  m.ca = false;
  m.common_name = BYTES_LIT("server");
  made = made && tls_make(&m, &server);
  m.common_name = BYTES_LIT("client");
  made = made && tls_make(&m, &client);
  if (!made) {
    return out;
  }
  struct tls_config sc = {.certificate = certificate(&server),
                          .key = key_of(&server),
                          .ca = certificate(&ca),
                          .require_certificate = true};
  struct tls_config cc = {.certificate = certificate(&client),
                          .key = key_of(&client),
                          .ca = certificate(&ca),
                          .client = true};
  struct tls_context *contexts[2] = {tls_context_new(&sc, now, &problem),
                                     tls_context_new(&cc, now, &problem)};
  out.done = contexts[0] != NULL && contexts[1] != NULL;
  for (u32 i = 0; i < rounds && out.done; i++) {
    out.done = one_round(now_ns, contexts, now, arenas, wire, &out);
  }
  for (u32 i = 0; i < 2; i++) {
    if (contexts[i] != NULL) {
      tls_context_unref(contexts[i]);
    }
  }
  mem_wipe(&server, sizeof server);
  mem_wipe(&client, sizeof client);
  mem_wipe(&ca, sizeof ca);
  return out;
}
