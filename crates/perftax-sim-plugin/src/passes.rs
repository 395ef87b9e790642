// SPDX-License-Identifier: GPL-2.0-or-later
//! Passes of blocks: what the translated code calls at every one of them.
//!
//! What a pass means depends on what is sampled ([`Watch`]); how it is counted, on whether the program has one thread; and a
//! block with a repeating instruction at its end needs a little more.

use std::ffi::{c_uint, c_void};
use std::ptr;

use perftax_model::Event;
use perftax_model::cache::LINE_BYTES;

use crate::api;
use crate::block::{Block, Passes};
use crate::decode::Decoded;
use crate::fixed;
use crate::state::{State, state};
use crate::threads::vcpu;
use crate::vcpu::Vcpu;

/// Registers what counts a block's passes.
pub fn watch(state: &State, tb: *mut api::Tb, block: &'static Block) {
    match (state.sampled, state.is_alone()) {
        (Some(Event::Fetches), true) => register::<Fetching, true>(tb, block),
        (Some(Event::Fetches), false) => register::<Fetching, false>(tb, block),
        (Some(Event::TakenBranches), true) => register::<Branching, true>(tb, block),
        (Some(Event::TakenBranches), false) => register::<Branching, false>(tb, block),
        (Some(Event::Instructions), true) => register::<Sampling<false>, true>(tb, block),
        (Some(Event::Instructions), false) => register::<Sampling<false>, false>(tb, block),
        (Some(_), true) => register::<Sampling<true>, true>(tb, block),
        (Some(_), false) => register::<Sampling<true>, false>(tb, block),
        (None, true) => register::<Counting, true>(tb, block),
        (None, false) if fixed::is_on() => register::<TakingTurns, false>(tb, block),
        (None, false) => register::<Counting, false>(tb, block),
    }
}

fn register<W: Watch, const ALONE: bool>(tb: *mut api::Tb, block: &'static Block) {
    let data = ptr::from_ref(block).cast_mut().cast::<c_void>();
    let on_every = |callback| {
        // SAFETY: the block is QEMU's and being translated; the data are never freed.
        unsafe { api::qemu_plugin_register_vcpu_tb_exec_cb(tb, callback, api::NO_REGS, data) };
    };
    let count_in_code = |number: &'static Passes| {
        // SAFETY: as above; neither are the numbers of blocks and repeats.
        unsafe { api::qemu_plugin_register_vcpu_tb_exec_inline(tb, api::INLINE_ADD_U64, number.as_ptr().cast(), 1) };
    };
    if block.follows.is_some() || block.repeats_last && !block.repeats_first {
        on_every(on_edge::<W, ALONE>);
    }
    if let Some(repeat) = block.repeats.filter(|_| block.repeats_first) {
        if ALONE && block.repeated_events == 0 {
            count_in_code(&repeat.passes);
        } else {
            on_every(on_repetition::<W, ALONE>);
        }
    } else if ALONE && W::COUNTS_ONLY {
        count_in_code(&block.passes);
    } else {
        on_every(on_pass::<W, ALONE>);
    }
}

/// What a pass means for the class of events that is sampled.
trait Watch {
    /// Nothing is sampled.
    const COUNTS_ONLY: bool = false;

    /// A block passes.
    fn pass(vcpu: &mut Vcpu, block: &'static Block);
}

/// Nothing is sampled.
struct Counting;

impl Watch for Counting {
    const COUNTS_ONLY: bool = true;

