// SPDX-License-Identifier: GPL-2.0-or-later
//! What QEMU calls: when a thread starts and ends, when a block is translated, and from the translated code itself.

use std::collections::HashSet;
use std::ffi::{CString, c_uint, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Mutex, OnceLock};

use perftax_model::Event;
use perftax_model::cache::{LINE_BYTES, line_of};

use crate::api;
use crate::block::Block;
use crate::decode::{Decoded, decode};
use crate::finish;
use crate::pipeline::{self, Pipeline};
use crate::state::{State, lock};
use crate::stream::Intake;
use crate::vcpu::{MOST_BLOCKS, Vcpu};

/// Threads at a time.
const MOST_VCPUS: usize = 1024;

/// The file that a fork leaves behind.
static FORK_MARK: OnceLock<CString> = OnceLock::new();
static STATE: OnceLock<State> = OnceLock::new();
static VCPUS: [AtomicPtr<Vcpu>; MOST_VCPUS] = [const { AtomicPtr::new(ptr::null_mut()) }; MOST_VCPUS];
static INTAKES: [Intake; MOST_VCPUS] = [const { Intake::new() }; MOST_VCPUS];
/// Addresses behind repeating instructions: a block that begins there ends the repetition.
static BEHIND_REPEATS: Mutex<Option<HashSet<u64>>> = Mutex::new(None);

/// Registers everything.
pub fn register(id: api::Id, state: State) {
    let mark = CString::new(format!("{}.forked", state.request.outcome));
    if STATE.set(state).is_err() || mark.is_ok_and(|mark| FORK_MARK.set(mark).is_err()) {
        return;
    }
    // SAFETY: a handler that only sets a flag and makes a system call, which a child may do at once.
    unsafe { libc::pthread_atfork(None, None, Some(on_fork)) };
    // SAFETY: the functions have the signatures that version 1 of the interface asks for.
    unsafe {
        api::qemu_plugin_register_vcpu_init_cb(id, on_start);
        api::qemu_plugin_register_vcpu_exit_cb(id, on_end);
        api::qemu_plugin_register_vcpu_tb_trans_cb(id, on_translation);
        api::qemu_plugin_register_atexit_cb(id, on_exit, ptr::null_mut());
    }
}

/// A fork begins: nothing that it does is simulated. It leaves a mark, so that whoever asked knows.
unsafe extern "C" fn on_fork() {
    pipeline::fork();
    if let Some(mark) = FORK_MARK.get() {
        // SAFETY: a string that ends in a zero byte; the file may be there already.
        unsafe { libc::close(libc::open(mark.as_ptr(), libc::O_CREAT | libc::O_WRONLY | libc::O_CLOEXEC, 0o600)) };
    }
}

fn state() -> &'static State {
    // Callbacks are registered after it was set.
    match STATE.get() {
        Some(state) => state,
        None => std::process::abort(),
    }
}

/// The thread's own data.
#[inline]
fn vcpu(index: c_uint) -> &'static mut Vcpu {
    let at = VCPUS[index as usize % MOST_VCPUS].load(Ordering::Relaxed);
    // SAFETY: set when the thread started, freed after its last callback; each thread touches its own only.
    unsafe { &mut *at }
}

/// The block that a callback was registered with.
#[inline]
fn block(data: *mut c_void) -> &'static Block {
    // SAFETY: blocks are leaked when they are translated.
    unsafe { &*data.cast::<Block>() }
}

extern "C" fn on_start(_: api::Id, index: c_uint) {
    let state = state();
    let thread = state.threads.fetch_add(1, Ordering::Relaxed);
    if thread > 0 {
        // QEMU flushes its translations before a second thread runs (begin_parallel_context), and translates for several.
        state.parallel.store(true, Ordering::Relaxed);
        if thread == 1 {
            widen_the_first();
        }
    }
    if index as usize >= MOST_VCPUS {
        crate::say("perftax_sim_plugin: more than 1024 threads at a time\n");
        std::process::abort();
    }
    let fresh = Box::into_raw(Box::new(Vcpu::new(state, thread, intake(index))));
    let before = VCPUS[index as usize].swap(fresh, Ordering::AcqRel);
    end(state, before);
}

