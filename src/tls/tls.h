// SPDX-License-Identifier: Apache-2.0
// TLS 1.3, both sides: contexts (certificates, keys, revocation) and handshakes. What comes after
// the handshake is in tls/record.h.
//
// Who may call: one core at a time (the library under us is built without threads); contexts are
// made at start or on reload, handshakes on a fiber of the connection's core.
//
// I1  No socket, no clock: bytes come in and go out in slices, time is a parameter.
// I2  Everything a handshake allocates lies in the arena its caller gave, which is wiped by
//     tls_handshake_finish or tls_handshake_abort. Contexts live in the heap given to tls_init.
// I3  A context never changes after tls_context_new, but for what it remembers of clients
//     (tls/chain.h): a reload makes a new one and drops the old one's reference; handshakes under
//     way keep theirs.
// I4  A resumed client is judged again: dates, revocation and the set of CAs (a ticket made under
//     another set of CAs is not accepted and a full handshake follows).
//
// Specifications: RFC 8446 (TLS 1.3), RFC 5280 (certificates, CRLs), RFC 7301 (ALPN).
#pragma once
#include "base/bytes.h"

// Memory for one handshake, ticket included. Measured peaks (docs/adr/0003): P-256 18.6 KB,
// RSA-2048 23.9 KB, a client behind an intermediate 25.9 KB, RSA-4096 behind an RSA-4096
// intermediate 43.5 KB; a longer chain is refused (TLS_REASON_NO_MEMORY). The sanitizers' red zones
// come on top.
#define TLS_ARENA_BYTES (49152u + POOL_REDZONE * 768u)
// Stack for tls_handshake_begin, _step, _finish and _abort below their caller's frame (measured:
// 6.3 KB with P-256, 9.5 KB with RSA; sanitizers make frames larger).
#define TLS_HANDSHAKE_STACK_BYTES (16384u + POOL_REDZONE * 4096u)
// Heap for tls_init: the library's own state and about four contexts with a handful of CAs; add the
// size of the CA and CRL files once more for large ones.
#define TLS_HEAP_BYTES (256u << 10)
#define TLS_HEAP_MAX (64u << 20)  // what the allocator of alloc.h manages
#define TLS_TICKET_KEY_BYTES 48u

struct tls_context;
struct tls_handshake;
struct tls_record;

// Alerts we send or name (RFC 8446 6).
enum tls_alert {
  TLS_ALERT_CLOSE_NOTIFY = 0,
  TLS_ALERT_UNEXPECTED_MESSAGE = 10,
  TLS_ALERT_BAD_RECORD_MAC = 20,
  TLS_ALERT_RECORD_OVERFLOW = 22,
  TLS_ALERT_HANDSHAKE_FAILURE = 40,
  TLS_ALERT_BAD_CERTIFICATE = 42,
  TLS_ALERT_UNSUPPORTED_CERTIFICATE = 43,
  TLS_ALERT_CERTIFICATE_REVOKED = 44,
  TLS_ALERT_CERTIFICATE_EXPIRED = 45,
  TLS_ALERT_CERTIFICATE_UNKNOWN = 46,
  TLS_ALERT_ILLEGAL_PARAMETER = 47,
  TLS_ALERT_UNKNOWN_CA = 48,
  TLS_ALERT_DECODE_ERROR = 50,
  TLS_ALERT_DECRYPT_ERROR = 51,
  TLS_ALERT_PROTOCOL_VERSION = 70,
  TLS_ALERT_INTERNAL_ERROR = 80,
  TLS_ALERT_CERTIFICATE_REQUIRED = 116,
  TLS_ALERT_NO_APPLICATION_PROTOCOL = 120,
};

// What is known of the time, in seconds since 1970 (from plat_wall).
struct tls_time {
  u64 unix_s;        // best estimate
  u64 lower_unix_s;  // certainly not earlier than this; notAfter is judged by it
  bool trusted;      // quality of unix_s is good: notBefore is judged by it
};

