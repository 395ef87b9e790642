# 1 + 2 * 1000 instructions, then what TRAP says: one that faults does not retire.
    .globl _start
    .text
_start:
    movl $1000, %ecx
1:  decl %ecx
    jnz 1b
    TRAP
