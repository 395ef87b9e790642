//! The cost of a PEBS record that nobody reads: what our own kernel module finds (mechanism `pebs-direct`).
//!
//! A block's extra time over one in which the counters run without a sample is `record · r + interrupt · n`, with r records and n
//! interrupts, both counted. Blocks with large buffers say what a record takes, blocks with a buffer of one record what an interrupt
//! takes on top: two equations, whose solution needs no knowledge of either.

use std::collections::BTreeMap;

use crate::bootstrap::{REPLICATES, SEED, cluster_bootstrap, joint_bootstrap};
use crate::buffering::Split;
use crate::sums::{CLOCK_UNIT_NS, Clock, beyond, rounds};
use perftax_doc::CONFIDENCE;
use perftax_doc::Estimate;
use perftax_doc::observation::Block;
use perftax_doc::{Decomposition, Line, RecordCost};

/// The handler's part of an interrupt, as it timed itself, among the terms of a calibration.
pub const HANDLER_TERM: &str = "interrupt.handler";

/// What the blocks say.
#[derive(Clone, Debug, PartialEq)]
pub struct DirectSplit {
    /// What a record delays the work by, all buffers together, ns a sample.
    pub record_ns: Estimate,
    /// What an interrupt takes beside the record that it comes with, ns an interrupt.
    pub interrupt_ns: Estimate,
    /// The handler's part of it, ns an interrupt.
    pub handler_ns: Option<Estimate>,
    /// By buffer, smallest first.
    pub buffers: Vec<RecordCost>,
    /// Extra time against samples.
    pub line: Option<Line>,
}

impl DirectSplit {
    /// What perf's sample is made of, beside it: the hardware's record, its share of an interrupt that does nothing else, and perf's own
    /// work. `None` where perf's buffer never filled, so that nobody knows how many records share an interrupt.
    pub fn decompose(&self, perf: &Split) -> Option<Decomposition> {
        let records_per_interrupt = perf.records_per_interrupt?;
        let interrupt_ns = self.interrupt_ns.scaled(1.0 / records_per_interrupt);
        let hardware_ns = self.record_ns.plus(&interrupt_ns);
        Some(Decomposition {
            sample_ns: perf.alpha_ns,
            records_per_interrupt,
            record_ns: self.record_ns,
            interrupt_ns,
            software_ns: perf.alpha_ns.plus(&hardware_ns.scaled(-1.0)),
        })
    }
}

/// Sums over blocks.
#[derive(Clone, Copy, Default)]
struct Sums {
    blocks: f64,
    extra_ns: f64,
    records: f64,
    interrupts: f64,
    handler_ns: f64,
    records_squared: f64,
    records_extra: f64,
    records_interrupts: f64,
}

impl Sums {
    fn add(&mut self, block: &Block, off_ns: f64) {
        let (records, extra_ns) = (block.samples as f64, Clock::Work.of(block) - off_ns);
        let (interrupts, handler_ns) = block.settling.map_or((0.0, 0.0), |s| (s.interrupts as f64, s.handler_ns as f64));
        self.plus(&Self {
            blocks: 1.0,
            extra_ns,
            records,
            interrupts,
            handler_ns,
            records_squared: records * records,
            records_extra: records * extra_ns,
            records_interrupts: records * interrupts,
        });
    }

    fn plus(&mut self, other: &Self) {
        self.blocks += other.blocks;
        self.extra_ns += other.extra_ns;
        self.records += other.records;
        self.interrupts += other.interrupts;
        self.handler_ns += other.handler_ns;
        self.records_squared += other.records_squared;
        self.records_extra += other.records_extra;
        self.records_interrupts += other.records_interrupts;
    }
}

/// One session: blocks by size of the buffer, and those of a buffer of one record.
#[derive(Clone, Default)]
struct Session {
    buffers: BTreeMap<u64, Sums>,
    each: Sums,
}

impl Session {
    fn total(sessions: &[&Self]) -> Self {
        let mut total = Self::default();
        for session in sessions {
            for (bytes, sums) in &session.buffers {
                total.buffers.entry(*bytes).or_default().plus(sums);
            }
            total.each.plus(&session.each);
        }
        total
    }

    fn all_buffers(&self) -> Sums {
        let mut all = Sums::default();
        self.buffers.values().for_each(|sums| all.plus(sums));
        all
    }

    /// Costs of a record and of an interrupt: the two equations solved.
    fn costs_ns(&self) -> (f64, f64) {
        let (on, each) = (self.all_buffers(), self.each);
        let determinant = on.records * each.interrupts - each.records * on.interrupts;
        let record = (on.extra_ns * each.interrupts - each.extra_ns * on.interrupts) / determinant;
        let interrupt = (on.records * each.extra_ns - each.records * on.extra_ns) / determinant;
        (record, interrupt)
    }