    #[inline(always)]
    fn pass(_: &mut Vcpu, _: &'static Block) {}
}

/// Nothing is sampled, and threads go on one after another: a turn is over after so many passes.
struct TakingTurns;

impl Watch for TakingTurns {
    #[inline(always)]
    fn pass(vcpu: &mut Vcpu, _: &'static Block) {
        vcpu.left -= 1;
        if vcpu.left < 0 {
            vcpu.left = fixed::PASSES;
            fixed::on_long_turn(vcpu.thread);
        }
    }
}

/// A class is sampled of which every pass has the same number; `TIMED` where it is not the instructions themselves, so that these
/// are counted too.
struct Sampling<const TIMED: bool>;

impl<const TIMED: bool> Watch for Sampling<TIMED> {
    #[inline(always)]
    fn pass(vcpu: &mut Vcpu, block: &'static Block) {
        if TIMED {
            vcpu.instructions += block.instructions;
        }
        vcpu.left -= block.events;
        if vcpu.left < 0 {
            act_in(vcpu, block);
        }
    }
}

#[cold]
#[inline(never)]
extern "C" fn act_in(vcpu: &mut Vcpu, block: &'static Block) {
    vcpu.act(state(), block, block.events, |n| usize::from(block.event_at[n as usize]));
}

/// Taken branches are sampled: a conditional one's outcome shows at the block that follows.
struct Branching;

impl Watch for Branching {
    #[inline(always)]
    fn pass(vcpu: &mut Vcpu, block: &'static Block) {
        if let Some(before) = vcpu.before
            && before.conditional
            && before.end != block.start
        {
            vcpu.taken += 1;
            vcpu.left -= 1;
            if vcpu.left < 0 {
                let last = before.ips.len() - 1;
                vcpu.act(state(), before, 1, |_| last);
            }
        }
        vcpu.before = Some(block);
        Sampling::<true>::pass(vcpu, block);
    }
}

/// Fetches are sampled: one where a block is jumped to or begins a line, one for each further line.
struct Fetching;

impl Watch for Fetching {
    #[inline(always)]
    fn pass(vcpu: &mut Vcpu, block: &'static Block) {
        let goes_on = vcpu.before.is_some_and(|before| before.end == block.start);
        let entered = i64::from(!goes_on || block.start.is_multiple_of(LINE_BYTES));
        let events = entered + block.further_lines;
        vcpu.fetches += events as u64;
        vcpu.before = Some(block);
        vcpu.instructions += block.instructions;
        vcpu.left -= events;
        if vcpu.left < 0 {
            let first_line = block.start / LINE_BYTES;
            let line_of = |n: i64| first_line + (n + 1 - entered) as u64;
            vcpu.act(state(), block, events, |n| block.ips.iter().position(|ip| ip / LINE_BYTES >= line_of(n)).unwrap_or(0));
        }
    }
}

/// The vCPU's and the block's data of a callback.
#[inline(always)]
fn of(index: c_uint, data: *mut c_void) -> (&'static mut Vcpu, &'static Block) {
    // SAFETY: blocks are leaked when they are translated.
    (vcpu(index), unsafe { &*data.cast::<Block>() })
}

/// Counts a pass, in the block where there is one thread, else in the thread's list; and tells what it means.
#[inline(always)]
fn pass<W: Watch, const ALONE: bool>(vcpu: &mut Vcpu, block: &'static Block) {
    if ALONE {
        block.passes.one_more();
    } else {
        vcpu.passes[block.number] += 1;
    }
    W::pass(vcpu, block);
}

/// A block passes.
extern "C" fn on_pass<W: Watch, const ALONE: bool>(index: c_uint, data: *mut c_void) {
    let (vcpu, block) = of(index, data);
    pass::<W, ALONE>(vcpu, block);
}

/// A block passes that ends in a repeating instruction, or follows one: that one is then done. If it had passes of its own that no
/// block before it announced, it was jumped to.
extern "C" fn on_edge<W: Watch, const ALONE: bool>(index: c_uint, data: *mut c_void) {
    let (vcpu, block) = of(index, data);
    if let Some(repeat) = block.follows
        && ALONE
        && repeat.has_passed_since()
        && vcpu.repeating != repeat.block.start
    {
        repeat.entries.one_more();
        W::pass(vcpu, &repeat.block);
    }
    let own = block.repeats.map_or(0, |repeat| repeat.block.start);
    let announces = !block.repeats_first || vcpu.repeating == own;
    vcpu.repeating = if announces { own } else { 0 };
}

/// A block that is a repeating instruction passes. Where that is not the instruction's first pass, one repetition has been done,
/// and no further instruction is retired. Programs fill and copy memory in this way, a pass for every word or byte.
extern "C" fn on_repetition<W: Watch, const ALONE: bool>(index: c_uint, data: *mut c_void) {
    let (vcpu, block) = of(index, data);
    if vcpu.repeating != block.start {
        vcpu.repeating = block.start;
        return pass::<W, ALONE>(vcpu, block);
    }
    for event in Decoded::REPEATED {
        vcpu.repeated[event] += u64::from(block.repetition[event]);
    }
    vcpu.left -= block.repeated_events;
    if vcpu.left < 0 {
        vcpu.act(state(), block, block.repeated_events, |_| 0);
    }
}
