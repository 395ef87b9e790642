//! Loops in assembly, so that what they execute is known to the last instruction: the microbenchmarks of the audit.
//!
//! What a turn executes stands in [`Turn`]; a test of `known_loop` compares it with a disassembly.

/// A loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loop {
    /// Five loads, four stores, four branches of which three are taken, two locked operations, one return: the PES study's loop for
    /// several events at once (TPDS'23, section 4), by other instructions.
    Mix,
    /// Four loads by four instructions, and nothing else that reads memory.
    FourLoads,
    /// A chain of loads, each at the address that the one before has read; so many instructions to each.
    Chase(Ratio),
    /// A branch that goes by a coin, see [`Loop::coin`]: where the coin says so it is taken, over one instruction.
    Coin,
    /// Twenty multiplications, each of what the one before gave.
    Multiply,
}

/// Instructions to one load of a chase: the study's load-miss ratios of 1/20 to 1/100.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ratio {
    /// One in 20.
    Of20,
    /// One in 40.
    Of40,
    /// One in 60.
    Of60,
    /// One in 80.
    Of80,
    /// One in 100.
    Of100,
}

impl Ratio {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Of20, Self::Of40, Self::Of60, Self::Of80, Self::Of100];

    /// Instructions of a turn.
    pub fn instructions(self) -> u64 {
        match self {
            Self::Of20 => 20,
            Self::Of40 => 40,
            Self::Of60 => 60,
            Self::Of80 => 80,
            Self::Of100 => 100,
        }
    }
}

/// What one turn of a loop retires. In the last turn the branch back is not taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Turn {
    /// Instructions.
    pub instructions: u64,
    /// Instructions that read memory.
    pub loads: u64,
    /// Instructions that write memory.
    pub stores: u64,
    /// Branches of every kind.
    pub branches: u64,
    /// Of them taken.
    pub taken: u64,
    /// Locked read-modify-writes.
    pub locked: u64,
    /// Returns.
    pub returns: u64,
}

impl Loop {
    /// What a turn retires.
    pub fn turn(self) -> Turn {
        match self {
            Self::Mix => Turn { instructions: 11, loads: 5, stores: 4, branches: 4, taken: 3, locked: 2, returns: 1 },
            Self::FourLoads => Turn { instructions: 6, loads: 4, branches: 1, taken: 1, ..Turn::default() },
            Self::Chase(ratio) => Turn { instructions: ratio.instructions(), loads: 1, branches: 1, taken: 1, ..Turn::default() },
            // A turn in which the coin's branch falls through.
            Self::Coin => Turn { instructions: 17, branches: 2, taken: 1, ..Turn::default() },
            Self::Multiply => Turn { instructions: 22, branches: 1, taken: 1, ..Turn::default() },
        }
    }

    /// Whether the branch of [`Loop::Coin`] is taken where so many turns are left, this one included: a bit of the number's hash (the
    /// finaliser of SplitMix64; Steele, Lea & Flood, OOPSLA'14), which no predictor knows before it has seen it.
    pub fn coin(left: u64) -> bool {
        let mut hash = left.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        hash >> 40 & 1 == 0
    }

    /// Its loads where nothing else reads memory: offsets of the instruction in its code, and of the data in the scratch memory, bytes.
    pub fn load_sites(self) -> &'static [(u64, u64)] {
        match self {
            // The first has no displacement and so three bytes, the others four (SDM volume 2, section 2.1).
            Self::FourLoads => &[(0, 0), (3, 8), (7, 16), (11, 24)],
            Self::Mix | Self::Chase(_) | Self::Coin | Self::Multiply => &[],
        }
    }

    /// Where the instructions of a turn begin, bytes from the beginning of its code; told of the four loads only.
    pub fn instruction_sites(self) -> &'static [u64] {
        match self {
            Self::FourLoads => &[0, 3, 7, 11, 15, 18],
            Self::Mix | Self::Chase(_) | Self::Coin | Self::Multiply => &[],
        }
    }

    /// The name of its function, as a disassembly has it.
    pub fn symbol(self) -> &'static str {
        match self {
            Self::Mix => "perftax_loop_mix",
            Self::FourLoads => "perftax_loop_four_loads",
            Self::Chase(Ratio::Of20) => "perftax_loop_chase_20",
            Self::Chase(Ratio::Of40) => "perftax_loop_chase_40",
            Self::Chase(Ratio::Of60) => "perftax_loop_chase_60",
            Self::Chase(Ratio::Of80) => "perftax_loop_chase_80",
            Self::Chase(Ratio::Of100) => "perftax_loop_chase_100",
            Self::Coin => "perftax_loop_coin",
            Self::Multiply => "perftax_loop_multiply",
        }
    }
}

