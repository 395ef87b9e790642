//! Latencies at least and at most, where a register told messages apart.

use perftax_doc::{Latencies, RegisterSight};
use perftax_trace::register::between_ns;
use perftax_trace::{Distribution, Message};

/// How messages' latencies are distributed, at least and at most.
pub struct Bounds {
    unseen_ns: u64,
    /// At least, at most.
    latencies: [Distribution; 2],
}

impl Bounds {
    /// For a trace by a register.
    pub fn new(register: &RegisterSight) -> Self {
        Self { unseen_ns: register.unseen_p99_ns, latencies: Default::default() }
    }

    /// Adds a message.
    pub fn add(&mut self, message: &Message) {
        if let Some((least_ns, most_ns)) = between_ns(message, self.unseen_ns) {
            self.latencies[0].add(least_ns);
            self.latencies[1].add(most_ns);
        }
    }

    /// Quantiles of both: a quantile of the latencies lies between its two.
    pub fn finish(self) -> Option<[Latencies; 2]> {
        let of = |distribution: Distribution| Latencies {
            messages: distribution.len(),
            p50_ns: distribution.quantile_ns(0.5),
            p99_ns: distribution.quantile_ns(0.99),
            p999_ns: distribution.quantile_ns(0.999),
            max_ns: distribution.max_ns(),
        };
        (!self.latencies[0].is_empty()).then(|| self.latencies.map(of))
    }
}
