//! What recording a trace cost, by the profile of the machine that it was recorded on.

use std::collections::BTreeMap;

use perftax_doc::{CostPart, MachineId, MachineProfile, ThreadCost, TraceCost, TraceEvent, TraceMeta};
use perftax_doc::{Estimate, LeftOut, Mechanism};
use perftax_report::units;
use perftax_trace::record::Recording;
use perftax_trace::{Activity, Tag};

use super::reading::Reading;
use crate::profile;

/// Prices what was taken; `threads` is what was taken of each, where the trace holds all of it. A profile that cannot be read is one that has
/// no prices.
pub fn cost(reading: &Reading, threads: &BTreeMap<u32, Activity>) -> TraceCost {
    let meta = &reading.meta;
    let prices = Prices::of(meta);
    let mut parts = prices.parts(marks(meta, meta.recorded), meta.cpu_s);
    parts.extend(counted(meta));
    parts.extend(prices.readings(meta));
    parts.extend(prices.lost(meta.lost));
    let is_whole = meta.kept.is_none() && meta.tag == MARKS;
    let busiest = threads.iter().filter(|(_, taken)| is_whole && taken.ran_ns > 0).max_by_key(|(_, taken)| taken.marks);
    let busiest = busiest.map(|(tid, taken)| {
        let (cpu_s, recorded) = (taken.ran_ns as f64 * 1e-9, [taken.marks, taken.samples, taken.records]);
        let share = whole_share(&prices.parts(recorded, cpu_s), cpu_s);
        ThreadCost { tid: *tid, name: reading.names.thread(*tid), cpu_s, recorded, share }
    });
    let found = meta.checked.as_ref().map(|checked| checked.extra);
    let comparisons = meta.checked.as_ref().map_or(0, |checked| checked.pairs.len());
    // Those that the program writes it writes all the time: what was found is without them.
    let (of_marks, rest): (Vec<CostPart>, Vec<CostPart>) = parts.iter().cloned().partition(|part| part.what == MARKS);
    let found = found.map(|found| share(&of_marks, meta.cpu_s).map_or(found, |of_marks| found.plus(&of_marks)));
    let is_priced = rest.iter().all(|part| part.each_ns.is_some());
    let said = Said::of(
        if is_priced { whole_share(&parts, meta.cpu_s) } else { None },
        in_programs(&parts, meta.cpu_s),
        found,
        comparisons,
    );
    let priced_share = if said.is_priced { None } else { share(&parts, meta.cpu_s) };
    TraceCost { share: said.share, is_checked: said.share.is_some() && !said.is_priced, priced_share, parts, busiest }
}

/// Samples of the events that were counted by message.
fn counted(meta: &TraceMeta) -> Vec<CostPart> {
    let profile = profile::load(&meta.origin.machine).ok().flatten();
    let part = |event: &TraceEvent| {
        let each_ns = profile.as_ref().and_then(|profile| price(profile, &event.name));
        let remedy = each_ns.is_none().then(|| format!("perftax calibrate -e {}", event.name));
        CostPart { what: format!("samples of {}", event.name), count: event.samples, each_ns, remedy }
    };
    meta.counted.iter().filter(|event| event.samples > 0).map(part).collect()
}

/// Which of two answers is given.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Said {
    share: Option<Estimate>,
    is_priced: bool,
}

impl Said {
    /// Prices are of loops, and what is found on the program is of the program: where they contradict each other it is believed. Where they do not, what says more: the one that is
    /// narrower, if the prices are taken for what they may come to in a program. Few comparisons may agree by chance, and are then not believed against prices that say nearly as much.
    fn of(priced: Option<Estimate>, in_programs: Option<Estimate>, found: Option<Estimate>, comparisons: usize) -> Self {
        let width = |estimate: &Estimate| estimate.high - estimate.low;
        let is_priced = match (&priced, &found) {
            (None, _) => false,
            (Some(_), None) => true,
            (Some(priced), Some(found)) => {
                let agree = priced.low <= found.high && found.low <= priced.high;
                let says_more =
                    |prices: &Estimate| width(prices) <= width(found) || comparisons < FEW && prices.high <= NARROW * prices.low;
                agree && in_programs.as_ref().is_some_and(says_more)
            }
        };
        Self { share: if is_priced { priced } else { found }, is_priced }
    }
}

/// Where messages are told apart by marks.
const MARKS: &str = "marks";
const HITS: &str = "hits of probes";
const TRAPS: &str = "traps of contexts";
const RECORDS: &str = "kernel records";
const READINGS: &str = "readings of CPUs' counters";
const LOST: &str = "records that found no room";

/// Comparisons whose interval may be narrow by chance, and prices that are narrow by what they are: the highest over the lowest.
const FEW: usize = 10;
const NARROW: f64 = 1.5;

