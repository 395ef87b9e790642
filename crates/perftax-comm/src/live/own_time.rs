//! The CPU time that watching takes of ours.

use perftax_pmu::sys::own_cpu_ns;

/// Counts from when watching begins to when it ends, whatever is done behind that: a command goes on by itself, and results are made of what came.
#[derive(Clone, Copy, Debug)]
pub struct OwnTime {
    before_ns: u64,
    whole_ns: Option<u64>,
}

impl OwnTime {
    /// Counts from now on.
    pub fn begin() -> Self {
        Self { before_ns: own_cpu_ns(), whole_ns: None }
    }

    /// Counts no more.
    pub fn end(&mut self) {
        self.whole_ns = Some(self.ns());
    }

    /// CPU time of ours until now, or until the end, ns.
    pub fn ns(&self) -> u64 {
        self.whole_ns.unwrap_or_else(|| own_cpu_ns() - self.before_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_behind_the_end_is_not_counted() {
        let work = || {
            let before_ns = own_cpu_ns();
            while own_cpu_ns() - before_ns < 2_000_000 {}
        };
        let mut own = OwnTime::begin();
        work();
        assert!(own.ns() >= 2_000_000);
        own.end();
        let whole_ns = own.ns();
        work();
        assert_eq!(own.ns(), whole_ns);
    }
}
