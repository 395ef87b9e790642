//! Where slots went: MSR_PERF_METRICS (SDM volume 3, 20.3.9.3; the upper half, Sapphire Rapids's second level, 20.3.10).

/// Of the slots that fixed counter 3 counts, those in which something retired. No slot waits for instructions or is run in vain here: all others wait for the back end.
/// Of the second level nothing is there but slots that wait for memory: no instruction is heavy (fills slots beyond its micro-operations, as microcode does), and what is
/// neither run in vain nor waits for instructions is not so by mispredictions or latency.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Metrics {
    /// Slots in which a micro-operation retired.
    pub retiring: u64,
    /// Slots that passed while a load was waited for.
    pub memory: u64,
    /// Slots that were written in as of bad speculation and of the front end.
    others: [u64; 2],
    /// Likewise, as of heavy instructions, mispredictions and the front end's latency.
    second: [u64; 3],
}

/// What a share of 1 is.
const WHOLE: u64 = 255;

impl Metrics {
    /// What a value that is written means, of so many slots.
    pub fn of(value: u64, slots: u64) -> Self {
        let share = |at: u32| ((value >> (8 * at) & WHOLE) as u128 * u128::from(slots) / u128::from(WHOLE)) as u64;
        Self { retiring: share(0), memory: share(7), others: [share(1), share(2)], second: [share(4), share(5), share(6)] }
    }

    /// The register: retiring, bad speculation, front end, back end, a byte each, which add up to 255; then what of each is heavy instructions, mispredictions, the
    /// front end's latency, memory.
    pub fn register(&self, slots: u64) -> u64 {
        if slots == 0 {
            return 0;
        }
        let share = |of: u64| {
            let whole = (u128::from(of.min(slots)) * u128::from(WHOLE) + u128::from(slots / 2)) / u128::from(slots);
            whole as u64
        };
        let [retiring, bad, front] = [self.retiring, self.others[0], self.others[1]].map(share);
        let back = WHOLE.saturating_sub(retiring + bad + front);
        let [heavy, mispredicted, latency] = self.second.map(share);
        let second = heavy | mispredicted << 8 | latency << 16 | share(self.memory).min(back) << 24;
        retiring | bad << 8 | front << 16 | back << 24 | second << 32
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

    #[test]
    fn slots_that_wait_for_memory_wait_for_the_back_end() {
        let metrics = Metrics { retiring: 300, memory: 500, ..Metrics::default() };
        let register = metrics.register(1000);
        assert_eq!((register >> 24 & 255, register >> 32 & 0xff_ffff, register >> 56), (178, 0, 128));
        let all = Metrics { memory: 990, ..metrics }.register(1000);
        assert_eq!(all >> 56, 178, "not more than wait at all");
    }
}