    /// Costs of a record with buffers of this size: without its share of an interrupt, and with it, as a program pays it that runs for
    /// longer than a buffer takes to fill.
    fn buffer_ns(&self, bytes: u64, records_per_interrupt: u64) -> [f64; 2] {
        let (_, interrupt) = self.costs_ns();
        let Some(sums) = self.buffers.get(&bytes) else { return [f64::NAN; 2] };
        let record = (sums.extra_ns - interrupt * sums.interrupts) / sums.records;
        [record, record + interrupt / records_per_interrupt as f64]
    }

    /// Intercept and slope by least squares.
    fn line_ns(&self) -> [f64; 2] {
        let (_, interrupt) = self.costs_ns();
        let s = self.all_buffers();
        let (y, xy) = (s.extra_ns - interrupt * s.interrupts, s.records_extra - interrupt * s.records_interrupts);
        let slope = (s.blocks * xy - s.records * y) / (s.blocks * s.records_squared - s.records * s.records);
        [(y - slope * s.records) / s.blocks, slope]
    }
}

/// Costs of a record and of an interrupt, ns.
fn costs(sessions: &[Session]) -> Option<[Estimate; 2]> {
    let all = Session::total(&sessions.iter().collect::<Vec<_>>());
    let pooled = all.all_buffers();
    let statistic = |sample: &[&Session]| -> [f64; 2] { Session::total(sample).costs_ns().into() };
    let [record, interrupt] = joint_bootstrap(sessions, statistic, REPLICATES, CONFIDENCE, SEED)?;
    let record = beyond(&record, CLOCK_UNIT_NS * pooled.blocks / pooled.records);
    Some([record, beyond(&interrupt, CLOCK_UNIT_NS * all.each.blocks / all.each.interrupts)])
}

/// [`DirectSplit::record_ns`] alone: what a calibration asks for after each session, a fraction of the work of [`direct_split`].
pub fn record_cost(blocks: &[Block], idle: impl Fn(&Block) -> bool, on: impl Fn(&Block) -> bool, each: &str) -> Option<Estimate> {
    costs(&sessions(blocks, idle, on, each).0).map(|[record, _]| record)
}

/// Sums by session, and records to an interrupt by size of the buffer.
fn sessions(
    blocks: &[Block],
    idle: impl Fn(&Block) -> bool,
    on: impl Fn(&Block) -> bool,
    each: &str,
) -> (Vec<Session>, BTreeMap<u64, u64>) {
    let bytes_of = |b: &Block| b.settling.map(|settling| settling.buffer_bytes);
    let mut sizes: Vec<u64> = blocks.iter().filter_map(bytes_of).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut sessions: BTreeMap<u32, Session> = BTreeMap::new();
    let mut records_per_interrupt: BTreeMap<u64, u64> = BTreeMap::new();
    for bytes in sizes {
        let is_of_size = |b: &Block| bytes_of(b) == Some(bytes);
        let is_sampled = |b: &Block| is_of_size(b) && (on(b) || b.arm == each);
        for round in rounds(blocks, |b| is_of_size(b) && idle(b), is_sampled, Clock::Work) {
            let session = sessions.entry(round.session).or_default();
            for block in round.on {
                if block.arm == each {
                    session.each.add(block, round.off_ns);
                } else {
                    session.buffers.entry(bytes).or_default().add(block, round.off_ns);
                    records_per_interrupt.insert(bytes, block.settling.map_or(0, |settling| settling.capacity));
                }
            }
        }
    }
    (sessions.into_values().collect(), records_per_interrupt)
}

