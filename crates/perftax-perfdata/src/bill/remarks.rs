//! What a reader must know beside a bill.

use std::collections::BTreeMap;

use perftax_cost::prediction::FRESH_S;
use perftax_doc::steps::{Calibrated, Operation, Setting};
use perftax_doc::{Bill, MachineProfile, Untold};
use perftax_doc::{LeftOut, Mechanism, Warning};

use super::billing::PricedEvent;
use super::price::Price;
use crate::recording::Recording;
use perftax_doc::words::named;

/// All warnings of a bill.
pub(super) fn of(recording: &Recording, priced: &[PricedEvent], profile: Option<&MachineProfile>, bill: &Bill) -> Vec<Warning> {
    let mut warnings = Vec::new();
    of_reading(recording, &mut warnings);
    of_sampling(priced, &mut warnings);
    of_periods(recording, &mut warnings);
    of_switches(bill, &mut warnings);
    of_filters(recording, priced, &mut warnings);
    of_traces(priced, &mut warnings);
    if let Some(profile) = profile {
        of_profile(recording, priced, profile, bill, &mut warnings);
    }
    of_prices(recording, priced, &mut warnings);
    if let Some(tasks) = bill.tasks.filter(|tasks| tasks.cost_s.is_none() && profile.is_some()) {
        warnings.push(other(
            format!(
                "{} threads and processes came and went, and what that cost is not in the bill: this profile does not know it",
                tasks.created
            ),
            format!("calibrate anew on the machine that it was recorded on ({})", Operation::Calibrate(Calibrated::All)),
        ));
    }
    let elapsed = bill.elapsed_cost_s.map_or(0.0, |c| c.estimate);
    if elapsed > 0.0 && bill.span_s == 0.0 {
        warnings.push(other(
            "the recording does not tell how long the run took, so the share of the run is unknown",
            "record with timestamps (perf record -T)",
        ));
    } else if elapsed > 0.0 && bill.share_of_run.is_none() {
        warnings.push(other(
            format!("samples × α is {elapsed:.3} s, as long as the whole run ({:.3} s): this profile's α is not that of the recording", bill.span_s),
            format!("price it with a profile of the machine that it was recorded on: {} FILE", Setting::Profile),
        ));
    }
    warnings
}

fn other(message: impl Into<String>, remedy: impl Into<String>) -> Warning {
    Warning::Other { message: message.into(), remedy: remedy.into() }
}

fn of_reading(recording: &Recording, warnings: &mut Vec<Warning>) {
    if let Some(fault) = &recording.fault {
        let message = match fault.at_byte {
            0 => format!("{} is not whole: {}; billed is what is there", recording.name, fault.why),
            at_byte => format!("{} is damaged at byte {at_byte}: {}; billed is what stands before", recording.name, fault.why),
        };
        warnings.push(other(message, "end perf record with SIGINT and let it finish; copy the file again"));
    }
    let counts = &recording.counts;
    if counts.unknown_samples > 0 {
        warnings.push(other(
            format!("{} samples belong to no event of the recording and are not billed", counts.unknown_samples),
            "record again; compare with perf report --stats",
        ));
    }
    if counts.impossible > 0 {
        warnings.push(other(
            format!(
                "{} records state what cannot be ({}) and are left out: the recording is damaged",
                counts.impossible,
                counts.first_impossible.as_deref().unwrap_or_default()
            ),
            "record again; compare with perf report --stats",
        ));
    }
    if counts.aux_lossy > 0 {
        warnings.push(other(
            format!("{} pieces of AUX data were cut off, have gaps or collided samples", counts.aux_lossy),
            "enlarge the AUX buffer (-m ,PAGES) or the period",
        ));
    }
    if recording.events.is_empty() {
        warnings.push(other("the recording names no event", "record again"));
    } else if recording.fault.is_none()
        && counts.unknown_samples == 0
        && recording.events.iter().all(|e| e.samples == 0 && e.lost() == 0 && e.untold.is_none())
    {
        warnings.push(other(
            "the recording holds no samples, so sampling itself cost nothing",
            "if samples were expected: lengthen the run, or lower the period (perf record -c)",
        ));
    }
}

/// A timer interrupts in the mode that its filter leaves out as well, and leaves nothing of it in the recording.
fn of_filters(recording: &Recording, priced: &[PricedEvent], warnings: &mut Vec<Warning>) {
    const REMEDY: &str = "record both modes (without :u or :k): then each interrupt has its sample";
    let mut unbounded: Vec<&str> = Vec::new();
    for (counts, PricedEvent { event, .. }) in recording.events.iter().zip(priced) {
        let attribute = &counts.attribute;
        let left_out = event
            .mechanism
            .map_or(LeftOut::Nothing, |mechanism| LeftOut::of(mechanism, attribute.exclude_kernel, attribute.exclude_user));
        match event.dropped {
            Some(dropped) => warnings.push(other(
                format!(
                    "{} interrupts in the mode that it leaves out, too, without a sample: none or up to {:.0} times; the bill's interval has both",
                    event.event, dropped.high
                ),
                REMEDY,
            )),
            None if left_out != LeftOut::Nothing && event.untold.is_none() => unbounded.push(&event.event),
            None => {}
        }
    }
    if !unbounded.is_empty() {
        let message = format!(
            "the bill is the least of what these cost, which interrupt in the mode that they leave out, too, without a sample: {}",
            named(&unbounded)
        );
        warnings.push(other(message, REMEDY));
    }
}

