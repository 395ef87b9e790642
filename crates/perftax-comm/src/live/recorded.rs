//! Lines that a recording by `perf c2c record` names, to be watched.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::Line;
use perftax_doc::steps::Setting;
use perftax_pmu::record::Sample;
use perftax_pmu::{Error, Result};

use super::place::{KERNEL_HALF, PlaceName, WORD_BYTES};
use perftax_perfdata::recording::{Observer, Recording, SeenSample};

/// Lines that are taken of a recording: each takes a turn of its own where more of its words are touched than there are registers.
const MAX_LINES: usize = 16;

/// What a recording says of shared lines.
#[derive(Debug, Default, PartialEq)]
pub struct RecordedLines {
    /// Whose lines they are.
    pub process: u32,
    /// Words of them that were seen touched, line by line, the one that was fetched the most often first.
    pub places: Vec<PlaceName>,
    /// How many lines these are.
    pub lines: usize,
    /// Lines of this process that were left out for being more.
    pub lines_left_out: usize,
    /// Sampled loads that found a line of these modified in another core's cache.
    pub fetches: u64,
    /// Those of other processes.
    pub fetches_of_others: u64,
    /// Where and why reading had to stop before the recording's end, if it did.
    pub cut: Option<String>,
}

/// What samples say of one line.
#[derive(Default)]
struct Seen {
    fetches: u64,
    words: BTreeSet<u64>,
}

/// Takes samples as the recording is read.
struct Reader {
    /// By process.
    seen: BTreeMap<u32, BTreeMap<Line, Seen>>,
    /// Samples that told an address.
    told: u64,
    broken: Option<Error>,
}

impl Observer for Reader {
    fn sample(&mut self, seen: &SeenSample<'_>) {
        match sample(seen) {
            Ok(Some(sample)) => self.told += u64::from(take(&sample, &mut self.seen)),
            Ok(None) => {}
            Err(error) => self.broken = Some(error),
        }
    }
}

/// Reads a recording's samples of loads and stores, as `perf c2c record` takes them, and takes the lines that loads found modified in another core's
/// cache (HITM, or a peer's): of one process, the given one where it is in there, else that with the most.
///
/// # Errors
/// Where it cannot be read, has no such samples, or not one that found a line modified.
pub fn recorded_lines(path: &Path, process: Option<u32>) -> Result<RecordedLines> {
    let mut reader = Reader { seen: BTreeMap::new(), told: 0, broken: None };
    let recording = Recording::open_observed(path, &mut reader)?;
    let Reader { mut seen, told, broken } = reader;
    if let Some(error) = broken {
        return Err(error);
    }
    let wrong = |value: String, needed: &str| Error::Argument {
        argument: Setting::LinesFrom.name(),
        value: format!("{}, {value}", path.display()),
        needed: needed.into(),
    };
    if told == 0 {
        let samples: u64 = recording.events.iter().map(|event| event.samples).sum();
        let what = format!("whose {samples} samples tell no addresses with their data sources");
        return Err(wrong(what, "a recording by perf c2c record, or perf record -d --weight of loads and stores"));
    }
    let fetches = |lines: &BTreeMap<Line, Seen>| lines.values().map(|seen| seen.fetches).sum::<u64>();
    let all: u64 = seen.values().map(&fetches).sum();
    let of_most = seen.iter().max_by_key(|(_, lines)| fetches(lines)).map(|(process, _)| *process);
    let process = process.filter(|process| seen.contains_key(process)).or(of_most).unwrap_or_default();
    let lines = seen.remove(&process).unwrap_or_default();
    let own = fetches(&lines);
    let mut lines: Vec<(Line, Seen)> = lines.into_iter().filter(|(_, seen)| seen.fetches > 0).collect();
    if lines.is_empty() {
        let what = format!("of whose {told} samples of the program's data no load found a line modified in another core's cache");
        return Err(wrong(what, "one of a longer run, or with more samples: perf c2c record -F 20000 (or -c 100)"));
    }
    lines.sort_by_key(|(line, seen)| (std::cmp::Reverse(seen.fetches), *line));
    let lines_left_out = lines.len().saturating_sub(MAX_LINES);
    lines.truncate(MAX_LINES);
    let word = |address: u64| PlaceName::at_address(address, WORD_BYTES);
    let places = lines.iter().flat_map(|(_, seen)| seen.words.iter().copied().map(word)).collect();
    let cut = recording.fault.map(|fault| format!("at byte {}: {}", fault.at_byte, fault.why));
    Ok(RecordedLines { process, places, lines: lines.len(), lines_left_out, fetches: own, fetches_of_others: all - own, cut })
}

/// A sample with an address and where it found its data; none where its event's have neither.
fn sample<'a>(seen: &SeenSample<'a>) -> Result<Option<Sample<'a>>> {
    use perftax_pmu::oracle::sample as bit;
    if seen.attribute.samples(bit::ADDR | bit::DATA_SRC | bit::TID) { seen.decoded() } else { Ok(None) }
}

/// Takes a sample of the program's data; whether it was one.
fn take(sample: &Sample<'_>, seen: &mut BTreeMap<u32, BTreeMap<Line, Seen>>) -> bool {
    let (Some(task), Some(address), Some(source)) = (sample.task, sample.address, sample.data_source) else { return false };
    if address == 0 || address >= KERNEL_HALF {
        return false;
    }
    let line = seen.entry(task.pid).or_default().entry(Line::of(address)).or_default();
    let snoop = source.snoop();
    line.fetches += u64::from(source.operation().load && (snoop.hit_modified || snoop.peer));
    line.words.insert(address / WORD_BYTES * WORD_BYTES);
    true
}