/// The first thread's passes were counted in the blocks so far.
fn widen_the_first() {
    for slot in &VCPUS {
        let at = slot.load(Ordering::Acquire);
        // SAFETY: the only other thread waits for this one to be created, inside its clone system call.
        if let Some(first) = unsafe { at.as_mut() }
            && first.passes.is_empty()
        {
            first.passes = vec![0; MOST_BLOCKS].into();
        }
    }
}

extern "C" fn on_end(_: api::Id, index: c_uint) {
    end(state(), VCPUS[index as usize % MOST_VCPUS].swap(ptr::null_mut(), Ordering::AcqRel));
}

fn end(state: &State, at: *mut Vcpu) {
    if at.is_null() {
        return;
    }
    // SAFETY: it came out of Box::into_raw, and whoever swaps it out of its slot owns it.
    let mut vcpu = unsafe { Box::from_raw(at) };
    vcpu.end(state);
    lock(&state.ended).push(*vcpu);
}

extern "C" fn on_exit(_: api::Id, _: *mut c_void) {
    let state = state();
    if pipeline::is_fork() {
        // Its parent's counts are in it.
        return;
    }
    for slot in &VCPUS {
        end(state, slot.swap(ptr::null_mut(), Ordering::AcqRel));
    }
    let mut threads = lock(&state.ended);
    threads.sort_by_key(|vcpu| vcpu.thread);
    let simulator = state.pipeline.as_ref().and_then(Pipeline::finish);
    if state.pipeline.is_some() && simulator.is_none() {
        crate::say("perftax_sim_plugin: the simulator of the caches failed\n");
        return;
    }
    let outcome = finish::outcome(state, &threads, simulator.as_ref());
    let written = state.rows.flush().and_then(|()| finish::write(&outcome, &state.request.outcome));
    if let Err(error) = written {
        crate::say(&format!("perftax_sim_plugin: cannot write {}: {error}\n", state.request.outcome));
    }
}

extern "C" fn on_translation(_: api::Id, tb: *mut api::Tb) {
    let state = state();
    let mut instructions = Vec::new();
    {
        let mut factory = lock(&state.factory);
        // SAFETY: QEMU's block, valid during this call; the code of an instruction is as long as its size says.
        unsafe {
            for i in 0..api::qemu_plugin_tb_n_insns(tb) {
                let insn = api::qemu_plugin_tb_get_insn(tb, i);
                let (ip, bytes) = (api::qemu_plugin_insn_vaddr(insn), api::qemu_plugin_insn_size(insn));
                let code = std::slice::from_raw_parts(api::qemu_plugin_insn_data(insn), bytes);
                instructions.push((ip, bytes, decode(code, ip, &mut factory)));
            }
        }
    }
    let block: &'static Block = {
        let mut blocks = lock(&state.blocks);
        let block = Box::leak(Box::new(Block::new(blocks.len(), &instructions, state.sampled)));
        blocks.push(block);
        block
    };
    if block.number >= MOST_BLOCKS {
        crate::say("perftax_sim_plugin: more than 4194304 blocks were translated\n");
        std::process::abort();
    }
    count_passes(state, tb, block);
    if state.request.caches {
        watch_memory(state, tb, &instructions);
    }
}