/// Nodes of a chase and their distance, bytes: the study's 1000 of 128 bytes, which no 32-KiB cache holds, and no prefetcher of neighbours
/// helps with.
const NODES: usize = 1000;
/// See [`NODES`].
const NODE_BYTES: usize = 128;
const NODE_WORDS: usize = NODE_BYTES / 8;

/// Words of the memory of loops that chase nothing.
const SCRATCH_WORDS: usize = 8;

/// Memory that the loops work on. The nodes of a chase are never written to, so that the chain stays within them.
pub struct LoopMemory {
    scratch: Box<[u64; SCRATCH_WORDS]>,
    nodes: Box<[u64]>,
}

impl Default for LoopMemory {
    fn default() -> Self {
        Self::new()
    }
}

impl LoopMemory {
    /// Memory with the nodes of a chase in one cycle, shuffled (always the same way).
    pub fn new() -> Self {
        let mut nodes = vec![0u64; NODES * NODE_WORDS].into_boxed_slice();
        let mut order: Vec<usize> = (0..NODES).collect();
        // Fisher and Yates, with a linear congruential generator (Knuth's MMIX constants).
        let mut state = 20_230_501_u64;
        for last in (1..NODES).rev() {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            order.swap(last, (state >> 33) as usize % (last + 1));
        }
        let base = nodes.as_ptr() as u64;
        for (place, node) in order.iter().enumerate() {
            let next = order[(place + 1) % NODES];
            nodes[node * NODE_WORDS] = base + (next * NODE_BYTES) as u64;
        }
        Self { scratch: Box::new([0; SCRATCH_WORDS]), nodes }
    }

    /// Where the memory of loops that chase nothing begins.
    pub fn scratch_address(&self) -> u64 {
        self.scratch.as_ptr() as u64
    }
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use super::{Loop, LoopMemory, Ratio};

    // rdi: turns, at least one; rsi: memory; rax, rdx: scratch.
    core::arch::global_asm!(
        ".pushsection .text.perftax_loops,\"ax\",@progbits",
        ".balign 64",
        ".globl perftax_loop_mix",
        ".type perftax_loop_mix,@function",
        "perftax_loop_mix:",
        "2: lock addq $1, (%rsi)",
        "lock addq $1, 8(%rsi)",
        "movq 16(%rsi), %rax",
        "movq 24(%rsi), %rdx",
        "call 4f",
        "movq %rax, 32(%rsi)",
        "testq %rsp, %rsp",
        "jz 3f",
        "decq %rdi",
        "jnz 2b",
        "3: ret",
        "4: ret",
        ".size perftax_loop_mix, . - perftax_loop_mix",
        ".balign 64",
        ".globl perftax_loop_four_loads",
        ".type perftax_loop_four_loads,@function",
        "perftax_loop_four_loads:",
        "2: movq (%rsi), %rax",
        "movq 8(%rsi), %rax",
        "movq 16(%rsi), %rax",
        "movq 24(%rsi), %rax",
        "decq %rdi",
        "jnz 2b",
        "ret",
        ".size perftax_loop_four_loads, . - perftax_loop_four_loads",
        // A load, so many additions, and two instructions that end the turn.
        ".macro perftax_chase instructions",
        ".balign 64",
        ".globl perftax_loop_chase_\\instructions",
        ".type perftax_loop_chase_\\instructions,@function",
        "perftax_loop_chase_\\instructions:",
        "2: movq (%rsi), %rsi",
        ".rept \\instructions - 3",
        "addq $1, %rax",
        ".endr",
        "decq %rdi",
        "jnz 2b",
        "ret",
        ".size perftax_loop_chase_\\instructions, . - perftax_loop_chase_\\instructions",
        ".endm",
        "perftax_chase 20",
        "perftax_chase 40",
        "perftax_chase 60",
        "perftax_chase 80",
        "perftax_chase 100",
        ".purgem perftax_chase",
        ".balign 64",
        ".globl perftax_loop_coin",
        ".type perftax_loop_coin,@function",
        "perftax_loop_coin:",
        "2: movabsq $0x9e3779b97f4a7c15, %rax",
        "imulq %rdi, %rax",
        "movq %rax, %rdx",
        "shrq $30, %rdx",
        "xorq %rdx, %rax",
        "movabsq $0xbf58476d1ce4e5b9, %rdx",
        "imulq %rdx, %rax",
        "movq %rax, %rdx",
        "shrq $27, %rdx",
        "xorq %rdx, %rax",
        "movabsq $0x94d049bb133111eb, %rdx",
        "imulq %rdx, %rax",
        "btq $40, %rax",
        "jnc 3f",
        "nop",
        "3: decq %rdi",
        "jnz 2b",
        "ret",
        ".size perftax_loop_coin, . - perftax_loop_coin",
        ".balign 64",
        ".globl perftax_loop_multiply",
        ".type perftax_loop_multiply,@function",
        "perftax_loop_multiply:",
        "2:",
        ".rept 20",
        "imulq %rax, %rax",
        ".endr",
        "decq %rdi",
        "jnz 2b",
        "ret",
        ".size perftax_loop_multiply, . - perftax_loop_multiply",
        ".popsection",
        options(att_syntax)
    );

