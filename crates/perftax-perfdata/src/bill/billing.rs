//! From what a recording counts to what it cost.

use std::collections::{BTreeMap, HashMap};

use perftax_doc::Estimate;
use perftax_doc::{Bill, BilledEvent, MachineProfile, Origin, SampleCount, SpanOf, Untold};

use super::dropped::Dropped;
use super::price::{Price, price_of};
use super::{remarks, switches, tasks};
use crate::recording::{EventCounts, Recording, Thread, mechanism_of};

/// Makes the bill of a recording with the prices of a machine profile; without one, a bill of counts only.
///
/// - An event costs (samples + lost + filtered) × α: a sample that found the ring full had interrupted as well.
/// - `cost_s` adds the events up. `elapsed_cost_s` is what the run took longer, see [`crate::recording::Slices`].
/// - `share_of_run` = elapsed cost / (span − elapsed cost).
///
/// `origin.taken_at_s` is the time that the age of the calibrations is counted to. Warnings are added to the origin's.
pub fn bill(recording: &Recording, profile: Option<&MachineProfile>, origin: Origin) -> Bill {
    let mut priced: Vec<_> = recording.events.iter().map(|event| priced(recording, event, profile, origin.taken_at_s)).collect();
    let samples: Vec<_> = priced.iter().map(|p| p.event.charged()).collect();
    // Whoever sees nothing but the damage does not know that nothing came.
    if recording.fault.is_some() && samples.iter().all(|samples| *samples == 0) {
        priced.iter_mut().for_each(|p| p.event.untold = p.event.untold.or(Some(Untold::CutOff)));
    }
    let (span_s, span_of) = span(recording);
    let longest_s = longest(recording, span_s, span_of);
    let critical = critical(recording, &priced);
    let dropped: Vec<Option<Dropped>> = recording
        .events
        .iter()
        .zip(&priced)
        .map(|(counts, p)| Dropped::of(recording, counts, p.price.as_ref()?, longest_s).filter(|_| p.event.untold.is_none()))
        .collect();
    for (priced, (&all, &critical)) in priced.iter_mut().zip(samples.iter().zip(&critical)) {
        priced.event.cost_s = cost(&priced.event, all);
        priced.event.elapsed_cost_s = cost(&priced.event, critical);
    }
    for (p, dropped) in priced.iter_mut().zip(&dropped) {
        let Some(dropped) = dropped else { continue };
        p.event.dropped = Some(dropped.interrupts);
        p.event.cost_s = p.event.cost_s.map(|cost| cost.plus(&dropped.cost_s));
        p.event.elapsed_cost_s = p.event.elapsed_cost_s.map(|cost| cost.plus(&dropped.elapsed_cost_s));
    }
    if recording.counts.of_cpus {
        priced.iter_mut().for_each(|p| p.event.elapsed_cost_s = None);
    }
    let with_dropped = |cost: Option<Estimate>, of: fn(&Dropped) -> Estimate| {
        cost.map(|cost| dropped.iter().flatten().fold(cost, |sum, dropped| sum.plus(&of(dropped))))
    };
    let tasks = tasks::of(recording, &priced);
    let switches = switches::of(recording, &priced);
    let of_switches = switches.and_then(|switches| switches.cost_s);
    let of_tasks = tasks.as_ref().and_then(|tasks| tasks.cost_s);
    let with_part = |cost: Option<Estimate>, of_tasks: Option<Estimate>| match of_tasks {
        Some(of_tasks) => cost.map(|cost| cost.plus(&of_tasks)),
        None => cost,
    };
    // Tasks may come and go on several CPUs at a time: the run is longer by their share of one of them at least.
    let cpus = f64::from(recording.features.cpus_online.unwrap_or(1).max(1));
    let in_parallel = |cost: Estimate| Estimate { low: (cost.low / cpus).min(cost.low), ..cost };
    let longer = of_tasks.map(in_parallel);
    // Whatever ran on CPUs that were watched is no one run.
    let of_cpus = recording.counts.of_cpus;
    let elapsed_cost_s = total(&priced, &samples).filter(|_| !of_cpus).and_then(|_| with_part(total(&priced, &critical), longer));
    let elapsed_cost_s = with_part(elapsed_cost_s, of_switches.map(in_parallel));
    let elapsed_cost_s = with_dropped(elapsed_cost_s, |dropped| dropped.elapsed_cost_s);
    let cost_s = with_part(with_part(total(&priced, &samples), of_tasks), of_switches);
    let cost_s = with_dropped(cost_s, |dropped| dropped.cost_s);
    // Samples that no event owns, or a recording that names none, say nothing of what was not there.
    let is_blank =
        recording.events.is_empty() || (recording.counts.unknown_samples > 0 && samples.iter().all(|samples| *samples == 0));
    let (elapsed_cost_s, cost_s) = if is_blank { (None, None) } else { (elapsed_cost_s, cost_s) };
    let share_of_run = elapsed_cost_s.and_then(|cost| share(cost, span_s, longest_s));
    let mut bill = Bill {
        origin,
        recording: recording.name.clone(),
        recorded_command: recording.features.command.clone(),
        recorded_on: recording.features.machine(),
        recorded_by: recording.features.perf_version.clone(),
        span_s,
        span_of,
        cost_s,
        elapsed_cost_s,
        share_of_run,
        of_cpus,
        by_cpu: by_cpu(recording, &priced),
        by_process: if of_cpus { by_process(recording, &priced) } else { Vec::new() },
        by_thread: by_thread(recording),
        tasks,
        switches,
        events: Vec::new(),
    };
    let remarks = remarks::of(recording, &priced, profile, &bill);
    bill.origin.warnings.extend(remarks);
    let shown = priced.into_iter().zip(&recording.events).filter(|(p, counts)| p.event.charged() > 0 || !counts.is_dummy());
    bill.events = shown.map(|(p, _)| p.event).collect();
    bill
}

