// SPDX-License-Identifier: GPL-2.0-or-later
//! The program has ended: what came is added up and written down.

use std::collections::BTreeMap;
use std::path::Path;

use perftax_model::run::{CoreOutcome, Mapping, Outcome, ThreadOutcome};
use perftax_model::{Counts, Event};
use serde::Serialize;

use crate::lock::lock;
use crate::simulator::Simulator;
use crate::state::State;
use crate::vcpu::Vcpu;

/// Adds everything up.
pub fn outcome(state: &State, threads: &[Vcpu], simulator: Option<&Simulator>) -> Outcome {
    let blocks = lock(&state.blocks);
    let mut cores: BTreeMap<u32, CoreOutcome> = BTreeMap::new();
    let mut by_address: BTreeMap<u64, u64> = BTreeMap::new();
    let mut ended = Vec::new();
    for vcpu in threads {
        let core = cores.entry(vcpu.core_number).or_insert_with(|| {
            let (traffic, reference) = simulator.map(|simulator| simulator.traffic(vcpu.core_number)).unwrap_or_default();
            CoreOutcome { core: vcpu.core_number, traffic, reference, ..CoreOutcome::default() }
        });
        core.threads.push(vcpu.thread);
        let mut counts = Counts::default();
        for (block, &passes) in blocks.iter().zip(vcpu.passes.iter()) {
            block.counts.add_to(&mut counts, passes);
        }
        if vcpu.thread == 0 {
            // Passes were counted in the blocks while this thread was alone.
            for block in blocks.iter() {
                block.counts.add_to(&mut counts, block.passes.get());
            }
            lock(&state.repeats).values().for_each(|repeat| repeat.add_to(&mut counts));
        }
        counts += &vcpu.repeated;
        counts[Event::TakenBranches] = if state.watches_flow() { counts[Event::TakenBranches] + vcpu.taken } else { 0 };
        counts[Event::Fetches] = vcpu.fetches;
        let in_caches = simulator.and_then(|simulator| simulator.thread(vcpu.thread));
        if let Some(thread) = in_caches {
            counts[Event::L1Misses] = thread.load_misses[0];
            counts[Event::L2Misses] = thread.load_misses[1];
            counts[Event::LlcMisses] = thread.load_misses[2];
        }
        let unit = vcpu.core.as_ref().or(in_caches.and_then(|thread| thread.core.as_ref()));
        core.counts += &counts;
        let samples = unit.map_or(0, |unit| unit.samples);
        let instructions = counts[Event::Instructions];
        ended.push(ThreadOutcome { thread: vcpu.thread, core: vcpu.core_number, instructions, samples });
        if let Some(unit) = unit {
            core.samples += unit.samples;
            core.lost += unit.lost;
            core.interrupts += unit.interrupts;
            core.terms += &unit.terms;
        }
        for samples in [Some(&vcpu.samples), in_caches.map(|thread| &thread.samples)].into_iter().flatten() {
            for (&ip, &count) in &samples.by_address {
                *by_address.entry(ip).or_default() += count;
            }
        }
    }
    let watched = |event: &Event| match event {
        Event::TakenBranches | Event::Fetches => state.watches_flow(),
        Event::Cycles | Event::PageCrossings => false,
        event => state.request.caches || !event.needs_caches(),
    };
    Outcome {
        cores: cores.into_values().collect(),
        by_address,
        threads: ended,
        mappings: mappings(),
        counted: Event::all().filter(watched).collect(),
        caches: state.request.caches,
        profile: simulator.and_then(Simulator::profile),
    }
}

/// Files mapped into the program's address space. QEMU puts the guest at a fixed distance from its own addresses, which whoever
/// started it chose and knows; these are QEMU's.
fn mappings() -> Vec<Mapping> {
    all_mappings().into_iter().filter(|mapping| mapping.path.starts_with('/')).collect()
}

/// Likewise, with what belongs to no file.
pub fn all_mappings() -> Vec<Mapping> {
    let Ok(maps) = std::fs::read("/proc/self/maps") else { return Vec::new() };
    // A path may be anything but UTF-8.
    String::from_utf8_lossy(&maps).lines().filter_map(mapping).collect()
}

/// A line of /proc/PID/maps (proc(5)): range, rights, offset, device, inode, and a path, which may hold spaces.
fn mapping(line: &str) -> Option<Mapping> {
    let mut fields = line.splitn(6, ' ');
    let (start, end) = fields.next()?.split_once('-')?;
    let offset = fields.nth(1)?;
    let path = fields.nth(2).unwrap_or_default().trim_start_matches(' ');
    let hex = |text: &str| u64::from_str_radix(text, 16).ok();
    Some(Mapping { start: hex(start)?, end: hex(end)?, offset: hex(offset)?, path: path.into() })
}

/// Writes the outcome where it was asked for, whole or not at all.
///
/// # Errors
/// Where it cannot be written.
pub fn write<T: Serialize>(outcome: &T, path: &str) -> std::io::Result<()> {
    let text = serde_json::to_vec(outcome)?;
    let path = Path::new(path);
    let unfinished = path.with_extension("unfinished");
    std::fs::write(&unfinished, text)?;
    std::fs::rename(unfinished, path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_of_maps_is_read() {
        let found = mapping("7f10-7f20 r-xp 00001000 fe:00 1234     /usr/bin/bzip2").unwrap();
        assert_eq!((found.start, found.end, found.offset, found.path.as_str()), (0x7f10, 0x7f20, 0x1000, "/usr/bin/bzip2"));
        assert_eq!(mapping("7f10-7f20 rw-p 00000000 00:00 0 ").unwrap().path, "");
        assert_eq!(
            mapping("7f10-7f20 r-xp 0 fe:00 1    /opt/a  folder/bzip2 (deleted)").unwrap().path,
            "/opt/a  folder/bzip2 (deleted)"
        );
        assert_eq!(mapping("something else"), None);
    }
}
