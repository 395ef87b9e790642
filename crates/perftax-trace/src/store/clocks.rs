//! The clocks of the host that a trace was recorded on, read again and again.

use std::path::Path;

use perftax_pmu::Result;
use perftax_pmu::sys::{Discipline, HostClock};

use super::table::{read_texts, write_texts};

const CLOCKS: &str = "clocks.parquet";
const COLUMNS: ([&str; 9], [&str; 0]) = (
    [
        "raw_ns",
        "within_ns",
        "realtime_ns",
        "state",
        "tai_offset_s",
        "max_error_ns",
        "estimated_error_ns",
        "frequency",
        "offset_ns",
    ],
    [],
);
/// The first traces with clocks do not say what was still to be made good.
const COLUMNS_BEFORE: ([&str; 8], [&str; 0]) =
    (["raw_ns", "within_ns", "realtime_ns", "state", "tai_offset_s", "max_error_ns", "estimated_error_ns", "frequency"], []);
/// What the kernel says of a clock: nothing, that it is kept right, that it is not.
const UNKNOWN: u64 = 0;
const KEPT_RIGHT: u64 = 1;
const UNSYNCHRONISED: u64 = 2;

/// Writes them.
///
/// # Errors
/// Where they cannot be written.
pub fn write_clocks(folder: &Path, clocks: &[HostClock]) -> Result<()> {
    let row = |clock: &HostClock| {
        let HostClock { raw_ns, within_ns, realtime_ns, discipline } = *clock;
        let state = discipline.map_or(UNKNOWN, |of| if of.is_unsynchronised { UNSYNCHRONISED } else { KEPT_RIGHT });
        let of = discipline.unwrap_or_default();
        let numbers = [
            raw_ns,
            within_ns,
            realtime_ns,
            state,
            i64::from(of.tai_offset_s) as u64,
            of.max_error_ns,
            of.estimated_error_ns,
            of.frequency as u64,
            of.offset_ns as u64,
        ];
        (numbers, [])
    };
    let rows: Vec<([u64; 9], [&str; 0])> = clocks.iter().map(row).collect();
    write_texts(&folder.join(CLOCKS), COLUMNS, &rows)
}

/// What CLOCK_REALTIME shows when the raw clock shows this, ns since 1970: by the reading that is nearest to it. None without readings. They are in order of time.
pub fn realtime_ns(clocks: &[HostClock], raw_ns: u64) -> Option<i128> {
    let after = clocks.partition_point(|clock| clock.raw_ns < raw_ns);
    let near = [after.checked_sub(1), Some(after)].into_iter().flatten().filter_map(|at| clocks.get(at));
    let nearest = near.min_by_key(|clock| clock.raw_ns.abs_diff(raw_ns))?;
    Some(i128::from(nearest.realtime_ns) + i128::from(raw_ns) - i128::from(nearest.raw_ns))
}

/// Reads them, in order of time; a trace of before 2026-11-29 has none.
///
/// # Errors
/// Where they cannot be read.
pub fn read_clocks(folder: &Path) -> Result<Vec<HostClock>> {
    let path = folder.join(CLOCKS);
    if !path.exists() {
        return Ok(Vec::new());
    }
    let clock = |[raw_ns, within_ns, realtime_ns, state, tai, max_error_ns, estimated_error_ns, frequency]: [u64; 8],
                 offset_ns: u64| {
        let discipline = (state != UNKNOWN).then_some(Discipline {
            tai_offset_s: tai as i64 as i32,
            is_unsynchronised: state != KEPT_RIGHT,
            max_error_ns,
            estimated_error_ns,
            frequency: frequency as i64,
            offset_ns: offset_ns as i64,
        });
        HostClock { raw_ns, within_ns, realtime_ns, discipline }
    };
    let with_offset = |([of @ .., offset_ns], []): ([u64; 9], [String; 0])| clock(of, offset_ns);
    let without = |(of, []): ([u64; 8], [String; 0])| clock(of, 0);
    let mut clocks: Vec<HostClock> = match read_texts(&path, COLUMNS) {
        Ok(rows) => rows.into_iter().map(with_offset).collect(),
        Err(_) => read_texts(&path, COLUMNS_BEFORE)?.into_iter().map(without).collect(),
    };
    clocks.sort_by_key(|clock| clock.raw_ns);
    Ok(clocks)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    #[test]
    fn clocks_are_read_as_they_were_written() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(read_clocks(folder.path()).unwrap(), []);
        let of = Discipline {
            tai_offset_s: -3,
            max_error_ns: 7,
            estimated_error_ns: 5,
            frequency: -70_000,
            offset_ns: -9000,
            is_unsynchronised: true,
        };
        let clock = |raw_ns, discipline| HostClock { raw_ns, within_ns: 40, realtime_ns: 1 << 60, discipline };
        let clocks = [clock(1, None), clock(2, Some(of)), clock(3, Some(Discipline { is_unsynchronised: false, ..of }))];
        write_clocks(folder.path(), &clocks).unwrap();
        assert_eq!(read_clocks(folder.path()).unwrap(), clocks);
    }

    #[test]
    fn clocks_without_an_offset_are_read_without() {
        let folder = tempfile::tempdir().unwrap();
        let rows: Vec<([u64; 8], [&str; 0])> = vec![([5, 40, 1 << 60, KEPT_RIGHT, 37, 7, 6, 9], [])];
        write_texts(&folder.path().join(CLOCKS), COLUMNS_BEFORE, &rows).unwrap();
        let [clock] = read_clocks(folder.path()).unwrap()[..] else { panic!("one") };
        let of = clock.discipline.unwrap();
        assert_eq!((clock.raw_ns, of.tai_offset_s, of.max_error_ns, of.frequency, of.offset_ns), (5, 37, 7, 9, 0));
        std::fs::write(folder.path().join(CLOCKS), "none").unwrap();
        read_clocks(folder.path()).unwrap_err();
    }
}
