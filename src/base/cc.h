// SPDX-License-Identifier: Apache-2.0
// The dialect in one place: fixed-width names, attributes, and what clang 19 and gcc 12 spell
// differently. Everything includes this; it includes nothing. One of the two places where `#if` is
// allowed (STYLE: Dialect).
#pragma once

typedef __UINT8_TYPE__ u8;
typedef __UINT16_TYPE__ u16;
typedef __UINT32_TYPE__ u32;
typedef __UINT64_TYPE__ u64;
typedef __INT8_TYPE__ i8;
typedef __INT16_TYPE__ i16;
typedef __INT32_TYPE__ i32;
typedef __INT64_TYPE__ i64;
typedef __SIZE_TYPE__ usize;
typedef __UINTPTR_TYPE__ uptr;

#if !defined(__cplusplus) && (!defined(__STDC_VERSION__) || __STDC_VERSION__ < 202311L) && \
    !defined(bool)
#define bool _Bool
#define true 1
#define false 0
#define static_assert _Static_assert
#endif
#ifndef NULL
#define NULL ((void *)0)
#endif

#define U16_MAX 0xffffu
#define U32_MAX 0xffffffffu
#define U64_MAX 0xffffffffffffffffull

#define NORETURN __attribute__((noreturn))
#define PACKED __attribute__((packed))
#define ALIGNED(n) __attribute__((aligned(n)))
#define SECTION(name) __attribute__((section(name), used))
#define PRINTF_LIKE(f, a) __attribute__((format(printf, f, a)))
#define ALWAYS_INLINE inline __attribute__((always_inline))
#define NOINLINE __attribute__((noinline))
#define NO_STACK_PROTECTOR __attribute__((no_stack_protector))
#define NO_CFI __attribute__((no_sanitize("kcfi")))  // calls code that is not ours
#define UNUSED __attribute__((unused))
#define CORE_LOCAL __thread  // one a core; zero at first
#define NODISCARD __attribute__((warn_unused_result))
#define FALLTHROUGH __attribute__((fallthrough))
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

// Ownership, greppable (STYLE: Bytes, ownership, errors). On a parameter: the callee releases it,
// also on error. On a result: the caller must release it.
#define CONSUMES
#define OWNED

#define OFFSETOF(type, member) __builtin_offsetof(type, member)
#define CONTAINER_OF(ptr, type, member) ((type *)(void *)((u8 *)(ptr)-OFFSETOF(type, member)))
#define ARRAY_COUNT(a) (sizeof(a) / sizeof((a)[0]))
#define MIN(a, b) ((a) < (b) ? (a) : (b))
#define MAX(a, b) ((a) > (b) ? (a) : (b))
#define ALIGN_UP(x, n) (((x) + (n)-1) & ~((__typeof__(x))(n)-1))
#define ALIGN_DOWN(x, n) ((x) & ~((__typeof__(x))(n)-1))
#define IS_POWER_OF_TWO(x) ((x) != 0 && ((x) & ((x)-1)) == 0)

// Loop annotations for the proofs (reference: CBMC loop contracts); empty in every other build.
#ifdef CBMC
#define LOOP_INVARIANT(...) __CPROVER_loop_invariant(__VA_ARGS__)
#define LOOP_ASSIGNS(...) __CPROVER_assigns(__VA_ARGS__)
#define LOOP_DECREASES(...) __CPROVER_decreases(__VA_ARGS__)
#else
#define LOOP_INVARIANT(...)
#define LOOP_ASSIGNS(...)
#define LOOP_DECREASES(...)
#endif

// Sanitizer hooks: pools and arenas poison what is not taken.
#if defined(__SANITIZE_ADDRESS__)
#define HAVE_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAVE_ASAN 1
#endif
#endif
#if defined(__SANITIZE_THREAD__)
#define HAVE_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HAVE_TSAN 1
#endif
#endif
#ifdef HAVE_TSAN
void *__tsan_get_current_fiber(void);
void *__tsan_create_fiber(unsigned flags);
void __tsan_destroy_fiber(void *fiber);
void __tsan_switch_to_fiber(void *fiber, unsigned flags);
#define FIBER_TSAN_HERE() __tsan_get_current_fiber()
#define FIBER_TSAN_MAKE() __tsan_create_fiber(0)
#define FIBER_TSAN_DROP(f) __tsan_destroy_fiber(f)
#define FIBER_TSAN_TO(f) __tsan_switch_to_fiber((f), 0)
#else
#define FIBER_TSAN_HERE() NULL
#define FIBER_TSAN_MAKE() NULL
#define FIBER_TSAN_DROP(f) ((void)(f))
#define FIBER_TSAN_TO(f) ((void)(f))
#endif
#ifdef HAVE_ASAN
void __asan_poison_memory_region(const volatile void *addr, usize size);
void __asan_unpoison_memory_region(const volatile void *addr, usize size);
void __sanitizer_start_switch_fiber(void **fake_stack_save, const void *bottom, usize size);
void __sanitizer_finish_switch_fiber(void *fake_stack_save, const void **bottom_old,
                                     usize *size_old);
#define MEM_POISON(p, n) __asan_poison_memory_region((p), (n))
#define MEM_UNPOISON(p, n) __asan_unpoison_memory_region((p), (n))
#define POOL_REDZONE 16u
#define FIBER_SWITCH_START(save, bottom, len) \
  __sanitizer_start_switch_fiber((save), (bottom), (len))
#define FIBER_SWITCH_FINISH(fake, bottom, len) \
  __sanitizer_finish_switch_fiber((fake), (bottom), (len))
#else
#define MEM_POISON(p, n) ((void)(p), (void)(n))
#define MEM_UNPOISON(p, n) ((void)(p), (void)(n))
#define POOL_REDZONE 0u
#define FIBER_SWITCH_START(save, bottom, len) ((void)(save), (void)(bottom), (void)(len))
#define FIBER_SWITCH_FINISH(fake, bottom, len) ((void)(fake), (void)(bottom), (void)(len))
#endif
