//! Are the first-level misses of a chain of loads counted and sampled, from one in twenty instructions to one in a hundred?

use perftax_doc::AuditRow;
use perftax_doc::steps::{Emulation, Experiment as InMachine, Operation};
use perftax_pmu::event::{Event, Retired, parse_one};
use perftax_pmu::record::DataSource;
use perftax_pmu::{Error, Result};

use super::case::{How, Ibs, Subject, Watched};
use super::core_event::{CoreEvent, Overflow};
use super::ibs::{IbsTaking, OP_PERIODS, operations, row};
use super::source::ALLOWED_ON_HARDWARE;
use super::{Experiment, Measurement, Name, Setting, Unit, by_ibs, or_impossible};
use crate::stimulus::{KnownLoop, Loop, Ratio};

/// The study's accuracy benchmark: a chain of loads through nodes that the first-level cache cannot keep.
pub struct Misses;

/// The study's interval, and turns (a miss each) for ten samples of it; half a period more, so that the few misses that switching the event on
/// makes change no number of samples.
const PERIOD: u64 = 100_000;
const TURNS: u64 = 1_050_000;
/// The same where there is little time.
const QUICK_PERIOD: u64 = 1000;
const QUICK_TURNS: u64 = 40_540;
/// Turns under IBS: some ten samples of misses at least.
const IBS_TURNS: u64 = 1_000_000;
const QUICK_IBS_TURNS: u64 = 250_000;
/// The largest error of an exact machine's counts: what switching the event on and off misses beside the chain.
const ALLOWED: f64 = 0.001;
/// The largest error of IBS samples: the study's reach from −3.9 to +18.7 % (figure 4).
const ALLOWED_BY_IBS: f64 = 0.25;

impl Experiment for Misses {
    fn name(&self) -> Name {
        Name::Misses
    }

    fn question(&self) -> &'static str {
        "are rare misses counted and sampled, one in 20 to 100 instructions?"
    }

    fn method(&self) -> &'static str {
        "a chain of loads through 1000 lines 128 bytes apart, in an order that no prefetcher foresees: a first-level miss a turn; PEBS of misses one in \
         period + 1, and IBS of operations, of which those of loads that missed are kept"
    }

    fn figures(&self) -> &'static str {
        "figures 4 and 6"
    }

    fn rows(&self, setting: &Setting) -> Result<Vec<AuditRow>> {
        let mut rows = Vec::new();
        let of = pebs(setting)
            .and_then(|event| Ratio::ALL.into_iter().map(|ratio| by_pebs(setting, &event, ratio)).collect::<Result<Vec<_>>>());
        rows.extend(or_impossible(Watched::from(Subject::Misses), of.map(|rows| rows.into_iter().flatten().collect()))?);
        rows.extend(by_ibs(setting, |ibs, cpu| if ibs == Ibs::Op { of_operations(setting, cpu) } else { Ok(Vec::new()) })?);
        Ok(rows)
    }
}

/// MEM_LOAD_RETIRED.L1_MISS (SDM volume 3, chapter 20; the same code from Haswell on).
fn pebs(setting: &Setting) -> Result<Event> {
    // Of the loads, whose code differs by vendor: says what is missing.
    CoreEvent { counted: Retired::Loads, by: Overflow::Pebs }.event(false, setting.catalog)?;
    caches(setting)?;
    let pmu = setting.catalog.core_pmu().map_or("cpu", |pmu| pmu.name.as_str());
    parse_one(&format!("{pmu}/event=0xd1,umask=0x8/upp"), setting.catalog)
}

/// Whether the machine has any.
fn caches(setting: &Setting) -> Result<()> {
    if setting.has_caches {
        return Ok(());
    }
    let with_caches = Emulation { has_caches: true, experiment: Some(InMachine::AuditOfMisses), ..Emulation::default() };
    Err(Error::Unsupported {
        what: "miss".into(),
        why: format!(
            "the emulated machine runs without caches ({} has them)",
            Operation::Emulate(Emulation { experiment: None, ..with_caches })
        ),
        remedy: Operation::Emulate(with_caches).to_string(),
    })
}

