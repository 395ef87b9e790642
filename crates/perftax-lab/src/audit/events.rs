//! Do several events at once get what each gets alone?

use perftax_doc::AuditRow;
use perftax_pmu::event::{Event, Retired, Vendor};
use perftax_pmu::{Error, Result};

use super::case::{Case, How, Share, Watched};
use super::core_event::{CoreEvent, Overflow};
use super::{Measurement, Name, Setting, Source, Unit};
use crate::stimulus::Stimulus;

/// More and more events over the same work.
pub struct Events;

/// How many at once: the study's.
const AT_ONCE: [usize; 7] = [1, 2, 4, 5, 6, 8, 16];
/// Debug registers of an x86-64 processor (SDM volume 3, chapter 18), and of ARMv8 at least as many as this.
const DEBUG_REGISTERS: usize = 4;
/// Counters of Intel's that count loads as they retire: the first four, also where there are eight (perf's lists of Ice Lake's and Golden Cove's events, MEM_INST_RETIRED).
const COUNTERS_OF_LOADS: usize = 4;
/// Samples of each event.
const SAMPLES: u64 = 50;
/// Turns of the loop under events that have to take turns: some tens of milliseconds, in which each is left out several times. What all of
/// them get together does not depend on when they change over.
const LONG_TURNS: u64 = 8_000_000;
/// The largest error of what is scaled back by the time for which an event counted, and of the share that rotation leaves.
const ALLOWED_SCALED: f64 = 0.01;
const ALLOWED_SHARE: f64 = 0.02;
/// Period of events that are sampled while they take turns, events.
const ROTATING_PERIOD: u64 = 100_003;

impl super::Experiment for Events {
    fn name(&self) -> Name {
        Name::Events
    }

    fn question(&self) -> &'static str {
        "do several events at once get what each gets alone?"
    }

    fn method(&self) -> &'static str {
        "the same event opened 1 to 16 times over the same work: each must get N/R samples; where the machine has fewer debug registers than \
         events, the kernel must refuse the next one, and not lose its samples; where a core has fewer counters than events, they take turns: \
         each is left counters/events of its counts, which scaled by the time it counted must be the whole again; pinned ones do not take \
         turns: as many as there are counters count, the others must be in error"
    }

    fn figures(&self) -> &'static str {
        "figure 12 and table III"
    }

    fn rows(&self, setting: &Setting) -> Result<Vec<AuditRow>> {
        let mut rows = super::each_source(setting, |source| match source {
            Source::Core(core) if core.counted != Retired::Loads => Ok(Vec::new()),
            _ => {
                let events = source.many() + source.own(setting)?;
                // More than a core has counters for take turns: see below.
                let of_loads = if setting.catalog.vendor() == Vendor::Intel { COUNTERS_OF_LOADS } else { usize::MAX };
                let most =
                    if matches!(source, Source::Core(_)) { setting.counters.unwrap_or(0).min(of_loads) } else { usize::MAX };
                let counts = AT_ONCE.into_iter().filter(|count| *count <= most);
                counts.map(|count| at_once(source, setting, events, count)).collect()
            }
        })?;
        if let Some(counters) = setting.counters {
            rows.extend(super::or_impossible("events that take turns", in_turns(setting, counters))?);
        }
        Ok(rows)
    }
}

fn at_once(source: &Source, setting: &Setting, events: u64, count: usize) -> Result<AuditRow> {
    let (mut work, event) = source.work(source.many(), setting.catalog)?;
    let period = source.period_for(SAMPLES);
    let case = Watched::from(*source).every(period).how(How::AtOnce(count));
    let is_too_many = *source == Source::Writes && count > DEBUG_REGISTERS;
    let mut runs = Vec::new();
    for _ in 0..setting.runs {
        match Measurement::together(setting, work.as_mut(), &vec![event.clone(); count], Some(period)) {
            Ok(run) => runs.push(run),
            Err(Error::Unsupported { .. }) if is_too_many => {
                let remark = format!("refused, as it must be: there are {DEBUG_REGISTERS} debug registers");
                return Ok(AuditRow::of(case, Unit::EventsOpened.text(), 0.0, &[0.0], 0.0).remarking(remark));
            }
            Err(Error::System { call, source }) => {
                return Ok(AuditRow::of(case, Unit::SamplesOfEach.text(), SAMPLES as f64, &[], 0.0)
                    .remarking(format!("{call}: {source}")));
            }
            Err(error) => return Err(error),
        }
    }
    let samples: Vec<f64> = runs.iter().map(|run| run.samples as f64 / count as f64).collect();
    let expected = source.samples(events, period);
    let row = Measurement::marked(
        AuditRow::of(case, Unit::SamplesOfEach.text(), expected as f64, &samples, source.allowed(setting)),
        &runs,
    );
    Ok(if is_too_many { row.remarking(format!("opened with {DEBUG_REGISTERS} debug registers")) } else { row })
}

