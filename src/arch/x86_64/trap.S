// SPDX-License-Identifier: Apache-2.0
// Entry stubs. Exceptions push what trap_vector wants to know and never return (NMI is ignored). Interrupts tell the
// local APIC that they have been seen and return; they use three registers and no memory but their own stack.
	.text
	.macro exception vector, has_error
	.balign 16
trap_\vector:
	.ifeq \has_error
	pushq $0
	.endif
	movl $\vector, %edi
	jmp trap_common
	.endm
	exception 0, 0
	exception 1, 0
	.balign 16
trap_2: // NMI: another core's crash, or nothing
	cmpb $0, trap_stopped(%rip)
	jne 9f
	iretq
9:	cli
	hlt
	jmp 9b
	exception 3, 0
	exception 4, 0
	exception 5, 0
	exception 6, 0
	exception 7, 0
	exception 8, 1
	exception 9, 0
	exception 10, 1
	exception 11, 1
	exception 12, 1
	exception 13, 1
	.balign 16
trap_14: // page fault: the error code is on the stack; the registers a C function may change are kept
	cld
	pushq %rax
	pushq %rcx
	pushq %rdx
	pushq %rsi
	pushq %rdi
	pushq %r8
	pushq %r9
	pushq %r10
	pushq %r11
	pushq %rbx
	movq %rsp, %rbx
	movq 80(%rsp), %rdi
	movq %cr2, %rsi
	andq $-16, %rsp
	call trap_page_fault
	movq %rbx, %rsp
	testb %al, %al
	popq %rbx
	popq %r11
	popq %r10
	popq %r9
	popq %r8
	popq %rdi
	popq %rsi
	popq %rdx
	popq %rcx
	popq %rax
	jz 1f
	addq $8, %rsp
	iretq
1:	movl $14, %edi
	jmp trap_common
	exception 15, 0
	exception 16, 0
	exception 17, 1
	exception 18, 0
	exception 19, 0
	exception 20, 0
	exception 21, 1
	exception 22, 0
	exception 23, 0
	exception 24, 0
	exception 25, 0
	exception 26, 0
	exception 27, 0
	exception 28, 0
	exception 29, 1
	exception 30, 1
	exception 31, 0
trap_common:
	cld
	popq %rsi // error code
	xorl %edx, %edx
	cmpl $14, %edi
	jne 1f
	movq %cr2, %rdx
1:	andq $-16, %rsp
	xorl %ebp, %ebp
	call trap_vector
	ud2

	.balign 16
	.globl trap_interrupt
	.hidden trap_interrupt
trap_interrupt:
	pushq %rax
	pushq %rcx
	pushq %rdx
	movq apic_regs(%rip), %rax
	testq %rax, %rax
	jz 2f
	movl $0, 0xb0(%rax)
	jmp 3f
2:	movl $0x80b, %ecx
	xorl %eax, %eax
	xorl %edx, %edx
	wrmsr
3:	popq %rdx
	popq %rcx
	popq %rax
	.globl trap_spurious
	.hidden trap_spurious
trap_spurious:
	iretq

	.globl trap_load
	.hidden trap_load
	.type trap_load, @function
// void trap_load(const void *gdt_register rdi, const void *idt_register rsi): selectors 8 code, 16 data, 24 task state.
trap_load:
	lgdt (%rdi)
	lidt (%rsi)
	movw $16, %ax
	movw %ax, %ds
	movw %ax, %es
	movw %ax, %ss
	movw $24, %ax
	ltr %ax
	popq %rax
	pushq $8
	pushq %rax
	lretq
	.size trap_load, . - trap_load

	// Where each exception's stub is, as distances, so that nothing needs relocating.
	.section .rodata.trap_table, "a", @progbits
	.balign 4
	.globl trap_table
	.hidden trap_table
trap_table:
	.irp n, 0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30,31
	.long trap_\n - trap_table
	.endr
	.section .note.GNU-stack,"",@progbits
