//! The messages of now, as a document.

use std::collections::BTreeMap;

use perftax_doc::{
    Latencies, LatencyBucket, Origin, SampledFunction, SlowMessage, TailBlame, TopBudget, TopKind, TopNow, TraceTop,
};
use perftax_pmu::sys::own_cpu_ns;
use perftax_trace::live::{KindView, Slow, View};
use perftax_trace::{Cause, Detail, Distribution, Live, Moment, Names, Usual};

use crate::commands::trace::describe::{between_ns, shares, waker_of};
use crate::commands::trace::report::blamed_cause;

/// Kinds that are listed.
const KINDS: usize = 12;
/// Upper ends of a histogram's buckets: from 1 µs to 100 s, three for each power of ten.
const POWERS: std::ops::Range<u32> = 3..11;
const OF_A_POWER: [f64; 3] = [1.0, 2.5, 5.0];

/// What does not change.
pub struct About {
    pub origin: Origin,
    pub program: Vec<String>,
    pub tag: String,
    pub event: String,
    pub period: u64,
    /// From one sample to the next, ns, where the event is a clock.
    pub sampling_gap_ns: Option<u64>,
    pub budget: f64,
    pub slowest: usize,
    pub began_ns: u64,
    /// Whether the program is ours.
    pub is_command: bool,
}

impl About {
    /// Before there was anything.
    pub fn empty(&self) -> TraceTop {
        TraceTop {
            origin: self.origin.clone(),
            program: self.program.clone(),
            tag: self.tag.clone(),
            event: self.event.clone(),
            period: self.period,
            elapsed_s: 0.0,
            now: None,
            latency: None,
            histogram: Vec::new(),
            latency_sum_s: 0.0,
            watched: 0,
            causes_s: BTreeMap::new(),
            trouble: BTreeMap::new(),
            lost: None,
            dropped: 0,
            checked: None,
            budget: TopBudget { share: self.budget, spent: None, on_share: 1.0, rests: 0, is_on: true },
            own_cpu_s: 0.0,
            own_memory_bytes: None,
            sent: None,
        }
    }
}

/// What there is now.
pub fn document(about: &About, live: &Live, view: &View<'_>, moment: &Moment<'_>) -> TraceTop {
    let rested = moment.rested;
    TraceTop {
        elapsed_s: moment.now_ns.saturating_sub(about.began_ns) as f64 * 1e-9,
        now: (!view.population.latency.is_empty()).then(|| now(about, live, moment.names(), view)),
        latency: latencies(&live.latency),
        histogram: histogram(&live.latency),
        latency_sum_s: live.latency.sum_ns() * 1e-9,
        watched: live.watched,
        causes_s: Cause::ALL.into_iter().map(|cause| (cause.name().into(), live.causes.of(cause) as f64 * 1e-9)).collect(),
        trouble: live.trouble().counts(),
        lost: moment.lost,
        dropped: moment.dropped,
        checked: moment.checked.clone(),
        budget: TopBudget {
            share: about.budget,
            spent: rested.and_then(|rested| rested.spent),
            on_share: rested.map_or(1.0, |rested| rested.on_share),
            rests: rested.map_or(0, |rested| rested.rests),
            is_on: moment.is_on,
        },
        own_cpu_s: own_cpu_ns() as f64 * 1e-9,
        own_memory_bytes: own_memory_bytes(),
        ..about.empty()
    }
}

/// The most memory that we had (/proc/self/status).
fn own_memory_bytes() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}

fn latencies(latency: &Distribution) -> Option<Latencies> {
    (!latency.is_empty()).then(|| Latencies {
        messages: latency.len(),
        p50_ns: latency.quantile_ns(0.5),
        p99_ns: latency.quantile_ns(0.99),
        p999_ns: latency.quantile_ns(0.999),
        max_ns: latency.max_ns(),
    })
}

fn histogram(latency: &Distribution) -> Vec<LatencyBucket> {
    let ends =
        POWERS.flat_map(|power| OF_A_POWER.map(|of| (of * 10f64.powi(power as i32)) as u64)).chain([10u64.pow(POWERS.end)]);
    ends.map(|to_ns| LatencyBucket { to_ns, messages: latency.count_to(to_ns) }).collect()
}

fn now(about: &About, live: &Live, names: &Names, view: &View<'_>) -> TopNow {
    let blame = view.blame().map(|blame| TailBlame {
        executed: None,
        from: view.slow_from,
        messages: blame.messages as u64,
        extra_ns: blame.extra_ns,
        causes: blame.causes.iter().map(|blamed| blamed_cause(names, live.symbols(), blamed)).collect(),
        events: Vec::new(),
    });
    let window_s = view.to_ns.saturating_sub(view.from_ns) as f64 * 1e-9;
    // Marks come all the time.
    let seen_s = if about.tag == "marks" { window_s } else { view.on_ns as f64 * 1e-9 };
    let listed = view.kinds.iter().take(KINDS).filter_map(kind).collect();
    TopNow {
        window_s,
        per_s: view.population.latency.len() as f64 / seen_s.max(1e-3),
        latency: latencies(&view.population.latency).unwrap_or(Latencies {
            messages: 0,
            p50_ns: 0,
            p99_ns: 0,
            p999_ns: 0,
            max_ns: 0,
        }),
        slow_from: view.slow_from,
        slow_ns: view.slow_ns,
        slow_left_out: view.slow_left_out,
        blame,
        kinds: listed,
        kinds_left_out: view.kinds.len().saturating_sub(KINDS) as u64,
        other_kinds: view.other_kinds,
        slowest: view.slow.iter().take(about.slowest).map(|slow| slowest(about, live, names, &view.usual, slow)).collect(),
    }
}

fn kind(view: &KindView<'_>) -> Option<TopKind> {
    Some(TopKind {
        kind: view.name.into(),
        latency: latencies(&view.latency)?,
        slow: view.slow,
        beyond_s: view.beyond_ns as f64 * 1e-9,
        mostly: view.mostly.map(|cause| cause.name().into()),
    })
}

fn slowest(about: &About, live: &Live, names: &Names, usual: &Usual, slow: &Slow) -> SlowMessage {
    let brief = &slow.brief;
    let foremost = brief.foremost(&usual.shares);
    let name = |detail: Detail| names.detail(foremost.cause, detail, live.symbols());
    let function = foremost.function.and_then(|(detail, samples)| {
        let of_cause_ns = brief.shares.of(foremost.cause);
        let between = |gap_ns: u64| between_ns(samples, u64::from(slow.stretches), gap_ns, of_cause_ns);
        Some(SampledFunction { name: name(detail)?, samples, between_ns: about.sampling_gap_ns.map(between) })
    });
    SlowMessage {
        executed: None,
        id: brief.id,
        label: Some(slow.text.clone().unwrap_or_else(|| live.kind(slow.kind).into())),
        begin_s: brief.begin_ns.saturating_sub(about.began_ns) as f64 * 1e-9,
        latency_ns: brief.latency_ns,
        latency_between_ns: None,
        cause: foremost.cause.name().into(),
        beyond_ns: foremost.beyond_ns,
        which: foremost.which.and_then(|(detail, _)| name(detail)),
        woken_by: slow
            .woken_by
            .as_ref()
            .filter(|_| foremost.cause == Cause::Blocked)
            .map(|waker| waker_of(names, live.symbols(), waker)),
        meanwhile: None,
        function,
        events: Vec::new(),
        shares_ns: shares(&brief.shares),
        faults: slow.faults,
        migrations: slow.migrations,
        is_doubtful: false,
    }
}
