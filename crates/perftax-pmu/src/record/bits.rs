//! Fields of hardware registers.

/// `width` bits of `word` from bit `at` up. The bounds are the callers' constants: `at + width` is at most 64, `width` below 64.
pub(super) const fn bits(word: u64, at: u32, width: u32) -> u64 {
    (word >> at) & ((1 << width) - 1)
}

/// One bit.
pub(super) const fn bit(word: u64, at: u32) -> bool {
    bits(word, at, 1) != 0
}
