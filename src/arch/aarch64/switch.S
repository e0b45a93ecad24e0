// SPDX-License-Identifier: Apache-2.0
// Fiber switch, AAPCS64: callee-saved registers, d8 to d15 and FPCR travel on the stack that is left.
	.text
	.globl plat_stack_switch
	.hidden plat_stack_switch
	.type plat_stack_switch, @function
// void plat_stack_switch(void **save x0, void *load x1)
plat_stack_switch:
	hint #34 // bti c
	sub sp, sp, #176
	stp x19, x20, [sp]
	stp x21, x22, [sp, #16]
	stp x23, x24, [sp, #32]
	stp x25, x26, [sp, #48]
	stp x27, x28, [sp, #64]
	stp x29, x30, [sp, #80]
	stp d8, d9, [sp, #96]
	stp d10, d11, [sp, #112]
	stp d12, d13, [sp, #128]
	stp d14, d15, [sp, #144]
	mrs x2, fpcr
	str x2, [sp, #160]
	mov x2, sp
	str x2, [x0]
	mov sp, x1
	ldr x2, [sp, #160]
	msr fpcr, x2
	ldp d14, d15, [sp, #144]
	ldp d12, d13, [sp, #128]
	ldp d10, d11, [sp, #112]
	ldp d8, d9, [sp, #96]
	ldp x29, x30, [sp, #80]
	ldp x27, x28, [sp, #64]
	ldp x25, x26, [sp, #48]
	ldp x23, x24, [sp, #32]
	ldp x21, x22, [sp, #16]
	ldp x19, x20, [sp]
	add sp, sp, #176
	ret
	.size plat_stack_switch, . - plat_stack_switch

	.globl plat_stack_prepare
	.hidden plat_stack_prepare
	.type plat_stack_prepare, @function
// void *plat_stack_prepare(struct span stack {x0 ptr, x1 len}, void (*entry)(void *) x2, void *arg x3)
// Builds the frame that plat_stack_switch loads; its return lands in the trampoline with entry in x19, arg in x20.
plat_stack_prepare:
	hint #34 // bti c
	add x0, x0, x1
	and x0, x0, #-16
	sub x0, x0, #176
	stp x2, x3, [x0]
	stp xzr, xzr, [x0, #16]
	stp xzr, xzr, [x0, #32]
	stp xzr, xzr, [x0, #48]
	stp xzr, xzr, [x0, #64]
	adr x4, 1f
	stp xzr, x4, [x0, #80]
	stp xzr, xzr, [x0, #96]
	stp xzr, xzr, [x0, #112]
	stp xzr, xzr, [x0, #128]
	stp xzr, xzr, [x0, #144]
	stp xzr, xzr, [x0, #160]
	ret
1:	mov x0, x20
	blr x19
	brk #1
	.size plat_stack_prepare, . - plat_stack_prepare

	.section .note.GNU-stack,"",@progbits
	.section .note.gnu.property, "a", @note
	.balign 8
	.long 4, 16, 5
	.asciz "GNU"
	.long 0xc0000000, 4, 3, 0 // BTI and PAC