// --- Start

// Once, before anything else here. `heap` serves contexts for the program's life; `random` fills
// its span with unpredictable bytes, never fails and does not call back into tls.
void tls_init(struct span heap, void (*random)(struct span out));
// On each other core, before it handshakes: its generator's state.
void tls_core_init(void);
// Bytes of the heap in use and its size.
u64 tls_heap_used(void);
// One sentence for the console: which ciphers this processor runs fast, and what is preferred.
const char *tls_describe_cpu(void);

// --- Contexts

struct tls_config {
  struct bytes certificate;  // PEM: server certificate, then its intermediates
  struct bytes key;          // PEM: PKCS#1, SEC1 or PKCS#8, not encrypted
  struct bytes ca;           // PEM: trusted CAs; empty only when no client certificate is required
  const struct bytes *more_ca;  // further texts of CAs (mosquitto's capath)
  u32 more_ca_count;
  struct bytes crl;   // PEM: one CRL for each CA that issues client certificates; or empty
  bool client;        // for connections that we open: `ca` judges the server; certificate and
                      // key may both be empty; no tickets, no remembered chains
  struct bytes alpn;  // client: the one protocol to offer; empty = none
  bool require_certificate;  // mosquitto's require_certificate
  bool alpn_mqtt;            // refuse a client that does not offer ALPN "mqtt" (alert 120)
  bool tickets;              // session resumption
  u32 cached_chains;         // client chains remembered after they were found good; 0 = none
  u8 ticket_key[TLS_TICKET_KEY_BYTES];  // secret; the same on all contexts that shall resume
                                        // each other's sessions
};

enum tls_input {
  TLS_INPUT_NONE,
  TLS_INPUT_CERTIFICATE,
  TLS_INPUT_KEY,
  TLS_INPUT_CA,
  TLS_INPUT_CRL,
};
// Why a configuration is refused: which of the four texts, the line in it (from 1; 0 = the whole),
// and a sentence without a full stop.
struct tls_problem {
  enum tls_input input;
  u32 line;
  char reason[160];
};

// Reads and checks everything in `config` (copied, not kept). `now` may be NULL: then no date is
// judged. OWNED: reference count 1. NULL with *problem set when anything is wrong: syntax, a key
// that does not match, an expired CA or server certificate, a CRL nobody trusted has signed.
OWNED struct tls_context *tls_context_new(const struct tls_config *config,
                                          const struct tls_time *now, struct tls_problem *problem);
struct tls_context *tls_context_ref(struct tls_context *context);
void tls_context_unref(struct tls_context *context CONSUMES);

// Figures for `--check` and the console.
struct tls_context_info {
  u64 certificate_not_after_s;  // of the server certificate
  u64 ca_not_after_s;           // the earliest of the CAs; U64_MAX without CAs
  u64 crl_next_update_s;        // the earliest; U64_MAX without a CRL or such a date
  u32 ca_count;
  u32 revoked_count;
  u32 chains_kept;    // most client chains that are remembered
  u64 chain_hits;     // chains that were known
  u64 chain_misses;   // and those that were judged from the start
  char key_type[16];  // "P-256", "Ed25519", "RSA-2048" ...
};
void tls_context_info(const struct tls_context *context, struct tls_context_info *out);

// --- Handshakes

enum tls_step {
  TLS_STEP_WANT_INPUT,   // all of `in` was consumed; call again with more
  TLS_STEP_WANT_OUTPUT,  // `out` is full; send it and call again
  TLS_STEP_DONE,    // secrets are ready: send `out`, then tls_handshake_finish. What is left of
                    // `in` belongs to the record layer.
  TLS_STEP_FAILED,  // send `out` (it ends with the alert), log, then tls_handshake_abort
};

