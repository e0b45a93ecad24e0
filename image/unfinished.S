// SPDX-License-Identifier: Apache-2.0
// What block 0 of a disk runs while an installation is under way: it says so on the screen and on
// the first serial port, and halts. At most 440 bytes, loaded at 0x7c00 in real mode.
  .code16
  .globl _start
_start:
  ljmp $0, $begin
begin:
  xorw %ax, %ax
  movw %ax, %ds
  movw %ax, %ss
  movw $0x7c00, %sp
  cld
  movw $text, %si
next:
  lodsb
  testb %al, %al
  jz stop
  pushw %ax
  movb $0x0e, %ah  // teletype output, int 10h
  movw $7, %bx
  int $0x10
  movw $0x3fd, %dx  // line status of COM1; not waited for without end
  movw $0xffff, %cx
wait:
  inb %dx, %al
  testb $0x20, %al
  loopz wait
  popw %ax
  movw $0x3f8, %dx
  outb %al, %dx
  jmp next
stop:
  hlt
  jmp stop
text:
  .ascii "\r\nurMQTT: the installation on this disk was not finished, and the disk holds"
  .asciz "\r\nnothing of use. Start from the urMQTT medium and install again.\r\n"
