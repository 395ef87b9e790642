# A program of two kinds of turns, by turns: A of two instructions, whose one branch is taken; B of eight, of whose four branches one is
# taken. TURNS of A, TURNS of B, and both once more; gcc -DTURNS=N.
    .globl _start
_start:
    movl $2, %ebx
1:  movl $TURNS, %ecx
2:  decl %ecx
    jnz 2b
    movl $TURNS, %ecx
3:  testq %rsp, %rsp
    jz 4f
    jz 4f
    jz 4f
    nop
    nop
    decl %ecx
    jnz 3b
    decl %ebx
    jnz 1b
4:  movl $60, %eax
    xorl %edi, %edi
    syscall
