// SPDX-License-Identifier: Apache-2.0
// A client's handshake with the broker beside the null device: TCP, full mutual TLS or resumed,
// CONNECT, CONNACK, DISCONNECT, both FINs. `fresh`: with a certificate nobody has seen before.
#pragma once
#include "stack_peer.h"

#define ROUNDS_MAX 5000u

static u16 next_port = 1024;
static EVP_PKEY *ca_key;

struct cell {
  const char *name;
  u16 port;
  bool fresh, resume;
  double ns[ROUNDS_MAX];
  u64 in, out, turns;
};
static struct cell cells[] = {
    {.name = "cold", .port = 8883, .fresh = true},
    {.name = "warm", .port = 8883},
    {.name = "resumed", .port = 8883, .resume = true},
};

// Once, before the first handshake.
static void shake_start(void) {
  struct bytes pem = test_file("ca-p256.key");
  BIO *bio = BIO_new_mem_buf(pem.ptr, (int)pem.len);
  ca_key = PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL);
  BIO_free(bio);
  if (ca_key == NULL) {
    fprintf(stderr, "stack: no key of the CA\n");
    exit(1);
  }
}

// The usual client certificate with another serial number, signed by its CA.
static void use_fresh_certificate(SSL *ssl) {
  static long serial = 1 << 20;
  X509 *cert = X509_dup(SSL_get_certificate(ssl));
  ASN1_INTEGER_set(X509_get_serialNumber(cert), ++serial);
  if (X509_sign(cert, ca_key, EVP_sha256()) <= 0 || SSL_use_certificate(ssl, cert) != 1) {
    abort();
  }
  X509_free(cert);
}

static void tls_out(struct peer *p, struct test_peer *t) {
  static u8 wire[TEST_FLIGHT];
  int n = BIO_read(t->out, wire, sizeof wire);
  peer_send(p, bytes_of(wire, n > 0 ? (u32)n : 0));
}
static void tls_in(struct peer *p, struct test_peer *t) {
  BIO_write(t->in, p->in, (int)p->in_len);
  p->in_len = 0;
}

static void fail(const struct cell *c, const char *what) {
  fprintf(stderr, "stack: %s handshake: %s\n", c->name, what);
  exit(1);
}

static void shake(struct cell *c, u32 round) {
  static struct peer p;
  static u8 memory[PEER_IN];
  static const u8 connect[] = "\x10\x12\0\4MQTT\4\2\0\0\0\6device";
  u8 answer[16];
  struct test_client client = {.certificate = "client-p256-p256.crt",
                               .key = "client-p256-p256.key"};
  if (c->resume) {
    client.session = test_session;
    SSL_SESSION_up_ref(test_session);
  }
  struct test_peer t = test_peer(client);
  if (c->fresh) {
    use_fresh_certificate(t.ssl);
  }
  SSL_do_handshake(t.ssl);
  ERR_clear_error();
  u64 in = frames_in;
  u64 out = frames_out;
  u64 turns = turn_count;
  spent_ns = 0;
  p.in = memory;
  next_port = next_port >= 60000 ? 1024 : next_port + 1;
  peer_connect(&p, next_port, c->port);
  tls_out(&p, &t);  // ClientHello, behind the ACK
  broker_runs();
  peer_ack(&p);
  tls_in(&p, &t);
  if (SSL_do_handshake(t.ssl) != 1) {
    fail(c, "the client refuses");
  }
  tls_out(&p, &t);  // certificate, its proof, Finished
  SSL_write(t.ssl, connect, sizeof connect - 1);
  broker_turns();  // CONNECT comes while they are judged
  tls_out(&p, &t);
  broker_runs();
  peer_ack(&p);
  tls_in(&p, &t);
  if (SSL_read(t.ssl, answer, sizeof answer) != 4 || answer[0] != 0x20 || answer[3] != 0) {
    fail(c, "no CONNACK");
  }
  if ((SSL_session_reused(t.ssl) != 0) != c->resume) {
    fail(c, "resumed or not, it is the wrong one");
  }
  SSL_write(t.ssl, "\xe0", 2);
  tls_out(&p, &t);
  peer_close(&p);
  c->ns[round] = (double)spent_ns;
  c->in += frames_in - in;
  c->out += frames_out - out;
  c->turns += turn_count - turns;
  ERR_clear_error();
  test_peer_free(&t);
  if (c->resume) {
    SSL_SESSION_free(client.session);
  }
}
