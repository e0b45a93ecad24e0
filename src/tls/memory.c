// SPDX-License-Identifier: Apache-2.0
// The library's hooks: memory (OPENSSL_memory_*) and random bytes (CRYPTO_sysrand*), and tls_init.
//
// Every core calls the library: the arena is the core's own, the library's locks and thread-locals
// are third_party/boringssl_cores.c, and the heap, which only contexts and each core's beginning
// take from, is one for all behind a lock (pairs with itself) that no step of a handshake takes.
//
// I1  What the library makes once for good is made in tls_init, on the heap: the generator's state,
//     the groups of all curves (a client's certificate names one, also one that we then refuse),
//     the error queue. Made later, it would lie in the arena of whatever handshake ran then, and
//     vanish with it.
// I2  Freed memory is wiped (alloc I2), which the library demands of this hook.
#include "tls/memory.h"

#include <openssl/aead.h>
#include <openssl/crypto.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/nid.h>
#include <openssl/rand.h>

#include "base/shared.h"
#include "tls/tls.h"

void *OPENSSL_memory_alloc(usize len);
void OPENSSL_memory_free(void *p);
usize OPENSSL_memory_get_size(void *p);
void CRYPTO_sysrand(u8 *out, usize len);
void CRYPTO_sysrand_for_seed(u8 *out, usize len);

static struct alloc heap;
static u32 heap_taken;
static CORE_LOCAL struct alloc *arena;  // of the handshake that runs, or NULL
static void (*random_bytes)(struct span out);

void memory_init(struct span memory) {
  ASSERT(heap.base == NULL);
  alloc_init(&heap, memory);
}

void memory_enter(struct alloc *a) {
  ASSERT(arena == NULL);
  ASSERT(a != NULL);
  arena = a;
}

void memory_leave(void) {
  ASSERT(arena != NULL);
  arena = NULL;
}

u32 memory_refused(void) {
  ASSERT(arena != NULL);
  return arena->refused;
}

struct alloc *memory_heap(void) {
  ASSERT(heap.base != NULL);
  return &heap;
}

void *memory_heap_take(usize len) {
  ASSERT(heap.base != NULL);
  shared_lock(&heap_taken);
  void *p = alloc_take(&heap, len);
  shared_unlock(&heap_taken);
  return p;
}

void memory_heap_put(void *p) {
  shared_lock(&heap_taken);
  alloc_put(&heap, p);
  shared_unlock(&heap_taken);
}

void *OPENSSL_memory_alloc(usize len) {
  return arena != NULL ? alloc_take(arena, len) : memory_heap_take(len);
}

void OPENSSL_memory_free(void *p) {
  if (alloc_owns(&heap, p)) {
    memory_heap_put(p);
    return;
  }
  ASSERT(arena != NULL);
  alloc_put(arena, p);
}

usize OPENSSL_memory_get_size(void *p) {
  return alloc_size(alloc_owns(&heap, p) ? &heap : arena, p);
}

void CRYPTO_sysrand(u8 *out, usize len) {
  ASSERT(random_bytes != NULL);
  random_bytes(span_of(out, len));
}

void CRYPTO_sysrand_for_seed(u8 *out, usize len) {
  CRYPTO_sysrand(out, len);
}

void tls_core_init(void) {
  u8 first[16];
  ASSERT(arena == NULL);
  int ok = RAND_bytes(first, sizeof first);
  ASSERT(ok == 1);
  mem_wipe(first, sizeof first);
  ERR_clear_error();
}

void tls_init(struct span memory, void (*random)(struct span out)) {
  ASSERT(random != NULL);
  ASSERT(random_bytes == NULL);
  random_bytes = random;
  memory_init(memory);
  CRYPTO_library_init();
  tls_core_init();
  static const int curves[] = {NID_secp224r1, NID_X9_62_prime256v1, NID_secp384r1, NID_secp521r1};
  for (u32 i = 0; i < ARRAY_COUNT(curves); i++) {
    const EC_GROUP *group = EC_GROUP_new_by_curve_name(curves[i]);
    ASSERT(group != NULL);
  }
  ERR_clear_error();
}

u64 tls_heap_used(void) {
  return heap.used;
}

const char *tls_describe_cpu(void) {
  if (EVP_has_aes_hardware()) {
    return "AES and carry-less multiplication in hardware: the client's choice of cipher is "
           "followed";
  }
  return "no AES instructions: ChaCha20-Poly1305 is preferred, AES is served by slower "
         "constant-time "
         "code";
}
