//! Somebody who takes a program's cache lines away, again and again.
//!
//! A thread on the program's own CPU, ahead of it, wakes up and writes a working set of a given size, as records that are written
//! and copied do. On the same CPU it reaches the private caches, too, and needs no second core that shares them; what it takes of
//! the CPU is not the program's CPU time, so only what the program has to fetch again is left to be seen.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use perftax_pmu::guard::{make_this_thread_realtime, pin_this_thread};
use perftax_pmu::{Error, Result};

/// From one visit to the next. Long against a visit (1 ms for 16 MiB), short against a run.
pub const INTERVAL: Duration = Duration::from_millis(5);
/// Bytes of a cache line.
const LINE: usize = 64;

/// A running evictor.
#[derive(Debug)]
pub struct Evictor {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<u64>,
}

impl Evictor {
    /// Starts visiting a CPU, writing so many bytes each time; 0 wakes up and does nothing. `ahead`: before all ordinary programs, and else when the
    /// scheduler has it run, which is soon for one that sleeps most of the time, and not always.
    ///
    /// # Errors
    /// Without the right to run ahead (CAP_SYS_NICE), where it is asked for.
    pub fn start(cpu: u32, bytes: usize, ahead: bool) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let (ready, started) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            // Touched before anything is timed, so that no page is missing later.
            let mut lines = vec![1u8; bytes];
            let set_up = pin_this_thread(cpu).and_then(|()| if ahead { make_this_thread_realtime() } else { Ok(()) });
            let failed = set_up.is_err();
            ready.send(set_up).ok();
            if failed { 0 } else { visit(&mut lines, &told) }
        });
        started.recv().map_err(|_| ended())??;
        Ok(Self { stop, thread })
    }

    /// Ends it; how often it came.
    pub fn finish(self) -> Result<u64> {
        self.stop.store(true, Ordering::Release);
        self.thread.join().map_err(|_| ended())
    }
}

fn visit(lines: &mut [u8], stop: &AtomicBool) -> u64 {
    let mut visits = 0;
    while !stop.load(Ordering::Acquire) {
        std::thread::sleep(INTERVAL);
        for line in lines.iter_mut().step_by(LINE) {
            *line = line.wrapping_add(1);
        }
        black_box(&mut *lines);
        visits += 1;
    }
    visits
}

fn ended() -> Error {
    Error::System { call: "the evicting thread".into(), source: std::io::Error::other("ended early") }
}
