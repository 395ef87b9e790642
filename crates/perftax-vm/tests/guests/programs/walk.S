# N turns of four instructions, each of which loads from a line that was never touched.
    .globl _start
    .text
_start:
    movl $N, %ecx
    leaq data(%rip), %rbx
turn:
    movq (%rbx), %rax
    addq $64, %rbx
    decl %ecx
    jnz turn
    movl $60, %eax
    xorl %edi, %edi
    syscall
    .bss
    .balign 4096
data:
    .space 64 * N
