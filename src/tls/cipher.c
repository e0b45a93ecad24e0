// SPDX-License-Identifier: Apache-2.0
// Key schedule of one direction (RFC 8446 7.1-7.3) and the cache of expanded cipher contexts.
//
// The cache is set-associative: a direction hashes to a set of WAYS slots, the least recently used
// of which is replaced. So a look-up reads at most WAYS tags, whatever the number of connections,
// and a slot is named by the direction's address, epoch and IV. Addresses are reused after
// tls_record_fini, which drops the slots; the IV, derived of the secret as the key is, makes a slot
// that was forgotten to be dropped useless instead of wrong.
#include "tls/cipher.h"

#include <openssl/sha.h>

#define WAYS 2u

struct slot {
  const struct tls_direction *owner;  // NULL: free
  u32 epoch;
  u32 used;   // value of the cache's clock at last use
  u8 iv[12];  // of the direction: a second opinion on whose slot this is
  EVP_AEAD_CTX context;
};

struct tls_cipher_cache {
  u32 set_count;  // power of two
  u32 clock;
  struct tls_cipher_cache_stats stats;
  u64 spare[4];
  struct slot slot[];
};

static const struct cipher_suite suites[] = {
    {TLS_AES_128_GCM_SHA256, 32, 16, true},
    {TLS_AES_256_GCM_SHA384, 48, 32, true},
    {TLS_CHACHA20_POLY1305_SHA256, 32, 32, false},
};

const struct cipher_suite *cipher_suite_find(u16 id) {
  for (u32 i = 0; i < ARRAY_COUNT(suites); i++) {
    if (suites[i].id == id) {
      return &suites[i];
    }
  }
  return NULL;
}

static const EVP_AEAD *aead_of(const struct cipher_suite *suite) {
  switch (suite->id) {
  case TLS_AES_128_GCM_SHA256: return EVP_aead_aes_128_gcm();
  case TLS_AES_256_GCM_SHA384: return EVP_aead_aes_256_gcm();
  default: ASSERT(suite->id == TLS_CHACHA20_POLY1305_SHA256); return EVP_aead_chacha20_poly1305();
  }
}

// HMAC (RFC 2104) of one short message under a key no longer than a hash: nothing is allocated,
// which the library's own HMAC does.
static void hmac(u8 *out, struct bytes key, struct bytes message) {
  u8 pad[SHA512_CBLOCK] = {0};
  u32 block = key.len == SHA384_DIGEST_LENGTH ? SHA512_CBLOCK : SHA256_CBLOCK;
  ASSERT(key.len <= SHA384_DIGEST_LENGTH);
  memcpy(pad, key.ptr, key.len);
  union {
    SHA256_CTX sha256;
    SHA512_CTX sha384;
  } hash;
  for (u32 pass = 0; pass < 2; pass++) {
    for (u32 i = 0; i < block; i++) {
      pad[i] ^= pass == 0 ? 0x36 : 0x36 ^ 0x5c;
    }
    struct bytes data = pass == 0 ? message : bytes_of(out, key.len);
    if (block == SHA256_CBLOCK) {
      SHA256_Init(&hash.sha256);
      SHA256_Update(&hash.sha256, pad, block);
      SHA256_Update(&hash.sha256, data.ptr, data.len);
      SHA256_Final(out, &hash.sha256);
    } else {
      SHA384_Init(&hash.sha384);
      SHA384_Update(&hash.sha384, pad, block);
      SHA384_Update(&hash.sha384, data.ptr, data.len);
      SHA384_Final(out, &hash.sha384);
    }
  }
  mem_wipe(pad, sizeof pad);
  mem_wipe(&hash, sizeof hash);
}

// HKDF-Expand-Label (RFC 8446 7.1) with an empty context, for outputs of at most one hash, which is
// all that a traffic secret needs. The label includes the "tls13 " prefix.
static void expand_label(struct span out, struct bytes secret, const char *label) {
  u8 info[40];
  struct writer w = writer_init(span_of(info, sizeof info));
  write_be16(&w, (u16)out.len);
  write_u8(&w, (u8)strlen(label));
  write_str(&w, label);
  write_u8(&w, 0);
  write_u8(&w, 1);  // HKDF's counter: the first block
  ASSERT(w.err == ERR_OK);
  ASSERT(out.len <= secret.len);
  u8 block[SHA384_DIGEST_LENGTH];
  hmac(block, secret, writer_bytes(&w));
  memcpy(out.ptr, block, out.len);
  mem_wipe(block, sizeof block);
}

