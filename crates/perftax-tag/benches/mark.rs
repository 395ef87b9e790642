//! What a mark costs where somebody listens, and where nobody does: nanoseconds, and the ratio to reading the counter alone, which is most
//! of it. Rounds are interleaved; medians over rounds with their quartiles.

use std::hint::black_box;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

const MARKS: u64 = 200_000;
const ROUNDS: usize = 41;

fn ns_each(mut work: impl FnMut(u64)) -> f64 {
    let from = Instant::now();
    (1..=MARKS).for_each(|id| work(black_box(id)));
    from.elapsed().as_nanos() as f64 / MARKS as f64
}

fn counter() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: reads the time stamp counter, which user mode may on Linux.
    return unsafe { core::arch::x86_64::_rdtsc() };
    #[cfg(not(target_arch = "x86_64"))]
    0
}

/// Gives the room in this process's ring back, as a listener does.
fn drain(folder: &Path) {
    use std::os::unix::fs::FileExt;
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let Ok(file) = std::fs::OpenOptions::new().read(true).write(true).open(entry.path()) else { continue };
        let mut head = [0u8; 8];
        if file.read_exact_at(&mut head, 64).is_ok() {
            file.write_all_at(&head, 128).ok();
        }
    }
}

fn shown(name: &str, mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let at = |share: f64| values[(share * (values.len() - 1) as f64) as usize];
    println!("{name:28} {:6.2} ns a mark [{:.2}, {:.2}] (quartiles of {ROUNDS} rounds)", at(0.5), at(0.25), at(0.75));
    at(0.5)
}

fn main() {
    let Some(folder) = std::env::var_os("PERFTAX_MARKS") else {
        // Once for each: whether somebody listens is asked once.
        let folder = std::env::temp_dir().join(format!("perftax-marks-{}", std::process::id()));
        std::fs::create_dir_all(&folder).ok();
        for marks in [folder.as_os_str(), std::ffi::OsStr::new("/nonexistent")] {
            let run = std::env::current_exe().map(|program| {
                Command::new(program).env("PERFTAX_MARKS", marks).env("PERFTAX_MARKS_CAPACITY", "1048576").status()
            });
            assert!(run.is_ok_and(|status| status.is_ok_and(|status| status.success())));
        }
        std::fs::remove_dir_all(&folder).ok();
        return;
    };
    let listened = Path::new(&folder).is_dir();
    let (mut empty, mut read, mut mark) = (Vec::new(), Vec::new(), Vec::new());
    perftax_tag::begin(1);
    for _ in 0..ROUNDS {
        empty.push(ns_each(|id| {
            black_box(id);
        }));
        read.push(ns_each(|_| {
            black_box(counter());
        }));
        mark.push(ns_each(perftax_tag::begin));
        drain(Path::new(&folder));
    }
    println!("{}", if listened { "somebody listens:" } else { "nobody listens:" });
    let empty = shown("  an empty loop", empty);
    let read = shown("  reading the counter", read);
    let mark = shown("  a mark", mark);
    println!(
        "  a mark beyond the loop: {:.2} ns, {:.2} times the counter alone\n",
        mark - empty,
        (mark - empty) / (read - empty)
    );
}
