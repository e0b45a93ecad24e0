// SPDX-License-Identifier: Apache-2.0
// The cache of verified chains; see chain.h for what it may hold. Sets of four entries chosen by
// the key's first bytes: the key is a hash of data that a trusted CA signed, so nobody chooses sets
// who does not hold certificates. One core, as everything in tls: no entry is seen half written.
#include "tls/chain.h"

#include <openssl/pool.h>
#include <openssl/sha.h>

#define WAYS 4u

struct entry {
  u8 key[CHAIN_KEY];
  u64 used;  // the clock of its last use; 0: empty
  struct chain_facts facts;
  u8 names[__builtin_offsetof(struct tls_identity, text)];  // everything before the text
  u8 text[CHAIN_TEXT];
};

struct chain_cache {
  u32 entries;
  u64 clock;
  u64 hits, misses;
  struct entry entry[];
};

void chain_key(u8 out[CHAIN_KEY], const STACK_OF(CRYPTO_BUFFER) * certs) {
  SHA256_CTX sha;
  SHA256_Init(&sha);
  for (usize i = 0; i < sk_CRYPTO_BUFFER_num(certs); i++) {
    const CRYPTO_BUFFER *cert = sk_CRYPTO_BUFFER_value(certs, i);
    u8 len[8];
    store_be64(len, CRYPTO_BUFFER_len(cert));
    SHA256_Update(&sha, len, sizeof len);
    SHA256_Update(&sha, CRYPTO_BUFFER_data(cert), CRYPTO_BUFFER_len(cert));
  }
  SHA256_Final(out, &sha);
}

usize chain_cache_bytes(u32 entries) {
  ASSERT(entries >= WAYS && entries <= 65536);
  ASSERT((entries & (entries - 1)) == 0);
  return sizeof(struct chain_cache) + entries * sizeof(struct entry);
}

struct chain_cache *chain_cache_init(struct span memory, u32 entries) {
  ASSERT(memory.len >= chain_cache_bytes(entries));
  ASSERT((uptr)memory.ptr % 16 == 0);
  memset(memory.ptr, 0, chain_cache_bytes(entries));
  struct chain_cache *c = (struct chain_cache *)(void *)memory.ptr;
  c->entries = entries;
  return c;
}

static struct entry *set_of(struct chain_cache *c, const u8 key[CHAIN_KEY]) {
  u32 sets = c->entries / WAYS;
  return &c->entry[(load_le32(key) & (sets - 1)) * WAYS];
}

bool chain_cache_find(struct chain_cache *cache, const u8 key[CHAIN_KEY], struct chain_facts *facts,
                      struct tls_identity *out) {
  if (cache == NULL) {
    return false;
  }
  struct entry *set = set_of(cache, key);
  for (u32 i = 0; i < WAYS; i++) {
    struct entry *e = &set[i];
    if (e->used != 0 && memcmp(e->key, key, CHAIN_KEY) == 0) {
      e->used = ++cache->clock;
      *facts = e->facts;
      memcpy(out, e->names, sizeof e->names);
      memcpy(out->text, e->text, sizeof e->text);
      cache->hits++;
      return true;
    }
  }
  cache->misses++;
  return false;
}

// Behind the last name.
static u32 text_len(const struct tls_identity *id) {
  const struct part *names[] = {&id->cn, &id->subject, &id->san_dns, &id->san_email};
  u32 end = 0;
  for (u32 i = 0; i < ARRAY_COUNT(names); i++) {
    end = MAX(end, names[i]->off + names[i]->len);
  }
  return end;
}

void chain_cache_add(struct chain_cache *cache, const u8 key[CHAIN_KEY],
                     const struct chain_facts *facts, const struct tls_identity *identity) {
  ASSERT(facts->count > 0);
  if (cache == NULL || facts->count > CHAIN_CERTS || text_len(identity) > CHAIN_TEXT) {
    return;
  }
  struct entry *set = set_of(cache, key);
  struct entry *oldest = &set[0];
  for (u32 i = 0; i < WAYS; i++) {
    oldest = set[i].used < oldest->used ? &set[i] : oldest;
    ASSERT(set[i].used == 0 || memcmp(set[i].key, key, CHAIN_KEY) != 0);  // else it was found
  }
  memcpy(oldest->key, key, CHAIN_KEY);
  oldest->facts = *facts;
  memcpy(oldest->names, identity, sizeof oldest->names);
  memcpy(oldest->text, identity->text, sizeof oldest->text);
  oldest->used = ++cache->clock;
}

struct chain_stats chain_cache_stats(const struct chain_cache *cache) {
  if (cache == NULL) {
    return (struct chain_stats){0};
  }
  return (struct chain_stats){cache->entries, cache->hits, cache->misses};
}
