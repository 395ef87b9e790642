//! The page of a calibration.

use std::collections::BTreeMap;

use perftax_cost::alpha::Clock;
use perftax_cost::buffering::INTERRUPT_TERM;
use perftax_doc::Estimate;
use perftax_doc::observation::{Block, Settling};
use perftax_doc::{ArmName, Calibration, DirectCost, Linearity, RecordCost, StopReason};
use serde_json::json;

use super::figure::{Axis, Figure, Trace, place};
use super::page::{Grid, Panel, Part};
use crate::text::unit_of_term;
use crate::{shell, units};

/// Seconds in a nanosecond.
const NS: f64 = 1e-9;

/// Two-sided 95 % point of the normal distribution.
const Z95: f64 = 1.96;

pub(super) fn part(doc: &Calibration) -> Part {
    let mut part = Part::of(&doc.origin, format!("What one sample of {} costs", doc.event));
    part.lead = format!(
        "{} a sample by {}, from {} samples in {} sessions.",
        units::estimate_ns(&doc.alpha_ns),
        doc.mechanism,
        units::count(doc.samples),
        doc.sessions
    );
    facts(&mut part, doc);
    if !doc.mechanism.only_measures() {
        let plan = shell::join(&["perftax", "plan", "--budget", "1%", "-e", &doc.event, "--"]);
        part.next = Some(("Plan with it".into(), format!("{plan} CMD")));
    }
    let extras = Extras::of(doc);
    if extras.0.is_empty() {
        part.panel(Panel::new(
            "Slope",
            "This document carries no raw blocks (machine profiles leave them out), so the slope and its drift cannot be drawn: \
             perftax calibrate --json keeps them.",
        ));
    } else {
        part.panel(slope(doc, &extras));
    }
    if let Some(linearity) = doc.linearity.as_ref().filter(|l| !l.periods.is_empty()) {
        part.panel(by_period(doc, linearity));
    }
    if !extras.0.is_empty() {
        part.panel(drift(doc, &extras));
    }
    if !doc.terms.is_empty() {
        part.panel(terms(doc));
    }
    if let Some(direct) = &doc.direct {
        part.panel(by_buffer(direct));
    }
    if !doc.blocks.is_empty() {
        part.panel(Panel::new("Raw blocks", "Every timed block, before any statistics.").folded(raw(&doc.blocks)));
    }
    part
}

fn facts(part: &mut Part, doc: &Calibration) {
    let stopped = match doc.stopped {
        StopReason::Precision => "stopped at the precision asked for",
        StopReason::TimeLimit => "stopped by the time limit",
    };
    part.fact("ambient cost α", units::estimate_ns(&doc.alpha_ns), "expected elapsed time that one sample adds");
    if let Some(floor) = &doc.floor_ns {
        part.fact("floor", units::estimate_ns(floor), "on an undisturbed machine (5th percentile)");
    }
    if let Some(cross_check) = &doc.cross_check {
        part.fact(
            "handler cross-check",
            units::estimate_ns(&cross_check.handler_ns),
            format!("in the handler by {}", cross_check.source),
        );
    }
    if let Some(control) = &doc.control {
        let verdict = if control.passed { "passed" } else { "FAILED" };
        let note = format!("off against off: {verdict}; tells a bias of {}", units::share(control.detects));
        part.fact("control", units::estimate_share(&control.difference), note);
    }
    part.fact("drift", format!("±{}", units::share(doc.drift)), "between sessions, beyond their intervals");
    part.fact("time", units::span(doc.elapsed_s), stopped);
    part.fact(
        "samples",
        units::count(doc.samples),
        format!(
            "{} expected, {} lost, throttled {} times",
            units::about(doc.expected_samples.round()),
            units::count(doc.lost),
            units::count(doc.throttled)
        ),
    );
}

/// Extra time of one monitored block over the unmonitored blocks of its round.
struct Extra {
    session: u32,
    round: u32,
    period: u64,
    samples: f64,
    extra_ns: f64,
}

struct Extras(Vec<Extra>);