/// Counted without a sample, and sampled.
fn by_pebs(setting: &Setting, event: &Event, ratio: Ratio) -> Result<[AuditRow; 2]> {
    let (period, turns) = if setting.is_quick { (QUICK_PERIOD, QUICK_TURNS) } else { (PERIOD, TURNS) };
    let mut work = KnownLoop::new(Loop::Chase(ratio), turns)?;
    // PEBS leaves out of its counts the event that each record is of: counting is shown by itself.
    let counting = Measurement::runs(setting, &mut work, event, None)?;
    let counted: Vec<f64> = counting.iter().map(|run| run.counted as f64).collect();
    let sampling = Measurement::runs(setting, &mut work, event, Some(period))?;
    let (counts, samples) = if setting.is_exact { (ALLOWED, 0.0) } else { (ALLOWED_ON_HARDWARE, ALLOWED_ON_HARDWARE) };
    let of = Watched::from(Subject::Misses);
    let count =
        AuditRow::of(of.how(How::OneInCounted(ratio.instructions())), Unit::Events.text(), turns as f64, &counted, counts);
    let sample = of.every(period).how(How::OneIn(ratio.instructions()));
    Ok([Measurement::marked(count, &counting), Measurement::row(sample, (turns / (period + 1)) as f64, &sampling, samples)])
}

/// Samples of operations that are of a load that missed.
fn of_operations(setting: &Setting, cpu: u32) -> Result<Vec<AuditRow>> {
    caches(setting)?;
    if !setting.has_random_starts {
        return Err(Error::Unsupported {
            what: "sample one instruction of many fairly".into(),
            why: format!(
                "IBS counts start at 0 in this emulated machine and go through a turn in fixed steps: which instructions those meet is the \
                 period's doing ({} has them start at random, as the hardware does)",
                Operation::Emulate(Emulation { has_random_starts: true, ..Emulation::default() })
            ),
            remedy: Operation::Emulate(Emulation {
                processor: Some("zen2"),
                has_caches: true,
                has_random_starts: true,
                experiment: Some(InMachine::AuditOfMisses),
                ..Emulation::default()
            })
            .to_string(),
        });
    }
    let turns = if setting.is_quick { QUICK_IBS_TURNS } else { IBS_TURNS };
    let period = OP_PERIODS[0];
    let of_load = operations_of_a_load(setting)?;
    let expected = of_load * turns as f64 / period as f64;
    let of = |ratio: Ratio| {
        let mut work = KnownLoop::new(Loop::Chase(ratio), turns)?;
        let one = |_| {
            let mut missed = 0;
            let run = Ibs::Op.sample(setting, cpu, &mut work, period, |sample| {
                let flags = sample.data_source.map(DataSource::level_flags).unwrap_or_default();
                missed += u64::from(flags.hit && !flags.l1);
            })?;
            // Of the program's samples those that are asked for.
            Ok(IbsTaking { user: missed, ..run })
        };
        let runs = (0..setting.runs).map(one).collect::<Result<Vec<_>>>()?;
        let case = Watched::from(Subject::IbsMisses).every(period).how(How::OneIn(ratio.instructions()));
        let told = format!("of a load {of_load:.1} operations are counted, any of which may be tagged");
        Ok(row(case, expected, &runs, ALLOWED_BY_IBS.max(3.0 / expected.sqrt())).remarking(told))
    };
    Ratio::ALL.into_iter().map(of).collect()
}

/// How many operations a load counts for: of a turn's those that are not of the instructions that do one thing.
fn operations_of_a_load(setting: &Setting) -> Result<f64> {
    let counted = operations(setting, &mut KnownLoop::new(Loop::Chase(Ratio::Of20), QUICK_IBS_TURNS)?)?;
    Ok(counted as f64 / QUICK_IBS_TURNS as f64 - (Ratio::Of20.instructions() - 1) as f64)
}
