// SPDX-License-Identifier: Apache-2.0
// What cryptography costs on this machine: the primitives of a handshake, whole handshakes (server
// side, in memory), sealing and opening of records. Minimum of many rounds, nanoseconds.
//   build/bench/crypto [--json FILE] [--rounds N]
#include <openssl/curve25519.h>
#include <openssl/ec.h>
#include <openssl/ec_key.h>
#include <openssl/ecdsa.h>
#include <openssl/rand.h>
#include <time.h>
#include <ucontext.h>

#include "tls/cipher.h"
#include "tls/tls_test_support.h"

void assert_fail(const char *where, const char *what) {
  fprintf(stderr, "assertion failed at %s: %s\n", where, what);
  abort();
}

static u64 now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (u64)t.tv_sec * 1000000000u + (u64)t.tv_nsec;
}

static FILE *json;
static const char *separator = "";
static u32 rounds = 300;

static void put(const char *name, double ns) {
  printf("  %-34s %12.0f ns\n", name, ns);
  if (json != NULL) {
    fprintf(json, "%s\n  \"%s\": %.1f", separator, name, ns);
    separator = ",";
  }
}

// Minimum over `rounds` of the mean over `batch` calls.
static double measure(void (*work)(void), u32 batch) {
  double best = 1e18;
  for (u32 r = 0; r < rounds; r++) {
    u64 start = now_ns();
    for (u32 i = 0; i < batch; i++) {
      work();
    }
    double each = (double)(now_ns() - start) / batch;
    best = each < best ? each : best;
  }
  return best;
}

// --- Primitives

static u8 x_public[32], x_private[32], x_shared[32], digest[32], signature[80];
static unsigned signature_len;
static EC_KEY *ec;

static void x25519_keypair(void) {
  X25519_keypair(x_public, x_private);
}
static void x25519_derive(void) {
  X25519(x_shared, x_private, x_public);
}
static void p256_sign(void) {
  ECDSA_sign(0, digest, sizeof digest, signature, &signature_len, ec);
}
static void p256_verify(void) {
  if (ECDSA_verify(0, digest, sizeof digest, signature, signature_len, ec) != 1) {
    abort();
  }
}

static double primitives(void) {
  ec = EC_KEY_new_by_curve_name(NID_X9_62_prime256v1);
  EC_KEY_generate_key(ec);
  RAND_bytes(digest, sizeof digest);
  x25519_keypair();
  p256_sign();
  double pair = measure(x25519_keypair, 5);
  double derive = measure(x25519_derive, 5);
  double sign = measure(p256_sign, 5);
  double verify = measure(p256_verify, 5);
  double sum = pair + derive + sign + 2 * verify;
  put("X25519 key pair", pair);
  put("X25519 derive", derive);
  put("ECDSA P-256 sign", sign);
  put("ECDSA P-256 verify", verify);
  put("sum of a full mutual handshake", sum);
  put("sum of a resumed handshake", pair + derive);
  return sum;
}

// --- Handshakes: the server's steps are timed, the client's are not.

static u64 timed_ns;
static u32 arena_peak;
static u32 stack_peak;

// The server's steps run on a painted stack of their own, as on the broker's fibers.
static u8 stack[1 << 16] ALIGNED(64);
static ucontext_t here, there;

static void on_stack(void (*work)(void)) {
  memset(stack, 0xa5, sizeof stack);
  getcontext(&there);
  there.uc_stack.ss_sp = stack;
  there.uc_stack.ss_size = sizeof stack;
  there.uc_link = &here;
  makecontext(&there, work, 0);
  swapcontext(&here, &there);
  u32 untouched = 0;
  while (untouched < sizeof stack && stack[untouched] == 0xa5) {
    untouched++;
  }
  stack_peak = MAX(stack_peak, (u32)sizeof stack - untouched);
}

static struct {
  struct tls_handshake *hs;
  struct bytes in;
  struct span out;
  u32 produced;
  enum tls_step step;
  struct tls_record record;
  struct tls_identity identity;
} shared;

static void step_job(void) {
  u32 consumed = 0;
  u64 start = now_ns();
  shared.step = tls_handshake_step(shared.hs, shared.in, &consumed, shared.out, &shared.produced);
  timed_ns += now_ns() - start;
}
static void finish_job(void) {
  u64 start = now_ns();
  tls_handshake_finish(shared.hs, &shared.record, &shared.identity);
  timed_ns += now_ns() - start;
}

static bool handshake(struct tls_context *context, struct test_client client, bool want_resumed) {
  static u8 wire[TEST_FLIGHT];
  static u8 out[TEST_FLIGHT];
  struct test_peer p = test_peer(client);
  timed_ns = 0;
  u64 start = now_ns();
  shared.hs =
      tls_handshake_begin(context, span_of(test_arena_memory, sizeof test_arena_memory), &test_now);
  timed_ns += now_ns() - start;
  shared.step = TLS_STEP_WANT_INPUT;
  for (u32 turn = 0; turn < 4 && shared.step == TLS_STEP_WANT_INPUT; turn++) {
    SSL_do_handshake(p.ssl);
    int n = BIO_read(p.out, wire, sizeof wire);
    ERR_clear_error();
    shared.in = bytes_of(wire, n > 0 ? (u32)n : 0);
    shared.out = span_of(out, sizeof out);
    on_stack(step_job);
    BIO_write(p.in, out, (int)shared.produced);
  }
  if (shared.step != TLS_STEP_DONE) {
    fprintf(stderr, "handshake failed: %d\n", (int)shared.step);
    return false;
  }
  arena_peak = handshake_arena_peak(shared.hs);
  on_stack(finish_job);
  u8 nothing[1];
  SSL_peek(p.ssl, nothing, 1);  // takes the ticket
  ERR_clear_error();
  test_peer_free(&p);
  return shared.identity.resumed == want_resumed;
}

