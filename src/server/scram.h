// SPDX-License-Identifier: Apache-2.0
// The server's half of SCRAM-SHA-256 (RFC 5802, RFC 7677) without channel binding: bytes in, bytes
// out, nothing of MQTT or of connections. The password never comes here, and no key derived from it
// is computed: StoredKey and ServerKey are given.
//
// I1  Whether the user exists does not show: with keys that nobody knows every step does the same
//     and scram_final fails.
// I2  An exchange ends with its first scram_final, whatever that says.
//
// Names are compared as they are written: UTF-8 without control characters. For ASCII that is
// SASLprep (RFC 4013); no other name is normalised.
#pragma once
#include "base/bytes.h"
#include "tls/digest.h"

#define SCRAM_KEY_LEN TLS_SHA256_BYTES
#define SCRAM_NONCE_MAX 128u  // of a client
#define SCRAM_NONCE_OWN 32u   // of ours, at most
#define SCRAM_SALT_MAX 64u
#define SCRAM_ITERATIONS_MIN 4096u  // RFC 7677 4
// The longest messages of ours.
#define SCRAM_FIRST_MAX (2 + SCRAM_NONCE_MAX + SCRAM_NONCE_OWN + 3 + 88 + 3 + 10)
#define SCRAM_FINAL_MAX (2 + 44u)

struct scram_first {  // client-first-message: parts of it
  struct part bare;   // without the GS2 header
  struct part name;   // a saslname: escaped
  struct part nonce;
  bool binding_missed;  // "y": the client could bind to the channel and thinks that we cannot
};
// NULL: good. Otherwise what is wrong with it (static).
const char *scram_first(struct bytes in, struct scram_first *out);
// Of a saslname that scram_first has found: the name to `to`, which has room for name.len bytes and
// may be the same memory. Returns its length.
u32 scram_name(struct bytes name, u8 *to);
bool scram_name_is(struct bytes name, struct bytes plain);

struct scram_keys {
  struct bytes salt;  // at most SCRAM_SALT_MAX
  u32 iterations;
  const u8 *stored, *server;  // SCRAM_KEY_LEN each
};
struct scram {
  u8 stored[SCRAM_KEY_LEN];
  struct tls_hmac client, server;  // ClientSignature and ServerSignature, over AuthMessage so far
  bool binding_missed;
  u8 nonce_len;
  u8 nonce[SCRAM_NONCE_MAX + SCRAM_NONCE_OWN];  // the client's, then ours
};
// `f` is what scram_first has found in `first`; `own` is our part of the nonce, 1..SCRAM_NONCE_OWN
// printable bytes without ',' that nobody can foresee. Writes server-first-message (`out` has room:
// asserted). Nothing is borrowed. *s is a secret: scram_fini wipes it.
void scram_begin(struct scram *s, struct bytes first, const struct scram_first *f,
                 const struct scram_keys *keys, struct bytes own, struct writer *out);
// client-final-message. NULL: the client has proved that it knows the password, and
// server-final-message is written; otherwise what is wrong (static).
const char *scram_final(struct scram *s, struct bytes in, struct writer *out);
void scram_fini(struct scram *s);
