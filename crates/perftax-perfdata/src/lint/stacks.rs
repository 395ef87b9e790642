//! Call stacks that end too early.

use std::collections::{BTreeMap, HashMap};

use perftax_pmu::record::{Context, Sample};

use super::check::{Check, Judgement, Rule, Unit, Whole};
use crate::recording::attribute::sample_type as bit;
use crate::recording::{Order, SeenSample};
use perftax_doc::words::{count, share};

#[derive(Default)]
pub(super) struct Stacks {
    /// Samples that have a stack of user mode.
    stacks: u64,
    /// Chains of one user frame: what is called has no frame pointer.
    lone: u64,
    /// Chains of as many frames as their event allows; others by their length, of the system's limit and more.
    full: u64,
    long: BTreeMap<usize, u64>,
    /// Copies of the stack that end below where the thread's stack is known to go on.
    cut: u64,
    /// The highest stack pointer of each thread.
    top: HashMap<u32, u64>,
    /// Samples of another byte order, or damaged.
    unread: u64,
}

static RULE: Rule = Rule {
    name: "stacks",
    measures: "stacks that end too early, of all user stacks",
    unit: Unit::Share,
    warning: Some(0.05),
    error: Some(0.5),
    source: "perf_callchain_user follows frame pointers; kernel.perf_event_max_stack is 127; --call-graph dwarf,SIZE copies SIZE bytes",
};

/// kernel.perf_event_max_stack where the event asks for no other.
const MAX_CHAIN: usize = 127;
const MAX_THREADS: usize = 1 << 12;
/// Fewer stacks are no pattern.
const MIN_STACKS: u64 = 50;

impl Check for Stacks {
    fn rule(&self) -> &'static Rule {
        &RULE
    }

    fn sees_samples(&self) -> bool {
        true
    }

    fn sample(&mut self, sample: &SeenSample<'_>) {
        let has = |bits: u64| sample.attribute.samples(bits);
        if !has(bit::CALLCHAIN) && !has(bit::STACK_USER) {
            return;
        }
        if let Some(at) = sample.chain_at().filter(|_| !has(bit::STACK_USER)) {
            return self.chained(sample, at);
        }
        let Some(decoded) = sample.decoded().ok().flatten().filter(|_| sample.order == Order::native()) else {
            self.unread += 1;
            return;
        };
        if has(bit::STACK_USER) {
            self.copied(&decoded, sample);
        } else {
            self.followed(decoded.callchain.iter().flat_map(|chain| chain.entries.iter()), sample.attribute.max_stack);
        }
    }

    fn judge(&self, whole: &Whole<'_>) -> Judgement {
        let has_stacks = |event: &crate::recording::EventCounts| {
            event.attribute.samples(bit::CALLCHAIN) || event.attribute.samples(bit::STACK_USER)
        };
        if !whole.recording.events.iter().any(has_stacks) {
            return Judgement::none("no stacks recorded");
        }
        if self.stacks < MIN_STACKS {
            return match self.unread > 0 {
                true => Judgement::unknown("stacks of another byte order, or damaged, are not read"),
                false => Judgement::none(format!("{} user stacks", count(self.stacks))),
            };
        }
        // Where the system's limit was raised, it is the longest there is, and many are as long.
        let longest = self
            .long
            .last_key_value()
            .map_or(0, |(frames, chains)| if *frames == MAX_CHAIN || *chains >= 10 { *chains } else { 0 });
        let full = self.full + longest;
        let arch = whole.recording.features.arch.as_str();
        if !arch.is_empty() && arch != std::env::consts::ARCH && !self.top.is_empty() {
            return Judgement::unknown("copies of stacks of another architecture are not read");
        }
        let of = |many: u64| many as f64 / self.stacks as f64;
        let (evidence, remedy) = if self.cut >= self.lone.max(full) {
            (
                format!(
                    "{} of {} copies of the stack end below where the thread's stack goes on",
                    count(self.cut),
                    count(self.stacks)
                ),
                "a larger copy: perf record --call-graph dwarf,65528",
            )
        } else if full >= self.lone {
            (
                format!("{} of {} call chains have as many frames as fit", count(full), count(self.stacks)),
                "a higher limit: sudo sysctl kernel.perf_event_max_stack=512 (it was 127 where none was set), or without /max-stack=N/",
            )
        } else {
            (
                format!("{} of {} call chains end at their first user frame", count(self.lone), count(self.stacks)),
                "build with -fno-omit-frame-pointer, or perf record --call-graph dwarf",
            )
        };
        let bad = (self.lone + full + self.cut).min(self.stacks);
        Judgement::measured(
            of(bad),
            format!("{evidence} ({})", share(of(bad))),
            "callers are missing: totals by caller are too small, and flame graphs fall apart into stumps",
            remedy,
        )
    }
}

impl Stacks {
    /// What the kernel copied, for another to unwind.
    fn copied(&mut self, sample: &Sample<'_>, seen: &SeenSample<'_>) {
        let Some(stack) = sample.user_stack.filter(|stack| !stack.valid.is_empty()) else { return };
        let pointer = sample.user_registers.and_then(|registers| registers.get(STACK_POINTER?));
        let (Some(pointer), Some(task)) = (pointer, sample.task) else { return };
        self.stacks += 1;
        let known = self.top.len() < MAX_THREADS || self.top.contains_key(&task.tid);
        let top = if known { self.top.entry(task.tid).or_default() } else { return };
        // A pointer that far above is another stack's (a signal's, a coroutine's).
        const MAX_STACK_BYTES: u64 = 8 << 20;
        let end = pointer.saturating_add(stack.valid.len() as u64);
        let is_whole_copy = stack.valid.len() as u64 + 8 >= u64::from(seen.attribute.stack_user_bytes);
        self.cut += u64::from(is_whole_copy && end < *top && *top - pointer < MAX_STACK_BYTES);
        *top = pointer.max(*top);
    }

    /// What the kernel followed by frame pointers.
    fn chained(&mut self, sample: &SeenSample<'_>, at: usize) {
        let order = sample.order;
        let Some(entries) = order.u64(sample.body, at).and_then(|entries| usize::try_from(entries).ok()) else { return };
        let bytes = entries.checked_mul(8).and_then(|bytes| sample.body.get(at + 8..(at + 8).checked_add(bytes)?));
        let Some(bytes) = bytes else {
            self.unread += 1;
            return;
        };
        self.followed(bytes.chunks_exact(8).filter_map(|entry| order.u64(entry, 0)), sample.attribute.max_stack);
    }

    /// The entries of a chain, markers with them.
    fn followed(&mut self, entries: impl Iterator<Item = u64>, max_stack: u16) {
        let (mut frames, mut user, mut context) = (0, 0, Context::Unknown);
        for entry in entries {
            match Context::from_marker(entry) {
                Some(marked) => context = marked,
                None => {
                    frames += 1;
                    user += u64::from(context == Context::User);
                }
            }
        }
        if user == 0 {
            return;
        }
        self.stacks += 1;
        self.lone += u64::from(user == 1);
        if max_stack > 0 {
            self.full += u64::from(frames >= usize::from(max_stack));
        } else if frames >= MAX_CHAIN {
            *self.long.entry(frames).or_default() += 1;
        }
    }
}

/// Number of the stack pointer among the registers of a sample (`asm/perf_regs.h`).
const STACK_POINTER: Option<u32> = if cfg!(target_arch = "x86_64") {
    Some(7)
} else if cfg!(target_arch = "aarch64") {
    Some(31)
} else {
    None
};
