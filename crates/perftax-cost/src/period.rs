//! Sampling periods: primes, and the rules of the hardware.
//!
//! **Why primes.** A period that shares a factor with the length of a loop samples the same few instructions for ever: of four
//! loads in a loop, a period of exactly 100,000 puts all samples on one of them, 100,003 a quarter on each. A prime shares
//! factors with nothing but its own multiples. Where the hardware dictates a granule (IBS: 16), the prime is in the other
//! factor, and the low bits are left to the hardware's own randomisation. PEBS does not count the event that it records, so that it
//! samples one in period + 1, and it is *that* which must be prime: 100,003 puts all samples on one load of four again.

use perftax_doc::Mechanism;

/// Longest period that hardware counters hold: 48 bits (SDM volume 3, architectural performance monitoring).
pub const PERIOD_MAX: u64 = 1 << 48;

/// Shortest cpu-clock period, ns: the kernel raises anything below it (kernel/events/core.c, perf_swevent_start_hrtimer).
pub const CPU_CLOCK_PERIOD_MIN_NS: u64 = 10_000;

/// Granule of IBS periods: the counter's low four bits are not programmable (AMD64 APM volume 2, IBS; kernel amd/ibs.c).
pub const IBS_GRANULE: u64 = 16;

/// Shortest IBS op period: 0x90, smaller ones are reserved (kernel amd/ibs.c, min_period of the op PMU).
pub const IBS_OP_PERIOD_MIN: u64 = 0x90;

/// Shortest IBS fetch period: one granule (kernel amd/ibs.c, min_period of the fetch PMU).
pub const IBS_FETCH_PERIOD_MIN: u64 = 0x10;

/// Longest IBS op period that the hardware counts by itself: 27 bits, the lowest four 0 (AMD64 APM volume 2, IbsOpMaxCnt
/// with its extension; kernel IBS_OP_MAX_CNT_EXT_MASK). Beyond it the kernel interrupts several times for one sample, which α does not cover.
pub const IBS_OP_PERIOD_MAX: u64 = 0x7ff_fff0;

/// Longest IBS fetch period that the hardware counts by itself: 20 bits, the lowest four 0 (IbsFetchMaxCnt).
pub const IBS_FETCH_PERIOD_MAX: u64 = 0xf_fff0;

/// SPE's minimum interval where `caps/min_interval` is not known: the largest that the architecture lists (256..4096).
pub const SPE_INTERVAL_MIN_DEFAULT: u64 = 4096;

/// What the hardware and kernel demand of a period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rule {
    /// Periods must be multiples of this.
    pub granule: u64,
    /// Shortest legal period.
    pub min: u64,
    /// Longest legal period.
    pub max: u64,
    /// Events that pass uncounted at every sample: one in period + uncounted is sampled. 1 for PEBS, which records the event after
    /// the overflow and reloads the counter then (TPDS'23, public data: events / (period + 1) samples at every period).
    pub uncounted: u64,
}

impl Rule {
    /// The rule of a mechanism. `spe_min_interval` is what `caps/min_interval` of the SPE device says, where there is one.
    pub fn of(mechanism: Mechanism, spe_min_interval: Option<u64>) -> Self {
        let (granule, min, max) = match mechanism {
            Mechanism::IbsOp => (IBS_GRANULE, IBS_OP_PERIOD_MIN, IBS_OP_PERIOD_MAX),
            Mechanism::IbsFetch => (IBS_GRANULE, IBS_FETCH_PERIOD_MIN, IBS_FETCH_PERIOD_MAX),
            Mechanism::Spe => (1, spe_min_interval.unwrap_or(SPE_INTERVAL_MIN_DEFAULT), PERIOD_MAX),
            Mechanism::CpuClock => (1, CPU_CLOCK_PERIOD_MIN_NS, PERIOD_MAX),
            Mechanism::Pebs
            | Mechanism::PebsDirect
            | Mechanism::Pmi
            | Mechanism::Software
            | Mechanism::Breakpoint
            | Mechanism::Tracepoint
            | Mechanism::Uprobe => (1, 1, PERIOD_MAX),
        };
        Self { granule, min, max, uncounted: u64::from(matches!(mechanism, Mechanism::Pebs | Mechanism::PebsDirect)) }
    }

    /// Whether hardware and kernel take the period as it is. (It need not be prime.)
    pub fn allows(&self, period: u64) -> bool {
        period >= self.min && period <= self.max && period.is_multiple_of(self.granule)
    }

