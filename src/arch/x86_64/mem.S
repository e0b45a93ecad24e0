// SPDX-License-Identifier: Apache-2.0
// memcpy, memmove, memset and memcmp for x86_64. SSE2, which every 64-bit processor has; above 128 bytes AVX2 where
// mem_wide says so (the platform sets it once the processor has AVX2 and its registers are switched on).
//
// The shape below 64 bytes: one branch for the class (1 to 3, 4 to 15, 16 to 63), then four overlapping pieces, two
// from each end, whose distance is computed and not branched on: sizes vary from call to call, and a branch that is
// guessed wrong costs more than a load that was not needed. Overlapping areas need no thought because all loads come
// before all stores. Beyond 128: 64 or 128 bytes a turn with aligned stores, the ragged ends loaded first and
// stored last. memcpy is memmove: the check costs one comparison above 128 bytes.
//
// `rep movsb` and `rep stosb` were measured and are never better (docs/bench.md).
//
// MEM_NAME(x) lets the test and the bench link these beside the C library's.
#ifndef MEM_NAME
#define MEM_NAME(x) x
#endif
	.text
	.macro function name
	.balign 32
	.globl \name
	.hidden \name
	.type \name, @function
\name:
	.endm

	.data
	.globl MEM_NAME(mem_wide)
	.hidden MEM_NAME(mem_wide)
MEM_NAME(mem_wide):
	.byte 0 // 1: AVX2 may be used
	.text

// void *memcpy(void *to rdi, const void *from rsi, usize len rdx); the same for memmove.
	function MEM_NAME(memcpy)
	function MEM_NAME(memmove)
	movq %rdi, %rax
	cmpq $16, %rdx
	jb 2f
	cmpq $64, %rdx
	jae 5f
	movl %edx, %ecx // 16 to 63: 16 bytes at 0, at off, and the same from the end; off is 16 from 32 bytes on, else 0
	andl $32, %ecx
	shrl $1, %ecx
	leaq -16(%rdx), %r8
	subq %rcx, %r8
	movups (%rsi), %xmm0
	movups (%rsi,%rcx), %xmm1
	movups (%rsi,%r8), %xmm2
	movups -16(%rsi,%rdx), %xmm3
	movups %xmm0, (%rdi)
	movups %xmm1, (%rdi,%rcx)
	movups %xmm2, (%rdi,%r8)
	movups %xmm3, -16(%rdi,%rdx)
	ret
2:	cmpl $4, %edx
	jb 3f
	movl %edx, %ecx // 4 to 15: the same with 4 bytes
	andl $8, %ecx
	shrl $1, %ecx
	leaq -4(%rdx), %r8
	subq %rcx, %r8
	movl (%rsi), %r9d
	movl (%rsi,%rcx), %r10d
	movl (%rsi,%r8), %r11d
	movl -4(%rsi,%rdx), %esi
	movl %r9d, (%rdi)
	movl %r10d, (%rdi,%rcx)
	movl %r11d, (%rdi,%r8)
	movl %esi, -4(%rdi,%rdx)
	ret
3:	testl %edx, %edx
	jz 9f
	movl %edx, %ecx // 1 to 3: first, middle, last
	shrl $1, %ecx
	movzbl (%rsi), %r8d
	movzbl (%rsi,%rcx), %r9d
	movzbl -1(%rsi,%rdx), %r10d
	movb %r8b, (%rdi)
	movb %r9b, (%rdi,%rcx)
	movb %r10b, -1(%rdi,%rdx)
9:	ret
5:	movups -64(%rsi,%rdx), %xmm4
	movups -48(%rsi,%rdx), %xmm5
	movups -32(%rsi,%rdx), %xmm6
	movups -16(%rsi,%rdx), %xmm7
	cmpq $128, %rdx
	ja 6f
	movups (%rsi), %xmm0
	movups 16(%rsi), %xmm1
	movups 32(%rsi), %xmm2
	movups 48(%rsi), %xmm3
	movups %xmm0, (%rdi)
	movups %xmm1, 16(%rdi)
	movups %xmm2, 32(%rdi)
	movups %xmm3, 48(%rdi)
	movups %xmm4, -64(%rdi,%rdx)
	movups %xmm5, -48(%rdi,%rdx)
	movups %xmm6, -32(%rdi,%rdx)
	movups %xmm7, -16(%rdi,%rdx)
	ret
	// More than 128. Backwards when the target begins inside the source.
