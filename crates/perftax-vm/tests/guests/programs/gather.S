# Six kinds of instruction in every turn of sixteen: N turns, then the end. For six events on four counters.
    .globl _start
    .text
_start:
    movl $N, %ecx
    leaq data(%rip), %rbx
1:  movq (%rbx), %rax
    movq %rax, 8(%rbx)
    lock addq $1, 16(%rbx)
    call 2f
    testl %eax, %eax
    js 3f
3:  nop
    nop
    nop
    nop
    nop
    nop
    nop
    decl %ecx
    jnz 1b
    movl $60, %eax
    xorl %edi, %edi
    syscall
2:  ret
    .bss
    .balign 64
data:
    .space 64
