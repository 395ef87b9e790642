//! The tracker: marks, samples and the kernel's records in, in order of time; messages out, each when it is over.
//!
//! It holds what is under way and no more, so the same one serves a recording that runs and a trace of any length.

mod cpus;
mod thread;
mod unread;
mod window;
mod worked;

use std::sync::Arc;

use rustc_hash::FxHashMap;

use crate::cause::Cause;
use crate::executed::Reading;
use crate::kernel::{Interruption, KernelEvent, What};
use crate::kinds::Kinds;
use crate::mark::{Kind, Mark};
use crate::message::{Hit, Message, Trouble, Waker, Waking};
use crate::register::SLACK_NS;
use crate::row::Row;
use crate::spot::Spot;
use crate::timeline::Timeline;
use cpus::Cpus;
pub use thread::Activity;
use thread::{Thread, Threads};

/// A sample, with its function found already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampled {
    /// When.
    pub time_ns: u64,
    /// The thread.
    pub tid: u32,
    /// The function's number.
    pub function: u32,
}

/// A sample of an event that is counted, with its function found already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counted {
    /// When.
    pub time_ns: u64,
    /// The thread.
    pub tid: u32,
    /// What and where.
    pub spot: Spot,
}

/// What the tracker is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Record {
    /// The program said something.
    Mark(Mark),
    /// The kernel did something.
    Kernel(KernelEvent),
    /// A sample was taken.
    Sample(Sampled),
    /// An event that is counted happened, the so-many-th.
    Counted(Counted),
    /// What a thread has executed.
    Executed(Reading),
}

impl Record {
    /// From a row: `function` numbers the function at an address of a process.
    pub fn of(row: &Row, function: impl FnOnce(u32, u64) -> u32) -> Self {
        match row {
            Row::Mark(mark) => Self::Mark(*mark),
            Row::Kernel(event) => Self::Kernel(*event),
            Row::Sample(sample) => {
                let function = function(sample.pid, sample.ip);
                Self::Sample(Sampled { time_ns: sample.time_ns, tid: sample.tid, function })
            }
            Row::Event(row) => {
                let spot = Spot { event: row.event.into(), function: function(row.pid, row.ip), object: row.object.into() };
                Self::Counted(Counted { time_ns: row.time_ns, tid: row.tid, spot })
            }
            Row::Executed(reading) => Self::Executed(*reading),
        }
    }

    /// When.
    pub fn time_ns(&self) -> u64 {
        match self {
            Self::Mark(mark) => mark.time_ns,
            Self::Kernel(event) => event.time_ns,
            Self::Sample(sample) => sample.time_ns,
            Self::Counted(counted) => counted.time_ns,
            Self::Executed(reading) => reading.time_ns,
        }
    }
}

/// From one page fault to the next, ns: so long takes the kernel's way out of one and into the other, which lies outside of what it tells of
/// them (0.7 µs on a 6.18 guest, with what recording takes). A program does little in between.
const FAULT_TO_FAULT_NS: u64 = 1000;

/// From a waking to the record that its thread has left its CPU, ns: in between it is told awake, though it sleeps (kernel/sched/core.c, try_to_wake_up, `on_cpu`).
const LEAVING_NS: u64 = 5000;

/// Messages that are under way at once; where there are so many, they are taken to be such as never end.
const MAX_UNDER_WAY: usize = 1 << 20;

/// A message's place among those under way; used again when it is over.
type Key = u32;

/// A message's place.
struct Slot {
    message: Message,
    /// Tells messages apart that had the same place one after the other.
    serial: u64,
}

/// Who is at what.
#[derive(Default)]
pub struct Tracker {
    threads: Threads,
    cpus: Cpus,
    slots: Vec<Slot>,
    free: Vec<Key>,
    under_way: FxHashMap<u64, Key>,
    serial: u64,
    /// What messages and threads are called together; nothing where nobody asks by kind.
    kinds: Arc<Kinds>,
    /// What all threads were at, where somebody wants to know.
    timeline: Option<Box<Timeline>>,
    /// What was odd so far.
    pub trouble: Trouble,
    /// Samples taken while a thread worked on some message.
    pub samples: u64,
    last_ns: u64,
    /// Recording is off.
    is_paused: bool,
    /// With all that says when messages begin and end: what comes yet is of none.
    is_blind: bool,
    resumed_ns: u64,
}

impl Tracker {
    /// One that knows what messages and threads are called together.
    pub fn knowing(kinds: Arc<Kinds>) -> Self {
        Self { kinds, ..Self::default() }
    }

