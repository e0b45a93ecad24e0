// SPDX-License-Identifier: Apache-2.0
// The two entries of the aarch64 kernel and the step onto the final tables. One file is both an arm64 Image (Linux
// Documentation/arch/arm64/booting: entered at its first byte with the MMU off and a device tree in x0) and a PE
// application (entered by UEFI with the firmware's own identity map on). "MZ" as an instruction does nothing.
//
// Offsets from the image's begin (*_off, *_len) are absolute symbols of the linker script: the assembler cannot subtract
// across sections.
#define SCTLR_RES1 0x30500800 // without SPAN: an exception sets PAN
#define SCTLR_SPAN (1 << 23)
#define SCTLR_WXN (1 << 19)
#define SCTLR_MMU_CACHES_STACK 0x100d // M, C, SA, I
#define SCTLR_MMU 1
#define SCTLR_SIGN_A 31
#define MAIR_KINDS 0x4404ff // 0 write-back, 1 device nGnRE, 2 not cached
#define TCR_COMMON 0xb5103510 // 48 bits and 4 KiB pages in both halves, write-back, inner shareable
#define TCR_NO_UPPER (1 << 23)
#define CPTR_NO_TRAPS 0x33ff
#define HCR_AARCH64_SIGN 0x0000030080000000 // 64-bit EL1, keys of EL1 are its own
#define SPSR_EL1_MASKED 0x3c5
#define BLOCK_MEMORY_BITS 0x701 // valid, kind 0, inner shareable, accessed

	.arch armv8-a
	.section .boot, "ax", @progbits
	.globl boot_image_begin
	.hidden boot_image_begin
boot_image_begin:
	ccmp x18, #0, #0xd, pl // 0xfa405a4d: "MZ"
	b boot_entry_tree
	.quad 0             // offset from a 2 MiB boundary
	.quad boot_image_len // with .bss
	.quad 0xa           // little-endian, 4 KiB pages, anywhere in memory
	.quad 0, 0, 0
	.ascii "ARM\x64"
	.long pe_header - boot_image_begin
pe_header:
	.ascii "PE\0\0"
	.short 0xaa64, 2 // machine, sections
	.long 0, 0, 0
	.short pe_sections - pe_optional, 0x206 // executable, no line numbers, no debug information
pe_optional:
	.short 0x20b, 0
	.long boot_text_len, boot_data_len, 0, boot_entry_efi_off, 4096
	.quad 0             // preferred base: any
	.long 4096, 4096    // alignment in memory and file
	.short 0, 0, 1, 0, 0, 0
	.long 0, boot_image_len, 4096, 0 // image, headers
	.short 10, 0x100    // EFI application, data is not executed
	.quad 0, 0, 0, 0
	.long 0, 6
	.quad 0, 0, 0, 0, 0, 0
pe_sections:
	.ascii ".text\0\0\0"
	.long boot_text_len, 4096, boot_text_len, 4096, 0, 0, 0, 0x60000020
	.ascii ".data\0\0\0"
	.long boot_data_len, boot_data_off, boot_data_file_len, boot_data_off, 0, 0, 0, 0xc0000040
	.balign 4096

	.section .text.boot, "ax", @progbits
// From EL2, with its MMU off, to EL1; at EL1 already: nothing. Clobbers x1, x2.
	.macro leave_el2
	mrs x1, CurrentEL
	cmp x1, #8
	b.ne 88f
	ldr x1, =HCR_AARCH64_SIGN
	msr hcr_el2, x1
	isb
	mov x1, #3
	msr cnthctl_el2, x1 // EL1 reads the counters itself
	msr cntvoff_el2, xzr
	mov x1, #CPTR_NO_TRAPS
	msr cptr_el2, x1
	msr hstr_el2, xzr
	msr vttbr_el2, xzr
	mrs x1, midr_el1
	msr vpidr_el2, x1
	mrs x1, mpidr_el1
	msr vmpidr_el2, x1
	mrs x1, id_aa64pfr0_el1
	ubfx x1, x1, #24, #4
	cbz x1, 87f
	mrs x1, s3_4_c12_c9_5 // ICC_SRE_EL2: EL1 uses the interrupt controller's registers
	orr x1, x1, #8
	orr x1, x1, #1
	msr s3_4_c12_c9_5, x1
	isb
	msr s3_4_c12_c11_0, xzr // ICH_HCR_EL2
