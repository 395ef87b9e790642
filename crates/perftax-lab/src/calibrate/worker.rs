//! The measuring thread: pinned when it starts, gone when it ends, so that no affinity has to be put back.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use perftax_doc::Mechanism;
use perftax_doc::observation::Block;
use perftax_doc::steps::Setting;
use perftax_pmu::event::{Catalog, Event};
use perftax_pmu::guard::pin_this_thread;
use perftax_pmu::sys::{Tsc, disable_open_events};
use perftax_pmu::{Error, Result};

use super::arm::Skipped;
use super::bench::Bench;
use super::cross_check::{CrossCheckSample, Handler};
use super::spec::{Depth, Spec};

/// What one session gave.
#[derive(Clone, Debug)]
pub struct SessionResult {
    /// The blocks.
    pub blocks: Vec<Block>,
    /// The floor of a sample in this session.
    pub floor_ns: Option<f64>,
    /// Handler time in this session, where the kernel's tracepoints tell.
    pub cross_check: Option<CrossCheckSample>,
}

/// A calibration that runs one session whenever asked.
pub struct Worker {
    orders: Option<Sender<Order>>,
    results: Receiver<Result<SessionResult>>,
    thread: Option<JoinHandle<()>>,
    event: Event,
    skipped: Vec<Skipped>,
    cpu: u32,
}

/// A session to be made.
struct Order {
    rounds: u32,
    /// By when.
    until: Instant,
}

/// How long a session may take at most, which takes a second or so: a machine that is so busy gives no measurement.
const LONGEST: Duration = Duration::from_secs(60);
/// How much later than that the thread must have answered: after its block, and once more after its events were switched off.
const ANSWER: Duration = Duration::from_secs(2);

impl Worker {
    /// Starts the thread, pins it and opens the bench on it.
    pub fn start(spec: &Spec, seed: u64) -> Result<Self> {
        let (orders, todo) = channel::<Order>();
        let (done, results) = channel();
        let (ready, opened) = channel();
        let (spec, cpu) = (spec.clone(), spec.cpu);
        let thread = std::thread::spawn(move || {
            let bench = pin_this_thread(spec.cpu).and_then(|()| {
                let catalog = Catalog::of_this_machine();
                Ok((Bench::new(&spec, &catalog, seed)?, catalog))
            });
            let (mut bench, catalog) = match bench {
                Ok((bench, catalog)) => {
                    ready.send(Ok((bench.event().clone(), bench.skipped().to_vec()))).ok();
                    (bench, catalog)
                }
                Err(error) => {
                    ready.send(Err(error)).ok();
                    return;
                }
            };
            let tsc = Tsc::calibrated();
            let handler = Handler::of(spec.mechanism, &catalog);
            for (session, Order { rounds, until }) in (0..).zip(todo) {
                let result = bench.session(session, rounds, until, &catalog).and_then(|blocks| {
                    // Of a record that nobody reads no single operation tells.
                    let floor_ns = match spec.mechanism {
                        Mechanism::PebsDirect => None,
                        _ => bench.floor_session(&catalog)?.floor_ns(tsc),
                    };
                    let cross_check = match (&handler, &spec.depth) {
                        // A handler cross-check only: whoever may not watch the CPU's tracepoints has the slope alone.
                        (Some(handler), Depth::Full) => match bench.cross_check_session(handler) {
                            Err(Error::Permission { .. }) => None,
                            cross_check => Some(cross_check?),
                        },
                        _ => None,
                    };
                    Ok(SessionResult { blocks, floor_ns, cross_check })
                });
                if done.send(result).is_err() {
                    break;
                }
            }
        });
        // Opening a few probes takes a second; whether arms feed themselves, each some milliseconds.
        let (event, skipped) = answer(&opened, Instant::now() + LONGEST).ok_or_else(|| silent(cpu))??;
        Ok(Self { orders: Some(orders), results, thread: Some(thread), event, skipped, cpu })
    }

    /// The event measured.
    pub fn event(&self) -> &Event {
        &self.event
    }

    /// Arms that could not be opened, each with the reason.
    pub fn skipped(&self) -> &[Skipped] {
        &self.skipped
    }

    /// Runs one session of `rounds` rounds and waits for it, a minute at most.
    ///
    /// # Errors
    /// What the session meets; where it takes too long.
    pub fn session(&mut self, rounds: u32) -> Result<SessionResult> {
        self.session_until(rounds, Instant::now() + LONGEST)
    }

    /// The same with a time by when it must be done, if that is earlier.
    ///
    /// # Errors
    /// As [`Self::session`].
    pub fn session_until(&mut self, rounds: u32, until: Instant) -> Result<SessionResult> {
        let until = until.min(Instant::now() + LONGEST);
        self.orders.as_ref().and_then(|orders| orders.send(Order { rounds, until }).ok()).ok_or_else(ended)?;
        answer(&self.results, until).unwrap_or_else(|| {
            // It is not waited for: it may never come.
            self.thread = None;
            Err(silent(self.cpu))
        })
    }
}

/// What a measuring thread answers; none where it does not, although all events were switched off.
fn answer<T>(from: &Receiver<Result<T>>, until: Instant) -> Option<Result<T>> {
    let in_time = from.recv_timeout(until.saturating_duration_since(Instant::now()) + ANSWER);
    match in_time {
        Ok(answer) => return Some(answer),
        Err(RecvTimeoutError::Disconnected) => return Some(Err(ended())),
        Err(RecvTimeoutError::Timeout) => {}
    }
    // Whatever it is caught in, its own events do not keep it there.
    disable_open_events();
    match from.recv_timeout(ANSWER) {
        // What was measured while events were switched off is none.
        Ok(answer) => Some(answer.and_then(|_| Err(late()))),
        Err(RecvTimeoutError::Disconnected) => Some(Err(ended())),
        Err(RecvTimeoutError::Timeout) => None,
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.orders = None;
        if let Some(thread) = self.thread.take() {
            thread.join().ok();
        }
    }
}

fn late() -> Error {
    Error::Discarded {
        why: "the measuring thread came back only when its events were switched off".into(),
        remedy: format!("a longer period with {}, another event, or a machine that is less busy", Setting::Period),
    }
}

fn silent(cpu: u32) -> Error {
    Error::Discarded {
        why: format!("the measuring thread on CPU {cpu} does not answer; its events were switched off"),
        remedy: format!("see what runs on that CPU (ps -eLo psr,stat,comm), or measure on another one with {}", Setting::Cpu),
    }
}

fn ended() -> Error {
    Error::System { call: "the measuring thread".into(), source: std::io::Error::other("ended early") }
}
