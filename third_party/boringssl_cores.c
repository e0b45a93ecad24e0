// SPDX-License-Identifier: Apache-2.0
// The library's locks, once-flags and thread-locals for several cores, in the place of its thread_none.c (built
// without threads, these types are a byte or a word). A lock spins: what it guards (a reference count, a lazily
// computed field) is a few instructions, and nothing that holds one waits or yields. Which words pair: each lock and
// once-flag with itself.
#include "internal.h"

#define FREE 0
#define TAKEN 1
#define ONCE_RUNS 1u
#define ONCE_DONE 2u

static void lock(char *l) {
  while (__atomic_exchange_n(l, TAKEN, __ATOMIC_ACQUIRE) != FREE) {
    while (__atomic_load_n(l, __ATOMIC_RELAXED) != FREE) {
    }
  }
}

static void unlock(char *l) {
  __atomic_store_n(l, FREE, __ATOMIC_RELEASE);
}

void CRYPTO_MUTEX_init(CRYPTO_MUTEX *l) { l->padding = FREE; }
void CRYPTO_MUTEX_lock_read(CRYPTO_MUTEX *l) { lock(&l->padding); }
void CRYPTO_MUTEX_lock_write(CRYPTO_MUTEX *l) { lock(&l->padding); }
void CRYPTO_MUTEX_unlock_read(CRYPTO_MUTEX *l) { unlock(&l->padding); }
void CRYPTO_MUTEX_unlock_write(CRYPTO_MUTEX *l) { unlock(&l->padding); }
void CRYPTO_MUTEX_cleanup(CRYPTO_MUTEX *l) { (void)l; }
void CRYPTO_STATIC_MUTEX_lock_read(struct CRYPTO_STATIC_MUTEX *l) { lock(&l->padding); }
void CRYPTO_STATIC_MUTEX_lock_write(struct CRYPTO_STATIC_MUTEX *l) { lock(&l->padding); }
void CRYPTO_STATIC_MUTEX_unlock_read(struct CRYPTO_STATIC_MUTEX *l) { unlock(&l->padding); }
void CRYPTO_STATIC_MUTEX_unlock_write(struct CRYPTO_STATIC_MUTEX *l) { unlock(&l->padding); }

void CRYPTO_once(CRYPTO_once_t *once, void (*init)(void)) {
  if (__atomic_load_n(once, __ATOMIC_ACQUIRE) == ONCE_DONE) {
    return;
  }
  CRYPTO_once_t was = CRYPTO_ONCE_INIT;
  if (__atomic_compare_exchange_n(once, &was, ONCE_RUNS, 0, __ATOMIC_ACQUIRE, __ATOMIC_ACQUIRE)) {
    init();
    __atomic_store_n(once, ONCE_DONE, __ATOMIC_RELEASE);
    return;
  }
  while (__atomic_load_n(once, __ATOMIC_ACQUIRE) != ONCE_DONE) {
  }
}

static __thread void *core_locals[NUM_OPENSSL_THREAD_LOCALS];

void *CRYPTO_get_thread_local(thread_local_data_t index) {
  return core_locals[index];
}

int CRYPTO_set_thread_local(thread_local_data_t index, void *value, thread_local_destructor_t destructor) {
  (void)destructor;  // a core lasts as long as the program
  core_locals[index] = value;
  return 1;
}
