// SPDX-License-Identifier: Apache-2.0
// The broker's own cost beside a null device (stack_peer.h): a full mutual handshake with CONNECT,
// CONNACK, DISCONNECT and both FINs. `cold`: a client certificate never seen before, made for each
// connection; `warm`: one that is known (docs/adr/0011); `resumed`: by ticket. The primitives are
// measured between the handshakes, so that both see the same machine. Medians and minima.
//   build/bench/stack [--json FILE] [--rounds N]
#include <openssl/curve25519.h>
#include <openssl/ec_key.h>
#include <openssl/ecdsa.h>
#include <openssl/rand.h>
#include <openssl/x509.h>

#include "stack_shake.h"

#define BAR_NS 60000.0  // beyond the primitives' sum

static u32 rounds = 1000;

// --- Primitives of one handshake

static double sums[ROUNDS_MAX], parts[4][ROUNDS_MAX];
static const char *const part_names[] = {"X25519 key pair", "X25519 derive", "P-256 sign",
                                         "P-256 verify"};

static void primitives(u32 round) {
  static EC_KEY *key;
  static u8 public[32], private[32], shared[32], digest[32], signature[80];
  unsigned len = 0;
  if (key == NULL) {
    key = EC_KEY_new_by_curve_name(NID_X9_62_prime256v1);
    EC_KEY_generate_key(key);
    RAND_bytes(digest, sizeof digest);
  }
  u64 t[5] = {clock_ns()};
  X25519_keypair(public, private);
  t[1] = clock_ns();
  X25519(shared, private, public);
  t[2] = clock_ns();
  ECDSA_sign(0, digest, sizeof digest, signature, &len, key);
  t[3] = clock_ns();
  if (ECDSA_verify(0, digest, sizeof digest, signature, len, key) != 1) {
    abort();
  }
  t[4] = clock_ns();
  for (u32 i = 0; i < 4; i++) {
    parts[i][round] = (double)(t[i + 1] - t[i]);
  }
  sums[round] = (double)(t[4] - t[0]) + parts[3][round];
}

// --- Figures

static int compare(const void *a, const void *b) {
  double x = *(const double *)a;
  double y = *(const double *)b;
  return (x > y) - (x < y);
}
static double middle(double *v) {
  qsort(v, rounds, sizeof *v, compare);
  return v[rounds / 2];
}

static void print(FILE *json) {
  printf("null device, one process, medians (minima) of %u, microseconds of the broker's own:\n",
         rounds);
  double sum = middle(sums);
  for (u32 i = 0; i < 4; i++) {
    double m = middle(parts[i]);
    printf("  %-34s %7.1f (%.1f)\n", part_names[i], m / 1000, parts[i][0] / 1000);
    fprintf(json, "\"%s\": %.0f, ", part_names[i], parts[i][0]);
  }
  printf("  %-34s %7.1f (%.1f)\n", "sum, verify twice", sum / 1000, sums[0] / 1000);
  fprintf(json, "\"sum\": %.0f, \"sum median\": %.0f", sums[0], sum);
  for (u32 i = 0; i < ARRAY_COUNT(cells); i++) {
    struct cell *c = &cells[i];
    double m = middle(c->ns);
    char name[64];
    snprintf(name, sizeof name, "handshake + CONNECT, %s", c->name);
    printf("  %-34s %7.1f (%.1f)  %.1f frames in, %.1f out, %.1f turns", name, m / 1000,
           c->ns[0] / 1000, (double)c->in / rounds, (double)c->out / rounds,
           (double)c->turns / rounds);
    if (!c->resume) {
      double over = c->ns[0] - sums[0];
      printf("; minimum is sum %+.1f, bar +60: %s", over / 1000,
             over <= BAR_NS ? "met" : "NOT MET");
    }
    printf("\n");
    fprintf(json, ", \"%s\": %.0f, \"%s median\": %.0f", c->name, c->ns[0], c->name, m);
  }
  fprintf(json, "}\n");
}

int main(int argc, char **argv) {
  const char *json = "/dev/null";
  for (int i = 1; i < argc; i += 2) {
    if (i + 1 < argc && strcmp(argv[i], "--json") == 0) {
      json = argv[i + 1];
    } else if (i + 1 < argc && strcmp(argv[i], "--rounds") == 0) {
      rounds = MAX(1u, MIN((u32)atoi(argv[i + 1]), ROUNDS_MAX));
    } else {
      fprintf(stderr, "usage: stack [--json FILE] [--rounds N]\n");
      return 2;
    }
  }
  test_start();
  shake_start();
  struct tls_context *tls = test_context((struct test_server){.chains = 4096});
  if (tls == NULL || !stack_start(&tls, 1)) {
    fprintf(stderr, "stack: the broker does not start\n");
    return 1;
  }
  for (u32 i = 0; i < 20; i++) {  // caches and branch predictors
    shake(&cells[0], 0);
    shake(&cells[1], 0);
  }
  for (u32 k = 0; k < ARRAY_COUNT(cells); k++) {
    cells[k].in = cells[k].out = cells[k].turns = 0;
  }
  for (u32 i = 0; i < rounds; i++) {
    for (u32 k = 0; k < ARRAY_COUNT(cells); k++) {
      shake(&cells[k], i);
    }
    primitives(i);
  }
  FILE *f = fopen(json, "w");
  if (f == NULL) {
    perror(json);
    return 1;
  }
  fprintf(f, "{");
  print(f);
  fclose(f);
  return 0;
}