    /// Notes what all threads are at meanwhile.
    pub fn note(&mut self, timeline: Timeline) {
        self.timeline = Some(Box::new(timeline));
    }

    /// What was noted.
    pub fn noted(&mut self) -> Option<Timeline> {
        self.timeline.take().map(|timeline| *timeline)
    }

    /// Takes the next record; hands messages that are over to `out`. A record that is older than the one before counts as of then.
    pub fn take(&mut self, record: &Record, out: &mut dyn FnMut(&Message)) {
        let time_ns = record.time_ns();
        self.trouble.late += u64::from(time_ns < self.last_ns);
        self.last_ns = self.last_ns.max(time_ns);
        let now_ns = self.last_ns;
        match *record {
            Record::Mark(mark) => self.mark(&Mark { time_ns: now_ns, ..mark }, out),
            Record::Kernel(event) => self.kernel(&KernelEvent { time_ns: now_ns, ..event }, out),
            Record::Sample(sample) => self.sample(&Sampled { time_ns: now_ns, ..sample }, out),
            Record::Counted(counted) => self.counted(&Counted { time_ns: now_ns, ..counted }),
            Record::Executed(reading) => self.executed(&Reading { time_ns: now_ns, ..reading }, out),
        }
    }

    /// The end: hands out what waited, and what never ended.
    pub fn finish(&mut self, out: &mut dyn FnMut(&Message)) {
        let now_ns = self.last_ns;
        for tid in self.threads.tids() {
            self.settle(tid, now_ns);
            self.release_all(tid, out);
        }
        self.trouble.never_ended += self.let_go(now_ns, out);
    }

    /// Hands out what is under way, in the order in which it began, with no end. Returns how many that were.
    fn let_go(&mut self, now_ns: u64, out: &mut dyn FnMut(&Message)) -> u64 {
        let mut left: Vec<Key> = self.under_way.drain().map(|(_, key)| key).collect();
        left.sort_unstable_by_key(|key| self.slots[*key as usize].serial);
        for key in &left {
            self.leave(*key, now_ns);
            self.emit(*key, out);
        }
        left.len() as u64
    }

    /// What was recorded of each thread.
    pub fn activities(&self) -> impl Iterator<Item = (u32, Activity)> {
        self.threads.activities()
    }

    /// A thread has ended long ago: nothing more is heard of it.
    pub fn gone(&mut self, tid: u32) {
        self.threads.forget(tid);
    }

