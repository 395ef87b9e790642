//! Two functions that other tools put probes on: the kernel emulates the first instruction of one and steps over that of the other.

/// The function that begins with a `push`, by the name that its program exports.
pub const EMULATED: &str = "perftax_probed_push";
/// The one that begins with another instruction.
pub const STEPPED: &str = "perftax_probed_step";

#[cfg(target_arch = "x86_64")]
std::arch::global_asm!(
    ".globl perftax_probed_push",
    ".type perftax_probed_push, @function",
    "perftax_probed_push:",
    "push rbp",
    "mov rax, rdi",
    "pop rbp",
    "ret",
    ".size perftax_probed_push, . - perftax_probed_push",
    ".globl perftax_probed_step",
    ".type perftax_probed_step, @function",
    "perftax_probed_step:",
    "mov rax, rdi",
    "ret",
    ".size perftax_probed_step, . - perftax_probed_step",
);

#[cfg(target_arch = "x86_64")]
unsafe extern "C" {
    safe fn perftax_probed_push(x: u64) -> u64;
    safe fn perftax_probed_step(x: u64) -> u64;
}

/// No kernel of these emulates what a compiler begins a function with.
#[cfg(not(target_arch = "x86_64"))]
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn perftax_probed_push(x: u64) -> u64 {
    perftax_probed_step(x)
}

#[cfg(not(target_arch = "x86_64"))]
#[unsafe(no_mangle)]
#[inline(never)]
extern "C" fn perftax_probed_step(x: u64) -> u64 {
    std::hint::black_box(x)
}

/// Calls each so many times.
pub fn call_entries(times: u64) {
    for i in 0..times {
        std::hint::black_box(perftax_probed_push(i).wrapping_add(perftax_probed_step(i)));
    }
}

/// Whether the kernel emulates an instruction that a probe sits on, instead of executing a copy of it and trapping a second time
/// (arch/x86/kernel/uprobes.c, `branch_setup_xol_ops` and `push_setup_xol_ops`, Linux 6.1): a register pushed, a plain nop, relative calls and jumps.
pub fn is_emulated(code: &[u8]) -> bool {
    cfg!(target_arch = "x86_64")
        && match *code {
            // With the prefix of the registers from r8 up; others are not emulated.
            [0x41, 0x50..=0x57, ..] => true,
            [0x50..=0x57 | 0x70..=0x7f | 0x90 | 0xe8 | 0xe9 | 0xeb, ..] => true,
            [0x0f, 0x80..=0x8f, ..] => true,
            _ => false,
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn first_instructions_are_told_apart() {
        let code_of = |function: extern "C" fn(u64) -> u64| {
            // SAFETY: at least four bytes of code, which this program may read.
            unsafe { std::slice::from_raw_parts(function as *const u8, 4) }
        };
        assert!(is_emulated(code_of(perftax_probed_push)) && !is_emulated(code_of(perftax_probed_step)));
        // push r12; jmp; endbr64; sub rsp, 8; a nop of four bytes.
        assert!(is_emulated(&[0x41, 0x54]) && is_emulated(&[0xe9, 0, 0, 0, 0]));
        for stepped in [&[0xf3, 0x0f, 0x1e, 0xfa][..], &[0x48, 0x83, 0xec, 8], &[0x0f, 0x1f, 0x40, 0], &[]] {
            assert!(!is_emulated(stepped), "{stepped:x?}");
        }
    }
}
