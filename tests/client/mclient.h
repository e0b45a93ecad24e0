// SPDX-License-Identifier: Apache-2.0
// Many MQTT clients in one thread over epoll, plain or TLS 1.3 with client certificates (OpenSSL).
// Host code for benchmarks and load tests. A client's packets arrive through `on_packet`; what it
// sends is queued by mc_put_packet and leaves with mc_flush.
#pragma once
#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum mc_stage { MC_CONNECTING, MC_TLS, MC_CONNACK, MC_SUBACK, MC_READY, MC_DONE };

struct mclient {
  int fd;
  SSL *ssl;
  enum mc_stage stage;
  uint32_t number;
  int role;     // the program's own
  int version;  // 4 or 5
  uint8_t *in;
  size_t in_len, in_cap;
  uint8_t *out;
  size_t out_pos, out_len, out_cap;
  bool want_write;
  bool mute;  // says nothing, not even TLS; set after mc_open
  uint16_t pid;
};

struct mc_world {
  const char *host;
  int port;
  const char *source;  // first source address, or NULL
  int source_count;
  bool resume;
  bool eager;          // answers leave at once, not when the program flushes
  bool tolerant;       // failures are counted, nothing is said about them
  SSL_CTX *tls;          // NULL = plain
  SSL_SESSION *session;  // last ticket, for resumption
  X509 **fresh;          // by client number: a certificate of its own each; NULL = one for all
  uint64_t failures, tls_done, tls_resumed;
  void (*on_open)(struct mclient *c);  // transport is up: send CONNECT
  // One whole packet: p[0] is the fixed header, p + head the rest of `len` bytes.
  void (*on_packet)(struct mclient *c, const uint8_t *p, size_t head, size_t len);
  void (*on_end)(struct mclient *c);  // closed by the broker; NULL: counts as a failure
};
extern struct mc_world mc;

double mc_now(void);
double mc_cpu_seconds(void);
void mc_init(void);
void mc_tls(const char *cert, const char *key,
            const char *ca);  // exits 1 when unreadable; ca NULL = no check
// Certificates for clients 0 to count-1: the usual one with other serial numbers, signed with its CA's key.
void mc_fresh_certificates(const char *ca_key, uint32_t count);
void mc_open(struct mclient *c, uint32_t number, int role, int version);
void mc_close(struct mclient *c, bool abrupt);
void mc_fail(struct mclient *c, const char *why);
void mc_poll(int timeout_ms);
void mc_put(struct mclient *c, const void *data, size_t len);
void mc_put_packet(struct mclient *c, uint8_t first, const uint8_t *body, size_t len);
void mc_flush(struct mclient *c);
size_t mc_string(uint8_t *p, const char *s);  // two length bytes + text; returns how many
uint16_t mc_next_pid(struct mclient *c);

struct mc_option {
  const char *name;
  int *number;
  const char **text;
  bool *flag;
};
// Reads argv[from..]; false when one is unknown or lacks its value.
bool mc_options(const struct mc_option *table, size_t count, int argc, char **argv, int from);