void cipher_direction_expand(struct tls_direction *d, const struct cipher_suite *suite) {
  struct bytes secret = bytes_of(d->secret, suite->hash_len);
  expand_label(span_of(d->key, suite->key_len), secret, "tls13 key");
  expand_label(span_of(d->iv, sizeof d->iv), secret, "tls13 iv");
  d->sequence = 0;
}

void cipher_direction_update(struct tls_direction *d, const struct cipher_suite *suite) {
  u8 next[48];
  expand_label(span_of(next, suite->hash_len), bytes_of(d->secret, suite->hash_len),
               "tls13 traffic upd");
  memcpy(d->secret, next, suite->hash_len);
  mem_wipe(next, sizeof next);
  ASSERT(d->epoch < U32_MAX);
  d->epoch++;
  cipher_direction_expand(d, suite);
}

usize tls_cipher_cache_bytes(u32 slots) {
  ASSERT(slots >= WAYS);
  ASSERT(slots <= 4096);
  ASSERT(IS_POWER_OF_TWO(slots));
  return sizeof(struct tls_cipher_cache) + (usize)slots * sizeof(struct slot);
}

struct tls_cipher_cache *tls_cipher_cache_init(struct span memory, u32 slots) {
  ASSERT(memory.len >= tls_cipher_cache_bytes(slots));
  ASSERT((uptr)memory.ptr % 16 == 0);
  struct tls_cipher_cache *cache = (struct tls_cipher_cache *)(void *)memory.ptr;
  *cache = (struct tls_cipher_cache){.set_count = slots / WAYS};
  for (u32 i = 0; i < slots; i++) {
    cache->slot[i].owner = NULL;
  }
  return cache;
}

struct tls_cipher_cache_stats tls_cipher_cache_stats(const struct tls_cipher_cache *cache) {
  return cache->stats;
}

static struct slot *set_of(struct tls_cipher_cache *cache, const struct tls_direction *d) {
  u64 hash = (u64)(uptr)d * 0x9e3779b97f4a7c15ull;
  return &cache->slot[(hash >> 32) % cache->set_count * WAYS];
}

static void slot_drop(struct slot *slot) {
  EVP_AEAD_CTX_cleanup(&slot->context);
  mem_wipe(slot, sizeof *slot);
}

const EVP_AEAD_CTX *cipher_context(struct tls_cipher_cache *cache, const struct tls_direction *d,
                                   const struct cipher_suite *suite) {
  struct slot *set = set_of(cache, d);
  struct slot *victim = &set[0];
  cache->clock++;
  for (u32 i = 0; i < WAYS; i++) {
    if (set[i].owner == d && set[i].epoch == d->epoch &&
        memcmp(set[i].iv, d->iv, sizeof d->iv) == 0) {
      set[i].used = cache->clock;
      cache->stats.hits++;
      return &set[i].context;
    }
    bool better = set[i].owner == NULL || cache->clock - set[i].used > cache->clock - victim->used;
    victim = victim->owner != NULL && better ? &set[i] : victim;
  }
  cache->stats.misses++;
  if (victim->owner != NULL) {
    slot_drop(victim);
  }
  victim->owner = d;
  victim->epoch = d->epoch;
  victim->used = cache->clock;
  memcpy(victim->iv, d->iv, sizeof d->iv);
  // These three ciphers keep their state in the context itself and allocate nothing.
  int ok = EVP_AEAD_CTX_init(&victim->context, aead_of(suite), d->key, suite->key_len,
                             EVP_AEAD_DEFAULT_TAG_LENGTH, NULL);
  ASSERT(ok == 1);
  return &victim->context;
}

void cipher_forget(struct tls_cipher_cache *cache, const struct tls_direction *d) {
  struct slot *set = set_of(cache, d);
  for (u32 i = 0; i < WAYS; i++) {
    if (set[i].owner == d) {
      slot_drop(&set[i]);
    }
  }
}