    /// Messages that began and have not been handed out.
    pub fn waiting(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// When the oldest message that has not been handed out began.
    pub fn oldest_ns(&self) -> Option<u64> {
        let waiting = self.threads.iter().flat_map(|thread| &thread.window.pending).chain(self.under_way.values());
        waiting.map(|key| self.slots[*key as usize].message.begin_ns).min()
    }

    fn mark(&mut self, mark: &Mark, out: &mut dyn FnMut(&Message)) {
        let Mark { time_ns: now_ns, tid, id, kind } = *mark;
        if self.is_blind {
            return;
        }
        self.seen(tid, now_ns, out);
        self.threads.of(tid, now_ns).activity.marks += 1;
        match kind {
            Kind::Begin => {
                if let Some(old) = self.under_way.get(&id).copied() {
                    self.trouble.reused += 1;
                    self.trouble.never_ended += 1;
                    self.leave(old, now_ns);
                    self.emit(old, out);
                }
                if self.under_way.len() >= MAX_UNDER_WAY {
                    self.trouble.never_ended += self.let_go(now_ns, out);
                }
                let key = self.begin(id, now_ns);
                self.turn(tid, now_ns, |stack| stack.push(key));
                self.slots[key as usize].message.threads.push(tid);
            }
            Kind::End => {
                let Some(key) = self.under_way.remove(&id) else {
                    self.trouble.ended_without_begin += 1;
                    return;
                };
                self.leave(key, now_ns);
                self.attend(key, tid, now_ns);
                self.end(key, now_ns);
                let waits =
                    |tid: &u32| self.threads.get(*tid).is_some_and(|thread| thread.window.knows(key) || thread.unread.waits(key));
                match self.slots[key as usize].message.threads.iter().copied().find(|tid| waits(tid)) {
                    Some(tid) => self.wait_for(tid, key, out),
                    None => self.emit(key, out),
                }
            }
            Kind::Wake => self.let_go_on(id, tid, now_ns),
            Kind::Switch => {
                let key = self.under_way.get(&id).copied();
                self.trouble.switched_to_unknown += u64::from(id != 0 && key.is_none());
                self.turn(tid, now_ns, |stack| {
                    stack.clear();
                    stack.extend(key);
                });
                if let Some(key) = key {
                    let threads = &mut self.slots[key as usize].message.threads;
                    if !threads.contains(&tid) {
                        threads.push(tid);
                    }
                }
            }
        }
    }

    fn kernel(&mut self, event: &KernelEvent, out: &mut dyn FnMut(&Message)) {
        let KernelEvent { time_ns: now_ns, cpu, tid, what } = *event;
        // Of what a CPU does while it idles only whom it wakes, and who comes, belongs to a thread. TLB entries are flushed for who comes
        // while the one that has left is still the current one (arch/x86/mm/tlb.c, switch_mm_irqs_off).
        if tid != 0 && !matches!(what, What::TlbFlush(_)) {
            self.seen(tid, now_ns, out);
        }
        if let Some(thread) = self.threads.get_mut(tid) {
            thread.activity.records += 1;
        }
        match what {
            What::Switch { is_runnable, next } => {
                self.cpus.switch(cpu, tid, next, now_ns);
                if tid != 0 {
                    let thread = self.settle(tid, now_ns);
                    thread.interruptions.clear();
                    let woken = thread.woken.take().filter(|(woken_ns, _)| now_ns - woken_ns < LEAVING_NS);
                    thread.off = Some(match (is_runnable, woken) {
                        (true, _) => (Cause::Preempted, next),
                        (false, Some(_)) => (Cause::Runnable, 0),
                        (false, None) => (Cause::Blocked, thread.waits_in()),
                    });
                    thread.cpu = Some(cpu);
                }
                if next != 0 {
                    self.waited(next, cpu, now_ns);
                    self.seen(next, now_ns, out);
                    self.come(next, now_ns, out);
                }
            }
            What::Wakeup { tid: woken } => self.wake(woken, tid, now_ns),
            What::Migrate { tid, to } => {
                // Until now it waited for the CPU that it was on.
                if let Some(before) = self.threads.get_mut(tid).and_then(|thread| std::mem::replace(&mut thread.cpu, to)) {
                    self.waited(tid, before, now_ns);
                }
                if let Some(key) = self.threads.get(tid).and_then(|thread| thread.stack.last()) {
                    let message = &mut self.slots[*key as usize].message;
                    (message.migrations, message.stints) = (message.migrations + 1, message.stints + 1);
                }
            }
            What::Paused | What::Blind => {
                self.forget(now_ns, out);
                self.is_paused = true;
                if what == What::Blind {
                    self.is_blind = true;
                    self.trouble.cut_off += self.let_go(now_ns, out);
                }
            }
            What::Resumed => {
                self.forget(now_ns, out);
                (self.is_paused, self.is_blind, self.resumed_ns) = (false, false, now_ns);
            }
            _ if tid == 0 => {}
            What::Enter(interruption, which) => {
                self.settle(tid, now_ns).interruptions.push((interruption, which));
            }
            What::Exit(interruption, _) => {
                let stack = &mut self.settle(tid, now_ns).interruptions;
                // An exit without its entry, where a record was lost or recording began in between, ends nothing.
                if let Some(at) = stack.iter().rposition(|(other, _)| *other == interruption) {
                    stack.truncate(at);
                }
            }
            What::SyscallEnter(number) => {
                let thread = self.settle(tid, now_ns);
                (thread.syscall, thread.in_fault) = (Some(number), false);
            }
            What::SyscallExit(_) => {
                let thread = self.settle(tid, now_ns);
                (thread.syscall, thread.in_fault) = (None, false);
            }
            What::FaultEnter => {
                let thread = self.threads.of(tid, now_ns);
                // Nothing else was heard of it since the last one.
                thread.in_fault |= thread.fault_left_ns == Some(thread.since_ns) && now_ns <= thread.since_ns + FAULT_TO_FAULT_NS;
                let thread = self.settle(tid, now_ns);
                thread.in_fault = true;
                if let Some(key) = thread.stack.last().copied() {
                    self.slots[key as usize].message.faults += 1;
                }
            }
            What::FaultExit => {
                let thread = self.settle(tid, now_ns);
                (thread.in_fault, thread.fault_left_ns) = (false, Some(now_ns));
            }
            What::Ran(ran_ns) => {
                self.settle(tid, now_ns).activity.ran_ns += ran_ns;
                self.close_window(tid, now_ns, ran_ns);
                self.release(tid, out);
            }
            What::Nmi(ns) => {
                // It is told at its end. Time that has been accounted for stays as it is.
                self.settle(tid, now_ns.saturating_sub(ns));
                self.threads.of(tid, now_ns).interruptions.push((Interruption::Vector, Interruption::NMI));
                self.settle(tid, now_ns);
                self.threads.of(tid, now_ns).interruptions.pop();
            }
            What::TlbFlush(_) => {
                if let Some((Interruption::Vector, which)) = self.threads.of(tid, now_ns).interruptions.last_mut() {
                    *which = Interruption::VECTORS.len() as u32;
                }
            }
        }
    }

    fn sample(&mut self, sample: &Sampled, out: &mut dyn FnMut(&Message)) {
        let Sampled { time_ns, tid, function } = *sample;
        if tid == 0 {
            return;
        }
        let mut thread = self.threads.of(tid, time_ns);
        // Hardware's samples have a clock of their own: one that seems to come just after the thread left its CPU is one of before.
        if thread.off.is_some() && time_ns >= thread.since_ns.saturating_add(SLACK_NS) {
            self.seen(tid, time_ns, out);
            thread = self.threads.of(tid, time_ns);
        }
        thread.activity.samples += 1;
        if thread.off.is_none() {
            thread.settle(tid, time_ns, &mut self.slots, self.timeline.as_deref_mut());
        }
        let cause = thread.beneath().0;
        if let Some(key) = thread.stack.last().copied() {
            self.samples += 1;
            let message = &mut self.slots[key as usize].message;
            match message.hits.len() < Message::MAX {
                true => message.hits.push(Hit { time_ns, tid, function, cause }),
                false => message.left_out += 1,
            }
        }
    }

    /// It is the message's that its thread is at.
    fn counted(&mut self, counted: &Counted) {
        let Counted { tid, spot, .. } = *counted;
        let Some(key) = self.threads.get(tid).and_then(|thread| thread.stack.last()) else { return };
        *self.slots[*key as usize].message.events.entry(spot).or_default() += 1;
    }

    /// What was executed since the last reading is told of the messages that the thread was at.
    fn executed(&mut self, reading: &Reading, out: &mut dyn FnMut(&Message)) {
        let Reading { tid, time_ns: now_ns, .. } = *reading;
        self.settle(tid, now_ns);
        let Self { threads, slots, .. } = self;
        let thread = threads.of(tid, now_ns);
        let at = thread.stack.last().map(|key| (*key, slots[*key as usize].serial));
        thread.unread.read(reading, at, slots);
        // What the kernel's word is still to come of waits for that.
        let Thread { window, .. } = thread;
        let ready = if window.pending.is_empty() { Vec::new() } else { window.without_word() };
        ready.into_iter().for_each(|key| self.emit_read(key, out));
    }

    /// What threads were at is not known any more; what waited for the kernel's word does not get it.
    fn forget(&mut self, now_ns: u64, out: &mut dyn FnMut(&Message)) {
        self.cpus.forget();
        for tid in self.threads.tids() {
            self.settle(tid, now_ns);
            self.release_all(tid, out);
            let thread = self.threads.of(tid, now_ns);
            let (stack, activity) = (std::mem::take(&mut thread.stack), thread.activity);
            *thread = Thread { stack, activity, ..Thread::new(now_ns) };
        }
    }

    /// Whoever is seen runs, even where the switch to it is missing: some kernels lose what happens while a CPU idles.
    fn seen(&mut self, tid: u32, now_ns: u64, out: &mut dyn FnMut(&Message)) {
        if self.threads.get(tid).is_some_and(|thread| thread.off.is_some()) {
            self.settle(tid, now_ns);
            self.come(tid, now_ns, out);
        }
    }

    /// A thread could run, and waited for a CPU: its time until now goes to who had that one.
    fn waited(&mut self, tid: u32, cpu: u32, now_ns: u64) {
        let Self { threads, cpus, slots, timeline, .. } = self;
        let Some(thread) = threads.get_mut(tid) else { return };
        let Some((cause @ (Cause::Preempted | Cause::Runnable), _)) = thread.off else { return };
        for (holder, from_ns, until_ns) in cpus.held(cpu, thread.since_ns, now_ns) {
            // Of what lies before nobody knows.
            for (which, to_ns) in [(0, from_ns), (holder, until_ns)] {
                if to_ns > thread.since_ns {
                    thread.off = Some((cause, which));
                    thread.settle(tid, to_ns, slots, timeline.as_deref_mut());
                }
            }
        }
    }

    /// What a thread is at that wakes somebody.
    fn waker(&self, by: u32) -> Waker {
        let id = |thread: &Thread| thread.stack.last().map(|key| self.slots[*key as usize].message.id);
        match self.threads.get(by) {
            Some(thread) if by != 0 => thread.as_waker(by, id(thread), &self.kinds),
            _ => Waker { tid: by, id: None, at: None, kind: self.kinds.kind(by, None) },
        }
    }

    /// A message can go on from now on whose carrier is on no thread, by what a thread is at.
    fn let_go_on(&mut self, id: u64, by: u32, now_ns: u64) {
        let waker = self.waker(by);
        let Some(key) = self.under_way.get(&id) else { return };
        let wakings = &mut self.slots[*key as usize].message.wakings;
        if waker.id != Some(id) && wakings.len() < Message::MAX_WAKINGS {
            wakings.push(Waking { time_ns: now_ns, tid: 0, by: waker });
        }
    }

    /// A thread can run from now on, by what another one is at.
    fn wake(&mut self, woken: u32, by: u32, now_ns: u64) {
        let waker = self.waker(by);
        self.timeline.iter_mut().for_each(|timeline| timeline.woken(now_ns, woken, waker.tid));
        let Some(thread) = self.threads.get_mut(woken) else { return };
        match thread.off {
            Some((Cause::Blocked, _)) => {
                let thread = self.settle(woken, now_ns);
                thread.off = Some((Cause::Runnable, 0));
                if let Some(key) = thread.stack.last().copied() {
                    let wakings = &mut self.slots[key as usize].message.wakings;
                    if wakings.len() < Message::MAX_WAKINGS {
                        wakings.push(Waking { time_ns: now_ns, tid: woken, by: waker });
                    }
                }
            }
            None => thread.woken = Some((now_ns, waker)),
            _ => {}
        }
    }

    /// A thread gets a CPU.
    fn come(&mut self, tid: u32, now_ns: u64, out: &mut dyn FnMut(&Message)) {
        self.release(tid, out);
        let thread = self.threads.of(tid, now_ns);
        (thread.off, thread.woken) = (None, None);
        thread.unread.come();
        thread.since_ns = now_ns;
        thread.window.open(now_ns);
    }

    /// A thread turns to something else.
    fn turn(&mut self, tid: u32, now_ns: u64, turn: impl FnOnce(&mut Vec<Key>)) {
        self.settle(tid, now_ns);
        let Self { threads, slots, .. } = self;
        let thread = threads.of(tid, now_ns);
        // Who marks is in user mode.
        thread.in_fault = false;
        let before = thread.stack.last().copied();
        turn(&mut thread.stack);
        let after = thread.stack.last().copied();
        if before == after {
            return;
        }
        if let Some(slot) = before.and_then(|key| slots.get(key as usize)) {
            thread.worked.push(slot.message.id, thread.at_since_ns, now_ns);
        }
        thread.at_since_ns = now_ns;
        if let Some(key) = after {
            slots[key as usize].message.stints += 1;
            self.attend(key, tid, now_ns);
        }
    }

    /// A thread comes to a message: what it was at while the message was on none.
    fn attend(&mut self, key: Key, tid: u32, now_ns: u64) {
        let message = &self.slots[key as usize].message;
        let from_ns = message.attended_ns;
        if from_ns >= now_ns || message.meanwhiles.len() >= Message::MAX_WAKINGS {
            return;
        }
        let is_at =
            |other: &u32| *other != tid && self.threads.get(*other).is_some_and(|thread| thread.stack.last() == Some(&key));
        if message.threads.iter().any(is_at) {
            return;
        }
        let kind = |id: u64| self.kinds.kind(tid, Some(id));
        let meanwhile = self.threads.get(tid).and_then(|thread| thread.worked.between(tid, from_ns, now_ns, kind));
        self.slots[key as usize].message.meanwhiles.extend(meanwhile);
    }

    /// Whoever is at a message is so no longer.
    fn leave(&mut self, key: Key, now_ns: u64) {
        for at in 0..self.slots[key as usize].message.threads.len() {
            let tid = self.slots[key as usize].message.threads[at];
            if self.threads.get(tid).is_some_and(|thread| thread.stack.contains(&key)) {
                self.turn(tid, now_ns, |stack| stack.retain(|other| *other != key));
            }
        }
    }

    fn begin(&mut self, id: u64, begin_ns: u64) -> Key {
        self.serial += 1;
        let key = match self.free.pop() {
            Some(key) => key,
            None => {
                self.slots.push(Slot { message: Message::beginning(id, begin_ns), serial: 0 });
                self.slots.len() as Key - 1
            }
        };
        let slot = &mut self.slots[key as usize];
        slot.serial = self.serial;
        slot.message.restart(id, begin_ns);
        self.under_way.insert(id, key);
        key
    }

    /// What no thread did.
    fn end(&mut self, key: Key, end_ns: u64) {
        let message = &mut self.slots[key as usize].message;
        message.end_ns = Some(end_ns);
        let latency = end_ns.saturating_sub(message.begin_ns);
        let rest = latency.saturating_sub(message.shares.total());
        // Threads that are at it at once hide by their sum what nobody did.
        let is_parallel = message.threads.len() > 1 && message.left_out == 0;
        if rest > 0 || is_parallel {
            let gaps = message.fill_gaps(end_ns);
            message.shares.add(Cause::Unattended, if is_parallel { gaps } else { rest });
        }
        message.is_watched = !self.is_paused && message.begin_ns >= self.resumed_ns;
    }

    fn emit(&mut self, key: Key, out: &mut dyn FnMut(&Message)) {
        let id = self.slots[key as usize].message.id;
        if self.under_way.get(&id) == Some(&key) {
            self.under_way.remove(&id);
        }
        self.slots[key as usize].message.tell();
        out(&self.slots[key as usize].message);
        self.free.push(key);
    }

    /// Hands out what waited for the kernel to say how long the thread had run, but for what waits for its counters, too.
    fn release(&mut self, tid: u32, out: &mut dyn FnMut(&Message)) {
        let Some(thread) = self.threads.get_mut(tid).filter(|thread| !thread.window.pending.is_empty()) else { return };
        let unread = &thread.unread;
        let ready: Vec<Key> = thread.window.pending.extract_if(.., |key| !unread.waits(*key)).collect();
        ready.into_iter().for_each(|key| self.emit_read(key, out));
    }

    /// Hands out a message, unless counters of another thread that was at it are yet to be read.
    fn emit_read(&mut self, key: Key, out: &mut dyn FnMut(&Message)) {
        let waits = |tid: &u32| self.threads.get(*tid).is_some_and(|thread| thread.unread.waits(key));
        match self.slots[key as usize].message.threads.iter().copied().find(waits) {
            Some(tid) => self.wait_for(tid, key, out),
            None => self.emit(key, out),
        }
    }

    /// A message that is over waits for what is yet to be heard of a thread; where too many do, none does.
    fn wait_for(&mut self, tid: u32, key: Key, out: &mut dyn FnMut(&Message)) {
        let Some(thread) = self.threads.get_mut(tid) else { return self.emit(key, out) };
        thread.window.pending.push(key);
        if thread.window.pending.len() > window::MAX_PENDING {
            self.release_all(tid, out);
        }
    }

    /// Hands out all that waited for anything of a thread.
    fn release_all(&mut self, tid: u32, out: &mut dyn FnMut(&Message)) {
        let pending = self.threads.get_mut(tid).map(|thread| std::mem::take(&mut thread.window.pending));
        pending.unwrap_or_default().into_iter().for_each(|key| self.emit(key, out));
    }

    /// Accounts for a thread's time until now.
    fn settle(&mut self, tid: u32, now_ns: u64) -> &mut Thread {
        let thread = self.threads.of(tid, now_ns);
        thread.settle(tid, now_ns, &mut self.slots, self.timeline.as_deref_mut());
        thread
    }

    /// The kernel says how long a thread has run: what is missing was the hypervisor's.
    fn close_window(&mut self, tid: u32, now_ns: u64, ran_ns: u64) {
        let Some(thread) = self.threads.get_mut(tid) else { return };
        let slots = &mut self.slots;
        thread.window.close(now_ns, ran_ns, |silent, ns| {
            let Some(slot) = silent.key.and_then(|key| slots.get_mut(key as usize)) else { return };
            if slot.serial == silent.serial {
                slot.message.steal(tid, silent.from_ns, silent.to_ns, silent.cause, ns);
            }
        });
    }
}

#[cfg(test)]
mod tests;
