//! Sums of extra time and of units, by session: what estimators of a cost are made of ([`crate::alpha`]).

use std::collections::BTreeMap;

use perftax_doc::Estimate;
use perftax_doc::observation::Block;

/// Times of blocks are whole nanoseconds: what a pair of them differs by is known to one at best, and where nothing else varies (an
/// emulated machine) that is the same one in every pair, so that no average makes it smaller.
pub const CLOCK_UNIT_NS: f64 = 1.0;

/// Which time of a block is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Clock {
    /// Elapsed time, that of reading what a buffer still held included ([`perftax_doc::observation::Settling`]). Right always, but under
    /// load biased by about 1/(share of the CPU).
    Wall,
    /// Elapsed time of the work alone.
    Work,
    /// CPU time of the thread. Steadier, but wrong where the kernel charges interrupts to nobody (IRQ_TIME_ACCOUNTING).
    Cpu,
}

impl Clock {
    /// This clock's reading of a block, ns.
    pub fn of(self, block: &Block) -> f64 {
        match self {
            Self::Wall => (block.wall_ns + block.settling.map_or(0, |settling| settling.stop_ns)) as f64,
            Self::Work => block.wall_ns as f64,
            Self::Cpu => block.cpu_ns as f64,
        }
    }
}

/// What the extra time is divided by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Samples delivered.
    Samples,
    /// What should have come by construction ([`Block::expected`]): traps that were counted only, context switches …
    Expected,
    /// Interrupts that emptied a buffer during the work.
    Interrupts,
    /// Samples that those interrupts delivered.
    Interrupted,
}

impl Unit {
    /// The number of units in a block.
    pub fn of(self, block: &Block) -> f64 {
        match self {
            Self::Samples => block.samples as f64,
            Self::Expected => block.expected,
            Self::Interrupts => block.settling.map_or(0, |settling| settling.interrupts) as f64,
            Self::Interrupted => block.settling.map_or(0, |settling| block.samples.saturating_sub(settling.waiting)) as f64,
        }
    }
}

/// What one session says about one arm: all that a ratio of sums needs of it.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sums {
    /// Σ(on − off), ns.
    pub extra_ns: f64,
    /// Σ of the units (samples).
    pub units: f64,
    /// Σ of the `off` times, ns, one for each monitored block.
    pub off_ns: f64,
    /// Pairs of blocks behind the sums.
    pub pairs: u32,
}

impl Sums {
    /// The sums of several sessions together.
    pub fn total<'a>(sums: impl IntoIterator<Item = &'a Sums>) -> Self {
        let mut total = Self::default();
        for s in sums {
            total.extra_ns += s.extra_ns;
            total.units += s.units;
            total.off_ns += s.off_ns;
            total.pairs += s.pairs;
        }
        total
    }

    /// Cost of one unit, ns. Not finite where there are no units.
    pub fn cost_ns(&self) -> f64 {
        self.extra_ns / self.units
    }

    /// How well the clock can tell the cost of one unit, ns.
    pub(crate) fn resolution_ns(&self) -> f64 {
        f64::from(self.pairs) * CLOCK_UNIT_NS / self.units
    }
}

/// One round of one session: its usable `off` time and its usable monitored blocks.
pub(crate) struct Round<'a> {
    pub(crate) session: u32,
    pub(crate) off_ns: f64,
    pub(crate) on: Vec<&'a Block>,
}

/// Rounds that have at least one usable block on both sides, in the order of session and round.
pub(crate) fn rounds<'a>(
    blocks: &'a [Block],
    off: impl Fn(&Block) -> bool,
    on: impl Fn(&Block) -> bool,
    clock: Clock,
) -> Vec<Round<'a>> {
    type Sides<'a> = (Vec<f64>, Vec<&'a Block>);
    let mut by_round: BTreeMap<(u32, u32), Sides> = BTreeMap::new();
    for block in blocks.iter().filter(|b| b.discarded.is_none()) {
        let round = by_round.entry((block.session, block.round)).or_default();
        if off(block) {
            round.0.push(clock.of(block));
        } else if on(block) {
            round.1.push(block);
        }
    }
    by_round
        .into_iter()
        .filter(|(_, (off, on))| !off.is_empty() && !on.is_empty())
        .map(|((session, _), (off, on))| Round { session, off_ns: off.iter().sum::<f64>() / off.len() as f64, on })
        .collect()
}

/// Sums per session, for the monitored blocks that `on` picks.
pub(crate) fn sums_where(
    blocks: &[Block],
    off: &str,
    on: impl Fn(&Block) -> bool,
    unit: Unit,
    clock: Clock,
) -> BTreeMap<u32, Sums> {
    let mut sessions: BTreeMap<u32, Sums> = BTreeMap::new();
    for round in rounds(blocks, |b| b.arm == off, on, clock) {
        let sums = sessions.entry(round.session).or_default();
        for block in round.on {
            sums.extra_ns += clock.of(block) - round.off_ns;
            sums.units += unit.of(block);
            sums.off_ns += round.off_ns;
            sums.pairs += 1;
        }
    }
    sessions
}

/// Sums per session of arm `on` (all its periods) against arm `off`; sessions without a usable pair are missing.
pub fn session_sums(blocks: &[Block], off: &str, on: &str, unit: Unit, clock: Clock) -> Vec<Sums> {
    sums_where(blocks, off, |b| b.arm == on, unit, clock).into_values().collect()
}

/// The interval, wider by so much at both ends.
pub(crate) fn beyond(estimate: &Estimate, by: f64) -> Estimate {
    Estimate { low: estimate.low - by, high: estimate.high + by, ..*estimate }
}
