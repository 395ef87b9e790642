//! What `perf report --stats` says, and the comparison with what we count.

use std::collections::BTreeMap;

use perftax_perfdata::recording::Recording;

/// `perf report --stats`, parsed.
#[derive(Debug, Default)]
pub struct Stats {
    /// Records by type.
    pub records: BTreeMap<String, u64>,
    /// Samples and lost samples by event.
    pub events: BTreeMap<String, (u64, u64)>,
}

impl Stats {
    /// Reads lines `TYPE events: N`, in a section for all and one for each event (`EVENT stats:`).
    pub fn parse(text: &str) -> Self {
        let mut stats = Self::default();
        let mut event: Option<String> = None;
        for line in text.lines().map(str::trim) {
            if line == "Aggregated stats:" {
                event = None;
            } else if let Some(name) = line.strip_suffix(" stats:") {
                event = Some(name.to_string());
            } else if let Some((kind, rest)) = line.split_once(" events:") {
                let number = rest.split_whitespace().next().and_then(|n| n.parse().ok()).expect("a number of events");
                match (&event, kind) {
                    (None, _) => drop(stats.records.insert(kind.to_string(), number)),
                    (Some(name), "SAMPLE") => stats.events.entry(name.clone()).or_default().0 = number,
                    (Some(name), "LOST_SAMPLES") => stats.events.entry(name.clone()).or_default().1 = number,
                    (Some(_), _) => {}
                }
            }
        }
        stats
    }
}

/// The kernel's record types, by perf's names.
const KERNEL_RECORDS: [(u32, &str); 11] = [
    (1, "MMAP"),
    (2, "LOST"),
    (3, "COMM"),
    (4, "EXIT"),
    (5, "THROTTLE"),
    (6, "UNTHROTTLE"),
    (7, "FORK"),
    (8, "READ"),
    (9, "SAMPLE"),
    (10, "MMAP2"),
    (13, "LOST_SAMPLES"),
];

/// Fails unless the recording's counts are exactly perf's.
pub fn assert_same(recording: &Recording, stats: &Stats) {
    let name = &recording.name;
    assert!(
        stats.records.contains_key("SAMPLE") || stats.records.contains_key("LOST"),
        "{name}: perf counted nothing: {stats:?}"
    );
    assert_eq!(recording.fault, None, "{name}");
    for (kind, kind_name) in KERNEL_RECORDS {
        let ours = recording.counts.records.get(&kind).copied().unwrap_or(0);
        let theirs = stats.records.get(kind_name).copied().unwrap_or(0);
        assert_eq!(ours, theirs, "{name}: {kind_name} records, ours and perf's");
    }
    let ours: BTreeMap<_, _> = recording
        .events
        .iter()
        .filter(|e| e.samples + e.lost_samples > 0)
        .map(|e| (e.name.clone(), (e.samples, e.lost_samples)))
        .collect();
    assert_eq!(ours, stats.events, "{name}: samples and lost samples by event, ours and perf's");
    let throttled: u64 = recording.events.iter().map(|e| e.throttled).sum();
    assert_eq!(throttled, stats.records.get("THROTTLE").copied().unwrap_or(0), "{name}: throttled");
    assert_eq!(recording.counts.unknown_samples, 0, "{name}");
    let samples: u64 = recording.events.iter().map(|e| e.samples).sum();
    assert_eq!(recording.counts.by_thread.values().sum::<u64>(), samples, "{name}: every sample belongs to a thread");
}