6:	movq %rdi, %rcx
	subq %rsi, %rcx
	cmpq %rdx, %rcx
	jb 7f
	cmpb $0, MEM_NAME(mem_wide)(%rip)
	jne 20f
	movups (%rsi), %xmm8
	leaq -64(%rdi,%rdx), %r8 // where the last 64 bytes go
	movl %edi, %ecx
	negl %ecx
	andl $15, %ecx
	addq %rcx, %rsi
	addq %rcx, %rdi
	subq %rcx, %rdx
	.balign 16
10:	movups (%rsi), %xmm0
	movups 16(%rsi), %xmm1
	movups 32(%rsi), %xmm2
	movups 48(%rsi), %xmm3
	movaps %xmm0, (%rdi)
	movaps %xmm1, 16(%rdi)
	movaps %xmm2, 32(%rdi)
	movaps %xmm3, 48(%rdi)
	addq $64, %rsi
	addq $64, %rdi
	subq $64, %rdx
	cmpq $64, %rdx
	ja 10b
	movups %xmm4, (%r8)
	movups %xmm5, 16(%r8)
	movups %xmm6, 32(%r8)
	movups %xmm7, 48(%r8)
	movups %xmm8, (%rax)
	ret
	// The same by 128 bytes; the last 128 are loaded first.
20:	vmovdqu (%rsi), %ymm8
	vmovdqu -128(%rsi,%rdx), %ymm4
	vmovdqu -96(%rsi,%rdx), %ymm5
	vmovdqu -64(%rsi,%rdx), %ymm6
	vmovdqu -32(%rsi,%rdx), %ymm7
	leaq -128(%rdi,%rdx), %r8
	movl %edi, %ecx
	negl %ecx
	andl $31, %ecx
	addq %rcx, %rsi
	addq %rcx, %rdi
	subq %rcx, %rdx
	cmpq $128, %rdx
	jbe 22f
	.balign 16
21:	vmovdqu (%rsi), %ymm0
	vmovdqu 32(%rsi), %ymm1
	vmovdqu 64(%rsi), %ymm2
	vmovdqu 96(%rsi), %ymm3
	vmovdqa %ymm0, (%rdi)
	vmovdqa %ymm1, 32(%rdi)
	vmovdqa %ymm2, 64(%rdi)
	vmovdqa %ymm3, 96(%rdi)
	addq $128, %rsi
	addq $128, %rdi
	subq $128, %rdx
	cmpq $128, %rdx
	ja 21b
22:	vmovdqu %ymm4, (%r8)
	vmovdqu %ymm5, 32(%r8)
	vmovdqu %ymm6, 64(%r8)
	vmovdqu %ymm7, 96(%r8)
	vmovdqu %ymm8, (%rax)
	vzeroupper
	ret
	// Backwards: the first 64 bytes are kept for last, the end is made even.
7:	movups (%rsi), %xmm8
	movups 16(%rsi), %xmm9
	movups 32(%rsi), %xmm10
	movups 48(%rsi), %xmm11
	leaq (%rdi,%rdx), %r8 // the target's end
	movq %r8, %r9
	movl %r8d, %ecx
	andl $15, %ecx
	subq %rcx, %r8
	subq %rcx, %rdx
	leaq (%rsi,%rdx), %rsi
	.balign 16
11:	movups -16(%rsi), %xmm0
	movups -32(%rsi), %xmm1
	movups -48(%rsi), %xmm2
	movups -64(%rsi), %xmm3
	movaps %xmm0, -16(%r8)
	movaps %xmm1, -32(%r8)
	movaps %xmm2, -48(%r8)
	movaps %xmm3, -64(%r8)
	subq $64, %rsi
	subq $64, %r8
	subq $64, %rdx
	cmpq $64, %rdx
	ja 11b
	movups %xmm7, -16(%r9)
	movups %xmm8, (%rax)
	movups %xmm9, 16(%rax)
	movups %xmm10, 32(%rax)
	movups %xmm11, 48(%rax)
	ret
	.size MEM_NAME(memcpy), . - MEM_NAME(memcpy)
	.size MEM_NAME(memmove), . - MEM_NAME(memmove)