    /// The shortest good period at or above `period`: granule × prime, or 1 where 1 is asked for and legal.
    pub fn at_least(&self, period: u64) -> Option<u64> {
        let period = period.max(self.min);
        if period <= 1 {
            return Some(1);
        }
        let wanted = period.checked_add(self.uncounted)?;
        let candidate = self.granule.checked_mul(prime_at_least(wanted.div_ceil(self.granule))?)? - self.uncounted;
        (candidate <= self.max).then_some(candidate)
    }

    /// The longest good period at or below `period`: granule × prime, or 1.
    pub fn at_most(&self, period: u64) -> Option<u64> {
        let factor = period.min(self.max) / self.granule;
        if factor == 1 && self.granule == 1 && self.min <= 1 {
            return Some(1);
        }
        let candidate = self.granule * prime_at_most(factor + self.uncounted)? - self.uncounted;
        (candidate >= self.min).then_some(candidate)
    }

    /// Why the period has the form that it has, in words for a plan.
    pub fn reason(&self, period: u64) -> String {
        match self.granule {
            1 if period == 1 => "every event is taken: nothing can alias".into(),
            1 if self.uncounted > 0 => {
                "one below a prime: PEBS samples one event in period + 1, and that does not alias with loops".into()
            }
            1 => "prime, so that it does not alias with loops".into(),
            granule => format!(
                "{granule} × the prime {}: the hardware takes multiples of {granule} only, and the prime does not alias with loops",
                period / granule
            ),
        }
    }
}

/// Event-driven default periods: primes near 2K, 4K … 128K (the reset values of ROSS'17), as the mechanism's rule allows.
pub fn event_defaults(rule: &Rule) -> Vec<u64> {
    let mut periods: Vec<u64> = (0..7).filter_map(|i| rule.at_least(2000 << i)).collect();
    periods.dedup();
    periods
}

/// Time-driven default periods, ns: primes at 4, 8, 16, 32, 64 and 128 times the cost of a sample (overheads of 33 to 0.8 %),
/// none at or below three times the cost, none below the kernel's 10 µs.
pub fn time_defaults(alpha_ns: f64) -> Vec<u64> {
    let rule = Rule::of(Mechanism::CpuClock, None);
    let shortest = (alpha_ns.max(0.0) * 3.0) as u64;
    let wanted = |i: u32| (alpha_ns.max(1.0) * 4.0 * f64::from(1_u32 << i)) as u64;
    let mut periods: Vec<u64> = (0..6).filter_map(|i| rule.at_least(wanted(i))).filter(|p| *p > shortest).collect();
    periods.dedup();
    periods
}

/// Whether `n` is prime. Exact for every u64: Miller–Rabin with the first twelve primes as witnesses, which suffices below
/// 3.3·10²⁴ (Sorenson & Webster 2015).
pub fn is_prime(n: u64) -> bool {
    const CROSS_CHECKS: [u64; 12] = [2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37];
    if n < 2 {
        return false;
    }
    if let Some(divisor) = CROSS_CHECKS.iter().find(|w| n.is_multiple_of(**w)) {
        return n == *divisor;
    }
    let twos = (n - 1).trailing_zeros();
    let odd = (n - 1) >> twos;
    CROSS_CHECKS.iter().all(|&cross_check| {
        let mut x = power(cross_check, odd, n);
        if x == 1 || x == n - 1 {
            return true;
        }
        for _ in 1..twos {
            x = product(x, x, n);
            if x == n - 1 {
                return true;
            }
        }
        false
    })
}

/// The smallest prime at or above `n`; `None` where no u64 is.
pub fn prime_at_least(n: u64) -> Option<u64> {
    (n.max(2)..=u64::MAX).find(|&n| is_prime(n))
}

/// So many primes around `period`, up to 5 % from it and evenly apart, as far as there are any: for samplers that are not to fall into step with one another.
pub fn primes_around(period: u64, count: usize) -> Vec<u64> {
    /// From the first to the last, of the period.
    const SPREAD: f64 = 0.1;
    let mut primes = Vec::with_capacity(count);
    for number in 0..count {
        let place = (number as f64 + 0.5) / count as f64 - 0.5;
        let wanted = (period as f64 * (1.0 + SPREAD * place)).round() as u64;
        let near: Vec<u64> = prime_at_most(wanted).into_iter().chain(prime_at_least(wanted)).collect();
        let distance = |prime: &&u64| (primes.contains(*prime), prime.abs_diff(wanted));
        primes.push(near.iter().min_by_key(distance).copied().unwrap_or(period));
    }
    primes
}

/// The largest prime at or below `n`; `None` below 2.
pub fn prime_at_most(n: u64) -> Option<u64> {
    (2..=n).rev().find(|&n| is_prime(n))
}

