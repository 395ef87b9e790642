// SPDX-License-Identifier: GPL-2.0-or-later
//! The truth, and what samples and debug registers would have made of it.

use perftax_comm::run::{Estimated, Exactly, Request};
use perftax_comm::{Access, Census, Exact, Found, Settings, Simulated, Thread};

/// All accesses go through it, in order.
pub struct Engine {
    exact: Exact,
    census: Census,
    simulated: Vec<(u64, Simulated)>,
    accesses: [u64; 2],
}

impl Engine {
    /// As asked.
    pub fn new(request: &Request) -> Self {
        let settings = Settings { registers: request.registers, seed: request.seed, ..Settings::default() };
        let simulated = request.periods.iter().map(|&period| (period, Simulated::new(settings, period, request.delay)));
        Self { exact: Exact::default(), census: Census::default(), simulated: simulated.collect(), accesses: [0; 2] }
    }

    /// A thread is there.
    pub fn thread_started(&mut self, thread: Thread) {
        self.simulated.iter_mut().for_each(|(_, simulated)| simulated.thread_started(thread));
    }

    /// A thread is gone.
    pub fn thread_ended(&mut self, thread: Thread) {
        self.simulated.iter_mut().for_each(|(_, simulated)| simulated.thread_ended(thread));
    }

    /// The next access.
    #[inline]
    pub fn take(&mut self, access: &Access) {
        self.accesses[usize::from(access.kind.is_store())] += 1;
        if let Some(transfer) = self.exact.take(access) {
            self.census.add(&transfer);
        }
        for (_, simulated) in &mut self.simulated {
            simulated.take(access);
        }
    }

    /// Loads and stores so far.
    pub fn accesses(&self) -> [u64; 2] {
        self.accesses
    }

    /// The truth.
    pub fn exactly(&self, most_lines: usize) -> Exactly {
        let lines = self.census.lines();
        let shared_lines = lines.len() as u64;
        let listed = lines.into_iter().take(most_lines).map(|(line, census)| (line, census.clone()));
        Exactly { pairs: self.census.pairs().into_iter().collect(), lines: listed.collect(), shared_lines }
    }

    /// The estimates.
    pub fn estimates(&mut self, most_lines: usize) -> Vec<Estimated> {
        let each = |(period, simulated): (u64, Simulated)| {
            let Found { evidence, board, mut transfers, .. } = simulated.finish();
            transfers.lines.truncate(most_lines);
            Estimated {
                period,
                samples: [evidence.load_samples, evidence.stores()],
                traps: evidence.traps(),
                followed: evidence.follows.len() as u64,
                busy: evidence.busy,
                silent: evidence.silent(),
                evicted: board.evicted(),
                transfers,
            }
        };
        std::mem::take(&mut self.simulated).into_iter().map(each).collect()
    }
}
