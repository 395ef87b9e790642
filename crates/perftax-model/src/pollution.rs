//! The pollution term of the cost model, from how a program uses the caches by itself.
//!
//! What a program has to lose shows in its own stack distances (Mattson et al., 1970): how many of its hits in each set are the
//! `i`th most recently used line. Records that are written through the cache occupy some ways of each set; the program keeps the
//! others, and loses the hits below. How many ways they occupy follows from how long a line stays when it is not used again: the
//! time in which the program and the records together bring as many new lines as there are ways (Denning's working set: new lines
//! come at the rate at which a cache of that many ways would miss). There is nothing to fit.
//!
//! The last level is treated as if it were managed by true LRU, too. Adaptive policies keep more of a program that does not fit
//! anyway, and give records less: there the term is too high by as much.

use serde::{Deserialize, Serialize};

use crate::cache::{LINE_BYTES, Policy, SetAssociative};
use crate::machine::{CacheSpec, LlcShare, Machine};

/// How a program uses one level by itself, were it managed by true LRU.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct StackDistances {
    /// Sets of the cache.
    pub sets: u64,
    /// Hits at each depth, most recently used first: one entry a way.
    pub hits: Vec<u64>,
    /// Accesses that missed.
    pub misses: u64,
}

/// A stream of lines that are not the program's.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Stream {
    /// Lines that it touches in the whole run.
    pub touches: f64,
    /// Bytes that it goes round in.
    pub footprint_bytes: f64,
}

impl Stream {
    /// Lines that it goes round in.
    fn lines(&self) -> f64 {
        self.footprint_bytes / LINE_BYTES as f64
    }
}

impl StackDistances {
    /// Misses in the whole run, were there only so many ways; between whole numbers, linear.
    pub fn misses_with(&self, ways: f64) -> f64 {
        let ways = ways.clamp(0.0, self.hits.len() as f64);
        let whole = ways.floor() as usize;
        let below: u64 = self.hits[whole..].iter().sum();
        let at = self.misses as f64 + below as f64;
        let next = self.hits.get(whole).map_or(at, |hits| at - *hits as f64);
        at + (next - at) * ways.fract()
    }

    /// How long an unused line stays where the program has so many ways to itself, as a share of the run.
    fn stay(&self, ways: f64) -> f64 {
        let whole = ways.floor() as usize;
        let step = |way: usize| self.sets as f64 / self.misses_with(way as f64).max(1.0);
        (0..whole).map(step).sum::<f64>() + ways.fract() * step(whole.min(self.hits.len()))
    }

    /// Ways of each set that the streams hold on average.
    ///
    /// They hold what they bring while a line stays, at most all that they go round in; and a line stays as long as the program,
    /// in what ways are left, leaves it.
    pub fn occupied(&self, streams: &[Stream]) -> f64 {
        let ways = self.hits.len() as f64;
        let sets = self.sets.max(1) as f64;
        let wanted = |left: f64| {
            let stay = self.stay(left).min(1.0);
            let held = |s: &Stream| (s.touches * stay).min(s.lines()) / sets;
            streams.iter().map(held).sum::<f64>()
        };
        // `wanted` falls with the ways occupied: they meet once.
        let (mut low, mut high) = (0.0, ways);
        for _ in 0..60 {
            let middle = 0.5 * (low + high);
            if wanted(ways - middle) > middle { low = middle } else { high = middle }
        }
        0.5 * (low + high)
    }
}

/// How a program uses all three levels by itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheProfile {
    /// First level, second level, last level.
    pub levels: [StackDistances; 3],
}

impl CacheProfile {
    /// Misses that the streams cause the program at each level.
    ///
    /// A level is reached by those streams whose lines do not stay in the level above until they are touched again.
    pub fn caused(&self, streams: &[Stream]) -> [f64; 3] {
        let mut reaching = streams.to_vec();
        self.levels.each_ref().map(|level| {
            let ways = level.hits.len() as f64;
            let left = ways - level.occupied(&reaching);
            let stay = level.stay(left);
            reaching.retain(|stream| stream.lines() / stream.touches > stay);
            (level.misses_with(left) - level.misses as f64).max(0.0)
        })
    }