impl Extras {
    fn of(doc: &Calibration) -> Self {
        let blocks = &doc.blocks;
        // Where buffers of several sizes were tried, interrupts are taken out: what is left is the records'.
        let interrupt_ns = doc.direct.as_ref().and_then(|_| doc.terms.get(INTERRUPT_TERM)).map_or(0.0, |term| term.estimate);
        let clock = if doc.direct.is_some() { Clock::Work } else { Clock::Wall };
        let usable = || blocks.iter().filter(|b| b.discarded.is_none());
        let mut off: BTreeMap<(u32, u32, u64), (f64, f64)> = BTreeMap::new();
        // Each against the same buffer without a sample.
        let at = |b: &Block| (b.session, b.round, b.settling.map_or(0, |s| s.buffer_bytes));
        // Where the event had to run without a sample for the comparison, that is what sampling is held against.
        let main = ArmName::Idle { buffer_bytes: None };
        let has_idle = blocks.iter().any(|b| ArmName::of(&b.arm) == main);
        let is_baseline = |arm: &ArmName| arm.is_idle() || (!has_idle && *arm == ArmName::Off);
        for b in usable().filter(|b| is_baseline(&ArmName::of(&b.arm))) {
            let sum = off.entry(at(b)).or_default();
            *sum = (sum.0 + clock.of(b), sum.1 + 1.0);
        }
        let on = usable().filter(|b| ArmName::of(&b.arm).is_on() && b.samples > 0).filter_map(|b| {
            let (sum, n) = off.get(&at(b))?;
            Some(Extra {
                session: b.session,
                round: b.round,
                period: b.period,
                samples: b.samples as f64,
                extra_ns: clock.of(b) - sum / n - interrupt_ns * b.settling.map_or(0.0, |s| s.interrupts as f64),
            })
        });
        Self(on.collect())
    }

    /// Mean samples and mean extra time a block, by a key.
    fn means<K: Ord>(&self, key: impl Fn(&Extra) -> K) -> BTreeMap<K, (f64, f64)> {
        let mut sums: BTreeMap<K, (f64, f64, f64)> = BTreeMap::new();
        for e in &self.0 {
            let sum = sums.entry(key(e)).or_default();
            *sum = (sum.0 + e.samples, sum.1 + e.extra_ns, sum.2 + 1.0);
        }
        sums.into_iter().map(|(k, (samples, extra, n))| (k, (samples / n, extra / n))).collect()
    }

    /// Ratio of sums in each session, with an interval from the scatter of its rounds about that ratio.
    fn sessions(&self) -> Vec<(f64, Estimate)> {
        let mut rounds: BTreeMap<u32, BTreeMap<u32, (f64, f64)>> = BTreeMap::new();
        for e in &self.0 {
            let sum = rounds.entry(e.session).or_default().entry(e.round).or_default();
            *sum = (sum.0 + e.samples, sum.1 + e.extra_ns);
        }
        let ratio = |(session, rounds): (u32, BTreeMap<u32, (f64, f64)>)| {
            let (samples, extra) = rounds.values().fold((0.0, 0.0), |a, r| (a.0 + r.0, a.1 + r.1));
            let alpha = extra / samples;
            let n = rounds.len() as f64;
            let squares: f64 = rounds.values().map(|(s, e)| (e - alpha * s).powi(2)).sum();
            let half_width = if n > 1.0 { Z95 * (squares * n / (n - 1.0)).sqrt() / samples } else { 0.0 };
            (f64::from(session), Estimate::new(alpha, alpha - half_width, alpha + half_width))
        };
        rounds.into_iter().map(ratio).collect()
    }
}

fn slope(doc: &Calibration, extras: &Extras) -> Panel {
    let height = if doc.direct.is_some() { 620 } else { 460 };
    let mut figure =
        Figure::new(height, Axis::count("samples in a block").zero_based(), Axis::time("extra time of a block").zero_based());
    let sessions: Vec<(f64, f64)> = extras.means(|e| (e.period, e.session)).into_values().collect();
    let most = sessions.iter().map(|p| p.0).fold(0.0, f64::max) * 1.05;
    let x = [0.0, most];
    let times = |ns: f64| [0.0, most * ns * NS];
    figure.add(Trace::band("interval of α", &x, &times(doc.alpha_ns.low), &times(doc.alpha_ns.high)).colour(1));
    let (samples, extra): (Vec<f64>, Vec<f64>) = sessions.iter().map(|p| (p.0, p.1 * NS)).unzip();
    figure.add(Trace::dots("mean of a session", &samples, &extra).colour(0));
    figure.add(Trace::line(&format!("α = {}", units::estimate_ns(&doc.alpha_ns)), &x, &times(doc.alpha_ns.estimate)).colour(1));
    if let Some(linearity) = &doc.linearity {
        let means = extras.means(|e| e.period);
        let known = linearity.periods.iter().filter_map(|p| Some((means.get(&p.period)?.0, p.alpha_ns)));
        let (x, y): (Vec<f64>, Vec<Estimate>) = known.map(|(n, alpha)| (n, alpha.scaled(n * NS))).unzip();
        figure.add(
            Trace::points("all sessions, by period", &x, &y).colour(2).with(json!({"marker": {"symbol": "diamond", "size": 10}})),
        );
        let name = format!("Theil–Sen {}", units::estimate_ns(&linearity.theil_sen_ns));
        figure.add(Trace::line(&name, &[0.0, most], &times(linearity.theil_sen_ns.estimate)).reference());
    }
    for (i, published) in doc.direct.iter().flat_map(|direct| &direct.published).enumerate() {
        let name = format!("published: {}, {}", published.machine, units::estimate_ns(&published.alpha_ns));
        figure.add(
            Trace::line(&name, &x, &times(published.alpha_ns.estimate)).colour(3 + i).with(json!({"line": {"dash": "dashdot"}})),
        );
    }
    if let Some(floor) = &doc.floor_ns {
        let name = format!("floor {}", units::estimate_ns(floor));
        figure.add(Trace::line(&name, &x, &times(floor.estimate)).reference().with(json!({"line": {"dash": "dot"}})));
    }
    Panel::new(
        "Slope: extra time against samples",
        "If every sample costs the same, the points lie on one straight line through the origin, and α is its slope; \
         the vertical spread at one number of samples is how much the machine drifts between sessions.",
    )
    .figure(figure)
}