/// Traces, and what was put together from them.
fn of_traces(priced: &[PricedEvent], warnings: &mut Vec<Warning>) {
    let named = |of: fn(&PricedEvent) -> bool| {
        let names: Vec<&str> = priced.iter().filter(|p| of(p)).map(|p| p.event.event.as_str()).collect();
        names.join(", ")
    };
    let overwritten = named(|p| p.event.untold == Some(Untold::Overwritten));
    if !overwritten.is_empty() {
        warnings.push(other(
            format!("the rings of {overwritten} were overwritten: only the last samples are left, and what all of them cost is not known"),
            "perf record without --overwrite",
        ));
    }
    let traced = named(|p| p.event.untold == Some(Untold::AuxBuffer));
    if !traced.is_empty() {
        warnings.push(other(
            format!("{traced} filled AUX buffers: what that cost is not known, and not billed"),
            "time the program with the recording and without it; perftax has no price for AUX data",
        ));
    }
    let synthesised = named(|p| p.event.synthesised && p.event.samples > 0);
    if !synthesised.is_empty() {
        warnings.push(other(
            format!("samples of {synthesised} were put together from a trace afterwards (perf inject --itrace): they interrupted nobody"),
            "bill the recording that it was made from",
        ));
    }
}

/// Tracepoints of which each event became a sample, whatever period was asked for.
fn of_periods(recording: &Recording, warnings: &mut Vec<Warning>) {
    let ignored: Vec<&str> =
        recording.events.iter().filter(|event| event.ignored_its_period()).map(|event| event.name.as_str()).collect();
    if !ignored.is_empty() {
        let message = format!(
            "each event was a sample, whatever period was asked for, because samples carry their period: {}",
            named(&ignored)
        );
        warnings.push(other(message, "perf record --no-period"));
    }
}

/// Context switches that have no price.
fn of_switches(bill: &Bill, warnings: &mut Vec<Warning>) {
    /// A switch with an event costs about as much more (KVM guest, AMD EPYC: 0.3 to 1.2 µs).
    const ABOUT_S: f64 = 1e-6;
    /// A share of the run that is worth a word.
    const WORTH_SAYING: f64 = 0.01;
    let Some(switches) = bill.switches.filter(|switches| switches.cost_s.is_none()) else { return };
    if bill.span_s <= 0.0 || switches.switches as f64 * ABOUT_S < WORTH_SAYING * bill.span_s {
        return;
    }
    let message = format!(
        "{} context switches, at each of which the events of a task were swapped: what that cost is not in the bill",
        switches.switches
    );
    warnings.push(other(
        message,
        format!("calibrate anew on the machine that it was recorded on ({})", Operation::Calibrate(Calibrated::All)),
    ));
}

fn of_sampling(priced: &[PricedEvent], warnings: &mut Vec<Warning>) {
    let sum = |of: fn(&PricedEvent) -> u64| priced.iter().map(of).fold(0, u64::saturating_add);
    let (lost, throttled) = (sum(|p| p.event.lost), sum(|p| p.event.throttled));
    if lost > 0 {
        warnings.push(Warning::LostRecords { lost });
    }
    if throttled > 0 {
        warnings.push(Warning::Throttled { throttled });
    }
    let shared: Vec<(&str, f64)> =
        priced.iter().filter_map(|p| Some((p.event.event.as_str(), p.event.running.filter(|&r| r < 0.999)?))).collect();
    match shared[..] {
        [] => {}
        [(event, running)] => warnings.push(Warning::Multiplexed { event: event.into(), running }),
        [(_, first), ..] => {
            let least = shared.iter().map(|(_, running)| *running).fold(first, f64::min);
            let events: Vec<&str> = shared.iter().map(|(event, _)| *event).collect();
            let message = format!(
                "{} events shared counters, the least for {:.0} % of the time: {}",
                shared.len(),
                least * 100.0,
                named(&events)
            );
            warnings.push(other(message, "record fewer events at a time"));
        }
    }
}

