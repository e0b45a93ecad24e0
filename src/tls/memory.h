// SPDX-License-Identifier: Apache-2.0
// Where the library's allocations go: into the arena of the handshake that runs, else into the heap
// given to tls_init.
//
// I1  Between memory_enter and memory_leave every allocation comes from that arena; nothing that
//     outlives the handshake may be created in between (reference: arena rules).
// I2  A block is freed where it was taken, whichever arena is current.
#pragma once
#include "tls/alloc.h"

void memory_init(struct span heap);
void memory_enter(struct alloc *arena);
void memory_leave(void);
// How often the current handshake's arena had nothing left: an answer of the library that came
// after it may be wrong.
u32 memory_refused(void);
// The heap of contexts, to look at; and for their own structures, of any core.
struct alloc *memory_heap(void);
void *memory_heap_take(usize len);
void memory_heap_put(void *p CONSUMES);
