// SPDX-License-Identifier: GPL-2.0-or-later
//! How often each instruction was executed, written down: rows of two little-endian 64-bit words, address and times, by address.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Write};

use crate::block::Block;
use crate::lock::lock;
use crate::state::State;
use crate::vcpu::Vcpu;

/// Writes them.
///
/// # Errors
/// Where the file cannot be written.
pub fn write(state: &State, threads: &[Vcpu], path: &str) -> std::io::Result<()> {
    let mut times: BTreeMap<u64, u64> = BTreeMap::new();
    let mut add = |block: &Block, passes: u64| {
        if passes > 0 {
            block.ips.iter().for_each(|ip| *times.entry(*ip).or_default() += passes);
        }
    };
    for block in lock(&state.blocks).iter() {
        // Of the first thread while it was alone, and of each while there were several.
        let passes = threads.iter().filter_map(|vcpu| vcpu.passes.get(block.number)).sum::<u64>();
        add(block, block.passes.get() + passes);
    }
    for repeat in lock(&state.repeats).values() {
        add(&repeat.block, repeat.entries.get());
    }
    let mut file = BufWriter::new(File::create(path)?);
    for (ip, times) in times {
        file.write_all(&ip.to_le_bytes())?;
        file.write_all(&times.to_le_bytes())?;
    }
    file.flush()
}
