//! What kept CPUs from the program over time: interrupts, the hypervisor, other threads. Kept in so many bins of equal time, which
//! become longer as the trace does.

use std::collections::BTreeMap;

use rustc_hash::FxHashSet;

use crate::kernel::{Interruption, KernelEvent, What};
use crate::tracker::Record;

/// Noise by CPU and time.
#[derive(Debug)]
pub struct Noise {
    /// When the first bin begins.
    from_ns: u64,
    /// How long a bin is.
    bin_ns: u64,
    most: usize,
    cpus: BTreeMap<u32, Cpu>,
    /// Threads that are known for the program's: only of those there are marks, samples and system calls.
    own: FxHashSet<u32>,
}

/// Time by kind, ns: [`Noise::KINDS`].
type Bin = [u64; Noise::KINDS.len()];

#[derive(Debug, Default)]
struct Cpu {
    bins: Vec<Bin>,
    /// The thread that runs; 0: none, or not known.
    tid: u32,
    /// Since when it is not accounted for.
    since_ns: u64,
    interruptions: Vec<Interruption>,
    /// When the kernel last said how long it had run.
    window_ns: Option<u64>,
    interrupted_ns: u64,
}

/// Less than this is what two clocks are read apart (`tracker/window.rs`), ns.
const STEAL_NS: u64 = 10_000;
/// The first bins, ns.
const FIRST_NS: u64 = 1000;

impl Noise {
    /// What is told apart.
    pub const KINDS: [&str; 5] = ["irq", "softirq", "vector", "steal", "other threads"];

    /// In at most so many bins.
    pub fn new(bins: usize) -> Self {
        Self { from_ns: 0, bin_ns: FIRST_NS, most: bins.max(2), cpus: BTreeMap::new(), own: FxHashSet::default() }
    }

    /// When the first bin begins, and how long each is, ns.
    pub fn bins(&self) -> (u64, u64) {
        (self.from_ns, self.bin_ns)
    }

    /// By CPU: ns of each of [`Noise::KINDS`], bin after bin.
    pub fn cpus(&self) -> impl Iterator<Item = (u32, &[[u64; Noise::KINDS.len()]])> {
        self.cpus.iter().map(|(cpu, state)| (*cpu, &state.bins[..]))
    }

    /// Takes a row of the trace, in order of time.
    pub fn take(&mut self, record: &Record) {
        match record {
            Record::Mark(mark) => {
                self.own.insert(mark.tid);
            }
            Record::Sample(sample) => {
                self.own.insert(sample.tid);
            }
            Record::Counted(_) | Record::Executed(_) => {}
            Record::Kernel(event) => self.kernel(event),
        }
    }

    fn kernel(&mut self, event: &KernelEvent) {
        let now_ns = event.time_ns;
        if self.cpus.is_empty() {
            self.from_ns = now_ns;
        }
        let cpu = event.cpu;
        match event.what {
            What::Switch { next, .. } => {
                self.settle(cpu, now_ns);
                let state = self.cpus.entry(cpu).or_default();
                (state.tid, state.window_ns, state.interrupted_ns) = (next, Some(now_ns), 0);
                state.interruptions.clear();
            }
            What::Enter(interruption, _) => {
                self.settle(cpu, now_ns);
                self.cpus.entry(cpu).or_default().interruptions.push(interruption);
            }
            What::Exit(interruption, _) => {
                self.settle(cpu, now_ns);
                let stack = &mut self.cpus.entry(cpu).or_default().interruptions;
                if let Some(at) = stack.iter().rposition(|other| *other == interruption) {
                    stack.truncate(at);
                }
            }
            What::SyscallEnter(_) | What::SyscallExit(_) => {
                self.own.insert(event.tid);
            }
            What::Ran(ran_ns) => self.ran(event, ran_ns),
            _ => {}
        }
    }

    /// What a thread's time on its CPU lacks, the hypervisor took; when in between is not known.
    fn ran(&mut self, event: &KernelEvent, ran_ns: u64) {
        let now_ns = event.time_ns;
        self.settle(event.cpu, now_ns);
        let state = self.cpus.entry(event.cpu).or_default();
        if state.tid != event.tid {
            return;
        }
        let window = state.window_ns.replace(now_ns);
        let interrupted_ns = std::mem::take(&mut state.interrupted_ns);
        let Some(from_ns) = window else { return };
        let missing = now_ns.saturating_sub(from_ns).saturating_sub(ran_ns).saturating_sub(interrupted_ns);
        if missing >= STEAL_NS {
            self.spread(event.cpu, from_ns, now_ns, 3, missing);
        }
    }

