//! The measuring thread: pinned when it starts, gone when it ends, so that no affinity has to be put back.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use perftax_cost::Mechanism;
use perftax_cost::observation::Block;
use perftax_pmu::event::{Catalog, Event};
use perftax_pmu::guard::pin_this_thread;
use perftax_pmu::sys::Tsc;
use perftax_pmu::{Error, Result};

use super::bench::Bench;
use super::spec::{Depth, Spec};
use super::witness::{Handler, WitnessSample};

/// What one session gave.
#[derive(Clone, Debug)]
pub struct SessionResult {
    /// The blocks.
    pub blocks: Vec<Block>,
    /// The floor of a sample in this session.
    pub floor_ns: Option<f64>,
    /// Handler time in this session, where the kernel's tracepoints tell.
    pub witness: Option<WitnessSample>,
}

/// A calibration that runs one session whenever asked.
pub struct Worker {
    orders: Option<Sender<u32>>,
    results: Receiver<Result<SessionResult>>,
    thread: Option<JoinHandle<()>>,
    event: Event,
    skipped: Vec<String>,
}

impl Worker {
    /// Starts the thread, pins it and opens the bench on it.
    pub fn start(spec: &Spec, seed: u64) -> Result<Self> {
        let (orders, todo) = channel::<u32>();
        let (done, results) = channel();
        let (ready, opened) = channel();
        let spec = spec.clone();
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
            for (session, rounds) in (0..).zip(todo) {
                let result = bench.session(session, rounds, &catalog).and_then(|blocks| {
                    // Of a record that nobody reads no single operation tells.
                    let floor_ns = match spec.mechanism {
                        Mechanism::PebsDirect => None,
                        _ => bench.floor_session(&catalog)?.floor_ns(tsc),
                    };
                    let witness = match (&handler, &spec.depth) {
                        // A second witness only: whoever may not watch the CPU's tracepoints has the slope alone.
                        (Some(handler), Depth::Full) => match bench.witness_session(handler) {
                            Err(Error::Permission { .. }) => None,
                            witness => Some(witness?),
                        },
                        _ => None,
                    };
                    Ok(SessionResult { blocks, floor_ns, witness })
                });
                if done.send(result).is_err() {
                    break;
                }
            }
        });
        let (event, skipped) = opened.recv().map_err(|_| ended())??;
        Ok(Self { orders: Some(orders), results, thread: Some(thread), event, skipped })
    }

    /// The event measured.
    pub fn event(&self) -> &Event {
        &self.event
    }

    /// Arms that could not be opened, each with the reason.
    pub fn skipped(&self) -> &[String] {
        &self.skipped
    }

    /// Runs one session of `rounds` rounds and waits for it.
    pub fn session(&mut self, rounds: u32) -> Result<SessionResult> {
        self.orders.as_ref().and_then(|orders| orders.send(rounds).ok()).ok_or_else(ended)?;
        self.results.recv().map_err(|_| ended())?
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

fn ended() -> Error {
    Error::System { call: "the measuring thread".into(), source: std::io::Error::other("ended early") }
}