/// An event with its price.
pub(super) struct PricedEvent<'a> {
    pub event: BilledEvent,
    pub price: Option<Price<'a>>,
}

fn priced<'a>(recording: &Recording, counts: &EventCounts, profile: Option<&'a MachineProfile>, now_s: f64) -> PricedEvent<'a> {
    let mechanism = mechanism_of(&counts.attribute, &counts.name, &recording.features);
    let price = mechanism.zip(profile).and_then(|(m, profile)| {
        price_of(profile, m, &counts.name, &counts.attribute, counts.carried(), counts.code_pages(), now_s)
    });
    let event = BilledEvent {
        event: counts.name.clone(),
        mechanism,
        period: counts.attribute.events_a_sample(),
        frequency: counts.attribute.frequency,
        samples: counts.samples,
        lost: counts.lost(),
        lost_in_ring: counts.lost_in_ring,
        lost_samples: counts.lost_samples,
        filtered: counts.filtered,
        throttled: counts.throttled,
        running: counts.running(),
        dropped: None,
        idle: counts.idle,
        synthesised: counts.synthesised,
        untold: counts.untold,
        alpha_ns: price.as_ref().map(|p| p.alpha_ns),
        calibrated_event: price.as_ref().map(|p| p.calibration.event.clone()),
        payload: price.as_ref().map(|p| p.payload.clone()).unwrap_or_default(),
        cost_s: None,
        elapsed_cost_s: None,
    };
    PricedEvent { event, price }
}

/// What so many samples of an event cost; an event that took none cost nothing, whatever its price. What tracing costs nobody knows.
fn cost(event: &BilledEvent, samples: u64) -> Option<Estimate> {
    if event.untold.is_some() {
        return None;
    }
    if event.charged() == 0 { Some(Estimate::exact(0.0)) } else { event.alpha_ns.map(|a| a.scaled(samples as f64 * 1e-9)) }
}

/// The cost of so many samples of each event. Events priced by one calibration share its error, so their ends add; those of
/// different calibrations are independent. None where samples came but none was priced.
fn total(priced: &[PricedEvent], samples: &[u64]) -> Option<Estimate> {
    let mut by_calibration: BTreeMap<(perftax_doc::Mechanism, &str), Estimate> = BTreeMap::new();
    let mut unpriced = 0;
    for (PricedEvent { price, event }, &samples) in priced.iter().zip(samples) {
        let Some(price) = price.as_ref().filter(|_| event.untold.is_none()) else {
            unpriced += samples + u64::from(event.untold.is_some());
            continue;
        };
        let cost = price.alpha_ns.scaled(samples as f64 * 1e-9);
        let key = (price.calibration.mechanism, price.calibration.event.as_str());
        let sum = by_calibration.entry(key).or_insert(Estimate { confidence: cost.confidence, ..Estimate::exact(0.0) });
        *sum = sum.plus_dependent(&cost);
    }
    let sum = by_calibration.into_values().reduce(|a, b| a.plus(&b));
    sum.filter(|s| unpriced == 0 || s.estimate > 0.0).or((unpriced == 0).then_some(Estimate::exact(0.0)))
}

/// Samples of each event that made the run longer: those on the busiest track. Lost ones have no time, so they are spread as
/// the delivered ones are.
fn critical(recording: &Recording, priced: &[PricedEvent]) -> Vec<u64> {
    let is_charged = |event: &BilledEvent| !event.synthesised && event.untold.is_none();
    let price = |event: usize| {
        let event = &priced[event].event;
        event.alpha_ns.filter(|_| is_charged(event)).map_or(0.0, |alpha_ns| alpha_ns.estimate)
    };
    let critical = recording.counts.slices.critical(price);
    let timed = recording.counts.first_sample_ns.is_some();
    let of_event = |(index, p): (usize, &PricedEvent)| {
        let charged = p.event.charged();
        if !timed || p.event.samples == 0 || recording.events[index].in_aux > 0 {
            return charged.saturating_sub(p.event.idle);
        }
        let share = critical.get(&index).copied().unwrap_or(0) as f64 / p.event.samples as f64;
        (charged as f64 * share).round() as u64
    };
    priced.iter().enumerate().map(of_event).collect()
}

