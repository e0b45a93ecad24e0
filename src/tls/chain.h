// SPDX-License-Identifier: Apache-2.0
// What has been learned of a client's certificate chain, and a bounded memory of it: a device that
// comes back with the chain it showed before is spared the CA's signatures and the path building,
// which never come out differently for the same bytes and the same context.
//
// I1  Keyed by SHA-256 over the presented chain, every length included: one bit more or less is
//     another chain. A cache belongs to one context, whose CAs never change (tls.h I3).
// I2  Only chains that were found good are kept. Proof of possession, dates and revocation are not
//     part of what is kept: they are judged in every handshake, the first of them by the library.
// I3  The number of entries is fixed; in a full set the one longest unused is replaced. The cache
//     lies in its context's memory and is wiped with it.
#pragma once
#include <openssl/ssl.h>

#include "tls/cert.h"
#include "tls/tls.h"

#define CHAIN_KEY SHA256_DIGEST_LENGTH
#define CHAIN_CERTS 3u   // leaf and two intermediates; a longer chain is judged anew each time
#define CHAIN_TEXT 192u  // names; with longer ones likewise

// Of one certificate below the configured CA.
struct cert_fact {
  u8 issuer[CERT_NAME_HASH];  // its issuer's name as that CA itself spells it
  u8 serial[CERT_SERIAL];
  u64 not_before_s;
  u64 not_after_s;
};
struct chain_facts {
  u32 count;     // certificates below the configured CA; of more than CHAIN_CERTS only the first
  u8 anchor[8];  // fingerprint of the configured CA
  struct cert_fact cert[CHAIN_CERTS];  // leaf first
};

struct chain_cache;
struct chain_stats {
  u32 entries;
  u64 hits, misses;
};

void chain_key(u8 out[CHAIN_KEY], const STACK_OF(CRYPTO_BUFFER) * certs);
// Bytes of a cache; entries: a power of two, 4 to 65536.
usize chain_cache_bytes(u32 entries);
// In memory of chain_cache_bytes, 16-aligned; need not be zeroed.
struct chain_cache *chain_cache_init(struct span memory, u32 entries);
// The cache may be NULL: then nothing is known and nothing is kept. Names of the leaf go to `out`
// (fields of the connection, as the cipher suite, are not among them).
bool chain_cache_find(struct chain_cache *cache, const u8 key[CHAIN_KEY], struct chain_facts *facts,
                      struct tls_identity *out);
void chain_cache_add(struct chain_cache *cache, const u8 key[CHAIN_KEY],
                     const struct chain_facts *facts, const struct tls_identity *identity);
struct chain_stats chain_cache_stats(const struct chain_cache *cache);