    /// Accounts for a CPU's time until now.
    fn settle(&mut self, cpu: u32, now_ns: u64) {
        let state = self.cpus.entry(cpu).or_default();
        let from_ns = std::mem::replace(&mut state.since_ns, now_ns);
        // Before its first record nothing is known of it.
        if from_ns == 0 || now_ns <= from_ns {
            return;
        }
        let kind = match state.interruptions.last() {
            Some(Interruption::Irq) => 0,
            Some(Interruption::Softirq) => 1,
            Some(Interruption::Vector) => 2,
            None if state.tid != 0 && !self.own.contains(&state.tid) => 4,
            None => return,
        };
        if kind < 3 {
            state.interrupted_ns += now_ns - from_ns;
        }
        self.spread(cpu, from_ns, now_ns, kind, now_ns - from_ns);
    }

    /// Adds time of a kind, evenly over a stretch.
    fn spread(&mut self, cpu: u32, from_ns: u64, to_ns: u64, kind: usize, ns: u64) {
        let (from_ns, to_ns) = (from_ns.max(self.from_ns) - self.from_ns, to_ns.max(self.from_ns) - self.from_ns);
        while to_ns.div_ceil(self.bin_ns) > self.most as u64 {
            self.double();
        }
        if ns == 0 || to_ns <= from_ns {
            return;
        }
        let bin_ns = self.bin_ns;
        let bins = &mut self.cpus.entry(cpu).or_default().bins;
        let last = ((to_ns - 1) / bin_ns) as usize;
        if bins.len() <= last {
            bins.resize(last + 1, Bin::default());
        }
        let mut left = ns;
        for (at, bin) in bins.iter_mut().enumerate().take(last + 1).skip((from_ns / bin_ns) as usize) {
            let within = to_ns.min((at as u64 + 1) * bin_ns) - from_ns.max(at as u64 * bin_ns);
            let part = match at == last {
                true => left,
                false => (u128::from(ns) * u128::from(within) / u128::from(to_ns - from_ns)) as u64,
            };
            bin[kind] += part;
            left -= part;
        }
    }

    /// Half as many bins, each twice as long.
    fn double(&mut self) {
        self.bin_ns *= 2;
        for cpu in self.cpus.values_mut() {
            let merged = |two: &[Bin]| std::array::from_fn(|kind| two.iter().map(|bin| bin[kind]).sum());
            cpu.bins = cpu.bins.chunks(2).map(merged).collect();
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;
    use crate::mark::{Kind, Mark};

    fn event(time_ns: u64, cpu: u32, tid: u32, what: What) -> Record {
        Record::Kernel(KernelEvent { time_ns, cpu, tid, what })
    }

    fn totals(noise: &Noise, cpu: u32) -> Bin {
        let (_, bins) = noise.cpus().find(|(other, _)| *other == cpu).unwrap();
        std::array::from_fn(|kind| bins.iter().map(|bin| bin[kind]).sum())
    }

    #[test]
    fn each_kind_is_told_apart_however_long_it_takes() {
        let mut noise = Noise::new(64);
        noise.take(&Record::Mark(Mark { time_ns: 0, tid: 7, id: 1, kind: Kind::Begin }));
        let base = 1_000_000_000;
        let switch = |next| What::Switch { is_runnable: true, next };
        let rows = [
            event(base, 0, 0, switch(7)),
            event(base + 1000, 0, 7, What::Enter(Interruption::Vector, 0)),
            event(base + 1500, 0, 7, What::Enter(Interruption::Softirq, 1)),
            event(base + 2500, 0, 7, What::Exit(Interruption::Softirq, 1)),
            event(base + 2600, 0, 7, What::Exit(Interruption::Vector, 0)),
            event(base + 10_000, 0, 7, switch(9)),
            event(base + 2_010_000, 0, 9, switch(7)),
            // 5 ms, of which it ran 4.
            event(base + 7_010_000, 0, 7, What::Ran(4_000_000)),
            event(base + 7_010_000, 1, 0, What::Enter(Interruption::Irq, 4)),
            event(base + 7_012_000, 1, 0, What::Exit(Interruption::Irq, 4)),
        ];
        rows.iter().for_each(|row| noise.take(row));
        assert_eq!(totals(&noise, 0), [0, 1000, 600, 1_000_000, 2_000_000]);
        assert_eq!(totals(&noise, 1), [2000, 0, 0, 0, 0]);
        let (from_ns, bin_ns) = noise.bins();
        assert_eq!(from_ns, base);
        assert!(noise.cpus().all(|(_, bins)| bins.len() <= 64) && bin_ns >= 7_012_000 / 64, "{bin_ns}");
    }
}
