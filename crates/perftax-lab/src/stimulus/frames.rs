//! Work below a known number of callers, however this is compiled.

#[cfg(target_arch = "x86_64")]
use perftax_cost::prediction::CALLERS;

/// Callers that are not there.
#[cfg(target_arch = "x86_64")]
const FEIGNED: usize = CALLERS - 1;

/// Does work below [`CALLERS`] callers.
///
/// Optimised programs keep whatever they like in the frame pointer, and a chain of callers then ends by accident: at once, or at an address that cannot be
/// read, which takes longer than many callers. Work that is sampled for what a chain costs needs one that is always the same.
///
/// # Panics
/// Work that panics aborts.
#[cfg(target_arch = "x86_64")]
pub fn under_frames(mut work: impl FnMut()) {
    call_below(&mut work);
}

/// Does work below its own callers: what compiles for other processors keeps their frame pointers.
#[cfg(not(target_arch = "x86_64"))]
pub fn under_frames(mut work: impl FnMut()) {
    work();
}

#[cfg(target_arch = "x86_64")]
fn call_below<W: FnMut()>(work: &mut W) {
    // Where the caller's frame is, and where it goes on; that of the outermost is 0, as of a program's start.
    let mut frames = [[0_u64; 2]; FEIGNED];
    let at = frames.as_ptr() as u64;
    for (number, frame) in frames.iter_mut().enumerate() {
        let outer = at + 16 * (number as u64 + 1);
        *frame = [if number + 1 == FEIGNED { 0 } else { outer }, call_below::<W> as fn(&mut W) as usize as u64];
    }
    // SAFETY: calls a function of the C ABI with its one argument; the stack is aligned at a block's start, and what the ABI lets a callee change is said to
    // be changed. The frame pointer, which the block cannot name, is kept in r12 meanwhile, which the callee keeps. Nothing returns through the feigned frames.
    unsafe {
        std::arch::asm!(
            "mov r12, rbp",
            "mov rbp, {frames}",
            "call {entry}",
            "mov rbp, r12",
            frames = in(reg) at,
            entry = sym anchored::<W>,
            in("rdi") std::ptr::from_mut(work),
            out("r12") _,
            clobber_abi("C"),
        );
    }
    // They are read behind the compiler's back.
    std::hint::black_box(&frames);
}

/// What is aligned by more than the stack is makes a function keep its frame pointer.
#[cfg(target_arch = "x86_64")]
#[repr(align(64))]
struct Anchor(#[allow(dead_code, reason = "it is there for its place")] [u8; 64]);

#[cfg(target_arch = "x86_64")]
extern "C" fn anchored<W: FnMut()>(work: *mut W) {
    let anchor = Anchor([0; 64]);
    std::hint::black_box(&anchor);
    // SAFETY: call_below's own reference, which it does not use meanwhile.
    unsafe { (*work)() };
    std::hint::black_box(&anchor);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn work_has_so_many_callers() {
        let mut callers = 0;
        under_frames(|| {
            let mut frame: *const [u64; 2];
            // SAFETY: reads a register.
            unsafe { std::arch::asm!("mov {}, rbp", out(reg) frame) };
            while !frame.is_null() {
                callers += 1;
                // SAFETY: the chain that is tested, which ends in 0.
                frame = unsafe { (*frame)[0] } as *const [u64; 2];
            }
        });
        assert_eq!(callers, CALLERS);
    }
}