/// In a program a record, and the hit of a probe, was found to take up to so many times what it takes in the calibration's loop: its caches are the program's, and all threads share the
/// kernel's lists (docs/results/trace.md).
const MOST_TIMES: f64 = 4.0;

/// A register's marks and those of connections are put together by perftax: they cost the program nothing. Those of probes stand for passes, of which some make two marks and others none, those of contexts for
/// writes.
fn marks(meta: &TraceMeta, [marks, samples, records]: [u64; 3]) -> [u64; 3] {
    let marks = match &meta.probes {
        _ if meta.register.is_some() || meta.sockets.is_some() => 0,
        Some(probes) if probes.hits > 0 => probes.hits,
        _ => meta.contexts.as_ref().map_or(marks, |contexts| contexts.changes),
    };
    [marks, samples, records]
}

/// The price of one of each, ns.
struct Prices {
    event: String,
    /// What a mark is, and what calibrates it.
    mark: (&'static str, &'static str),
    /// A mark is written by the program; a static probe and the write of a context are traps into the kernel.
    mark_ns: Option<Estimate>,
    sample_ns: Option<Estimate>,
    /// From one interrupt to the next, where a timer's samples are of one mode alone; and what one takes whose sample is dropped.
    filtered_gap_ns: Option<u64>,
    dropped_ns: Option<Estimate>,
    /// Of one tracepoint, which stands for all: what they record differs little.
    record_ns: Option<Estimate>,
}

impl Prices {
    fn of(meta: &TraceMeta) -> Self {
        let profile = profile::load(&meta.origin.machine).ok().flatten();
        let of_mechanism = |mechanism: Mechanism| profile.as_ref().and_then(|profile| alpha_ns(profile, mechanism));
        let left_out = LeftOut::named(Mechanism::CpuClock, &meta.event);
        Self {
            event: meta.event.clone(),
            mark: match meta.contexts {
                _ if meta.tag == MARKS => (MARKS, ""),
                None => (HITS, "--mechanism uprobe"),
                Some(_) => (TRAPS, "--mechanism breakpoint"),
            },
            mark_ns: match meta.contexts {
                _ if meta.tag == MARKS => meta.mark_ns,
                None => of_mechanism(Mechanism::Uprobe),
                Some(_) => of_mechanism(Mechanism::Breakpoint),
            },
            sample_ns: profile.as_ref().and_then(|profile| price(profile, &meta.event)),
            filtered_gap_ns: meta.sampling_gap_ns.filter(|_| left_out != LeftOut::Nothing),
            dropped_ns: profile.as_ref().and_then(|profile| {
                let timed = profile.of_mechanism(Mechanism::CpuClock).next()?;
                // Not calibrated by itself it is priced as if its sample were taken.
                let dropped_ns = left_out.term().and_then(|term| timed.terms.get(term)).copied();
                Some(dropped_ns.unwrap_or(timed.alpha_ns))
            }),
            record_ns: of_mechanism(Mechanism::Tracepoint),
        }
    }

    /// Interrupts of a timer whose sample the event's filter dropped (`cpu-clock:u` in the kernel's mode), in so much CPU time.
    fn dropped(&self, samples: u64, cpu_s: f64) -> u64 {
        self.filtered_gap_ns.map_or(0, |gap_ns| ((cpu_s * 1e9 / gap_ns as f64) as u64).saturating_sub(samples))
    }

    /// What found no room was taken all the same. Nearly all of it is what the kernel does.
    fn lost(&self, lost: u64) -> Option<CostPart> {
        let (what, each_ns) = (LOST.into(), self.record_ns);
        let remedy = each_ns.is_none().then(|| "perftax calibrate --mechanism tracepoint".into());
        (lost > 0).then_some(CostPart { what, count: lost, each_ns, remedy })
    }

    /// Readings of counters: in marks, and where a record of a CPU's tells them.
    fn readings(&self, meta: &TraceMeta) -> Vec<CostPart> {
        let Some(sight) = &meta.executed else { return Vec::new() };
        let record_remedy = self.record_ns.is_none().then(|| "perftax calibrate --mechanism tracepoint".into());
        let in_marks = CostPart {
            what: "readings of counters in marks".into(),
            count: sight.readings_in_marks,
            each_ns: sight.reading_ns,
            remedy: None,
        };
        // At probes they are part of the hit.
        let hits = meta.probes.as_ref().map_or(0, |probes| probes.hits);
        let of_cpus = CostPart {
            what: READINGS.into(),
            count: sight.readings_of_cpus.saturating_sub(hits),
            each_ns: self.record_ns,
            remedy: record_remedy,
        };
        [in_marks, of_cpus].into_iter().filter(|part| part.count > 0).collect()
    }

