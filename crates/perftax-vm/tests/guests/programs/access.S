# 1000 turns of accesses of every kind: 3 + 10 * 1000 + 3 instructions; 6 load, 6 store, 2 of them with a lock.
    .globl _start
    .text
_start:
    movl $1000, %ecx
    leaq data(%rip), %rbx
    vxorps %ymm0, %ymm0, %ymm0
turn:
    vmovups 32(%rbx), %ymm1
    movdqu %xmm1, 64(%rbx)
    lock addq $1, (%rbx)
    xchgq %rax, 8(%rbx)
    pushq %rax
    popq %rdx
    addq %rdx, 16(%rbx)
    fldl 24(%rbx)
    fstpl 24(%rbx)
    loop turn
    movl $60, %eax
    xorl %edi, %edi
    syscall
    .bss
    .balign 4096
data:
    .space 4096
