//! Messages of the last minute, while they are recorded: how long they took, which kinds of them are slow now, and what for.
//!
//! Time is cut into slices; of each there remain histograms, sums over the messages that were not slow, and the slow ones in short. Memory grows neither with the
//! time nor with the messages.

mod kinds;
mod slice;
mod view;

use std::collections::VecDeque;

use perftax_pmu::Result;
use rustc_hash::FxHashMap;

use crate::cause::Shares;
use crate::distribution::{Distribution, Population};
use crate::mark::TraceIdentity;
use crate::message::{Message, Trouble};
use crate::record::{Audience, Moment, Row};
use crate::store::Symbols;
use crate::tracker::{Record, Tracker};
use kinds::LiveKinds;
pub use slice::{Slice, Slow};
pub use view::{KindView, View};

/// What is followed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Following {
    /// From one slice to the next, ns.
    pub slice_ns: u64,
    /// What counts as now, ns.
    pub window_ns: u64,
    /// The quantile from which on a message is slow.
    pub slow_from: f64,
}

/// What was said of messages that are not over, in two generations: what was said longer than a window ago is forgotten.
struct Said<T> {
    young: FxHashMap<u64, T>,
    old: FxHashMap<u64, T>,
}

impl<T> Default for Said<T> {
    fn default() -> Self {
        Self { young: FxHashMap::default(), old: FxHashMap::default() }
    }
}

impl<T> Said<T> {
    /// At most so many of a generation.
    const MAX: usize = 1 << 16;

    fn say(&mut self, id: u64, what: T) {
        if self.young.len() >= Self::MAX {
            self.age();
        }
        self.young.insert(id, what);
    }

    fn take(&mut self, id: u64) -> Option<T> {
        self.young.remove(&id).or_else(|| self.old.remove(&id))
    }

    fn age(&mut self) {
        self.old = std::mem::take(&mut self.young);
    }
}

/// A message that is over, and of which it is not known yet what it is called.
struct Unnamed {
    id: u64,
    tid: u32,
    latency_ns: u64,
    /// The slow one that it is, by its number in the slice.
    slow: Option<u64>,
}

/// The messages of now.
pub struct Live {
    following: Following,
    tracker: Tracker,
    symbols: Symbols,
    kinds: LiveKinds,
    labels: Said<(u32, Option<String>)>,
    relations: Said<(u64, TraceIdentity)>,
    aged_ns: u64,
    looked_ns: u64,
    /// Addresses of the slice that is under way, by number from 1.
    addresses: FxHashMap<(u32, u64), u32>,
    unnamed: Vec<Unnamed>,
    current: Slice,
    slices: VecDeque<Slice>,
    /// All messages of these slices.
    now: Population,
    /// Since the beginning: all latencies, the time by cause of those that recording was on for, and how many these are.
    pub latency: Distribution,
    /// Their time by cause.
    pub causes: Shares,
    /// How many of them recording was on for from begin to end.
    pub watched: u64,
    /// Samples at addresses beyond those that are told apart in a slice.
    pub unplaced: u64,
}

/// Addresses that are told apart in a slice, and whose functions are remembered.
const MAX_ADDRESSES: usize = 1 << 16;

impl Live {
    /// Nothing so far.
    pub fn new(following: Following, now_ns: u64) -> Self {
        Self {
            following,
            tracker: Tracker::default(),
            symbols: Symbols::new([]),
            kinds: LiveKinds::default(),
            labels: Said::default(),
            relations: Said::default(),
            aged_ns: now_ns,
            looked_ns: now_ns,
            addresses: FxHashMap::default(),
            unnamed: Vec::new(),
            current: Slice::beginning(now_ns),
            slices: VecDeque::new(),
            now: Population::coarse(),
            latency: Distribution::default(),
            causes: Shares::default(),
            watched: 0,
            unplaced: 0,
        }
    }

    /// Whether a slice is over by now.
    pub fn is_due(&self, now_ns: u64) -> bool {
        now_ns >= self.current.from_ns + self.following.slice_ns
    }

    /// Ends the slice: names what was seen in it, and lets go of what is no longer of now.
    pub fn turn(&mut self, now_ns: u64, moment: &mut Moment<'_>) {
        self.name(moment);
        let mut slice = std::mem::replace(&mut self.current, Slice::beginning(now_ns));
        self.place(&mut slice, moment);
        slice.end(now_ns);
        self.slices.push_back(slice);
        let long_ago = now_ns.saturating_sub(self.following.window_ns);
        while self.slices.len() > 1 && self.slices.front().is_some_and(|slice| slice.to_ns <= long_ago) {
            self.slices.pop_front();
        }
        self.now = Population::coarse();
        self.slices.iter().for_each(|slice| self.now.join(&slice.population));
        self.current.threshold_ns = self.now.latency.from_quantile_ns(self.following.slow_from);
        if now_ns >= self.aged_ns + self.following.window_ns {
            self.aged_ns = now_ns;
            self.labels.age();
            self.relations.age();
            // What a runtime has made may lie elsewhere by now, and another process may have a number.
            self.symbols.forget_addresses();
        }
    }