/// Registers what counts a block's passes.
fn count_passes(state: &State, tb: *mut api::Tb, block: &'static Block) {
    let data = ptr::from_ref(block).cast_mut().cast::<c_void>();
    let on_pass = |callback| {
        // SAFETY: the block is QEMU's and being translated; the data are never freed.
        unsafe { api::qemu_plugin_register_vcpu_tb_exec_cb(tb, callback, api::NO_REGS, data) };
    };
    let behind = {
        let mut behind = lock(&BEHIND_REPEATS);
        let behind = behind.get_or_insert_default();
        if block.repeats_last {
            behind.insert(block.end);
        }
        behind.contains(&block.start)
    };
    if behind {
        on_pass(on_repeated);
    }
    let counts_only = state.sampled.is_none() && state.is_alone();
    if block.repeats_first {
        on_pass(if counts_only { on_repetition_counting } else { on_repetition });
    }
    match (state.sampled, state.is_alone()) {
        (Some(Event::Fetches), true) => on_pass(on_block_fetching::<true>),
        (Some(Event::Fetches), false) => on_pass(on_block_fetching::<false>),
        (Some(Event::TakenBranches), true) => on_pass(on_block_branching::<true>),
        (Some(Event::TakenBranches), false) => on_pass(on_block_branching::<false>),
        (Some(Event::Instructions), true) => on_pass(on_block::<true, false>),
        (Some(Event::Instructions), false) => on_pass(on_block::<false, false>),
        (Some(_), true) => on_pass(on_block::<true, true>),
        (Some(_), false) => on_pass(on_block::<false, true>),
        // SAFETY: as above; the number lives as long as the block.
        (None, true) => unsafe {
            api::qemu_plugin_register_vcpu_tb_exec_inline(tb, api::INLINE_ADD_U64, block.passes.as_ptr().cast(), 1);
        },
        (None, false) => on_pass(on_block_counting),
    }
    // A block of one repeating instruction has said so at its beginning.
    if block.repeats_last && !(counts_only && block.repeats_first) {
        on_pass(on_repeating);
    }
}

/// Registers what sees the memory accesses.
fn watch_memory(state: &State, tb: *mut api::Tb, instructions: &[(u64, usize, Decoded)]) {
    for (index, (ip, _, decoded)) in instructions.iter().enumerate() {
        let (loads, stores) = decoded.accesses();
        if !loads && !stores {
            continue;
        }
        let number = {
            let mut accessing = lock(&state.accessing);
            accessing.push(*ip);
            accessing.len() as u64 - 1
        };
        // Above, the last place in a line at which the access stays within it; below, the number of the instruction.
        let last_inside = LINE_BYTES - u64::from(decoded.bytes.clamp(1, LINE_BYTES as u32));
        let data = (last_inside << 32 | number) as usize as *mut c_void;
        // QEMU 7.2 compares its filter with a number that is one too high, so that callbacks for reads see writes: all are asked
        // for, and the instruction says which they are.
        // SAFETY: QEMU's instruction, valid during translation; the data are a number.
        unsafe {
            let insn = api::qemu_plugin_tb_get_insn(tb, index);
            let callback: api::MemCb = match (loads, stores) {
                (true, false) => on_load,
                (false, true) => on_store,
                _ => on_either,
            };
            api::qemu_plugin_register_vcpu_mem_cb(insn, callback, api::NO_REGS, api::MEM_RW, data);
        }
    }
}

/// Counts a pass: in the block where there is one thread, else in the thread's list.
#[inline]
fn count<const ALONE: bool>(vcpu: &mut Vcpu, block: &Block) {
    if ALONE {
        block.passes.one_more();
    } else {
        vcpu.passes[block.number] += 1;
    }
}

/// A block passes, and one class of its events is sampled; `TIMED` where that class is not the instructions themselves, so that
/// these are counted too.
extern "C" fn on_block<const ALONE: bool, const TIMED: bool>(index: c_uint, data: *mut c_void) {
    let (vcpu, block) = (vcpu(index), block(data));
    count::<ALONE>(vcpu, block);
    if TIMED {
        vcpu.instructions += block.instructions;
    }
    vcpu.left -= block.events;
    if vcpu.left < 0 {
        act(index, data);
    }
}

#[cold]
#[inline(never)]
extern "C" fn act(index: c_uint, data: *mut c_void) {
    let block = block(data);
    vcpu(index).act(state(), block, block.events, |n| usize::from(block.event_at[n as usize]));
}

/// A block passes, and is counted.
extern "C" fn on_block_counting(index: c_uint, data: *mut c_void) {
    let (vcpu, block) = (vcpu(index), block(data));
    vcpu.passes[block.number] += 1;
}

