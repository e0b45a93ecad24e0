// SPDX-License-Identifier: Apache-2.0
// The few atomics there are: words in memory that more than one core touches. Whoever uses one says
// beside it which access on another core it pairs with. Everything else in the program belongs to
// one core.
#pragma once
#include "base/cc.h"

// What the other core wrote before its shared_release of this value is seen after this load.
static inline u32 shared_acquire_u32(const u32 *p) {
  return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}
static inline u64 shared_acquire_u64(const u64 *p) {
  return __atomic_load_n(p, __ATOMIC_ACQUIRE);
}
static inline void shared_release_u32(u32 *p, u32 v) {
  __atomic_store_n(p, v, __ATOMIC_RELEASE);
}
static inline void shared_release_u64(u64 *p, u64 v) {
  __atomic_store_n(p, v, __ATOMIC_RELEASE);
}
// Whole, but ordered with nothing: counters that are only looked at.
static inline u32 shared_relaxed_u32(const u32 *p) {
  return __atomic_load_n(p, __ATOMIC_RELAXED);
}
static inline u64 shared_relaxed_u64(const u64 *p) {
  return __atomic_load_n(p, __ATOMIC_RELAXED);
}
// "I write my word, then read yours" on both sides: at least one of two cores sees the other's.
// Each of the four accesses is one of these (sequentially consistent), so that no fence is needed.
static inline u32 shared_ordered_load_u32(const u32 *p) {
  return __atomic_load_n(p, __ATOMIC_SEQ_CST);
}
static inline u64 shared_ordered_load_u64(const u64 *p) {
  return __atomic_load_n(p, __ATOMIC_SEQ_CST);
}
static inline void shared_ordered_store_u32(u32 *p, u32 v) {
  __atomic_store_n(p, v, __ATOMIC_SEQ_CST);
}
static inline void shared_ordered_store_u64(u64 *p, u64 v) {
  __atomic_store_n(p, v, __ATOMIC_SEQ_CST);
}
// Stores v and tells what stood there: of several cores one gets it.
static inline u32 shared_exchange_u32(u32 *p, u32 v) {
  return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST);
}
static inline u64 shared_add_u64(u64 *p, u64 v) {
  return __atomic_add_fetch(p, v, __ATOMIC_SEQ_CST);
}
// Stacks that are taken whole: a new head is put in place of the one it links to (release), and all
// is taken by storing NULL (acquire).
static inline void *shared_relaxed_ptr(void *const *p) {
  return __atomic_load_n(p, __ATOMIC_RELAXED);
}
static inline void *shared_ordered_load_ptr(void *const *p) {
  return __atomic_load_n(p, __ATOMIC_SEQ_CST);
}
static inline bool shared_replace_ptr(void **p, void *was, void *v) {
  return __atomic_compare_exchange_n(p, &was, v, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED);
}
static inline void *shared_exchange_ptr(void **p, void *v) {
  return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST);
}
// A lock, for what is no part of the data path: it spins, and who holds it does not wait.
static inline void shared_lock(u32 *lock) {
  while (__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE) != 0) {
  }
}
static inline void shared_unlock(u32 *lock) {
  __atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}
// What stands before it is seen by every core before what stands behind it happens.
static inline void shared_fence(void) {
  __atomic_thread_fence(__ATOMIC_SEQ_CST);
}