    /// The slice that ended last.
    pub fn last(&self) -> Option<&Slice> {
        self.slices.back()
    }

    /// What there is now.
    pub fn view(&self) -> View<'_> {
        View::of(&self.slices, &self.now, &self.kinds, self.following.slow_from)
    }

    /// What a kind is called.
    pub fn kind(&self, kind: u32) -> &str {
        self.kinds.name(kind)
    }

    /// What functions are called.
    pub fn symbols(&self) -> &Symbols {
        &self.symbols
    }

    /// What was odd about the marks so far.
    pub fn trouble(&self) -> Trouble {
        self.tracker.trouble
    }

    fn over(&mut self, message: &Message) {
        let Some(latency_ns) = message.latency_ns() else { return };
        self.latency.add(latency_ns);
        if message.is_watched {
            self.watched += 1;
            for (cause, ns) in crate::cause::Cause::ALL.into_iter().zip(message.shares.values()) {
                self.causes.add(cause, *ns);
            }
        }
        let slow = self.current.take(message, latency_ns);
        let tid = message.threads.first().copied().unwrap_or(0);
        self.unnamed.push(Unnamed { id: message.id, tid, latency_ns, slow });
    }

    /// Says of the messages that are over what they are called.
    fn name(&mut self, moment: &mut Moment<'_>) {
        moment.said(&mut |id, text| {
            let kind = self.kinds.of_text(text);
            self.labels.say(id, (kind, Some(text.into())));
        });
        moment.related(&mut |id, relation| self.relations.say(id, (relation.parent, relation.identity)));
        let names = moment.names();
        for Unnamed { id, tid, latency_ns, slow } in self.unnamed.drain(..) {
            let (kind, text) = self.labels.take(id).unwrap_or_else(|| (self.kinds.of_thread(names.thread_name(tid)), None));
            let related = self.relations.take(id);
            if let Some(slow) = slow.and_then(|number| self.current.slow.get_mut(&number)) {
                (slow.kind, slow.text) = (kind, text);
                (slow.parent, slow.identity) = related.unwrap_or_default();
            }
            self.current.kind(kind, latency_ns);
        }
    }

    /// Has functions where there were addresses.
    fn place(&mut self, slice: &mut Slice, moment: &mut Moment<'_>) {
        if self.symbols.addresses() > MAX_ADDRESSES {
            self.symbols.forget_addresses();
        }
        // Programs that make ever new functions: it begins anew, since what is over has the old numbers.
        if self.symbols.len() > MAX_ADDRESSES {
            self.symbols = Symbols::new([]);
            self.slices.clear();
        }
        let new: Vec<(u32, u64)> = self.addresses.keys().copied().filter(|address| !self.symbols.knows(*address)).collect();
        if !new.is_empty() {
            moment.functions(&new).into_iter().for_each(|(address, function)| self.symbols.learn(address, function));
        }
        let mut by_number = vec![0; self.addresses.len() + 1];
        for ((pid, ip), number) in self.addresses.drain() {
            by_number[number as usize] = self.symbols.function(pid, ip);
        }
        slice.renumber(|number| by_number.get(number as usize).copied().unwrap_or(0));
    }
}

impl Audience for Live {
    fn row(&mut self, row: &Row) -> Result<()> {
        let Self { addresses, unplaced, .. } = self;
        let record = Record::of(row, |pid, ip| {
            let next = addresses.len() as u32 + 1;
            let address = Symbols::address(pid, ip);
            if next as usize > MAX_ADDRESSES && !addresses.contains_key(&address) {
                *unplaced += 1;
                return 0;
            }
            *addresses.entry(address).or_insert(next)
        });
        let mut tracker = std::mem::take(&mut self.tracker);
        tracker.take(&record, &mut |message| self.over(message));
        self.tracker = tracker;
        Ok(())
    }

    fn looked(&mut self, moment: &mut Moment<'_>) -> Result<()> {
        self.name(moment);
        if moment.is_on {
            self.current.on_ns += moment.now_ns.saturating_sub(self.looked_ns.max(self.current.from_ns));
        }
        self.looked_ns = moment.now_ns;
        moment.gone(&mut |tid| self.tracker.gone(tid));
        Ok(())
    }
}

#[cfg(test)]
mod tests;
