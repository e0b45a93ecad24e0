// SPDX-License-Identifier: Apache-2.0
// The one entry of the x86_64 kernel: 32-bit protected mode, paging off, as PVH (Xen's "hvmlite" start, QEMU -kernel,
// Firecracker) and multiboot2 (GRUB on BIOS and on UEFI) leave the machine. %ebx points at the loader's information,
// %eax is 0x36d76289 for multiboot2; for PVH the structure itself begins with 0x336ec578.
//
// The loader may have put us anywhere below 4 GiB. Eight bytes of the loader's own structure serve as the stack of one
// call that finds out where; the dword used is put back. Then: identity map of 4 GiB, long mode, boot_start in C.
//
// Offsets from the image's begin (*_off) are absolute symbols of the linker script: the assembler cannot subtract
// across sections.
#define MB2_MAGIC 0xe85250d6
#define CR4_PAE 0x20
#define MSR_EFER 0xc0000080
#define EFER_LME_NXE 0x900
#define CR0_PE_MP_ET_NE_WP_PG 0x80010033

	.section .boot, "ax", @progbits
	.code32
	.globl boot_image_begin
	.hidden boot_image_begin
boot_image_begin:
	.balign 8
mb2_header:
	.long MB2_MAGIC, 0, mb2_end - mb2_header, -(MB2_MAGIC + (mb2_end - mb2_header))
	// Information request (optional): command line, loader, modules, memory map, framebuffer, ACPI.
	.short 1, 1
	.long 40
	.long 1, 2, 3, 6, 8, 12, 14, 15
	.balign 8
	// Framebuffer (optional).
	.short 5, 1
	.long 20, 1024, 768, 32
	.balign 8
	// Modules on page boundaries.
	.short 6, 1
	.long 8
	.balign 8
	// Relocatable (optional): 1 MiB to 1 GiB, 2 MiB steps, lowest first.
	.short 10, 1
	.long 24, 0x100000, 0x40000000, 0x200000, 1
	.balign 8
	.short 0, 0
	.long 8
mb2_end:

	.globl boot_entry32
	.hidden boot_entry32
boot_entry32:
	cli
	cld
	movl %eax, %esi
	movl 4(%ebx), %edi
	leal 8(%ebx), %esp
	call 1f
1:	popl %ebp
	movl %edi, 4(%ebx)
	subl $(1b - boot_image_begin), %ebp
	leal boot_stack_top_off(%ebp), %esp

	// 64-bit mode and no-execute are required; without them there is nothing to go on with.
	movl %ebx, %edi
	movl $0x80000001, %eax
	cpuid
	movl %edi, %ebx
	andl $0x20100000, %edx
	cmpl $0x20100000, %edx
	jne too_old

	// Identity map: tables at boot_tables: top, level 3, four of level 2 with 2 MiB pages.
	leal boot_tables_off(%ebp), %edi
	leal 0x1003(%edi), %eax
	movl %eax, (%edi)
	movl $4, %ecx
	leal 0x1000(%edi), %edx
	leal 0x2003(%edi), %eax
2:	movl %eax, (%edx)
	addl $0x1000, %eax
	addl $8, %edx
	loop 2b
	leal 0x2000(%edi), %edx
	movl $0x83, %eax
	movl $2048, %ecx
3:	movl %eax, (%edx)
	addl $0x200000, %eax
	addl $8, %edx
	loop 3b
	movl %edi, %cr3

	movl %cr4, %eax
	orl $CR4_PAE, %eax
	movl %eax, %cr4
	movl $MSR_EFER, %ecx
	rdmsr
	orl $EFER_LME_NXE, %eax
	wrmsr
	movl $CR0_PE_MP_ET_NE_WP_PG, %eax
	movl %eax, %cr0

	// Our own descriptors: 8 = 64-bit code, 16 = data.
	leal (boot_gdt - boot_image_begin)(%ebp), %eax
	pushl $0
	pushl %eax
	pushl $((boot_gdt_end - boot_gdt - 1) << 16)
	lgdt 2(%esp)
	addl $12, %esp
	leal (entry64 - boot_image_begin)(%ebp), %eax
	pushl $8
	pushl %eax
	lretl

too_old:
	leal (too_old_text - boot_image_begin)(%ebp), %esi
	movl $0xb8000, %edi
4:	lodsb
	testb %al, %al
	jz 5f
	movw $0x3f8, %dx
	outb %al, %dx
	movb $0x0f, %ah
	stosw
	jmp 4b
5:	hlt
	jmp 5b

	.balign 8
boot_gdt:
	.quad 0, 0x00af9a000000ffff, 0x00cf92000000ffff
boot_gdt_end:
too_old_text:
	.asciz "urMQTT E014: this processor has no 64-bit mode with no-execute. "

	.code64
entry64:
	movw $16, %ax
	movw %ax, %ds
	movw %ax, %es
	movw %ax, %ss
	xorl %eax, %eax
	movw %ax, %fs
	movw %ax, %gs
	movq %cr4, %rax
	orq $0x600, %rax // OSFXSR, OSXMMEXCPT: SSE
	movq %rax, %cr4
	fninit
	leaq boot_stack_top(%rip), %rsp
	xorl %r8d, %r8d
	pushq %r8
	movl %esi, %edi // loader's magic
	movl %ebx, %esi // loader's structure
	movl %ebp, %edx // where the image lies
	xorl %ebp, %ebp
	call boot_start
	ud2

	.text
	.globl boot_enter
	.hidden boot_enter
	.type boot_enter, @function
// void boot_enter(u64 root_phys rdi, u64 stack_top rsi, u64 entry rdx, u64 argument rcx): on to the final tables. This
// page is mapped in both worlds; entry is where the function runs from now on.
boot_enter:
	movq %rdi, %cr3
	movq %rsi, %rsp
	xorl %ebp, %ebp
	pushq %rbp
	movq %rcx, %rdi
	jmp *%rdx
	.size boot_enter, . - boot_enter

	.section .note.pvh, "a", @note
	.balign 4
	.long 4, 8, 18 // XEN_ELFNOTE_PHYS32_ENTRY
	.asciz "Xen"
	.quad boot_entry32_phys

	.section .bss.boot, "aw", @nobits
	.balign 4096
	.globl boot_tables
	.hidden boot_tables
boot_tables:
	.skip 6 * 4096
boot_stack:
	.skip 16384
	.globl boot_stack_top
	.hidden boot_stack_top
boot_stack_top:
	.section .note.GNU-stack,"",@progbits