static double handshakes(const char *name, struct tls_context *context, struct test_client client,
                         bool resumed) {
  double best = 1e18;
  stack_peak = 0;
  for (u32 r = 0; r < rounds; r++) {
    if (resumed) {
      client.session = test_session;
      SSL_SESSION_up_ref(client.session);
    }
    bool ok = handshake(context, client, resumed);
    if (resumed) {
      SSL_SESSION_free(client.session);
    }
    if (!ok) {
      fprintf(stderr, "%s: not the handshake that was wanted\n", name);
      exit(1);
    }
    best = (double)timed_ns < best ? (double)timed_ns : best;
  }
  put(name, best);
  printf("  %-34s %12u B, stack peak %u B\n", "  arena peak", arena_peak, stack_peak);
  return best;
}

// --- Records

static struct tls_record sealer, opener;
static struct tls_cipher_cache *cache;
static u8 sealed[TLS_RECORD_MAX + 64];
static u32 content_len;

static void seal(void) {
  tls_seal(&sealer, cache, span_of(sealed, sizeof sealed), content_len, TLS_CONTENT_DATA);
}
static void seal_and_open(void) {
  struct span content;
  u32 len = tls_seal(&sealer, cache, span_of(sealed, sizeof sealed), content_len, TLS_CONTENT_DATA);
  if (tls_open(&opener, cache, span_of(sealed, len), &content) != TLS_OPEN_DATA) {
    abort();
  }
}

// Every connection's first record after others have used the cache: the context is expanded anew.
static void seal_after_others(void) {
  cipher_forget(cache, &sealer.write);
  seal();
}

static void records(const char *name, u16 suite) {
  static u8 memory[1 << 16] ALIGNED(64);
  static const u32 sizes[] = {64, 256, 1024, 4096, 16384};
  cache = tls_cipher_cache_init(span_of(memory, sizeof memory), 8);
  for (u32 i = 0; i < ARRAY_COUNT(sizes); i++) {
    sealer = (struct tls_record){.cipher_suite = suite};
    tls_record_start(&sealer);
    opener = sealer;
    content_len = sizes[i];
    double both = measure(seal_and_open, 20);
    double one = measure(seal, 20);
    char text[64];
    snprintf(text, sizeof text, "%s seal %u B", name, sizes[i]);
    put(text, one);
    snprintf(text, sizeof text, "%s open %u B", name, sizes[i]);
    put(text, both - one);
    if (i == 0) {
      snprintf(text, sizeof text, "%s seal %u B, cold", name, sizes[i]);
      put(text, measure(seal_after_others, 20));
    }
    tls_record_fini(&sealer, cache);
    tls_record_fini(&opener, cache);
  }
}

int main(int argc, char **argv) {
  for (int i = 1; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "--json") == 0) {
      json = fopen(argv[i + 1], "w");
    } else if (strcmp(argv[i], "--rounds") == 0) {
      rounds = (u32)atoi(argv[i + 1]);
    } else {
      fprintf(stderr, "usage: crypto [--json FILE] [--rounds N]\n");
      return 2;
    }
  }
  test_start();
  if (json != NULL) {
    fprintf(json, "{");
  }
  printf("crypto: %s\n", tls_describe_cpu());
  double sum = primitives();
  struct tls_context *context = test_context((struct test_server){0});
  struct test_client client = {.certificate = "client-p256-p256.crt",
                               .key = "client-p256-p256.key"};
  double full = handshakes("full mutual handshake + ticket", context, client, false);
  put("  beyond the primitives", full - sum);
  struct tls_context *known = test_context((struct test_server){.chains = 64});
  handshakes("the same, client's chain known", known, client, false);
  handshakes("resumed handshake + ticket", context, client, true);
  struct tls_context *rsa = test_context((struct test_server){
      .certificate = "server-rsa-rsa.crt", .key = "server-rsa-rsa.key", .ca = "ca-rsa.crt"});
  handshakes("full handshake, all RSA-2048", rsa,
             (struct test_client){.certificate = "client-rsa-rsa.crt", .key = "client-rsa-rsa.key"},
             false);
  struct tls_context *inter = test_context((struct test_server){0});
  handshakes("full, client by an intermediate", inter,
             (struct test_client){.certificate = "client-inter.crt", .key = "client-inter.key"},
             false);
  handshakes("the same, RSA-4096 twice", rsa,
             (struct test_client){.certificate = "client-all-rsa.crt", .key = "client-all-rsa.key"},
             false);
  records("AES-128-GCM", 0x1301);
  records("ChaCha20-Poly1305", 0x1303);
  printf("  %-34s %12zu B\n", "idle connection (tls_record)", sizeof(struct tls_record));
  if (json != NULL) {
    fprintf(json, "\n}\n");
    fclose(json);
  }
  return 0;
}
