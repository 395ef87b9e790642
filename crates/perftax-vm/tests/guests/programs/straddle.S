# N turns of three instructions and a jump whose displacement lies on the next page: 1 + 4 N + 3 instructions, N + 1 branches.
    .globl _start
    .text
    .balign 4096
_start:
    movl $N, %ecx
    .skip 4096 - (jump - turn) - 5 - 2, 0x90
turn:
    addl $1, %eax
    leal 1(%rax), %edx
    decl %ecx
jump:
    .byte 0x0f, 0x85
    .long turn - . - 4
    movl $60, %eax
    xorl %edi, %edi
    syscall
