//! What the hardware leaves to chance.

/// A linear feedback shift register of 16 bits: every number but 0 once in 65,535. Nobody says how the hardware does it; what matters
/// is that a run can be repeated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Random(u16);

impl Random {
    /// From a seed, of which 16 bits count.
    pub fn new(seed: u32) -> Self {
        /// Odd, so that seeds stay apart; small ones would begin alike.
        const SPREAD: u16 = 0x9e37;
        Self((seed as u16).wrapping_mul(SPREAD).max(1))
    }

    /// The next so many bits, 7 at most.
    pub fn bits(&mut self, count: u32) -> u64 {
        /// x^16 + x^14 + x^13 + x^11 + 1, of full length.
        const TAPS: u16 = 0xb400;
        for _ in 0..count {
            let out = self.0 & 1;
            self.0 = self.0 >> 1 ^ if out == 1 { TAPS } else { 0 };
        }
        u64::from(self.0) & ((1 << count) - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_numbers_come_and_seeds_differ() {
        let drawn = |seed: u32| -> Vec<u64> {
            let mut random = Random::new(seed);
            (0..4096).map(|_| random.bits(7)).collect()
        };
        let mut numbers = drawn(1);
        assert_ne!(numbers, drawn(2));
        assert_eq!(numbers, drawn(1));
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!(numbers.len(), 128);
    }
}