fn of_profile(recording: &Recording, priced: &[PricedEvent], profile: &MachineProfile, bill: &Bill, warnings: &mut Vec<Warning>) {
    let features = &recording.features;
    let differs = |recorded: &str, profiled: &str| !recorded.is_empty() && !profiled.is_empty() && recorded != profiled;
    if differs(&features.kernel, &profile.kernel) || differs(features.cpu.trim(), profile.machine.cpu.trim()) {
        warnings.push(Warning::ForeignProfile {
            profile: format!("{}, Linux {}", profile.machine.cpu, profile.kernel),
            here: features.machine(),
        });
    }
    let used = || priced.iter().filter(|p| p.event.charged() > 0).filter_map(|p| p.price.as_ref());
    if features.cpu.is_empty() && features.kernel.is_empty() && used().next().is_some() {
        warnings.push(other(
            format!(
                "the recording does not say which machine it is of: it is priced as if it were of {}, Linux {}",
                profile.machine.cpu, profile.kernel
            ),
            format!("price it with a profile of the machine that it was recorded on: {} FILE", Setting::Profile),
        ));
    }
    let taken_at_s = |price: &Price| price.calibration.origin.taken_at_s;
    let oldest = used().min_by(|a, b| taken_at_s(a).total_cmp(&taken_at_s(b)));
    if let Some(oldest) = oldest {
        let age_s = bill.origin.taken_at_s - taken_at_s(oldest);
        if age_s > FRESH_S {
            warnings.push(Warning::OldCalibration { age_s, drift: oldest.drift });
        }
    }
}

fn of_prices(recording: &Recording, priced: &[PricedEvent], warnings: &mut Vec<Warning>) {
    let charged = || priced.iter().filter(|p| p.event.charged() > 0);
    let any = charged().any(|p| p.price.is_some());
    let there = calibrated_where(recording);
    let mut unpriced: BTreeMap<Option<Mechanism>, Vec<&str>> = BTreeMap::new();
    let mut inexact: BTreeMap<(Mechanism, &str), Vec<&str>> = BTreeMap::new();
    let mut lacking: BTreeMap<(Mechanism, String), Vec<&str>> = BTreeMap::new();
    let mut unknown: BTreeMap<Vec<(&str, &str)>, Vec<&str>> = BTreeMap::new();
    for PricedEvent { event, price } in charged() {
        let name = event.event.as_str();
        let Some(price) = price else {
            unpriced.entry(event.mechanism).or_default().push(name);
            continue;
        };
        let mechanism = price.calibration.mechanism;
        if !price.exact {
            inexact.entry((mechanism, &price.calibration.event)).or_default().push(name);
        }
        if !price.unpriced_payload.is_empty() {
            lacking.entry((mechanism, price.unpriced_payload.join(", "))).or_default().push(name);
        }
        if !price.unknown_payload.is_empty() {
            unknown.entry(price.unknown_payload.clone()).or_default().push(name);
        }
    }
    for (mechanism, events) in unpriced {
        let rest = if any { "; the total is too small by what they cost" } else { "" };
        let remedy = match mechanism {
            Some(mechanism) => format!("{}{there}", calibrate(mechanism, &events)),
            None => "none: perftax cannot tell how they are sampled".into(),
        };
        warnings.push(other(format!("not priced: {}{rest}", named(&events)), remedy));
    }
    for ((mechanism, calibrated), events) in inexact {
        let message =
            format!("priced with the cost of {calibrated}, for the profile has no calibration of their own: {}", named(&events));
        warnings.push(other(message, format!("{}{there}", calibrate(mechanism, &events))));
    }
    for ((mechanism, payload), events) in lacking {
        let message = format!("{payload}, not priced in the profile, make the cost too small of {}", named(&events));
        warnings.push(other(message, format!("{}{there}", Operation::Calibrate(Calibrated::Mechanism(mechanism)))));
    }
    for (payload, events) in unknown {
        let (payload, options): (Vec<&str>, Vec<&str>) = payload.into_iter().unzip();
        let message = format!(
            "{}, which nobody has priced, come with samples: the bill is the least of what they cost with {}",
            payload.join(", "),
            named(&events)
        );
        warnings.push(other(message, format!("perf record without {}", options.join(", "))));
    }
}

/// How a price is found: of an event that can be made to happen by itself, or of the mechanism by an event that can. Of timers always so: whoever may not
/// watch the kernel then calibrates without it.
pub fn calibrate(mechanism: Mechanism, events: &[&str]) -> Operation {
    Operation::Calibrate(match events {
        [event] if !mechanism.is_of_places() && !mechanism.is_time_driven() => Calibrated::Event((*event).into()),
        _ => Calibrated::Mechanism(mechanism),
    })
}

/// Where, if not here.
fn calibrated_where(recording: &Recording) -> String {
    let features = &recording.features;
    let is_here = features.hostname.is_empty() || features.is_of_this_host();
    if is_here { String::new() } else { format!(" on {}, and then {} FILE", features.hostname, Setting::Profile) }
}