    fn parts(&self, [marks, samples, records]: [u64; 3], cpu_s: f64) -> Vec<CostPart> {
        let part = |what: &str, count: u64, each_ns: Option<Estimate>, calibrate: &str| CostPart {
            what: what.into(),
            count,
            each_ns,
            remedy: each_ns.is_none().then(|| format!("perftax calibrate {calibrate}")),
        };
        let parts = [
            part(self.mark.0, marks, self.mark_ns, self.mark.1),
            part("samples", samples, self.sample_ns, &format!("-e {}", self.event)),
            part("interrupts without a sample", self.dropped(samples, cpu_s), self.dropped_ns, &format!("-e {}", self.event)),
            part(RECORDS, records, self.record_ns, "--mechanism tracepoint"),
        ];
        parts.into_iter().filter(|part| part.count > 0).collect()
    }
}

/// What a recording will take of the program, as far as that is known before it begins. What there will be of each but a clock's samples only the program knows.
pub fn foreseen(machine: &MachineId, recording: &Recording) -> String {
    let profile = profile::load(machine).ok().flatten();
    let of_mechanism = |mechanism: Mechanism| profile.as_ref().and_then(|profile| alpha_ns(profile, mechanism));
    let each = |what: &str, price_ns: Option<Estimate>, calibrate: &str| match price_ns {
        Some(price_ns) => format!("{what} takes {}", units::estimate_ns(&price_ns)),
        None => format!("what {what} takes is not known (perftax calibrate {calibrate})"),
    };
    let event = &recording.event;
    let sample_ns = profile.as_ref().and_then(|profile| price(profile, &event.name));
    let sample = each("a sample", sample_ns, &format!("-e {}", event.name));
    let mut said = vec![match sample_ns {
        Some(alpha_ns) if event.mechanism == Mechanism::CpuClock => {
            let share = |ns: f64| ns / (recording.period as f64 - ns).max(1.0);
            let share = Estimate::new(share(alpha_ns.estimate), share(alpha_ns.low), share(alpha_ns.high));
            let when = if recording.budget.is_some() { " while recording is on" } else { "" };
            let whose = if recording.clock_is_of_cpus() {
                "the CPU time of the program, and of what else runs"
            } else {
                "the program's CPU time"
            };
            format!("{sample}, so that samples take {} of {whose}{when}", units::estimate_share(&share))
        }
        _ => sample,
    }];
    for (event, period) in &recording.counted {
        let sample_ns = profile.as_ref().and_then(|profile| price(profile, &event.name));
        said.push(each(&format!("a sample of {} (one in {period})", event.name), sample_ns, &format!("-e {}", event.name)));
    }
    if recording.kernel_noise {
        let record_ns = of_mechanism(Mechanism::Tracepoint);
        // System calls are left out where recording is on and off in turn.
        let which = if recording.budget.is_some() { "a switch has two" } else { "a switch has two, a system call two" };
        said.push(each(&format!("a record of what the kernel does ({which})"), record_ns, "--mechanism tracepoint"));
    }
    if recording.counters.is_some() && recording.kernel_noise {
        said.push("a switch has a third, which reads counters".into());
    }
    if recording.tag.is_probed() {
        said.push(each("each hit of a probe (a message has two or more)", of_mechanism(Mechanism::Uprobe), "--mechanism uprobe"));
    }
    if recording.tag == Tag::Otel {
        let trap = "each write of a context (two or more each time that a thread goes on with another)";
        said.push(each(trap, of_mechanism(Mechanism::Breakpoint), "--mechanism breakpoint"));
    }
    let bound = match recording.budget {
        None if recording.rests_above.is_some() => {
            let budget = recording.rests_above.map_or_else(String::new, units::share);
            format!("; it rests where it takes more than {budget} of the program's CPU time, once that is known")
        }
        Some(budget) => format!("; all of it stays within {} of the program's CPU time", units::share(budget)),
        None if recording.tag == Tag::Marks => "; --budget 1% would keep all of it within a share".into(),
        None => String::new(),
    };
    said.join("; ") + &bound
}

/// What a sample by a mechanism costs, of whichever event it was calibrated with.
fn alpha_ns(profile: &MachineProfile, mechanism: Mechanism) -> Option<Estimate> {
    profile.of_mechanism(mechanism).next().map(|found| found.alpha_ns)
}

/// What a sample of an event costs on a machine, where its profile says.
pub fn sample_ns(machine: &MachineId, event: &str) -> Option<Estimate> {
    price(&profile::load(machine).ok().flatten()?, event)
}

/// Of exactly this event: what it is called otherwise (`:pp`, `cpu/…/`) may be another mechanism.
fn price(profile: &MachineProfile, event: &str) -> Option<Estimate> {
    profile.calibrations.iter().find(|found| found.event == event).map(|found| found.alpha_ns)
}