/// A block passes, and taken branches are sampled: a conditional one's outcome shows at the block that follows.
extern "C" fn on_block_branching<const ALONE: bool>(index: c_uint, data: *mut c_void) {
    let (vcpu, block) = (vcpu(index), block(data));
    count::<ALONE>(vcpu, block);
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
    vcpu.instructions += block.instructions;
    vcpu.left -= block.events;
    if vcpu.left < 0 {
        vcpu.act(state(), block, block.events, |n| usize::from(block.event_at[n as usize]));
    }
}

/// A block passes, and fetches are sampled: one where it is jumped to or begins a line, one for each further line.
extern "C" fn on_block_fetching<const ALONE: bool>(index: c_uint, data: *mut c_void) {
    let (vcpu, block) = (vcpu(index), block(data));
    count::<ALONE>(vcpu, block);
    let goes_on = vcpu.before.is_some_and(|before| before.end == block.start);
    let entered = i64::from(!(goes_on && block.start % LINE_BYTES != 0));
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

/// A block that begins with a repeating instruction passes. Where that is not its first pass, one repetition has been done, and
/// no further instruction is retired.
extern "C" fn on_repetition(index: c_uint, data: *mut c_void) {
    let (vcpu, block) = (vcpu(index), block(data));
    if vcpu.repeating != block.start {
        return;
    }
    vcpu.repetitions += 1;
    for event in Decoded::REPEATED {
        vcpu.repeated[event] += u64::from(block.repetition[event]);
    }
    match state().sampled {
        Some(Event::Instructions | Event::DispatchedOps) => vcpu.left = vcpu.left.saturating_add(1),
        Some(event) => {
            vcpu.instructions = vcpu.instructions.wrapping_sub(1);
            let events = i64::from(block.repetition[event]);
            vcpu.left -= events;
            if vcpu.left < 0 {
                vcpu.act(state(), block, events, |_| 0);
            }
        }
        None => {}
    }
}

/// The same where nothing is sampled: programs fill and copy memory by such instructions, a repetition for every word or byte.
extern "C" fn on_repetition_counting(index: c_uint, data: *mut c_void) {
    let (vcpu, block) = (vcpu(index), block(data));
    if vcpu.repeating == block.start {
        block.repeats.one_more();
    } else {
        vcpu.repeating = block.start;
    }
}

/// A block ends in a repeating instruction.
extern "C" fn on_repeating(index: c_uint, data: *mut c_void) {
    vcpu(index).repeating = block(data).ips.last().copied().unwrap_or(0);
}

/// What follows a repeating instruction: it is done.
extern "C" fn on_repeated(index: c_uint, _: *mut c_void) {
    vcpu(index).repeating = 0;
}

extern "C" fn on_load(index: c_uint, _: api::MemInfo, address: u64, data: *mut c_void) {
    access(index, address, false, data);
}

extern "C" fn on_store(index: c_uint, _: api::MemInfo, address: u64, data: *mut c_void) {
    access(index, address, true, data);
}

/// An instruction that reads and writes.
extern "C" fn on_either(index: c_uint, info: api::MemInfo, address: u64, data: *mut c_void) {
    // SAFETY: the information that QEMU passed.
    let write = unsafe { api::qemu_plugin_mem_is_store(info) };
    access(index, address, write, data);
}

#[inline(always)]
fn access(index: c_uint, address: u64, write: bool, data: *mut c_void) {
    let last_inside = data as usize as u64 >> 32;
    if address % LINE_BYTES > last_inside {
        return access_straddling(index, address, write, data);
    }
    // SAFETY: the thread's batch was begun when it started.
    if unsafe { intake(index).take(line_of(address), write, data as usize as u32) } {
        hand_over(index);
    }
}

/// An access to two lines.
#[cold]
#[inline(never)]
extern "C" fn access_straddling(index: c_uint, address: u64, write: bool, data: *mut c_void) {
    for address in [address, address + LINE_BYTES] {
        // SAFETY: as above.
        if unsafe { intake(index).take(line_of(address), write, data as usize as u32) } {
            hand_over(index);
        }
    }
}

#[cold]
#[inline(never)]
extern "C" fn hand_over(index: c_uint) {
    vcpu(index).hand_over(state());
}

#[inline(always)]
fn intake(index: c_uint) -> &'static Intake {
    &INTAKES[index as usize % MOST_VCPUS]
}
