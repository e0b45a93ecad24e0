// SPDX-License-Identifier: Apache-2.0
// For the tests of this module: certificates made by the openssl command, a client made of the
// library itself, and a handshake between it and our server in memory.
#pragma once
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tls/handshake.h"
#include "tls/memory.h"
#include "tls/record.h"
#include "tls/tls.h"

#define PKI "build/test/tls_pki"
#define TEST_FLIGHT 65536u

static const struct tls_time test_now = {1796083200, 1796083200, true};  // 2026-12-01

#define TEST_RANDOM_SEED 88172645463325252ull
static u64 test_random_state = TEST_RANDOM_SEED;

static inline void test_random(struct span out) {
  u64 state = test_random_state;
  for (usize i = 0; i < out.len; i++) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    out.ptr[i] = (u8)(state >> 32);
  }
  test_random_state = state;
}

static inline void test_start(void) {
  static bool started;
  if (!started) {
    started = true;
    if (system("tests/system/tls_pki " PKI) != 0) {
      fprintf(stderr, "tests/system/tls_pki failed (is openssl installed?)\n");
      exit(1);
    }
    usize len = 16u << 20;
    tls_init(span_of(aligned_alloc(64, len), len), test_random);
  }
}

// The whole file, NUL-terminated in memory; kept for the next who asks.
static inline struct bytes test_file(const char *name) {
  static struct {
    char path[256];
    struct bytes data;
  } files[64];
  char path[256];
  snprintf(path, sizeof path, PKI "/%s", name);
  u32 i = 0;
  for (; files[i].data.ptr != NULL; i++) {
    if (strcmp(files[i].path, path) == 0) {
      return files[i].data;
    }
  }
  FILE *f = fopen(path, "rb");
  if (f == NULL) {
    fprintf(stderr, "%s is missing\n", path);
    exit(1);
  }
  u8 *data = calloc(1, 1u << 14);
  files[i].data = bytes_of(data, fread(data, 1, (1u << 14) - 1, f));
  snprintf(files[i].path, sizeof files[i].path, "%s", path);
  fclose(f);
  return files[i].data;
}

struct test_server {
  const char *certificate, *key, *ca, *crl;
  bool open, alpn, no_tickets;  // open: no client certificate required
  u32 chains;                   // remembered; 0: each is judged anew
};

static inline struct tls_context *test_context(struct test_server s) {
  struct tls_config config = {
      .certificate = test_file(s.certificate != NULL ? s.certificate : "server-p256-p256.crt"),
      .key = test_file(s.key != NULL ? s.key : "server-p256-p256.key"),
      .ca = test_file(s.ca != NULL ? s.ca : "ca-p256.crt"),
      .require_certificate = !s.open,
      .alpn_mqtt = s.alpn,
      .tickets = !s.no_tickets,
      .cached_chains = s.chains,
  };
  if (s.crl != NULL) {
    config.crl = test_file(s.crl);
  }
  memset(config.ticket_key, 7, sizeof config.ticket_key);
  struct tls_problem problem;
  struct tls_context *context = tls_context_new(&config, &test_now, &problem);
  if (context == NULL) {
    fprintf(stderr, "context: %d:%u: %s\n", (int)problem.input, problem.line, problem.reason);
  }
  return context;
}

struct test_client {
  const char *certificate;  // NULL: none
  const char *key;
  const char *ca;
  const char *alpn;     // one protocol, or NULL
  const char *ciphers;  // for a client that shall not be able to use AES hardware's choice
  const int *groups;    // and their number
  usize group_count;
  u16 max_version;       // 0: TLS 1.3
  SSL_SESSION *session;  // to resume, or NULL
};

struct test_peer {
  SSL_CTX *ctx;
  SSL *ssl;
  BIO *in, *out;
};

static SSL_SESSION *test_session;  // the last ticket a client was given

static inline int test_on_session(SSL *ssl, SSL_SESSION *session) {
  (void)ssl;
  SSL_SESSION_free(test_session);
  test_session = session;
  return 1;
}