87:	ldr x1, =(SCTLR_RES1 | SCTLR_SPAN)
	msr sctlr_el1, x1
	mov x1, #SPSR_EL1_MASKED
	msr spsr_el2, x1
	adr x1, 88f
	msr elr_el2, x1
	eret
88:
	.endm

	.macro zero_bss // clobbers x1, x2
	adrp x1, boot_bss
	adrp x2, image_end
1:	stp xzr, xzr, [x1], #16
	cmp x1, x2
	b.lo 1b
	.endm

	.macro vectors_on // clobbers x1
	mov x1, #(3 << 20)
	msr cpacr_el1, x1
	isb
	.endm

// x1: TCR_EL1 with the processor's own width of physical addresses. Clobbers x2, x3.
	.macro tcr_value
	ldr x1, =TCR_COMMON
	mrs x2, id_aa64mmfr0_el1
	and x2, x2, #15
	mov x3, #5
	cmp x2, #5
	csel x2, x2, x3, lo
	orr x1, x1, x2, lsl #32
	.endm

	.globl boot_entry_tree
	.hidden boot_entry_tree
boot_entry_tree:
	mov x20, x0
	msr daifset, #15
	leave_el2
	vectors_on
	adrp x21, boot_image_begin
	zero_bss
	cbnz x20, 2f
	and x20, x21, #~0x3fffffff // no pointer: QEMU puts the tree at the begin of memory for a plain ELF file
