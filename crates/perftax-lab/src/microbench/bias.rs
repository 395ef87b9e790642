//! A loop of loads that should share the samples evenly.

use super::{EXIT, EXIT_INSTRUCTIONS, Microbench};

/// The bias benchmark of the PES study (TPDS'23, section 4.5): four loads an iteration, each to get a quarter of the samples.
/// Compiled without optimisation, as in the study, each load brings two others along that fetch its pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bias {
    /// Iterations.
    pub iterations: u64,
    /// Loads an iteration: 4, or the study's 12.
    pub loads: u64,
}

/// Instructions of an iteration beside its loads: subtract, compare, jump.
const FRAME: u64 = 3;
/// Instructions before the first.
const START: u64 = 2;

impl Bias {
    /// Instructions that it executes.
    pub fn instructions(&self) -> u64 {
        START + self.iterations * (self.loads + FRAME) + EXIT_INSTRUCTIONS
    }

    /// Loads that it executes.
    pub fn total_loads(&self) -> u64 {
        self.iterations * self.loads
    }
}

impl Microbench for Bias {
    fn name(&self) -> String {
        format!("bias-{}", self.loads)
    }

    fn assembly(&self) -> String {
        let loads: String = (0..self.loads).map(|i| format!("    movq {}(%rbx), %rax\n", 8 * i)).collect();
        format!(
            "\
    .globl _start
    .text
_start:
    movl $data, %ebx
    movabsq ${iterations}, %rcx
iteration:
{loads}    subq $1, %rcx
    cmpq $0, %rcx
    jne iteration
{EXIT}
    .data
    .balign 64
data:
    .skip {bytes}
",
            iterations = self.iterations,
            bytes = 8 * self.loads
        )
    }
}