fn by_period(doc: &Calibration, linearity: &Linearity) -> Panel {
    let mut figure = Figure::new(400, Axis::period(doc.mechanism).log(), Axis::time("cost of one sample"));
    let x: Vec<f64> = linearity.periods.iter().map(|p| place(doc.mechanism, p.period as f64)).collect();
    let y: Vec<Estimate> = linearity.periods.iter().map(|p| p.alpha_ns.scaled(NS)).collect();
    let (low, high) = (x.iter().copied().fold(f64::MAX, f64::min) / 1.3, x.iter().copied().fold(0.0, f64::max) * 1.3);
    let level = |ns: f64| [ns * NS; 2];
    let a = &doc.alpha_ns;
    figure.add(Trace::band("α and its interval", &[low, high], &level(a.low), &level(a.high)).colour(1));
    figure.add(Trace::line("α", &[low, high], &level(a.estimate)).colour(1).unlisted());
    figure.add(Trace::points("cost at this period", &x, &y).colour(0));
    let mut table = Grid::new(&["#period", "#samples", "#cost of one sample"]);
    for p in &linearity.periods {
        table.row(vec![units::period(doc.mechanism, p.period), units::count(p.samples), units::estimate_ns(&p.alpha_ns)]);
    }
    let caption = format!(
        "The cost of a sample should not depend on the period: intervals that overlap the band are linear. Shortest against \
         longest period: {}.",
        units::estimate_share(&linearity.curvature)
    );
    Panel::new("Linearity: cost by period", &caption).figure(figure).table(table)
}

fn by_buffer(direct: &DirectCost) -> Panel {
    let mut figure = Figure::new(400, Axis::count("buffer of a CPU, KiB").log(), Axis::time("cost of one record"));
    let x: Vec<f64> = direct.buffers.iter().map(|b| b.buffer_bytes as f64 / 1024.0).collect();
    let costs = |of: fn(&RecordCost) -> Estimate| -> Vec<Estimate> { direct.buffers.iter().map(|b| of(b).scaled(NS)).collect() };
    figure.add(Trace::points("a record", &x, &costs(|b| b.record_ns)).colour(0));
    figure.add(Trace::points("with its share of an interrupt", &x, &costs(|b| b.alpha_ns)).colour(1));
    let mut table = Grid::new(&["#buffer", "#records an interrupt", "#samples", "#a record", "#with its share of an interrupt"]);
    for b in &direct.buffers {
        table.row(vec![
            units::bytes(b.buffer_bytes as f64),
            units::count(b.records_per_interrupt),
            units::count(b.samples),
            units::estimate_ns(&b.record_ns),
            units::estimate_ns(&b.alpha_ns),
        ]);
    }
    let line = direct.line.as_ref().map_or(String::new(), |line| {
        let (intercept, slope) = (units::estimate_ns(&line.intercept_ns), units::estimate_ns(&line.slope_ns));
        format!(" The straight line through all of them: {intercept} + {slope} a sample.")
    });
    let by_perf = direct.decomposition.as_ref().map_or(String::new(), |parts| {
        format!(
            " A sample by perf's PEBS took {} beside it: {} for the record, {} for its share of an interrupt (one in {}), {} for perf's \
             software.",
            units::estimate_ns(&parts.sample_ns),
            units::estimate_ns(&parts.record_ns),
            units::estimate_ns(&parts.interrupt_ns),
            units::about(parts.records_per_interrupt.round()),
            units::estimate_ns(&parts.software_ns)
        )
    });
    let caption = format!(
        "Records that nobody reads, written into a buffer of our own module's: what the hardware takes. A buffer that outgrows a cache \
         shows as a record that costs more.{line}{by_perf}"
    );
    Panel::new("Buffers: cost by size", &caption).figure(figure).table(table)
}