enum tls_reason {
  TLS_REASON_NONE,
  TLS_REASON_OLD_TLS,         // the client speaks TLS 1.2 or older
  TLS_REASON_NO_CERTIFICATE,  // and one is required
  TLS_REASON_UNKNOWN_CA,
  TLS_REASON_NO_CRL,  // a CRL is configured, but none of the CA that issued this certificate
  TLS_REASON_EXPIRED,
  TLS_REASON_NOT_YET_VALID,
  TLS_REASON_REVOKED,
  TLS_REASON_CRL_EXPIRED,
  TLS_REASON_BAD_CERTIFICATE,
  TLS_REASON_ALPN,
  TLS_REASON_NO_SHARED_CIPHER,  // cipher suite, group or signature algorithm
  TLS_REASON_PEER_ALERT,        // the client refused us; `alert` is the one it sent
  TLS_REASON_PROTOCOL,          // malformed or out of order
  TLS_REASON_NO_MEMORY,         // the arena is too small for this handshake
  TLS_REASON_WRONG_NAME,        // the server's certificate is somebody else's
  TLS_REASON_COUNT
};
struct tls_failure {
  enum tls_reason reason;
  u8 alert;          // enum tls_alert, sent (or received when the reason is PEER_ALERT)
  const char *text;  // a sentence for the log, static
};

// Starts a handshake in `arena` (at least TLS_ARENA_BYTES, 16-aligned, owned by the handshake until
// finish or abort). `now` is copied. Takes a reference to the context. NULL when the arena is too
// small.
OWNED struct tls_handshake *tls_handshake_begin(struct tls_context *context, struct span arena,
                                                const struct tls_time *now);
// The same for a context with `client`. The server's certificate must name `host` (a DNS name or
// an address as text, at most 253 bytes, copied; it is also the server name indication); with
// `any_name` the chain alone is judged.
OWNED struct tls_handshake *tls_handshake_begin_client(struct tls_context *context,
                                                       struct span arena,
                                                       const struct tls_time *now,
                                                       struct bytes host, bool any_name);
// Takes bytes from the peer and gives bytes for it; both may be empty. *consumed and *produced are
// set in every case. `out` of 4 KiB serves a usual flight in one call; any size >= 16 works.
enum tls_step tls_handshake_step(struct tls_handshake *hs, struct bytes in, u32 *consumed,
                                 struct span out, u32 *produced);
// After TLS_STEP_FAILED.
struct tls_failure tls_handshake_failure(const struct tls_handshake *hs);

// Who the client is. Text lies in the caller's buffer; what does not fit is cut to nothing (len 0),
// never to a part: a cut name could be somebody else's.
#define TLS_IDENTITY_TEXT 512u
struct tls_identity {
  bool has_certificate;
  bool resumed;
  bool alpn_mqtt;
  u16 cipher_suite;     // RFC 8446 B.4
  u16 group;            // RFC 8446 4.2.7; 0 when unknown
  struct part cn;       // first common name (as mosquitto), UTF-8; len 0 with a NUL inside
  struct part subject;  // RFC 2253 text, as mosquitto's use_subject_as_username
  struct part san_dns;  // first dNSName
  struct part san_email;
  u8 text[TLS_IDENTITY_TEXT];
};
// Hands secrets and sequence numbers over to the record layer, frees the library's object, wipes
// the arena. After TLS_STEP_DONE only. `identity` may be NULL.
void tls_handshake_finish(struct tls_handshake *hs CONSUMES, struct tls_record *record,
                          struct tls_identity *identity);
// Ends a handshake at any point; wipes the arena.
void tls_handshake_abort(struct tls_handshake *hs CONSUMES);

// --- Judging a live connection again (after a reload of the CRL or CAs, or daily)

// TLS_REASON_NONE when the client certificate of this connection is still good by `context`.
enum tls_reason tls_recheck(const struct tls_context *context, const struct tls_record *record,
                            const struct tls_time *now);
const char *tls_reason_text(enum tls_reason reason);
