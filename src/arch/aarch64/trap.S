// SPDX-License-Identifier: Apache-2.0
// Exception vectors (Arm DDI 0487 D1.3). The program runs at EL1 on SP_EL0; an exception comes with SP_EL1, a stack of
// its own, so that an overflowing stack is still reported. Only an access to absent memory may return. Interrupts are
// never unmasked (see interrupts.c), so their vectors are reached by nobody.
	.arch armv8-a+pauth
	.text
	.macro vector kind, nested
	.balign 128
	sub sp, sp, #176
	stp x0, x1, [sp]
	mov x0, #\kind
	mov x1, #\nested
	b trap_common
	.endm

	.balign 2048
	.globl trap_vectors
	.hidden trap_vectors
trap_vectors: // kinds: 0 synchronous, 1 interrupt, 2 fast interrupt, 3 system error
	vector 0, 0
	vector 1, 0
	vector 2, 0
	vector 3, 0
	vector 0, 1
	vector 1, 1
	vector 2, 1
	vector 3, 1
	vector 1, 0
	vector 1, 0
	vector 1, 0
	vector 1, 0
	vector 1, 0
	vector 1, 0
	vector 1, 0
	vector 1, 0
	.balign 128
trap_common:
	stp x2, x3, [sp, #16]
	stp x4, x5, [sp, #32]
	stp x6, x7, [sp, #48]
	stp x8, x9, [sp, #64]
	stp x10, x11, [sp, #80]
	stp x12, x13, [sp, #96]
	stp x14, x15, [sp, #112]
	stp x16, x17, [sp, #128]
	stp x18, x30, [sp, #144]
	stp x29, xzr, [sp, #160]
	mrs x2, esr_el1
	mrs x3, far_el1
	mov x29, xzr
	bl trap_exception // returns only when the access may be tried again
	ldp x29, xzr, [sp, #160]
	ldp x18, x30, [sp, #144]
	ldp x16, x17, [sp, #128]
	ldp x14, x15, [sp, #112]
	ldp x12, x13, [sp, #96]
	ldp x10, x11, [sp, #80]
	ldp x8, x9, [sp, #64]
	ldp x6, x7, [sp, #48]
	ldp x4, x5, [sp, #32]
	ldp x2, x3, [sp, #16]
	ldp x0, x1, [sp], #176
	eret

	.globl trap_load
	.hidden trap_load
	.type trap_load, @function
// void trap_load(const void *vectors x0, void *stack_top x1): called on SP_EL1; goes on on SP_EL0, the same stack.
trap_load:
	hint #34 // bti c
	msr vbar_el1, x0
	mov x2, sp
	msr spsel, #0
	mov sp, x2
	msr spsel, #1
	mov sp, x1
	msr spsel, #0
	isb
	msr daifclr, #4 // system errors are reported
	ret
	.size trap_load, . - trap_load

	.section .note.GNU-stack,"",@progbits
	.section .note.gnu.property, "a", @note
	.balign 8
	.long 4, 16, 5
	.asciz "GNU"
	.long 0xc0000000, 4, 3, 0 // BTI and PAC
