//! Samples that found their ring full.

use std::collections::BTreeMap;

use super::check::{Check, Judgement, Rule, Unit, Whole};
use super::timeline::Timeline;
use crate::recording::{SeenRecord, kind};
use perftax_doc::words::{count, share, time_s};

/// Losses by CPU, by thread that ran as the loss was written down, and over time.
#[derive(Default)]
pub(super) struct Lost {
    by_cpu: BTreeMap<u32, u64>,
    by_thread: BTreeMap<u32, u64>,
    over_time: Timeline,
}

static RULE: Rule = Rule {
    name: "lost",
    measures: "samples lost, of all samples, where that is most: of all events, of one event, on one CPU",
    unit: Unit::Share,
    warning: Some(0.001),
    error: Some(0.05),
    source: "PERF_RECORD_LOST, PERF_RECORD_LOST_SAMPLES (perf_event.h); losses come in bursts, so that 5 % in all is all of some function",
};

/// Samples of a CPU or event, lost ones too, of which a share is told.
const MIN_SAMPLES: u64 = 100;
/// Threads that are told apart.
const MAX_THREADS: usize = 1 << 12;

impl Check for Lost {
    fn rule(&self) -> &'static Rule {
        &RULE
    }

    fn sees_records(&self) -> bool {
        true
    }

    fn record(&mut self, record: &SeenRecord<'_>) {
        if record.kind != kind::LOST {
            return;
        }
        let Some(lost) = record.order.u64(record.body, 8) else { return };
        if let Some(cpu) = record.belongs.cpu {
            let of_cpu = self.by_cpu.entry(cpu).or_default();
            *of_cpu = of_cpu.saturating_add(lost);
        }
        if let Some((_, tid)) =
            record.belongs.thread.filter(|(_, tid)| self.by_thread.len() < MAX_THREADS || self.by_thread.contains_key(tid))
        {
            let of_thread = self.by_thread.entry(tid).or_default();
            *of_thread = of_thread.saturating_add(lost);
        }
        if let Some(time_ns) = record.belongs.time_ns {
            self.over_time.add(time_ns, lost);
        }
    }

    fn judge(&self, whole: &Whole<'_>) -> Judgement {
        let events = &whole.recording.events;
        if events.iter().any(|event| event.attribute.overwrites) {
            return Judgement::unknown("rings that are overwritten (--overwrite) do not count what they lose");
        }
        let of = |lost: u64, samples: u64| if lost == 0 { 0.0 } else { lost as f64 / (lost as f64 + samples as f64) };
        let lost = events.iter().map(|event| event.lost()).fold(0, u64::saturating_add);
        if lost == 0 {
            return Judgement::none("no sample was lost");
        }
        let in_all = of(lost, whole.samples());
        let mut worst = (in_all, String::new());
        let mut also = |share_of: f64, lost: u64, samples: u64, what: String| {
            if lost.saturating_add(samples) >= MIN_SAMPLES && share_of > worst.0 {
                worst = (share_of, format!(", {} {what}", share(share_of)));
            }
        };
        for event in events.iter().filter(|_| events.len() > 1) {
            also(of(event.lost(), event.samples), event.lost(), event.samples, format!("of {}", event.name));
        }
        for (cpu, &lost) in &self.by_cpu {
            let of_cpu = whole.recording.counts.by_cpu.range((*cpu, 0)..=(*cpu, usize::MAX));
            let samples = of_cpu.map(|(_, samples)| samples).sum();
            also(of(lost, samples), lost, samples, format!("on CPU {cpu}"));
        }
        let most = |of: &BTreeMap<u32, u64>| of.iter().max_by_key(|(_, lost)| **lost).map(|(key, lost)| (*key, *lost));
        let thread = most(&self.by_thread).filter(|(_, most)| lost > 0 && *most >= lost / 2).map(|(tid, _)| {
            let name = whole.recording.counts.comm(tid);
            format!(", most while thread {} ran", format!("{tid} {name}").trim_end())
        });
        let stretch = self.over_time.densest().zip(whole.recording.counts.first_sample_ns).map(|((from_ns, to_ns), first_ns)| {
            let since = |ns: u64| time_s(ns.saturating_sub(first_ns) as f64 * 1e-9);
            format!(", nine of ten from {} to {} after the first sample", since(from_ns), since(to_ns))
        });
        Judgement::measured(
            worst.0,
            format!(
                "{} of {} samples were lost ({}{}){}{}",
                count(lost),
                count(lost.saturating_add(whole.samples())),
                share(in_all),
                worst.1,
                thread.unwrap_or_default(),
                stretch.unwrap_or_default()
            ),
            "what ran then and there has too small a share, by as much as was lost",
            "larger rings (perf record -m 1024 and up, as root), fewer samples (-F, -c), or less with each (no -g, no --call-graph dwarf)",
        )
    }
}