/// More events than counters: what rotation leaves of each, what scaling makes of it, and pinned ones.
fn in_turns(setting: &Setting, counters: usize) -> Result<Vec<AuditRow>> {
    let mut rows = Vec::new();
    let branches = CoreEvent { counted: Retired::Branches, by: Overflow::Interrupt };
    let event = branches.event(false, setting.catalog)?;
    let mut work = CoreEvent::work(LONG_TURNS)?;
    let truth = branches.events(LONG_TURNS) as f64;
    // What the switches add is nothing to such numbers.
    for count in AT_ONCE.into_iter().filter(|count| *count > counters) {
        let left = counters as f64 / count as f64;
        let (mut shares, mut scaled) = (Vec::new(), Vec::new());
        for _ in 0..setting.runs.min(3) {
            let each = Measurement::each(setting, &mut work, &vec![event.clone(); count])?;
            shares.push(100.0 * each.iter().map(|(counted, _)| *counted as f64).sum::<f64>() / (truth * count as f64));
            scaled
                .push(100.0 * each.iter().map(|(counted, share)| *counted as f64 / share).sum::<f64>() / (truth * count as f64));
        }
        let case = |share| Case::Counted { events: count, counters, share };
        let told = format!("{counters}/{count} of the time each: what is not scaled is too few by as much");
        rows.push(
            AuditRow::of(case(Share::Unscaled), Unit::ShareOfEvents.text(), 100.0 * left, &shares, ALLOWED_SHARE).remarking(told),
        );
        rows.push(AuditRow::of(case(Share::Scaled), Unit::ShareOfEvents.text(), 100.0, &scaled, ALLOWED_SCALED));
        rows.push(pinned(setting, &event, count, counters)?);
    }
    for count in [counters + 1, counters + 2] {
        rows.extend(sampled_in_turns(setting, &mut work, count, counters)?);
    }
    Ok(rows)
}

/// Pinned events: as many as there are counters count, the others are in error when they are read.
fn pinned(setting: &Setting, event: &Event, count: usize, counters: usize) -> Result<AuditRow> {
    let mut event = event.clone();
    event.modifiers.pinned = true;
    let mut work = CoreEvent::work(1000)?;
    let in_error: Vec<f64> = (0..setting.runs)
        .map(|_| Measurement::in_error(&mut work, &vec![event.clone(); count]).map(|count| count as f64))
        .collect::<Result<_>>()?;
    let case = Case::Pinned { events: count, counters };
    Ok(AuditRow::of(case, Unit::Events.text(), (count - counters) as f64, &in_error, 0.0))
}

/// Sampled while they take turns, as in the study.
fn sampled_in_turns(setting: &Setting, work: &mut dyn Stimulus, count: usize, counters: usize) -> Result<Vec<AuditRow>> {
    let taken = CoreEvent { counted: Retired::Branches, by: Overflow::most_precise(setting.catalog.vendor()) };
    let event = taken.event(false, setting.catalog)?;
    let whole = taken.samples(taken.events(LONG_TURNS), ROTATING_PERIOD) as f64;
    let (mut shares, mut scaled, mut lost, mut throttled) = (Vec::new(), Vec::new(), 0, 0);
    for _ in 0..setting.runs.min(3) {
        let run = Measurement::together(setting, work, &vec![event.clone(); count], Some(ROTATING_PERIOD))?;
        let each = run.samples as f64 / count as f64;
        shares.push(100.0 * each / whole);
        scaled.push(100.0 * each / whole * run.enabled_ns as f64 / run.running_ns.max(1) as f64);
        (lost, throttled) = (lost + run.lost, throttled + run.throttled);
    }
    let case = |share| Watched::from(taken).every(ROTATING_PERIOD).how(How::Rotating { events: count, counters, share });
    let left = 100.0 * counters as f64 / count as f64;
    Ok(vec![
        AuditRow::of(case(Share::Unscaled), Unit::ShareOfSamples.text(), left, &shares, ALLOWED_SHARE)
            .losing(lost, throttled)
            .remarking(format!(
                "{counters}/{count}: what the study found of five and six events on four counters, 79.9 and 66.6 %"
            )),
        AuditRow::of(case(Share::Scaled), Unit::ShareOfSamples.text(), 100.0, &scaled, ALLOWED_SCALED),
    ])
}