fn drift(doc: &Calibration, extras: &Extras) -> Panel {
    let (session, alpha): (Vec<f64>, Vec<Estimate>) = extras.sessions().into_iter().map(|(s, a)| (s, a.scaled(NS))).unzip();
    let ends = [session.first().copied().unwrap_or(0.0) - 0.7, session.last().copied().unwrap_or(0.0) + 0.7];
    let mut figure = Figure::new(400, Axis::count("session, in order of time"), Axis::time("cost of one sample"));
    let level = |ns: f64| [ns * NS; 2];
    figure.add(Trace::band("α and its interval", &ends, &level(doc.alpha_ns.low), &level(doc.alpha_ns.high)).colour(1));
    figure.add(Trace::line("α", &ends, &level(doc.alpha_ns.estimate)).colour(1).unlisted());
    figure.add(Trace::points("cost in this session", &session, &alpha).colour(0));
    Panel::new(
        "Drift: cost by session",
        "A trend, or sessions that stand apart further than their own intervals (scatter of their rounds), mean that the machine \
         changed meanwhile: predictions carry that as drift.",
    )
    .figure(figure)
}

fn terms(doc: &Calibration) -> Panel {
    let mut sorted: Vec<(&String, &Estimate)> = doc.terms.iter().collect();
    sorted.sort_by(|a, b| b.1.estimate.total_cmp(&a.1.estimate));
    let mut figure = Figure::new(130 + 34 * sorted.len() as u32, Axis::time("cost").reference_zero(), Axis::names().downwards());
    let names: Vec<&String> = sorted.iter().map(|(name, _)| *name).collect();
    figure.set("barmode", json!("overlay"));
    for (i, unit) in ["a sample", "an interrupt", "a signal", "a context switch"].into_iter().enumerate() {
        let of_unit: Vec<_> = sorted.iter().filter(|(name, _)| unit_of_term(name) == unit).collect();
        let costs: Vec<Estimate> = of_unit.iter().map(|(_, e)| e.scaled(NS)).collect();
        let names: Vec<String> = of_unit.iter().map(|(name, _)| name.to_string()).collect();
        if !names.is_empty() {
            figure.add(Trace::bars_right(&format!("for {unit}"), &costs, &names).colour(i));
        }
    }
    let mut axis = Axis::names().downwards();
    axis.order(&names);
    figure.axis("yaxis", axis);
    let mut table = Grid::new(&["term", "#cost", "of"]);
    for (name, cost) in &sorted {
        table.row(vec![name.to_string(), units::estimate_ns(cost), unit_of_term(name).into()]);
    }
    Panel::new(
        "Terms: what the cost is made of",
        "Payload terms come on top of α when that payload is asked for; a bar whose interval reaches 0 was not told apart from nothing. \
         cached-work is no part of it: it is what a sample costs work that has the most to lose, α included.",
    )
    .figure(figure)
    .table(table)
}

fn raw(blocks: &[Block]) -> Grid {
    let mut table = Grid::new(&[
        "#session",
        "#round",
        "arm",
        "#period",
        "#samples",
        "#expected",
        "#lost",
        "#throttled",
        "#wall (ns)",
        "#CPU (ns)",
        "#involuntary switches",
        "#stolen (ns)",
        "#left in the buffer",
        "#interrupts",
        "#stopping (ns)",
        "discarded",
    ]);
    for b in blocks {
        table.row(vec![
            b.session.to_string(),
            b.round.to_string(),
            b.arm.clone(),
            b.period.to_string(),
            b.samples.to_string(),
            units::about(b.expected),
            b.lost.to_string(),
            b.throttled.to_string(),
            b.wall_ns.to_string(),
            b.cpu_ns.to_string(),
            b.involuntary_switches.to_string(),
            b.steal_ns.to_string(),
            of_settling(b, |s| s.waiting),
            of_settling(b, |s| s.interrupts),
            of_settling(b, |s| s.stop_ns),
            b.discarded.clone().unwrap_or_default(),
        ]);
    }
    table
}

fn of_settling(block: &Block, number: fn(&Settling) -> u64) -> String {
    block.settling.as_ref().map(number).map_or_else(String::new, |number| number.to_string())
}
