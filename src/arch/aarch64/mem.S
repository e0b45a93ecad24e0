// SPDX-License-Identifier: Apache-2.0
// memcpy, memmove, memset and memcmp for aarch64, with 16-byte vector registers (every 64-bit processor has them) and
// unaligned accesses: for mapped memory only, never for devices.
//
// The shape, up to 128 bytes: load everything by two overlapping halves, then store; no loop, and overlapping areas need
// no thought because all loads come before all stores. Beyond: 64 bytes a turn, and the end that a turn could overwrite
// is loaded first and stored last. memcpy is memmove. Speed was not measured: there is only an emulator here.
//
// MEM_NAME(x) lets the test link these beside the C library's.
#ifndef MEM_NAME
#define MEM_NAME(x) x
#endif
	.text
	.macro function name
	.balign 64
	.globl \name
	.hidden \name
	.type \name, %function
\name:
	hint #34 // bti c
	.endm

// void *memcpy(void *to x0, const void *from x1, usize len x2); the same for memmove.
	function MEM_NAME(memcpy)
	.globl MEM_NAME(memmove)
	.hidden MEM_NAME(memmove)
	.type MEM_NAME(memmove), %function
	.set MEM_NAME(memmove), MEM_NAME(memcpy)
	add x4, x1, x2
	add x5, x0, x2
	cmp x2, #16
	b.lo 4f
	cmp x2, #32
	b.hi 1f
	ldr q0, [x1]
	ldr q1, [x4, #-16]
	str q0, [x0]
	str q1, [x5, #-16]
	ret
1:	cmp x2, #64
	b.hi 2f
	ldp q0, q1, [x1]
	ldp q2, q3, [x4, #-32]
	stp q0, q1, [x0]
	stp q2, q3, [x5, #-32]
	ret
2:	cmp x2, #128
	b.hi 3f
	ldp q0, q1, [x1]
	ldp q2, q3, [x1, #32]
	ldp q4, q5, [x4, #-64]
	ldp q6, q7, [x4, #-32]
	stp q0, q1, [x0]
	stp q2, q3, [x0, #32]
	stp q4, q5, [x5, #-64]
	stp q6, q7, [x5, #-32]
	ret
3:	sub x6, x0, x1 // below len: `to` begins inside the source, so go backwards
	cmp x6, x2
	b.lo 6f
	ldp q4, q5, [x4, #-64]
	ldp q6, q7, [x4, #-32]
	mov x3, x0
	sub x2, x2, #64
5:	ldp q0, q1, [x1]
	ldp q2, q3, [x1, #32]
	stp q0, q1, [x3]
	stp q2, q3, [x3, #32]
	add x1, x1, #64
	add x3, x3, #64
	subs x2, x2, #64
	b.hi 5b
	stp q4, q5, [x5, #-64]
	stp q6, q7, [x5, #-32]
	ret
6:	ldp q4, q5, [x1]
	ldp q6, q7, [x1, #32]
	sub x2, x2, #64
7:	ldp q0, q1, [x4, #-32]
	ldp q2, q3, [x4, #-64]
	stp q0, q1, [x5, #-32]
	stp q2, q3, [x5, #-64]
	sub x4, x4, #64
	sub x5, x5, #64
	subs x2, x2, #64
	b.hi 7b
	stp q4, q5, [x0]
	stp q6, q7, [x0, #32]
	ret
4:	tbz x2, #3, 1f
	ldr x6, [x1]
	ldr x7, [x4, #-8]
	str x6, [x0]
	str x7, [x5, #-8]
	ret
1:	tbz x2, #2, 2f
	ldr w6, [x1]
	ldr w7, [x4, #-4]
	str w6, [x0]
	str w7, [x5, #-4]
	ret
2:	cbz x2, 3f
	lsr x8, x2, #1 // one to three bytes: first, middle, last
	ldrb w6, [x1]
	ldrb w7, [x1, x8]
	ldrb w9, [x4, #-1]
	strb w6, [x0]
	strb w7, [x0, x8]
	strb w9, [x5, #-1]
3:	ret
	.size MEM_NAME(memcpy), . - MEM_NAME(memcpy)

// void *memset(void *to x0, int byte w1, usize len x2)
	function MEM_NAME(memset)
	dup v0.16b, w1
	add x4, x0, x2
	cmp x2, #16
	b.lo 3f
	str q0, [x0]
	str q0, [x4, #-16]
	cmp x2, #32
	b.ls 2f
	cmp x2, #64
	b.hi 1f
	str q0, [x0, #16]
	str q0, [x4, #-32]
	ret
1:	and x3, x0, #-16
	sub x2, x4, x3
	subs x2, x2, #80
	b.lo 5f
4:	stp q0, q0, [x3, #16]
	stp q0, q0, [x3, #48]
	add x3, x3, #64
	subs x2, x2, #64
	b.hs 4b
5:	stp q0, q0, [x4, #-64]
	stp q0, q0, [x4, #-32]
2:	ret
3:	fmov x6, d0
	tbz x2, #3, 1f
	str x6, [x0]
	str x6, [x4, #-8]
	ret
1:	tbz x2, #2, 2f
	str w6, [x0]
	str w6, [x4, #-4]
	ret
2:	cbz x2, 3f
	lsr x8, x2, #1
	strb w6, [x0]
	strb w6, [x0, x8]
	strb w6, [x4, #-1]
3:	ret
	.size MEM_NAME(memset), . - MEM_NAME(memset)

// int memcmp(const void *a x0, const void *b x1, usize len x2)
	function MEM_NAME(memcmp)
	subs x2, x2, #8
	b.lo 3f
1:	ldr x3, [x0], #8
	ldr x4, [x1], #8
	cmp x3, x4
	b.ne 2f
	subs x2, x2, #8
	b.hi 1b
	ldr x3, [x0, x2] // the last eight, which may have been seen in part
	ldr x4, [x1, x2]
	cmp x3, x4
	b.ne 2f
	mov w0, #0
	ret
2:	rev x3, x3
	rev x4, x4
	cmp x3, x4
	mov w0, #1
	cneg w0, w0, lo
	ret
3:	adds x2, x2, #8
	b.eq 5f
4:	ldrb w3, [x0], #1
	ldrb w4, [x1], #1
	subs w3, w3, w4
	b.ne 6f
	subs x2, x2, #1
	b.ne 4b
5:	mov w0, #0
	ret
6:	mov w0, w3
	ret
	.size MEM_NAME(memcmp), . - MEM_NAME(memcmp)

	.section .note.GNU-stack,"",@progbits
	.section .note.gnu.property, "a", @note
	.balign 8
	.long 4, 16, 5
	.asciz "GNU"
	.long 0xc0000000, 4, 3, 0 // BTI and PAC
