//! The reference loop: how fast the machine is *while* a program runs on it.
//!
//! On a shared host a program's time varies by 5 to 20 % from run to run, because the neighbours use the other hardware thread
//! of its core, the caches and the memory. The same neighbours slow a fixed piece of work that is slipped in on the same CPU a
//! hundred times a second: what varies with it can be taken out (`perftax_cost::reference_loop`). Both arms carry the reference loop, and
//! its own CPU time is subtracted.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use perftax_doc::observation::ReferenceLoop;
use perftax_pmu::guard::{make_this_thread_realtime, pin_this_thread};
use perftax_pmu::sys::{monotonic_ns, thread_cpu_ns};
use perftax_pmu::{Error, Result};

/// From one pass to the next.
const INTERVAL: Duration = Duration::from_millis(10);
/// Rounds of one pass: about 0.1 ms of independent arithmetic and first-level loads.
const ROUNDS: u64 = 40_000;

/// A running reference loop on one CPU.
pub struct ReferenceLoopThread {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<ReferenceLoop>,
}

impl ReferenceLoopThread {
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
            if failed { ReferenceLoop::default() } else { measure(&told) }
        });
        started.recv().map_err(|_| ended())??;
        Ok(Self { stop, thread })
    }

    /// What it measured.
    pub fn finish(self) -> Result<ReferenceLoop> {
        self.stop.store(true, Ordering::Release);
        self.thread.join().map_err(|_| ended())
    }
}

fn ended() -> Error {
    Error::System { call: "the reference loop".into(), source: std::io::Error::other("ended early") }
}

fn measure(stop: &AtomicBool) -> ReferenceLoop {
    let table: Vec<u64> = (0..2048).collect();
    let mut reference_loop = ReferenceLoop::default();
    let mut throughput_ns = 0;
    let cpu_before = thread_cpu_ns();
    while !stop.load(Ordering::Acquire) {
        std::thread::sleep(INTERVAL);
        let start = monotonic_ns();
        churn(&table);
        throughput_ns += monotonic_ns() - start;
        reference_loop.passes += 1;
    }
    reference_loop.cpu_s = (thread_cpu_ns() - cpu_before) as f64 * 1e-9;
    reference_loop.throughput_ns = throughput_ns as f64 / f64::from(reference_loop.passes.max(1));
    reference_loop
}

fn churn(table: &[u64]) {
    let mut lanes = [1u64, 2, 3, 4, 5, 6];
    for i in 0..ROUNDS {
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
    fn it_passes_while_it_runs() {
        // Needs the right to real-time scheduling; what it says without is tested by its message.
        let cpu = perftax_pmu::guard::allowed_cpus().unwrap()[0];
        match ReferenceLoopThread::start(cpu) {
            Ok(thread) => {
                std::thread::sleep(Duration::from_millis(120));
                let reference_loop = thread.finish().unwrap();
                assert!(reference_loop.passes >= 2, "{reference_loop:?}");
                assert!(reference_loop.throughput_ns > 0.0 && reference_loop.cpu_s > 0.0, "{reference_loop:?}");
            }
            Err(error) => assert!(error.to_string().contains("CAP_SYS_NICE"), "{error}"),
        }
    }
}
