// SPDX-License-Identifier: Apache-2.0
// memcpy, memmove, memset and memcmp for x86_64, SSE2 only (every 64-bit processor has it).
//
// The shape, up to 128 bytes: load everything by two overlapping halves, then store; no loop, and overlapping areas need
// no thought because all loads come before all stores. Beyond: 64 bytes a turn with aligned stores, the ragged ends
// loaded first and stored last. Larger registers and `rep movsb` are not used: they were not measured (from 65
// bytes up the C library's AVX versions are faster in bench-mem). memcpy is memmove: the check costs one comparison above 128 bytes.
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

// void *memcpy(void *to rdi, const void *from rsi, usize len rdx); the same for memmove.
	function MEM_NAME(memcpy)
	function MEM_NAME(memmove)
	movq %rdi, %rax
	cmpq $16, %rdx
	jb 2f
	cmpq $32, %rdx
	ja 4f
	movups (%rsi), %xmm0
	movups -16(%rsi,%rdx), %xmm1
	movups %xmm0, (%rdi)
	movups %xmm1, -16(%rdi,%rdx)
	ret
2:	cmpl $8, %edx
	jb 3f
	movq (%rsi), %rcx
	movq -8(%rsi,%rdx), %r8
	movq %rcx, (%rdi)
	movq %r8, -8(%rdi,%rdx)
	ret
3:	cmpl $4, %edx
	jb 1f
	movl (%rsi), %ecx
	movl -4(%rsi,%rdx), %r8d
	movl %ecx, (%rdi)
	movl %r8d, -4(%rdi,%rdx)
	ret
1:	cmpl $1, %edx
	jb 9f
	movzbl (%rsi), %ecx
	je 8f
	movzwl -2(%rsi,%rdx), %r8d // after the first load, before any store
	movw %r8w, -2(%rdi,%rdx)
8:	movb %cl, (%rdi)
9:	ret
4:	cmpq $64, %rdx
	ja 5f
	movups (%rsi), %xmm0
	movups 16(%rsi), %xmm1
	movups -32(%rsi,%rdx), %xmm2
	movups -16(%rsi,%rdx), %xmm3
	movups %xmm0, (%rdi)
	movups %xmm1, 16(%rdi)
	movups %xmm2, -32(%rdi,%rdx)
	movups %xmm3, -16(%rdi,%rdx)
	ret
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
	movzbl %sil, %ecx
	movabsq $0x0101010101010101, %r8
	imulq %r8, %rcx
	cmpq $16, %rdx
	jb 2f
	movq %rcx, %xmm0
	punpcklqdq %xmm0, %xmm0
	movups %xmm0, (%rdi)
	movups %xmm0, -16(%rdi,%rdx)
	cmpq $32, %rdx
	jbe 9f
	movups %xmm0, 16(%rdi)
	movups %xmm0, -32(%rdi,%rdx)
	cmpq $64, %rdx
	jbe 9f
	movups %xmm0, 32(%rdi)
	movups %xmm0, 48(%rdi)
	movups %xmm0, -64(%rdi,%rdx)
	movups %xmm0, -48(%rdi,%rdx)
	cmpq $128, %rdx
	jbe 9f
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
2:	cmpl $8, %edx
	jb 3f
	movq %rcx, (%rdi)
	movq %rcx, -8(%rdi,%rdx)
	ret
3:	cmpl $4, %edx
	jb 4f
	movl %ecx, (%rdi)
	movl %ecx, -4(%rdi,%rdx)
	ret
4:	cmpl $1, %edx
	jb 9b
	movb %cl, (%rdi)
	je 9b
	movw %cx, -2(%rdi,%rdx)
	ret
	.size MEM_NAME(memset), . - MEM_NAME(memset)

// int memcmp(const void *a rdi, const void *b rsi, usize len rdx)
	function MEM_NAME(memcmp)
	cmpq $16, %rdx
	jb 5f
	leaq -16(%rdx), %r8 // the last block's offset
	xorl %ecx, %ecx
	cmpq $32, %rdx
	ja 11f
	movups (%rdi), %xmm0
	movups (%rsi), %xmm1
	movups -16(%rdi,%rdx), %xmm2
	movups -16(%rsi,%rdx), %xmm3
	pcmpeqb %xmm1, %xmm0
	pcmpeqb %xmm3, %xmm2
	pand %xmm2, %xmm0
	pmovmskb %xmm0, %eax
	subl $0xffff, %eax
	jne 1f
	ret
	// More than 32: 64 bytes a turn, the last turn overlapping; up to 64 one turn of two ends.
11:	cmpq $64, %rdx
	ja 12f
	movups (%rdi), %xmm0
	movups (%rsi), %xmm4
	movups 16(%rdi), %xmm1
	movups 16(%rsi), %xmm5
	movups -32(%rdi,%rdx), %xmm2
	movups -32(%rsi,%rdx), %xmm6
	movups -16(%rdi,%rdx), %xmm3
	movups -16(%rsi,%rdx), %xmm7
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
5:	cmpl $8, %edx
	jb 6f
	movq (%rdi), %rax
	movq (%rsi), %rcx
	cmpq %rcx, %rax
	jne 7f
	movq -8(%rdi,%rdx), %rax
	movq -8(%rsi,%rdx), %rcx
	cmpq %rcx, %rax
	jne 7f
	xorl %eax, %eax
	ret
6:	cmpl $4, %edx
	jb 8f
	movl (%rdi), %eax
	movl (%rsi), %ecx
	cmpl %ecx, %eax
	jne 7f
	movl -4(%rdi,%rdx), %eax
	movl -4(%rsi,%rdx), %ecx
	cmpl %ecx, %eax
	jne 7f
	xorl %eax, %eax
	ret
	// The first byte in memory is the most significant for the order.
7:	bswapq %rax
	bswapq %rcx
	cmpq %rcx, %rax
	sbbl %eax, %eax
	orl $1, %eax
	ret
8:	testl %edx, %edx
	je 9f
	movzbl (%rdi), %eax
	movzbl (%rsi), %ecx
	subl %ecx, %eax
	jne 10f
	cmpl $1, %edx
	je 10f
	movzbl 1(%rdi), %eax
	movzbl 1(%rsi), %ecx
	subl %ecx, %eax
	jne 10f
	movzbl -1(%rdi,%rdx), %eax
	movzbl -1(%rsi,%rdx), %ecx
	subl %ecx, %eax
10:	ret
9:	xorl %eax, %eax
	ret
	.size MEM_NAME(memcmp), . - MEM_NAME(memcmp)
	.section .note.GNU-stack,"",@progbits
