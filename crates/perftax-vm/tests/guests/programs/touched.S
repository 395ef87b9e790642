# Writes to the first line of each page, so that the kernel has nothing to do afterwards, then takes N turns (64 a page) of three instructions, four
# micro-operations, each of which loads from a line: the first of each page is in a cache, the others were never touched.
    .globl _start
    .text
_start:
    leaq data(%rip), %rbx
    movq %rbx, %rdx
    movl $N/64, %ecx
page:
    movq %rbx, (%rdx)
    addq $4096, %rdx
    decl %ecx
    jnz page
    movl $N, %ecx
    jmp turn
    .balign 64
    .globl turn
turn:
    movq (%rbx), %rax
    addq $64, %rbx
    loop turn
    movl $60, %eax
    xorl %edi, %edi
    syscall
    .bss
    .balign 4096
    .globl data
data:
    .space 64 * N
