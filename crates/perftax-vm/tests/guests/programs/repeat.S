# 1000 turns with repeated string instructions, system calls and page faults: 2 + 14 * 1000 + 3 instructions.
    .globl _start
    .text
_start:
    movl $1000, %r12d
    leaq pages(%rip), %rbx
turn:
    leaq from(%rip), %rsi
    leaq to(%rip), %rdi
    movl $300, %ecx
    rep movsb
    xorl %ecx, %ecx
    rep stosb
    movl $39, %eax
    syscall
    movb $1, (%rbx)
    addq $4096, %rbx
    movl $5, %ecx
    repne scasb
    decl %r12d
    jnz turn
    movl $60, %eax
    xorl %edi, %edi
    syscall
    .bss
    .balign 4096
from:
    .space 4096
to:
    .space 4096
pages:
    .space 4096 * 1001