/// [`share`], with what each part may come to in a program.
fn in_programs(parts: &[CostPart], cpu_s: f64) -> Option<Estimate> {
    let widened = |part: &CostPart| {
        let times = if [HITS, TRAPS, RECORDS, READINGS, LOST].contains(&part.what.as_str()) { MOST_TIMES } else { 1.0 };
        let each_ns = part.each_ns.map(|each| Estimate { high: each.high * times, ..each });
        CostPart { each_ns, ..part.clone() }
    };
    whole_share(&parts.iter().map(widened).collect::<Vec<_>>(), cpu_s)
}

/// [`share`]; none where a part of it has no price.
fn whole_share(parts: &[CostPart], cpu_s: f64) -> Option<Estimate> {
    if parts.iter().all(|part| part.each_ns.is_some()) { share(parts, cpu_s) } else { None }
}

/// What has a price: of the CPU time that there would have been without; the kernel's records of other programs are in it, so it is at most that. None where that comes to nearly all of the
/// CPU time, or more: what is left is then a small difference of large numbers.
fn share(parts: &[CostPart], cpu_s: f64) -> Option<Estimate> {
    const MAX_OF_ALL: f64 = 0.8;
    let priced = parts.iter().filter_map(|part| Some(part.each_ns?.scaled(part.count as f64 * 1e-9)));
    let all = priced.reduce(|all, part| all.plus(&part))?;
    let without = |cost: f64| cost / (cpu_s - cost).max(cpu_s * (1.0 - MAX_OF_ALL));
    (all.estimate < MAX_OF_ALL * cpu_s).then(|| Estimate::new(without(all.estimate), without(all.low), without(all.high)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(count: u64, each_ns: Option<f64>) -> CostPart {
        CostPart { what: "samples".into(), count, each_ns: each_ns.map(Estimate::exact), remedy: None }
    }

    #[test]
    fn what_was_found_on_the_program_is_believed() {
        let at = |low: f64, high: f64| Some(Estimate::new((low + high) / 2.0, low, high));
        let said = |priced, found| {
            let said = Said::of(priced, priced, found, FEW);
            (said.share, said.is_priced)
        };
        let (priced, wide, far) = (at(0.028, 0.031), at(-0.01, 0.08), at(3.1, 3.9));
        // Its records may take several times what they take in a loop.
        let said_of_records = Said::of(priced, at(0.028, 0.12), wide, 3);
        assert_eq!((said_of_records.share, said_of_records.is_priced), (wide, false));
        let (near, exact) = (at(0.028, 0.036), at(0.029, 0.030));
        assert!(Said::of(priced, near, exact, 3).is_priced, "by chance, perhaps");
        assert!(!Said::of(priced, near, exact, FEW).is_priced);
        assert_eq!(said(priced, None), (priced, true));
        assert_eq!(said(priced, wide), (priced, true), "they agree: the narrower one");
        assert_eq!(said(at(0.5, 9.0), far), (far, false));
        assert_eq!(said(priced, far), (far, false), "they do not");
        assert_eq!((said(None, far), said(None, None)), ((far, false), (None, false)));
    }

    #[test]
    fn records_and_hits_may_take_several_times_their_price() {
        let part = |what: &str| CostPart { what: what.into(), ..part(10_000, Some(1000.0)) };
        let of = |parts: &[CostPart]| in_programs(parts, 1.0).unwrap();
        let (clock, record) = (of(&[part("samples")]), of(&[part("samples"), part(RECORDS)]));
        assert!((clock.high - 0.01 / 0.99).abs() < 1e-9 && clock.low == clock.high, "{clock:?}");
        assert!((record.low - 0.02 / 0.98).abs() < 1e-9 && (record.high - 0.05 / 0.95).abs() < 1e-3, "{record:?}");
        assert!(in_programs(&[CostPart { each_ns: None, ..part(RECORDS) }], 1.0).is_none());
    }

    #[test]
    fn a_part_of_a_sum_is_no_sum() {
        let cost = |parts: &[CostPart]| (whole_share(parts, 1.0), share(parts, 1.0));
        let priced = part(1000, Some(10_000.0));
        let (whole, all) = cost(std::slice::from_ref(&priced));
        assert!(whole.is_some() && whole == all, "{whole:?} {all:?}");
        let (whole, all) = cost(&[priced, part(1_300_000, None)]);
        assert!(whole.is_none() && all.is_some_and(|share| (share.estimate - 0.01 / 0.99).abs() < 1e-12), "{all:?}");
        assert_eq!(cost(&[part(7, None)]), (None, None));
        // 0.9 s of 1 s: nine times the rest, or ninety.
        assert_eq!(cost(&[part(90_000, Some(10_000.0))]), (None, None));
    }
}