fn span(recording: &Recording) -> (f64, SpanOf) {
    let command = recording.command_span_s().map(|s| (s, SpanOf::Command));
    let samples = || recording.sample_span_s().map(|s| (s, SpanOf::Samples));
    command.or_else(samples).unwrap_or((0.0, SpanOf::Unknown))
}

/// How long the run may have been: first to last sample is short by about one sampling gap at each end.
fn longest(recording: &Recording, span_s: f64, span_of: SpanOf) -> f64 {
    let samples: u64 = recording.events.iter().map(|e| e.samples).sum();
    match span_of {
        SpanOf::Samples if samples > 1 => span_s * (samples + 1) as f64 / (samples - 1) as f64,
        _ => span_s,
    }
}

/// Share of the unmonitored run; None where the cost is as long as the whole run, so that its price cannot be right.
fn share(cost: Estimate, span_s: f64, longest_s: f64) -> Option<Estimate> {
    // The upper end alone may exceed the run: it is then no bound at all, shown as a thousandfold slow-down.
    let of = |cost_s: f64, span_s: f64| cost_s / (span_s - cost_s.min(span_s * 0.999));
    (span_s > 0.0 && cost.estimate < span_s).then(|| Estimate {
        estimate: of(cost.estimate, span_s),
        low: of(cost.low, longest_s),
        high: of(cost.high, span_s),
        confidence: cost.confidence,
    })
}

/// Samples of each event, and what those cost that were not of the idle task, lost and filtered ones spread as they are; none where one of them has no price,
/// or somebody's samples do not tell.
fn busy_cost(priced: &[PricedEvent], samples: &BTreeMap<usize, (u64, u64)>) -> Option<Estimate> {
    if priced.iter().any(|p| p.event.untold.is_some()) {
        return None;
    }
    let mut busy = vec![0; priced.len()];
    for (&event, &(samples, idle)) in samples {
        let of_all = &priced.get(event)?.event;
        let each = of_all.charged() as f64 / of_all.samples.max(1) as f64;
        busy[event] = (samples.saturating_sub(idle) as f64 * each).round() as u64;
    }
    let all_are_priced = priced.iter().zip(&busy).all(|(p, &samples)| samples == 0 || p.price.is_some());
    total(priced, &busy).filter(|_| all_are_priced)
}

fn by_cpu(recording: &Recording, priced: &[PricedEvent]) -> Vec<SampleCount> {
    let counts = &recording.counts;
    let mut sums: BTreeMap<u32, BTreeMap<usize, (u64, u64)>> = BTreeMap::new();
    for (&(cpu, event), &samples) in &counts.by_cpu {
        let idle = counts.idle_by_cpu.get(&(cpu, event)).copied().unwrap_or(0);
        sums.entry(cpu).or_default().insert(event, (samples, idle));
    }
    sums.into_iter().map(|(cpu, events)| count(cpu.to_string(), &events, counts.of_cpus.then_some(priced))).collect()
}

fn count(key: String, events: &BTreeMap<usize, (u64, u64)>, priced: Option<&[PricedEvent]>) -> SampleCount {
    let sum = |of: fn(&(u64, u64)) -> u64| events.values().map(of).sum();
    SampleCount {
        key,
        samples: sum(|event| event.0),
        idle: sum(|event| event.1),
        cost_s: priced.and_then(|priced| busy_cost(priced, events)),
    }
}

/// Processes, the most expensive first; the idle task is none.
fn by_process(recording: &Recording, priced: &[PricedEvent]) -> Vec<SampleCount> {
    let mut sums: BTreeMap<u32, BTreeMap<usize, (u64, u64)>> = BTreeMap::new();
    for (&(thread, event), &samples) in recording.counts.by_thread.iter().filter(|((thread, _), _)| thread.pid != 0) {
        sums.entry(thread.pid).or_default().entry(event).or_default().0 += samples;
    }
    let key = |pid: u32| format!("{pid} {}", recording.counts.comm(pid)).trim_end().to_string();
    let mut processes: Vec<SampleCount> = sums.into_iter().map(|(pid, events)| count(key(pid), &events, Some(priced))).collect();
    let cost = |process: &SampleCount| process.cost_s.map_or(0.0, |cost| cost.estimate);
    processes.sort_by(|a, b| cost(b).total_cmp(&cost(a)).then(b.samples.cmp(&a.samples)));
    processes
}

/// Threads, the busiest first.
fn by_thread(recording: &Recording) -> Vec<SampleCount> {
    let mut sums: HashMap<Thread, u64> = HashMap::new();
    for (&(thread, _), &samples) in &recording.counts.by_thread {
        *sums.entry(thread).or_default() += samples;
    }
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by_key(|&(thread, samples)| (std::cmp::Reverse(samples), thread));
    let key = |t: Thread| format!("{}/{} {}", t.pid, t.tid, recording.counts.comm(t.tid)).trim_end().to_string();
    sums.into_iter().map(|(thread, samples)| SampleCount { key: key(thread), samples, ..SampleCount::default() }).collect()
}
