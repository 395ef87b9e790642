//! From samples to watched lines: which line the debug registers watch, and for how long.

use rustc_hash::FxHashMap;

use crate::access::{Access, Kind, Thread};
use crate::access_table::{AccessTable, Words};
use crate::evidence::{Evidence, Fetching};
use crate::line::{Bytes, Line};
use crate::registers::{words_for, words_for_all, words_for_owner};
use crate::watch_episode::{End, IdleTimeout, WatchEpisode};

/// How lines are followed.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Debug registers of each thread (x86 has 4, SDM volume 3, 18.2.1).
    pub registers: u32,
    /// Stores that a line is followed for, the sampled one included.
    pub stores: u32,
    /// How long a line is followed where nothing traps.
    pub patience: IdleTimeout,
    /// Whether the registers of all threads watch the same words, as where they are set for all at once. Who sets them so also says when a
    /// line is left ([`LineWatcher::end`]).
    pub is_common: bool,
    /// Whether registers are armed before anything can happen after a sample: in a simulation they are.
    pub at_once: bool,
    /// Seed of everything drawn.
    pub seed: u64,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            registers: 4,
            stores: 8,
            patience: IdleTimeout { least: 16, most: 1024 },
            is_common: false,
            at_once: false,
            seed: 1,
        }
    }
}

/// What a thread's registers watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Aim {
    /// Words of the followed line.
    pub words: Words,
    /// Loads do not trap: the thread has the line as it was last written.
    pub writes_only: bool,
}

/// A debug register fired.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trap {
    /// Whose.
    pub thread: Thread,
    /// The line.
    pub line: Line,
    /// Words whose registers fired.
    pub words: Words,
    /// The instruction.
    pub ip: u64,
    /// What it does.
    pub kind: Kind,
}

/// Takes samples and traps, and says what to watch.
#[derive(Debug)]
pub struct LineWatcher {
    settings: Settings,
    threads: Vec<Thread>,
    board: AccessTable,
    rng: fastrand::Rng,
    following: Option<Following>,
    evidence: Evidence,
    /// How often a line was followed without anybody but its owner touching it.
    private: FxHashMap<Line, u32>,
}

/// The line that is watched now.
#[derive(Debug)]
struct Following {
    follow: WatchEpisode,
    /// By thread.
    aims: Vec<Option<Words>>,
    /// Samples since the last trap that told something.
    idle: u32,
    /// Samples without a trap after which it is left.
    patience: u32,
}

