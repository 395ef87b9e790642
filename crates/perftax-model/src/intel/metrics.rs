//! Where slots went: MSR_PERF_METRICS (SDM volume 3, 20.3.9.3).

/// Of the slots that fixed counter 3 counts, those in which something retired. No slot waits for instructions or is run in vain here: all others wait for the back end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Slots in which a micro-operation retired.
    pub retiring: u64,
    /// Slots that were written in as of bad speculation and of the front end.
    others: [u64; 2],
}

/// What a share of 1 is.
const WHOLE: u64 = 255;

impl Metrics {
    /// What a value that is written means, of so many slots.
    pub fn of(value: u64, slots: u64) -> Self {
        let share = |at: u32| ((value >> (8 * at) & WHOLE) as u128 * u128::from(slots) / u128::from(WHOLE)) as u64;
        Self { retiring: share(0), others: [share(1), share(2)] }
    }

    /// The register: retiring, bad speculation, front end, back end, a byte each; they add up to 255.
    pub fn register(&self, slots: u64) -> u64 {
        if slots == 0 {
            return 0;
        }
        let share = |of: u64| (u128::from(of.min(slots)) * u128::from(WHOLE) + u128::from(slots / 2)) / u128::from(slots);
        let [retiring, bad, front] = [self.retiring, self.others[0], self.others[1]].map(|of| share(of) as u64);
        let back = WHOLE.saturating_sub(retiring + bad + front);
        retiring | bad << 8 | front << 16 | back << 24
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_add_up_and_survive_being_written() {
        let metrics = Metrics { retiring: 300, ..Metrics::default() };
        let register = metrics.register(1000);
        assert_eq!((register & 255, register >> 8 & 0xffff, register >> 24), (77, 0, 178));
        assert_eq!(Metrics::of(register, 1000).register(1000), register);
        assert_eq!(Metrics::default().register(0), 0);
    }
}
