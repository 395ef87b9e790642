//! The yardstick: how fast the machine is *while* a program runs on it.
//!
//! On a shared host a program's time varies by 5 to 20 % from run to run, because the neighbours use the other hardware thread
//! of its core, the caches and the memory. The same neighbours slow a fixed piece of work that is slipped in on the same CPU a
//! hundred times a second: what varies with it can be taken out (`perftax_cost::yardstick`). Both arms carry the yardstick, and
//! its own CPU time is subtracted.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use perftax_cost::observation::Yardstick;
use perftax_pmu::guard::pin_this_thread;
use perftax_pmu::sys::{make_this_thread_realtime, monotonic_ns, thread_cpu_ns};
use perftax_pmu::{Error, Result};

/// From one pass to the next.
const INTERVAL: Duration = Duration::from_millis(10);
/// Lines of the ring that the latency part walks: 1 MiB, more than a program leaves of a second-level cache.
const LINES: usize = 16_384;
const WORDS_PER_LINE: usize = 16;
/// Steps of the latency part: about 0.1 ms where each goes to the last-level cache.
const LATENCY_STEPS: u32 = 800;
/// Rounds of the throughput part: about 0.1 ms of independent arithmetic and first-level loads.
const THROUGHPUT_ROUNDS: u64 = 40_000;

/// A running yardstick on one CPU.
pub struct YardstickThread {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Yardstick>,
}

impl YardstickThread {
    /// Starts measuring on a CPU.
    ///
    /// # Errors
    /// Without the right to run before the program (CAP_SYS_NICE).
    pub fn start(cpu: u32) -> Result<Self> {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let (ready, started) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let set_up = pin_this_thread(cpu).and_then(|()| make_this_thread_realtime());
            let failed = set_up.is_err();
            ready.send(set_up).ok();
            if failed { Yardstick::default() } else { measure(&told) }
        });
        started.recv().map_err(|_| ended())??;
        Ok(Self { stop, thread })
    }

    /// What it measured.
    pub fn finish(self) -> Result<Yardstick> {
        self.stop.store(true, Ordering::Release);
        self.thread.join().map_err(|_| ended())
    }
}

fn ended() -> Error {
    Error::System { call: "the yardstick".into(), source: std::io::Error::other("ended early") }
}

fn measure(stop: &AtomicBool) -> Yardstick {
    let ring = shuffled_ring();
    let table: Vec<u64> = (0..2048).collect();
    let mut yardstick = Yardstick::default();
    let (mut latency_ns, mut throughput_ns) = (0, 0);
    let cpu_before = thread_cpu_ns();
    while !stop.load(Ordering::Acquire) {
        std::thread::sleep(INTERVAL);
        let start = monotonic_ns();
        walk(&ring);
        let between = monotonic_ns();
        churn(&table);
        latency_ns += between - start;
        throughput_ns += monotonic_ns() - between;
        yardstick.passes += 1;
    }
    yardstick.cpu_s = (thread_cpu_ns() - cpu_before) as f64 * 1e-9;
    let passes = f64::from(yardstick.passes.max(1));
    yardstick.latency_ns = latency_ns as f64 / passes;
    yardstick.throughput_ns = throughput_ns as f64 / passes;
    yardstick
}

/// A cycle through all lines in random order.
fn shuffled_ring() -> Vec<u32> {
    let mut order: Vec<usize> = (0..LINES).collect();
    fastrand::Rng::with_seed(1).shuffle(&mut order);
    let mut ring = vec![0; LINES * WORDS_PER_LINE];
    for (i, line) in order.iter().enumerate() {
        ring[line * WORDS_PER_LINE] = (order[(i + 1) % LINES] * WORDS_PER_LINE) as u32;
    }
    ring
}

fn walk(ring: &[u32]) {
    let mut at = 0;
    for _ in 0..LATENCY_STEPS {
        at = ring[at as usize];
    }
    black_box(at);
}

fn churn(table: &[u64]) {
    let mut lanes = [1u64, 2, 3, 4, 5, 6];
    for i in 0..THROUGHPUT_ROUNDS {
        let [a, b, c, d, e, f] = lanes;
        let (x, y) = (table[i as usize % 2048], table[(i + 64) as usize % 2048]);
        lanes = [
            a.wrapping_add(b ^ i) ^ x,
            b.wrapping_add(c ^ i),
            c.wrapping_add(d | i) ^ y,
            d.wrapping_add(e ^ i),
            e.wrapping_add(f & i),
            f.wrapping_add(a ^ i),
        ];
    }
    black_box(lanes);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ring_is_one_cycle_through_all_lines() {
        let ring = shuffled_ring();
        let mut at = 0;
        for _ in 0..LINES - 1 {
            at = ring[at] as usize;
            assert_ne!(at, 0, "closed before all lines were seen");
        }
        assert_eq!(ring[at], 0);
    }

    #[test]
    fn it_passes_while_it_runs() {
        // Needs the right to real-time scheduling; what it says without is tested by its message.
        match YardstickThread::start(0) {
            Ok(thread) => {
                std::thread::sleep(Duration::from_millis(120));
                let yardstick = thread.finish().unwrap();
                assert!(yardstick.passes >= 2, "{yardstick:?}");
                assert!(yardstick.latency_ns > 0.0 && yardstick.throughput_ns > 0.0 && yardstick.cpu_s > 0.0, "{yardstick:?}");
            }
            Err(error) => assert!(error.to_string().contains("CAP_SYS_NICE"), "{error}"),
        }
    }
}
