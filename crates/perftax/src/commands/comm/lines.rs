//! Lines to watch, out of a file.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use anyhow::{Context, Result};
use perftax_comm::live::{PlaceName, RecordedLines, recorded_lines};
use perftax_doc::Comm;
use perftax_pmu::Error;

use crate::progress::announce;

/// The lines that a file names, and where it is a recording those of one process.
pub fn lines_of(path: &Path, process: Option<u32>) -> Result<Vec<PlaceName>> {
    if is_recording(path)? {
        let recorded = recorded_lines(path, process)?;
        announce(&told(&recorded));
        return Ok(recorded.places);
    }
    let text = std::fs::read_to_string(path).map_err(Error::file(path))?;
    if text.trim_start().starts_with('{') {
        let comm: Comm =
            serde_json::from_str(&text).with_context(|| format!("{} is no document of perftax comm (--json)", path.display()))?;
        return Ok(comm.lines.iter().flat_map(touched).collect());
    }
    let mut places = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let Some(word) = line.split_whitespace().next().filter(|word| !word.starts_with('#')) else { continue };
        let address = word.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex.trim_end_matches(','), 16).ok());
        let address = address.ok_or_else(|| Error::Argument {
            argument: "--lines-from",
            value: format!("{}, line {number}: '{word}'", path.display()),
            needed: "an address such as 0x55d0c8a04040 at the beginning of each line".into(),
        })?;
        places.push(PlaceName::of_line(address));
    }
    Ok(places)
}

/// Whether perf wrote it; what `perf record --threads` writes is a folder.
fn is_recording(path: &Path) -> Result<bool> {
    if path.is_dir() {
        return Ok(true);
    }
    let mut magic = Vec::new();
    let file = File::open(path).map_err(Error::file(path))?;
    file.take(RECORDING.len() as u64).read_to_end(&mut magic).map_err(Error::file(path))?;
    Ok(magic == RECORDING)
}

/// The first bytes of perf.data (Linux, tools/perf/util/header.c).
const RECORDING: &[u8] = b"PERFILE2";

/// What was taken of a recording, and what was not.
fn told(recorded: &RecordedLines) -> String {
    let RecordedLines { process, lines, fetches, lines_left_out, fetches_of_others, cut, .. } = recorded;
    let cut = cut.iter().map(|cut| format!("; the recording ends early, {cut}")).collect::<String>();
    let more = if *lines_left_out > 0 { format!("; {lines_left_out} more lines are left out") } else { String::new() };
    let others = match fetches_of_others {
        0 => String::new(),
        n => format!("; {n} more are other processes' (-p tells whose to take)"),
    };
    format!(
        "lines of process {process} that the recording saw fetched out of another core's cache: {lines}, by {fetches} sampled loads{more}{others}{cut}"
    )
}

/// What a document saw touched of a line; all of it where it does not say.
fn touched(line: &perftax_doc::CommLine) -> Vec<PlaceName> {
    let of_site =
        |site: &perftax_doc::CommSite| PlaceName::at_address(line.address + u64::from(site.offset), u64::from(site.bytes));
    let mut places: Vec<PlaceName> = line.sites.iter().filter(|site| site.bytes > 0).map(of_site).collect();
    places.sort_by(|a, b| a.text.cmp(&b.text));
    places.dedup();
    if places.is_empty() { vec![PlaceName::of_line(line.address)] } else { places }
}