fn product(a: u64, b: u64, modulus: u64) -> u64 {
    (u128::from(a) * u128::from(b) % u128::from(modulus)) as u64
}

fn power(mut base: u64, mut exponent: u64, modulus: u64) -> u64 {
    let mut result = 1;
    base %= modulus;
    while exponent > 0 {
        if exponent & 1 == 1 {
            result = product(result, base, modulus);
        }
        base = product(base, base, modulus);
        exponent >>= 1;
    }
    result
}

/// A cost along the logarithm of the period; beyond the ends it stays that of the nearest. `None` without points, which stand shortest
/// period first.
pub(crate) fn along_periods(points: &[(u64, f64)], period: u64) -> Option<f64> {
    let after = points.partition_point(|(at, _)| *at < period);
    match (after.checked_sub(1).map(|before| points[before]), points.get(after)) {
        (None, None) => None,
        (Some((_, only)), None) | (None, Some(&(_, only))) => Some(only),
        (Some((from, low)), Some(&(to, high))) => {
            let (from, to) = ((from as f64).ln(), (to as f64).ln());
            Some(low + (high - low) * ((period as f64).ln() - from) / (to - from))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_primes_and_known_liars() {
        assert_eq!(primes_around(251, 4), [241, 251, 257, 263]);
        assert_eq!(primes_around(100_003, 1), [100_003]);
        let small: Vec<u64> = (0..30).filter(|n| is_prime(*n)).collect();
        assert_eq!(small, [2, 3, 5, 7, 11, 13, 17, 19, 23, 29]);
        assert!(is_prime(18_446_744_073_709_551_557), "the largest 64-bit prime");
        for composite in [561, 3_215_031_751, 3_825_123_056_546_413_051, 18_446_744_073_709_551_556, 25 * 1_000_003] {
            assert!(!is_prime(composite), "{composite}");
        }
        assert_eq!(prime_at_least(100_000), Some(100_003));
        assert_eq!(prime_at_most(100_000), Some(99_991));
        assert_eq!(prime_at_least(u64::MAX), None);
        assert_eq!(prime_at_most(1), None);
    }

    #[test]
    fn hardware_rules() {
        let ibs = Rule::of(Mechanism::IbsOp, None);
        assert_eq!(ibs.at_least(100_000), Some(16 * 6257));
        assert!(ibs.allows(16 * 10) && !ibs.allows(16 * 10 + 8) && !ibs.allows(16));
        assert_eq!(ibs.at_least(1), Some(16 * 11), "0x90 = 16 × 9, and the next prime is 11");
        let spe = Rule::of(Mechanism::Spe, Some(1024));
        assert_eq!(spe.at_least(1), Some(1031));
        assert_eq!(spe.at_most(1024), None);
        assert_eq!(Rule::of(Mechanism::Software, None).at_least(1), Some(1));
        assert_eq!(Rule::of(Mechanism::CpuClock, None).at_least(0), Some(10_007));
        assert_eq!(Rule::of(Mechanism::Pmi, None).at_least(PERIOD_MAX), None);
    }

    #[test]
    fn default_periods() {
        let periods = event_defaults(&Rule::of(Mechanism::Pebs, None));
        assert_eq!(periods.first(), Some(&2002));
        assert!(periods.iter().all(|p| is_prime(p + 1)), "PEBS samples one in period + 1");
        assert_eq!(periods.len(), 7);
        assert_eq!(Rule::of(Mechanism::Pebs, None).at_most(100_003), Some(100_002));
        assert_eq!(event_defaults(&Rule::of(Mechanism::Pmi, None)).first(), Some(&2003));
        assert!(event_defaults(&Rule::of(Mechanism::Spe, Some(4096))).iter().all(|p| *p >= 4096));
        assert!(time_defaults(20_000.0).iter().all(|p| *p > 60_000 && is_prime(*p)));
        assert!(time_defaults(0.0).iter().all(|p| *p >= 10_000));
    }

    #[test]
    fn costs_are_interpolated_along_the_logarithm() {
        let points = [(100, 10.0), (10_000, 20.0)];
        assert!((along_periods(&points, 1000).unwrap() - 15.0).abs() < 1e-9);
        assert_eq!(along_periods(&points, 50), Some(10.0));
        assert_eq!(along_periods(&points, 100), Some(10.0));
        assert_eq!(along_periods(&points, 20_000), Some(20.0));
        assert_eq!(along_periods(&points[..1], 7), Some(10.0));
        assert_eq!(along_periods(&[], 7), None);
    }
}