2:
	// Identity of the GiBs that hold the image's two ends and the tree: all in one slot of 512 GiB.
	adrp x2, boot_tables
	add x3, x2, #4096
	orr x4, x3, #3
	ubfx x5, x21, #39, #9
	str x4, [x2, x5, lsl #3]
	mov x6, #BLOCK_MEMORY_BITS
	adrp x7, image_end
	add x8, x20, #0x200000
	.irp at, x21, x7, x20, x8
	ubfx x5, \at, #30, #9
	lsr x4, \at, #30
	orr x4, x6, x4, lsl #30
	str x4, [x3, x5, lsl #3]
	.endr
	// What was written past the caches must not be hidden by them.
	dsb sy
	adrp x1, boot_bss
	adrp x2, image_end
	mrs x3, ctr_el0
	ubfx x3, x3, #16, #4
	mov x4, #4
	lsl x3, x4, x3
3:	dc ivac, x1
	add x1, x1, x3
	cmp x1, x2
	b.lo 3b
	dsb sy
	ldr x1, =MAIR_KINDS
	msr mair_el1, x1
	tcr_value
	orr x1, x1, #TCR_NO_UPPER
	msr tcr_el1, x1
	adrp x1, boot_tables
	msr ttbr0_el1, x1
	tlbi vmalle1
	ic iallu
	dsb sy
	isb
	ldr x1, =(SCTLR_RES1 | SCTLR_SPAN | SCTLR_MMU_CACHES_STACK)
	msr sctlr_el1, x1
	isb
	adrp x1, boot_stack_top
	mov sp, x1
	mov x29, xzr
	mov x30, xzr
	mov x0, x20
	mov x1, x21
	bl boot_start_tree
	brk #1

// Where another processor begins (PSCI CPU_ON: MMU off; EL1, or EL2 when we were started there). x0: a struct
// core_start (plat/metal/aarch64/cores.c), physical, past the caches. This page is mapped one to one in the tables of
// TTBR0 for so long.
	.globl boot_entry_core
	.hidden boot_entry_core
boot_entry_core:
	mov x20, x0
	msr daifset, #15
	leave_el2
	vectors_on
	ldp x1, x2, [x20]       // MAIR, TCR
	ldp x3, x4, [x20, #16]  // TTBR0, TTBR1
	ldp x25, x19, [x20, #32] // SCTLR, stack
	ldp x16, x22, [x20, #48] // entry, number
	ldp x23, x24, [x20, #64] // key
	msr mair_el1, x1
	msr tcr_el1, x2
	msr ttbr0_el1, x3
	msr ttbr1_el1, x4
	isb
	tlbi vmalle1
	ic iallu
	dsb sy
	isb
	mrs x1, id_aa64mmfr1_el1
	ubfx x1, x1, #20, #4
	cbz x1, 1f
	.inst 0xd500419f // msr pan, #1
1:	tbz x25, #SCTLR_SIGN_A, 2f
	msr s3_0_c2_c1_0, x23 // APIAKey
	msr s3_0_c2_c1_1, x24
2:	msr sctlr_el1, x25
	isb
	mov sp, x19
	mov x29, xzr
	mov x30, xzr
	mov x0, x22
	br x16 // lands on a bti c
	.ltorg

	.globl boot_entry_efi
	.hidden boot_entry_efi
boot_entry_efi:
	hint #34 // bti c
	stp x29, x30, [sp, #-16]!
	mov x3, x1
	zero_bss
	mov x1, x3
	adrp x2, boot_image_begin
	bl boot_start_efi // returns a status when there is nothing to go on with
	ldp x29, x30, [sp], #16
	ret

	.globl boot_enter
	.hidden boot_enter
	.type boot_enter, @function
// void boot_enter(u64 root_phys x0, u64 stack_top x1, u64 entry x2, u64 argument x3): on to the final tables, by way of
// the MMU being off, since the firmware's tables may have any shape. This page is mapped in all three worlds.
boot_enter:
	hint #34 // bti c
	msr daifset, #15
	mov x19, x0
	mov x20, x1
	mov x16, x2
	mov x22, x3
	adrp x4, boot_sign_key
	add x4, x4, :lo12:boot_sign_key
	ldp x23, x24, [x4]
	ldr x25, =SCTLR_RES1
	ldr x4, =(SCTLR_MMU_CACHES_STACK | SCTLR_WXN)
	orr x25, x25, x4
	ldr x26, =MAIR_KINDS
	tcr_value
	mov x27, x1
	// The image as it is now, in memory.
	adrp x1, boot_image_begin
	adrp x2, image_end
	mrs x3, ctr_el0
	ubfx x3, x3, #16, #4
	mov x4, #4
	lsl x3, x4, x3
1:	dc civac, x1
	add x1, x1, x3
	cmp x1, x2
	b.lo 1b
	dsb sy
	ic iallu
	dsb sy
	isb
	mrs x1, CurrentEL
	cmp x1, #8
	b.eq 2f
	mrs x1, sctlr_el1
	bic x1, x1, #SCTLR_MMU
	bic x1, x1, #4
	msr sctlr_el1, x1
	isb
	b 3f
2:	mrs x1, sctlr_el2
	bic x1, x1, #SCTLR_MMU
	bic x1, x1, #4
	msr sctlr_el2, x1
	isb
	leave_el2
3:	vectors_on
	msr mair_el1, x26
	msr tcr_el1, x27
	add x1, x19, #4096
	msr ttbr0_el1, x1
	msr ttbr1_el1, x19
	isb
	tlbi vmalle1
	ic iallu
	dsb sy
	isb
	mrs x1, id_aa64mmfr1_el1
	ubfx x1, x1, #20, #4
	cbnz x1, 4f
	orr x25, x25, #SCTLR_SPAN // reserved as one where there is no PAN
	b 5f
4:	.inst 0xd500419f // msr pan, #1
5:	mrs x1, id_aa64isar1_el1
	tst x1, #0xff0
	b.ne 6f
	mrs x1, s3_0_c0_c6_2 // ID_AA64ISAR2_EL1
	tst x1, #0xf000
	b.eq 7f
6:	msr s3_0_c2_c1_0, x23 // APIAKey
	msr s3_0_c2_c1_1, x24
	orr x25, x25, #(1 << SCTLR_SIGN_A)
7:	msr sctlr_el1, x25
	isb
	mov sp, x20
	mov x29, xzr
	mov x30, xzr
	mov x0, x22
	br x16 // x16: lands on a bti c
	.size boot_enter, . - boot_enter
	.ltorg

	.section .bss.boot, "aw", @nobits
	.balign 4096
	.globl boot_tables
	.hidden boot_tables
boot_tables:
	.skip 2 * 4096
boot_stack:
	.skip 32768
	.globl boot_stack_top
	.hidden boot_stack_top
boot_stack_top:
	.section .note.GNU-stack,"",@progbits
	.section .note.gnu.property, "a", @note
	.balign 8
	.long 4, 16, 5
	.asciz "GNU"
	.long 0xc0000000, 4, 3, 0 // BTI and PAC