// void *memset(void *to rdi, int byte esi, usize len rdx)
	function MEM_NAME(memset)
	movq %rdi, %rax
	movzbl %sil, %esi
	movabsq $0x0101010101010101, %r8
	imulq %r8, %rsi
	cmpq $16, %rdx
	jb 2f
	movq %rsi, %xmm0
	punpcklqdq %xmm0, %xmm0
	cmpq $64, %rdx
	jae 5f
	movl %edx, %ecx // as memcpy
	andl $32, %ecx
	shrl $1, %ecx
	leaq -16(%rdx), %r8
	subq %rcx, %r8
	movups %xmm0, (%rdi)
	movups %xmm0, (%rdi,%rcx)
	movups %xmm0, (%rdi,%r8)
	movups %xmm0, -16(%rdi,%rdx)
	ret
5:	movups %xmm0, (%rdi)
	movups %xmm0, 16(%rdi)
	movups %xmm0, 32(%rdi)
	movups %xmm0, 48(%rdi)
	movups %xmm0, -64(%rdi,%rdx)
	movups %xmm0, -48(%rdi,%rdx)
	movups %xmm0, -32(%rdi,%rdx)
	movups %xmm0, -16(%rdi,%rdx)
	cmpq $128, %rdx
	jbe 9f
	cmpb $0, MEM_NAME(mem_wide)(%rip)
	jne 20f
	leaq -64(%rdi,%rdx), %r8 // the last 64 bytes are done
	leaq 64(%rdi), %rdi
	andq $-64, %rdi
	.balign 16
10:	movaps %xmm0, (%rdi)
	movaps %xmm0, 16(%rdi)
	movaps %xmm0, 32(%rdi)
	movaps %xmm0, 48(%rdi)
	addq $64, %rdi
	cmpq %r8, %rdi
	jb 10b
9:	ret
20:	vmovq %rsi, %xmm0
	vpbroadcastq %xmm0, %ymm0
	leaq -128(%rdi,%rdx), %r8
	vmovdqu %ymm0, (%r8) // the 64 bytes behind these are done
	vmovdqu %ymm0, 32(%r8)
	leaq 64(%rdi), %rdi
	andq $-64, %rdi
	cmpq %r8, %rdi
	jae 22f
	.balign 16
21:	vmovdqa %ymm0, (%rdi)
	vmovdqa %ymm0, 32(%rdi)
	vmovdqa %ymm0, 64(%rdi)
	vmovdqa %ymm0, 96(%rdi)
	subq $-128, %rdi
	cmpq %r8, %rdi
	jb 21b
22:	vzeroupper
	ret
2:	cmpl $4, %edx
	jb 3f
	movl %edx, %ecx
	andl $8, %ecx
	shrl $1, %ecx
	leaq -4(%rdx), %r8
	subq %rcx, %r8
	movl %esi, (%rdi)
	movl %esi, (%rdi,%rcx)
	movl %esi, (%rdi,%r8)
	movl %esi, -4(%rdi,%rdx)
	ret
3:	testl %edx, %edx
	jz 9b
	movl %edx, %ecx
	shrl $1, %ecx
	movb %sil, (%rdi)
	movb %sil, (%rdi,%rcx)
	movb %sil, -1(%rdi,%rdx)
	ret
	.size MEM_NAME(memset), . - MEM_NAME(memset)

// int memcmp(const void *a rdi, const void *b rsi, usize len rdx)
	function MEM_NAME(memcmp)
	cmpq $16, %rdx
	jb 5f
	leaq -16(%rdx), %r8 // the last block's offset
	xorl %ecx, %ecx
	cmpq $64, %rdx
	jae 12f
	movl %edx, %r9d // 16 to 63: as memcpy
	andl $32, %r9d
	shrl $1, %r9d
	movq %r8, %r10
	subq %r9, %r10
	movups (%rdi), %xmm0
	movups (%rsi), %xmm4
	movups (%rdi,%r9), %xmm1
	movups (%rsi,%r9), %xmm5
	movups (%rdi,%r10), %xmm2
	movups (%rsi,%r10), %xmm6
	movups (%rdi,%r8), %xmm3
	movups (%rsi,%r8), %xmm7
	pcmpeqb %xmm4, %xmm0
	pcmpeqb %xmm5, %xmm1
	pcmpeqb %xmm6, %xmm2
	pcmpeqb %xmm7, %xmm3
	pand %xmm1, %xmm0
	pand %xmm3, %xmm2
	pand %xmm2, %xmm0
	pmovmskb %xmm0, %eax
	subl $0xffff, %eax
	jne 1f
	ret
	// 64 and more: 64 bytes a turn, the last turn overlapping.