    type Code = unsafe extern "C" fn(turns: u64, memory: *mut u64);

    unsafe extern "C" {
        fn perftax_loop_mix(turns: u64, memory: *mut u64);
        fn perftax_loop_four_loads(turns: u64, memory: *mut u64);
        fn perftax_loop_chase_20(turns: u64, memory: *mut u64);
        fn perftax_loop_chase_40(turns: u64, memory: *mut u64);
        fn perftax_loop_chase_60(turns: u64, memory: *mut u64);
        fn perftax_loop_chase_80(turns: u64, memory: *mut u64);
        fn perftax_loop_chase_100(turns: u64, memory: *mut u64);
        fn perftax_loop_coin(turns: u64, memory: *mut u64);
        fn perftax_loop_multiply(turns: u64, memory: *mut u64);
    }

    impl Loop {
        fn code(self) -> Code {
            match self {
                Self::Mix => perftax_loop_mix,
                Self::FourLoads => perftax_loop_four_loads,
                Self::Chase(Ratio::Of20) => perftax_loop_chase_20,
                Self::Chase(Ratio::Of40) => perftax_loop_chase_40,
                Self::Chase(Ratio::Of60) => perftax_loop_chase_60,
                Self::Chase(Ratio::Of80) => perftax_loop_chase_80,
                Self::Chase(Ratio::Of100) => perftax_loop_chase_100,
                Self::Coin => perftax_loop_coin,
                Self::Multiply => perftax_loop_multiply,
            }
        }

        /// Whether it has been written for this architecture.
        pub const HERE: bool = true;

        /// Where its code begins.
        pub fn address(self) -> u64 {
            self.code() as usize as u64
        }

        /// Does so many turns, at least one.
        #[inline(never)]
        pub fn run(self, turns: u64, memory: &mut LoopMemory) {
            let of = match self {
                Self::Mix | Self::FourLoads | Self::Coin | Self::Multiply => memory.scratch.as_mut_ptr(),
                Self::Chase(_) => memory.nodes.as_mut_ptr(),
            };
            // SAFETY: the loops follow the C calling convention; those that write stay within the scratch words, and the chain of a chase
            // leads from node to node.
            unsafe { (self.code())(turns.max(1), of) }
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
impl Loop {
    /// Whether it has been written for this architecture.
    pub const HERE: bool = false;

    /// Where its code begins: nowhere.
    pub fn address(self) -> u64 {
        0
    }

    /// Does nothing; [`Loop::HERE`] says so.
    pub fn run(self, _turns: u64, _memory: &mut LoopMemory) {}
}