static inline struct test_peer test_peer(struct test_client c) {
  struct test_peer p = {.ctx = SSL_CTX_new(TLS_method())};
  SSL_CTX_set_max_proto_version(p.ctx, c.max_version != 0 ? c.max_version : TLS1_3_VERSION);
  SSL_CTX_set_session_cache_mode(p.ctx, SSL_SESS_CACHE_CLIENT);
  SSL_CTX_sess_set_new_cb(p.ctx, test_on_session);
  static const u16 algorithms[] = {SSL_SIGN_ECDSA_SECP256R1_SHA256, SSL_SIGN_ED25519,
                                   SSL_SIGN_RSA_PSS_RSAE_SHA256, SSL_SIGN_RSA_PKCS1_SHA256,
                                   SSL_SIGN_ECDSA_SECP384R1_SHA384};
  SSL_CTX_set_signing_algorithm_prefs(p.ctx, algorithms, ARRAY_COUNT(algorithms));
  SSL_CTX_set_verify_algorithm_prefs(p.ctx, algorithms, ARRAY_COUNT(algorithms));
  if (c.groups != NULL) {
    SSL_CTX_set1_groups(p.ctx, c.groups, c.group_count);
  }
  if (c.certificate != NULL) {
    struct bytes pem = test_file(c.certificate);
    BIO *bio = BIO_new_mem_buf(pem.ptr, (int)pem.len);
    X509 *cert = PEM_read_bio_X509(bio, NULL, NULL, NULL);
    SSL_CTX_use_certificate(p.ctx, cert);
    X509_free(cert);
    while ((cert = PEM_read_bio_X509(bio, NULL, NULL, NULL)) != NULL) {
      SSL_CTX_add1_chain_cert(p.ctx, cert);
      X509_free(cert);
    }
    BIO_free(bio);
    pem = test_file(c.key);
    bio = BIO_new_mem_buf(pem.ptr, (int)pem.len);
    EVP_PKEY *key = PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL);
    SSL_CTX_use_PrivateKey(p.ctx, key);
    EVP_PKEY_free(key);
    BIO_free(bio);
    ERR_clear_error();
  }
  p.ssl = SSL_new(p.ctx);
  if (c.alpn != NULL) {
    u8 wire[64] = {(u8)strlen(c.alpn)};
    memcpy(wire + 1, c.alpn, strlen(c.alpn));
    SSL_set_alpn_protos(p.ssl, wire, (unsigned)strlen(c.alpn) + 1);
  }
  if (c.session != NULL) {
    SSL_set_session(p.ssl, c.session);
  }
  p.in = BIO_new(BIO_s_mem());
  p.out = BIO_new(BIO_s_mem());
  SSL_set_bio(p.ssl, p.in, p.out);
  SSL_set_connect_state(p.ssl);
  return p;
}

static inline void test_peer_free(struct test_peer *p) {
  SSL_free(p->ssl);
  SSL_CTX_free(p->ctx);
  ERR_clear_error();
}

struct test_result {
  enum tls_step step;
  struct tls_failure failure;
  u8 client_alert;  // what the client read, or 0
  bool client_done;
  u32 arena_peak;
  struct tls_record record;
  struct tls_identity identity;
  u8 left[256];  // bytes behind the client's Finished
  u32 left_len;
};

static u8 test_client_alert;
static inline void test_on_info(const SSL *ssl, int type, int value) {
  (void)ssl;
  if (type == SSL_CB_READ_ALERT) {
    test_client_alert = (u8)value;
  }
}

static u8 test_arena_memory[TLS_ARENA_BYTES] ALIGNED(64);

// Runs a handshake to its end. `chunk`: most bytes given to the server at once (0 = all),
// `out_chunk` likewise for its output. `cut`: the client's bytes end there (U64_MAX = never).
// `fail_after`: allocations that succeed (U32_MAX = all).
struct test_run {
  u32 chunk, out_chunk;
  u64 cut;
  u32 fail_after;
};
#define TEST_RUN_ALL ((struct test_run){0, 0, U64_MAX, U32_MAX})

static inline struct test_result test_shake(struct tls_context *context, struct test_peer *p,
                                            struct tls_time now, struct test_run run) {
  static u8 wire[TEST_FLIGHT];
  static u8 out[TEST_FLIGHT];
  u32 wire_len = 0;
  u64 fed = 0;
  struct test_result r = {.step = TLS_STEP_WANT_INPUT};
  test_client_alert = 0;
  SSL_set_info_callback(p->ssl, test_on_info);
  struct tls_handshake *hs =
      tls_handshake_begin(context, span_of(test_arena_memory, sizeof test_arena_memory), &now);
  handshake_fail_after(hs, run.fail_after);
  for (u32 turn = 0; turn < 100000; turn++) {
    r.client_done = SSL_do_handshake(p->ssl) == 1;
    ERR_clear_error();
    if (r.step == TLS_STEP_WANT_INPUT) {
      int n = BIO_read(p->out, wire + wire_len, (int)(TEST_FLIGHT - wire_len));
      wire_len += n > 0 ? (u32)n : 0;
    }
    u32 give = run.chunk != 0 ? MIN(run.chunk, wire_len) : wire_len;
    give = (u32)MIN((u64)give, run.cut - fed);
    if (r.step == TLS_STEP_WANT_INPUT && give == 0) {
      break;  // the client has nothing more to say
    }
    u32 consumed = 0;
    u32 produced = 0;
    r.step = tls_handshake_step(hs, bytes_of(wire, give), &consumed,
                                span_of(out, run.out_chunk != 0 ? run.out_chunk : TEST_FLIGHT),
                                &produced);
    fed += consumed;
    memmove(wire, wire + consumed, wire_len - consumed);
    wire_len -= consumed;
    BIO_write(p->in, out, (int)produced);
    if (r.step == TLS_STEP_DONE || r.step == TLS_STEP_FAILED) {
      break;
    }
  }
  if (r.step != TLS_STEP_FAILED || r.client_done) {
    u8 nothing[1];
    SSL_read(p->ssl, nothing, 0);
    SSL_peek(p->ssl, nothing, 1);  // takes ticket or alert
  } else {
    SSL_do_handshake(p->ssl);
  }
  ERR_clear_error();
  r.client_alert = test_client_alert;
  r.arena_peak = handshake_arena_peak(hs);
  r.left_len = MIN(wire_len, (u32)sizeof r.left);
  memcpy(r.left, wire, r.left_len);
  if (r.step == TLS_STEP_DONE) {
    tls_handshake_finish(hs, &r.record, &r.identity);
  } else {
    if (r.step == TLS_STEP_FAILED) {
      r.failure = tls_handshake_failure(hs);
    }
    tls_handshake_abort(hs);
  }
  return r;
}