impl LineWatcher {
    /// Nothing is watched yet.
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            threads: Vec::new(),
            board: AccessTable::default(),
            rng: fastrand::Rng::with_seed(settings.seed),
            following: None,
            evidence: Evidence::default(),
            private: FxHashMap::default(),
        }
    }

    /// A thread is there; whatever is followed is watched for it, too.
    pub fn thread_started(&mut self, thread: Thread) {
        if self.threads.contains(&thread) {
            return;
        }
        self.threads.push(thread);
        if let Some(mut following) = self.following.take() {
            if !self.settings.is_common {
                self.aim(&mut following, thread, Words::default());
            }
            self.following = Some(following);
        }
    }

    /// A thread is gone.
    pub fn thread_ended(&mut self, thread: Thread) {
        self.threads.retain(|other| *other != thread);
    }

    /// The line that is watched.
    #[inline]
    pub fn followed(&self) -> Option<Line> {
        self.following.as_ref().map(|following| following.follow.line)
    }

    /// Follows so far, the one that goes on included.
    pub fn follows(&self) -> usize {
        self.evidence.follows.len() + usize::from(self.following.is_some())
    }

    /// What a thread's registers are to watch; none: nothing.
    pub fn aim_of(&self, thread: Thread) -> Option<Aim> {
        let following = self.following.as_ref()?;
        let words = following.aims.get(thread as usize).copied().flatten().unwrap_or(following.follow.common);
        Some(Aim { words, writes_only: following.follow.is_fresh(thread) })
    }

    /// Samples without a trap after which the line is to be left.
    pub fn patience(&self) -> u32 {
        self.following.as_ref().map_or(0, |following| following.patience)
    }

    /// So many more samples came without a trap, where traps are handed on later.
    pub fn idled(&mut self, samples: u32) {
        if let Some(following) = &mut self.following {
            following.idle += samples;
        }
    }

    /// Stores that must trap before the line is left.
    pub fn wanted(&self) -> u64 {
        self.following.as_ref().map_or(0, |following| following.follow.wanted(self.settings.stores))
    }

    /// What the registers of all threads are to watch, where they watch the same.
    pub fn common_aim(&self) -> Option<(Line, Words)> {
        self.following.as_ref().map(|following| (following.follow.line, following.follow.common))
    }

    /// A sampled access. Whether what is to be watched has changed.
    pub fn sample(&mut self, access: &Access) -> bool {
        self.board.sampled(access);
        self.evidence.sampled(access);
        let mut changed = false;
        if let Some(following) = self.following.as_mut().filter(|_| !self.settings.is_common) {
            following.idle += 1;
            if following.idle > following.patience || following.follow.is_settled(following.idle) {
                self.end(End::Silent);
                changed = true;
            }
        }
        if access.kind.is_store() {
            if self.following.is_some() {
                self.evidence.busy += 1;
            } else if self.is_worth(access.line) {
                self.begin(access);
                changed = true;
            } else {
                self.evidence.known_private += 1;
            }
        }
        changed
    }

    /// A sampled access that is not to be followed, whatever it names.
    pub fn pass(&mut self, access: &Access) {
        self.board.sampled(access);
        self.evidence.sampled(access);
        self.evidence.busy += u64::from(access.kind.is_store());
    }

    /// A sampled load that took long, and whether it fetched the line out of another core's cache.
    pub fn took_long(&mut self, load: &Access, has_fetched: bool) {
        let fetches = self.evidence.fetches.get_or_insert_default();
        fetches.samples += 1;
        if has_fetched {
            fetches.loads.push(Fetching { access: *load, sample: self.evidence.progress.samples() });
            self.board.sampled(load);
        }
    }

    /// A sampled store that missed the first-level cache; where it is followed, too, [`Self::sample`] is told besides.
    pub fn missed(&mut self, store: &Access) {
        let sample = self.evidence.progress.samples();
        self.evidence.fetches.get_or_insert_default().stores.push(Fetching { access: *store, sample });
    }

    /// A line that was found private again and again is followed less and less often: what it shares is a mean over its follows, which
    /// does not depend on how many there are.
    fn is_worth(&mut self, line: Line) -> bool {
        let private = self.private.get(&line).copied().unwrap_or(0);
        private == 0 || self.rng.u32(0..=private) == 0
    }

    fn begin(&mut self, store: &Access) {
        let Settings { stores, at_once, .. } = self.settings;
        let patience = self.settings.patience.early(self.evidence.stores());
        let follow =
            WatchEpisode::new(store, self.evidence.stores().saturating_sub(1), at_once, self.rng.u32(0..stores.max(1)), patience);
        let patience = patience.draw(&mut self.rng);
        let mut following = Following { follow, aims: Vec::new(), idle: 0, patience };
        let sampled = Words::of(store.bytes);
        if self.settings.is_common {
            let registers = self.settings.registers;
            following.follow.common = words_for_all(&self.board, store.line, sampled, registers, &mut self.rng);
        } else {
            self.threads.clone().into_iter().for_each(|thread| self.aim(&mut following, thread, sampled));
        }
        self.following = Some(following);
    }

    fn aim(&mut self, following: &mut Following, thread: Thread, sampled: Words) {
        let line = following.follow.line;
        let registers = self.settings.registers;
        let words = if thread == following.follow.owner {
            words_for_owner(&self.board, line, thread, sampled, registers, &mut self.rng)
        } else {
            words_for(&self.board, line, thread, sampled, registers, &mut self.rng)
        };
        let at = thread as usize;
        if following.aims.len() <= at {
            following.aims.resize(at + 1, None);
        }
        following.aims[at] = Some(words);
        following.follow.watched.push((thread, words));
    }

    /// A register fired. Whether what is to be watched has changed.
    pub fn trap(&mut self, trap: &Trap) -> bool {
        if self.followed() != Some(trap.line) {
            // Of a line that is no longer followed: it was on its way.
            self.evidence.stray += 1;
            return false;
        }
        let watched = trap.words.bytes();
        // A trap names a word; where a sample of the same instruction told the bytes, or it touches more than a word, they are known.
        let known = self.board.bytes_of(trap.line, trap.ip, watched);
        let bytes = known.unwrap_or(watched);
        self.seen(&Access { thread: trap.thread, line: trap.line, bytes, kind: trap.kind, ip: trap.ip });
        true
    }

    /// An access to the line that is followed, by a trap that told its bytes. In the order of time.
    pub fn seen(&mut self, access: &Access) {
        let Some(following) = self.following.as_mut().filter(|following| following.follow.line == access.line) else {
            self.evidence.stray += 1;
            return;
        };
        self.board.trapped(access);
        // A thread that reads the line again and again does not keep it from being left.
        let is_telling = access.kind.is_store() || !following.follow.is_fresh(access.thread);
        let idle = if is_telling { std::mem::take(&mut following.idle) } else { 0 };
        following.follow.take(access.thread, access.kind, access.bytes, idle);
        if following.follow.stores() >= following.follow.wanted(self.settings.stores) {
            self.end(End::Full);
        }
    }

    /// The line is watched no more.
    pub fn end(&mut self, end: End) {
        let Some(following) = self.following.take() else { return };
        let mut follow = following.follow;
        follow.end = end;
        if !follow.tells() {
            self.evidence.cut += 1;
            self.evidence.stray += follow.traps;
            return;
        }
        if follow.is_shared() {
            self.private.remove(&follow.line);
        } else if end == End::Full || follow.traps == 0 {
            // One that was left early says little: were its line followed less often for that, lines of which the first store that was drawn
            // was followed by a transfer would weigh too much, and others too little.
            *self.private.entry(follow.line).or_default() += 1;
        }
        self.evidence.follows.push(follow);
    }

    /// The program has ended.
    pub fn finish(mut self) -> (Evidence, AccessTable) {
        self.end(End::Cut);
        (self.evidence, self.board)
    }
}

/// The words of a line that an access touches, and how the access shows in the registers that watch some of them; none: it does not.
pub fn trapped(aim: Aim, bytes: Bytes, kind: Kind) -> Option<Words> {
    let words = Words(aim.words.0 & Words::of(bytes).0);
    (words.count() > 0 && (kind.is_store() || !aim.writes_only)).then_some(words)
}
