// SPDX-License-Identifier: Apache-2.0
// Where another processor begins (Intel SDM 3A 9.4): in real mode, at a page below 1 MiB that this is copied to. By way of
// 32-bit protected mode to long mode, on the kernel's tables, in which this page is mapped one to one for so long; then
// to C on a stack of its own. The words at the end are filled in before (arch/x86_64/start.c).
#define CR4_PAE 0x20
#define MSR_EFER 0xc0000080
#define EFER_LME_NXE 0x900
#define CR0_PE_ET 0x11
#define CR0_PE_MP_ET_NE_WP_PG 0x80010033

	.section .rodata.core_start, "a", @progbits
	.macro word_at name
	.globl \name
	.hidden \name
\name:
	.endm
	.balign 16
	word_at core_begin
	.code16
	cli
	cld
	xorl %ebx, %ebx
	movw %cs, %bx
	movw %bx, %ds
	shll $4, %ebx
	lgdtl core_gdt_register - core_begin
	movl $CR0_PE_ET, %eax
	movl %eax, %cr0
	ljmpl *(core_far32 - core_begin)

	.code32
	word_at core_32
	movw $16, %ax
	movw %ax, %ds
	movw %ax, %es
	movw %ax, %ss
	movl $CR4_PAE, %eax
	movl %eax, %cr4
	movl (core_root - core_begin)(%ebx), %eax
	movl %eax, %cr3
	movl $MSR_EFER, %ecx
	rdmsr
	orl $EFER_LME_NXE, %eax
	wrmsr
	movl $CR0_PE_MP_ET_NE_WP_PG, %eax
	movl %eax, %cr0
	ljmpl *(core_far64 - core_begin)(%ebx)

	.code64
	word_at core_64
	xorl %eax, %eax
	movw %ax, %fs
	movw %ax, %gs
	movq (core_cr4 - core_begin)(%rbx), %rax
	movq %rax, %cr4
	fninit
	movq (core_stack - core_begin)(%rbx), %rsp
	movl (core_number - core_begin)(%rbx), %edi
	movq (core_entry - core_begin)(%rbx), %rax
	xorl %ebp, %ebp
	pushq %rbp
	jmp *%rax

	.balign 8
	.quad 0
core_gdt: // 8 = 32-bit code, 16 = data, 24 = 64-bit code
	.quad 0, 0x00cf9a000000ffff, 0x00cf92000000ffff, 0x00af9a000000ffff
core_gdt_end:
	.word 0
	word_at core_gdt_register
	.word core_gdt_end - core_gdt - 1
	.long core_gdt - core_begin
	.balign 4
	word_at core_far32
	.long core_32 - core_begin, 8
	word_at core_far64
	.long core_64 - core_begin, 24
	.balign 8
	word_at core_root
	.quad 0
	word_at core_cr4
	.quad 0
	word_at core_stack
	.quad 0
	word_at core_entry
	.quad 0
	word_at core_number
	.quad 0
	word_at core_end
	.section .note.GNU-stack,"",@progbits
