# N turns of eight instructions, one load, one store and one branch among them: 5 + 8 N + 3 instructions in all.
    .globl _start
    .text
_start:
    leaq data(%rip), %rbx
    movq $N, %rcx
    xorl %r8d, %r8d
    xorl %r10d, %r10d
    jmp turn
    .balign 64
    .globl turn
turn:
    addq $1, %r8
    movq (%rbx), %rax
    movq %r8, 64(%rbx)
    leaq 3(%rax), %rdx
    xorq %rdx, %r10
    nop
    decq %rcx
    jnz turn
    movl $60, %eax
    xorl %edi, %edi
    syscall
    .bss
    .balign 4096
    .globl data
data:
    .space 4096
# Nobody touches it.
    .globl quiet
quiet:
    .space 8