/// The split, from the blocks that `idle` picks (counters run, no sample is due; each size of buffer by itself), those that `on` picks and
/// those of arm `each` (a buffer of one record); `None` where a kind is missing or fewer than two sessions were made.
pub fn direct_split(
    blocks: &[Block],
    idle: impl Fn(&Block) -> bool,
    on: impl Fn(&Block) -> bool,
    each: &str,
) -> Option<DirectSplit> {
    let (sessions, records_per_interrupt) = sessions(blocks, idle, on, each);
    let [record_ns, interrupt_ns] = costs(&sessions)?;
    let all = Session::total(&sessions.iter().collect::<Vec<_>>());
    let pooled = all.all_buffers();
    let resolution_ns = CLOCK_UNIT_NS * pooled.blocks / pooled.records;
    let handler = |sample: &[&Session]| {
        let each = Session::total(sample).each;
        each.handler_ns / each.interrupts
    };
    let buffers = all.buffers.iter().filter_map(|(&buffer_bytes, sums)| {
        let records_per_interrupt = *records_per_interrupt.get(&buffer_bytes)?;
        let statistic = |sample: &[&Session]| Session::total(sample).buffer_ns(buffer_bytes, records_per_interrupt);
        let [record, alpha] = joint_bootstrap(&sessions, statistic, REPLICATES, CONFIDENCE, SEED)?;
        let resolution_ns = CLOCK_UNIT_NS * sums.blocks / sums.records;
        Some(RecordCost {
            buffer_bytes,
            records_per_interrupt,
            samples: sums.records as u64,
            record_ns: beyond(&record, resolution_ns),
            alpha_ns: beyond(&alpha, resolution_ns),
        })
    });
    let line = joint_bootstrap(&sessions, |sample| Session::total(sample).line_ns(), REPLICATES, CONFIDENCE, SEED);
    Some(DirectSplit {
        record_ns,
        interrupt_ns,
        handler_ns: cluster_bootstrap(&sessions, handler, REPLICATES, SEED),
        buffers: buffers.collect(),
        line: line.map(|[intercept_ns, slope_ns]| Line {
            intercept_ns: beyond(&intercept_ns, CLOCK_UNIT_NS),
            slope_ns: beyond(&slope_ns, resolution_ns),
        }),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use perftax_doc::observation::Settling;

    /// A block of work of 1 ms with so many records, each of 250 ns, and so many interrupts of 1500 ns (400 of them in the handler).
    fn block(session: u32, arm: &str, buffer_bytes: u64, samples: u64, interrupts: u64) -> Block {
        let noise = u64::from(session) * 7 % 5;
        Block {
            session,
            round: 0,
            arm: arm.into(),
            period: 1000,
            samples,
            expected: samples as f64,
            lost: 0,
            throttled: 0,
            wall_ns: 1_000_000 + samples * 250 + interrupts * 1500 + noise,
            cpu_ns: 0,
            involuntary_switches: 0,
            steal_ns: 0,
            settling: Some(Settling {
                handler_ns: interrupts * 400,
                interrupts,
                buffer_bytes,
                capacity: 10,
                ..Settling::default()
            }),
            discarded: None,
        }
    }

    fn blocks() -> Vec<Block> {
        let of = |session| {
            vec![
                block(session, "idle", 2000, 0, 0),
                block(session, "idle", 4000, 0, 0),
                block(session, "idle", 1, 0, 0),
                block(session, "on@1", 2000, 100, 10),
                block(session, "on@2", 2000, 50, 5),
                block(session, "on@1/4M", 4000, 100, 0),
                block(session, "each", 1, 100, 100),
            ]
        };
        (0..5).flat_map(of).collect()
    }

    fn is_idle(block: &Block) -> bool {
        block.arm == "idle"
    }

    #[test]
    fn records_and_interrupts_are_told_apart() {
        let split = direct_split(&blocks(), is_idle, |b| b.arm.starts_with("on"), "each").unwrap();
        assert_eq!(record_cost(&blocks(), is_idle, |b| b.arm.starts_with("on"), "each"), Some(split.record_ns));
        assert!(split.record_ns.contains(250.0) && split.record_ns.half_width() < 1.0, "{split:?}");
        assert!(split.interrupt_ns.contains(1500.0) && split.interrupt_ns.half_width() < 1.0, "{split:?}");
        assert!(split.handler_ns.unwrap().contains(400.0));
        let [small, large] = split.buffers[..] else { panic!("{split:?}") };
        assert_eq!((small.buffer_bytes, large.buffer_bytes, small.samples), (2000, 4000, 750));
        assert!(small.record_ns.contains(250.0) && large.record_ns.contains(250.0), "{split:?}");
        // Ten records share an interrupt.
        assert!(small.alpha_ns.contains(400.0) && large.alpha_ns.contains(400.0), "{split:?}");
        let line = split.line.unwrap();
        assert!(line.slope_ns.contains(250.0) && line.intercept_ns.contains(0.0), "{line:?}");
    }

    #[test]
    fn perfs_sample_is_what_it_is_made_of() {
        let split = direct_split(&blocks(), is_idle, |b| b.arm.starts_with("on"), "each").unwrap();
        let known = |ns| Estimate::new(ns, ns - 1.0, ns + 1.0);
        let perf = Split {
            assist_ns: known(250.0),
            copy_ns: known(900.0),
            interrupt_ns: Some(known(3000.0)),
            records_per_interrupt: Some(300.0),
            alpha_ns: known(1160.0),
        };
        let parts = split.decompose(&perf).unwrap();
        assert!(parts.interrupt_ns.contains(5.0) && parts.software_ns.contains(905.0), "{parts:?}");
        assert_eq!(split.decompose(&Split { records_per_interrupt: None, ..perf }), None);
    }

    #[test]
    fn nothing_is_said_without_an_interrupt() {
        let without: Vec<Block> = blocks().into_iter().filter(|b| b.arm != "each").collect();
        assert_eq!(direct_split(&without, is_idle, |b| b.arm == "on@1/4M", "each"), None);
        assert_eq!(direct_split(&blocks()[..7], is_idle, |b| b.arm.starts_with("on"), "each"), None);
    }
}