    /// Time that the misses take, s: what is not hidden of each level's latency.
    pub fn pollution_s(&self, machine: &Machine, streams: &[Stream]) -> f64 {
        let memory_cycles = machine.memory_latency_ns * machine.base_ghz;
        let latencies = [machine.l2.latency_cycles as f64, machine.llc.latency_cycles as f64, memory_cycles];
        let cycles: f64 = self.caused(streams).iter().zip(latencies).map(|(misses, latency)| misses * latency).sum();
        machine.exposed_latency * cycles / (machine.base_ghz * 1e9)
    }
}

/// Takes stack distances while a program runs.
#[derive(Clone, Debug)]
pub struct Profiler {
    caches: [SetAssociative; 3],
    profile: CacheProfile,
}

impl Profiler {
    /// For one core of a machine.
    pub fn new(machine: &Machine, llc: LlcShare) -> Self {
        let llc_bytes = machine.llc_bytes(1, llc);
        let specs: [(&CacheSpec, u64); 3] =
            [(&machine.l1, machine.l1.bytes), (&machine.l2, machine.l2.bytes), (&machine.llc, llc_bytes)];
        let distances = |(spec, bytes): (&CacheSpec, u64)| StackDistances {
            sets: bytes / LINE_BYTES / spec.ways as u64,
            hits: vec![0; spec.ways],
            misses: 0,
        };
        Self {
            caches: specs.map(|(spec, bytes)| SetAssociative::new(bytes, spec.ways, Policy::Lru, 0)),
            profile: CacheProfile { levels: specs.map(distances) },
        }
    }

    /// One access.
    #[inline]
    pub fn access(&mut self, line: u32) {
        for (cache, level) in self.caches.iter_mut().zip(&mut self.profile.levels) {
            if let Some(depth) = cache.touch_ordered(line) {
                level.hits[depth] += 1;
                return;
            }
            level.misses += 1;
            cache.fill(line, false);
        }
    }

    /// What was found.
    pub fn profile(&self) -> &CacheProfile {
        &self.profile
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A program that goes round 12 lines of each of 64 sets, in a cache of 16 ways: all hits are at depth 11.
    fn cyclic() -> StackDistances {
        let mut hits = vec![0; 16];
        hits[11] = 1_000_000;
        StackDistances { sets: 64, hits, misses: 768 }
    }

    fn caused(stream: Stream) -> f64 {
        let d = cyclic();
        d.misses_with(16.0 - d.occupied(&[stream])) - d.misses as f64
    }

    #[test]
    fn fewer_ways_lose_the_hits_below() {
        let d = cyclic();
        assert_eq!(d.misses_with(16.0), 768.0);
        assert_eq!(d.misses_with(12.0), 768.0);
        assert_eq!(d.misses_with(11.0), 1_000_768.0);
        assert!((d.misses_with(11.5) - 500_768.0).abs() < 1.0);
    }

    #[test]
    fn a_stream_that_fits_beside_the_program_takes_nothing() {
        // Four ways of 64 sets are 16 KiB.
        let small = Stream { touches: 1e6, footprint_bytes: 8192.0 };
        assert!((cyclic().occupied(&[small]) - 2.0).abs() < 0.01);
        assert!(caused(small) < 1.0);
        let large = Stream { touches: 1e6, footprint_bytes: 1e6 };
        assert!(caused(large) > 1000.0);
    }

    #[test]
    fn more_records_take_more() {
        let caused = |touches| caused(Stream { touches, footprint_bytes: 1e9 });
        let at: Vec<f64> = [0.0, 1e3, 1e4, 1e5, 1e6, 1e7].map(caused).to_vec();
        assert!(at[0].abs() < 1e-6 && at.windows(2).all(|pair| pair[1] >= pair[0]), "{at:?}");
    }
}
