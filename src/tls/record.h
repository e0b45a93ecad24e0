// SPDX-License-Identifier: Apache-2.0
// Our own TLS 1.3 record layer: seals into and opens in place, on traffic secrets that the
// handshake handed over (RFC 8446 5 and 7).
//
// Shape of a record: 5 bytes header, content, 1 byte type, 16 bytes tag. A writer leaves
// TLS_RECORD_HEAD bytes before its content and TLS_RECORD_TAIL after it and calls tls_seal.
//
// I1  An idle connection costs sizeof(struct tls_record) and nothing else: expanded cipher contexts
//     live in a per-core cache and are rebuilt when needed.
// I2  A sequence number is used once per key: it is advanced in the same function that used it.
// I3  Once tls_open returned FAILED, CLOSED or PEER_ALERT nothing more is opened; after
//     tls_seal_alert nothing more is sealed (asserted).
// I4  A record that fails to open changes neither sequence number nor keys, and leaves no plaintext
//     behind.
// I5  A tls_record stays where it is while in use: the cache knows its directions by address.
#pragma once
#include "base/bytes.h"

#define TLS_RECORD_HEAD 5u
#define TLS_RECORD_TAIL 17u  // inner type and tag
#define TLS_RECORD_OVERHEAD (TLS_RECORD_HEAD + TLS_RECORD_TAIL)
#define TLS_RECORD_CONTENT_MAX 16384u
#define TLS_RECORD_BODY_MAX (TLS_RECORD_CONTENT_MAX + 256u)  // RFC 8446 5.2
#define TLS_RECORD_MAX (TLS_RECORD_HEAD + TLS_RECORD_BODY_MAX)
#define TLS_ALERT_RECORD_BYTES (TLS_RECORD_OVERHEAD + 2u)
#define TLS_KEY_UPDATE_RECORD_BYTES (TLS_RECORD_OVERHEAD + 5u)

enum tls_content {
  TLS_CONTENT_ALERT = 21,
  TLS_CONTENT_HANDSHAKE = 22,
  TLS_CONTENT_DATA = 23,
};

// One direction: 104 bytes.
struct tls_direction {
  u8 secret[48];  // application_traffic_secret_N, 32 or 48 bytes used
  u8 key[32];     // 16 or 32 bytes used
  u8 iv[12];
  u32 epoch;  // KeyUpdates so far
  u64 sequence;
};

// What is needed to judge the client certificate again: 56 bytes.
struct tls_certificate_id {
  u8 issuer[16];  // first half of SHA-256 over the name of the CA that issued it
  u8 anchor[8];   // start of SHA-256 over the configured CA that its chain ends in
  u8 serial[20];  // right-aligned, zero-padded (RFC 5280: at most 20 octets)
  u8 present;
  u8 spare[3];
  u64 not_after_s;
};

struct tls_record {
  struct tls_direction read;
  struct tls_direction write;
  struct tls_certificate_id client;
  u16 cipher_suite;
  u8 alert;       // the alert to send after FAILED, or received with PEER_ALERT
  u8 state;       // internal: TLS_RECORD_*
  u8 partial[5];  // a KeyUpdate that came in pieces
  u8 partial_len;
  u8 empty_count;       // records without content in a row
  u8 key_update_count;  // handshake messages without data in between
  bool from_server;     // we are the client: tickets may come, and are thrown away
  u32 skip;             // bytes of a ticket still to come
};
static_assert(sizeof(struct tls_record) <= 320, "the budget of an idle mTLS connection");

struct tls_cipher_cache;

// Bytes that a cache of `slots` expanded cipher contexts needs; slots: a power of two, 2..4096
// (one connection that reads and writes uses two).
usize tls_cipher_cache_bytes(u32 slots);
// Makes a cache in zeroed, 64-aligned memory of tls_cipher_cache_bytes(slots) bytes. One per core.
struct tls_cipher_cache *tls_cipher_cache_init(struct span memory, u32 slots);
struct tls_cipher_cache_stats {
  u64 hits, misses;
};
struct tls_cipher_cache_stats tls_cipher_cache_stats(const struct tls_cipher_cache *cache);

// Length of the whole record (header included, 22..TLS_RECORD_MAX) that begins with these five
// bytes; 0 when they cannot begin a record after the handshake (type 23, version 0x0303, length
// 17..TLS_RECORD_BODY_MAX), then tls_record_fault tells the alert. RFC 8446 5.1, 5.2.
u32 tls_record_length(const u8 header[TLS_RECORD_HEAD]);
u8 tls_record_fault(const u8 header[TLS_RECORD_HEAD]);

// Expands the keys of a record whose secrets, sequence numbers and suite are set; keeps the
// sequence numbers. tls_handshake_finish calls it; a test that makes its own secrets too.
void tls_record_start(struct tls_record *record);

// Seals buf[TLS_RECORD_HEAD .. +content_len) in place as one record at the start of buf.
// content_len 0..TLS_RECORD_CONTENT_MAX; buf.len >= content_len + TLS_RECORD_OVERHEAD (asserted).
// Returns the record's length: content_len + TLS_RECORD_OVERHEAD.
u32 tls_seal(struct tls_record *record, struct tls_cipher_cache *cache, struct span buf,
             u32 content_len, enum tls_content type);
// True when a KeyUpdate must go out before much more is sealed (RFC 8446 5.5: 2^24.5 records with
// AES-GCM; we ask at 2^23 and assert at 2^24).
bool tls_write_wants_update(const struct tls_record *record);
// Writes a KeyUpdate record and changes the write key. buf.len >= TLS_KEY_UPDATE_RECORD_BYTES.
// `request` asks the peer to change its own too.
u32 tls_seal_key_update(struct tls_record *record, struct tls_cipher_cache *cache, struct span buf,
                        bool request);
// Writes an alert record (close_notify, or record->alert after FAILED); nothing may be sealed after
// it. buf.len >= TLS_ALERT_RECORD_BYTES.
u32 tls_seal_alert(struct tls_record *record, struct tls_cipher_cache *cache, struct span buf,
                   u8 alert);

enum tls_open {
  TLS_OPEN_DATA,              // *content lies inside the record's buffer, len >= 1
  TLS_OPEN_NOTHING,           // accepted, nothing for the application
  TLS_OPEN_KEY_UPDATE_REPLY,  // the peer wants our key changed: tls_seal_key_update(false) next
  TLS_OPEN_CLOSED,            // close_notify
  TLS_OPEN_PEER_ALERT,        // any other alert; record->alert
  TLS_OPEN_FAILED,            // send tls_seal_alert(record->alert) and close
};
// Opens one whole record (tls_record_length bytes, header included) in place. *content is set with
// TLS_OPEN_DATA only. The plaintext is valid as long as the buffer is.
enum tls_open tls_open(struct tls_record *record, struct tls_cipher_cache *cache,
                       struct span sealed, struct span *content);

// Wipes the secrets and drops the cached contexts. Every connection ends with it.
void tls_record_fini(struct tls_record *record, struct tls_cipher_cache *cache);