12:	leaq -64(%rdx), %r9
	.balign 16
13:	movups (%rdi,%rcx), %xmm0
	movups (%rsi,%rcx), %xmm4
	movups 16(%rdi,%rcx), %xmm1
	movups 16(%rsi,%rcx), %xmm5
	movups 32(%rdi,%rcx), %xmm2
	movups 32(%rsi,%rcx), %xmm6
	movups 48(%rdi,%rcx), %xmm3
	movups 48(%rsi,%rcx), %xmm7
	pcmpeqb %xmm4, %xmm0
	pcmpeqb %xmm5, %xmm1
	pcmpeqb %xmm6, %xmm2
	pcmpeqb %xmm7, %xmm3
	pand %xmm1, %xmm0
	pand %xmm3, %xmm2
	pand %xmm2, %xmm0
	pmovmskb %xmm0, %eax
	subl $0xffff, %eax
	jne 1f
	cmpq %r9, %rcx
	jae 2f
	addq $64, %rcx
	cmpq %r9, %rcx
	cmovaq %r9, %rcx
	jmp 13b
	// Somewhere from rcx on they differ: block by block to the first one that does.
	.balign 16
1:	movups (%rdi,%rcx), %xmm0
	movups (%rsi,%rcx), %xmm1
	pcmpeqb %xmm1, %xmm0
	pmovmskb %xmm0, %eax
	subl $0xffff, %eax
	jne 3f
	addq $16, %rcx
	cmpq %r8, %rcx
	cmovaq %r8, %rcx
	jmp 1b
2:	ret // eax is 0
3:	addl $0xffff, %eax // the mask of equal bytes again
	notl %eax
	bsfl %eax, %eax // the first that differs
	addq %rcx, %rax
	movzbl (%rdi,%rax), %ecx
	movzbl (%rsi,%rax), %edx
	movl %ecx, %eax
	subl %edx, %eax
	ret
	// The first byte in memory is the most significant for the order.
5:	cmpl $4, %edx
	jb 8f
	movl %edx, %r8d // 4 to 15: as memcpy, each end put together to 8 bytes
	andl $8, %r8d
	shrl $1, %r8d
	leaq -4(%rdx), %r9
	subq %r8, %r9
	movl (%rdi), %r10d
	movl (%rdi,%r8), %eax
	movl (%rsi), %r11d
	movl (%rsi,%r8), %ecx
	shlq $32, %rax
	shlq $32, %rcx
	orq %r10, %rax
	orq %r11, %rcx
	movl -4(%rdi,%rdx), %r10d
	movl -4(%rsi,%rdx), %r11d
	movl (%rdi,%r9), %edi
	movl (%rsi,%r9), %esi
	shlq $32, %r10
	shlq $32, %r11
	orq %rdi, %r10
	orq %rsi, %r11
	cmpq %rcx, %rax
	cmoveq %r10, %rax
	cmoveq %r11, %rcx
	bswapq %rax
	bswapq %rcx
	xorl %edx, %edx
	cmpq %rcx, %rax
	seta %dl
	sbbl $0, %edx
	movl %edx, %eax
	ret
8:	testl %edx, %edx
	jz 9f
	movl %edx, %ecx // 1 to 3: first, middle, last
	shrl $1, %ecx
	movzbl (%rdi), %eax
	movzbl (%rsi), %r8d
	movzbl (%rdi,%rcx), %r9d
	movzbl (%rsi,%rcx), %r10d
	movzbl -1(%rdi,%rdx), %r11d
	movzbl -1(%rsi,%rdx), %edx
	shll $8, %eax
	shll $8, %r8d
	orl %r9d, %eax
	orl %r10d, %r8d
	shll $8, %eax
	shll $8, %r8d
	orl %r11d, %eax
	orl %edx, %r8d
	subl %r8d, %eax
	ret
9:	xorl %eax, %eax
	ret
	.size MEM_NAME(memcmp), . - MEM_NAME(memcmp)
	.section .note.GNU-stack,"",@progbits
