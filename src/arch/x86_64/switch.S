// SPDX-License-Identifier: Apache-2.0
// Fiber switch, System V ABI: callee-saved registers, MXCSR and x87 control word travel on the stack that is left.
	.text
	.globl plat_stack_switch
	.hidden plat_stack_switch
	.type plat_stack_switch, @function
// void plat_stack_switch(void **save, void *load)
plat_stack_switch:
	pushq %rbp
	pushq %rbx
	pushq %r12
	pushq %r13
	pushq %r14
	pushq %r15
	subq $8, %rsp
	stmxcsr (%rsp)
	fnstcw 4(%rsp)
	movq %rsp, (%rdi)
	movq %rsi, %rsp
	ldmxcsr (%rsp)
	fldcw 4(%rsp)
	addq $8, %rsp
	popq %r15
	popq %r14
	popq %r13
	popq %r12
	popq %rbx
	popq %rbp
	ret
	.size plat_stack_switch, . - plat_stack_switch

	.globl plat_stack_prepare
	.hidden plat_stack_prepare
	.type plat_stack_prepare, @function
// void *plat_stack_prepare(struct span stack {rdi ptr, rsi len}, void (*entry)(void *) rdx, void *arg rcx)
// Builds the frame that plat_stack_switch pops; the first `ret` lands in the trampoline with entry in rbx, arg in r12.
plat_stack_prepare:
	leaq (%rdi,%rsi), %rax
	andq $-16, %rax
	leaq 1f(%rip), %r8
	movq $0, -8(%rax)
	movq $0, -16(%rax)
	movq %r8, -24(%rax)  // return address
	movq $0, -32(%rax)   // rbp
	movq %rdx, -40(%rax) // rbx = entry
	movq %rcx, -48(%rax) // r12 = arg
	movq $0, -56(%rax)   // r13
	movq $0, -64(%rax)   // r14
	movq $0, -72(%rax)   // r15
	movl $0x1f80, -80(%rax) // MXCSR: all masked, round to nearest
	movl $0x037f, -76(%rax) // x87: the same
	leaq -80(%rax), %rax
	ret
1:	movq %r12, %rdi
	call *%rbx
	ud2
	.size plat_stack_prepare, . - plat_stack_prepare
	.section .note.GNU-stack,"",@progbits
