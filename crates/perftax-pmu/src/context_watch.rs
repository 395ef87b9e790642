//! Watches a variable that points to a record, and the record: what it holds is read by the kernel at the very write, by a BPF program at a breakpoint's overflow.
//!
//! A breakpoint's own sample has registers, and not what lies in memory; whoever reads that later may read what was written since.

use crate::error::Result;
use crate::event::{Catalog, Event, parse_one};
use crate::sampler::Sampling;
use crate::sys::{OpenEvent, OutputMap, OverflowProgram, Target};

/// Bytes of a record that are read.
const READ_BYTES: usize = 28;
/// What is handed out: the record's address, its first bytes, and whether it was the record that was written.
const OUTPUT_BYTES: usize = 40;

/// What was written, at the moment when it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Written {
    /// The record that the variable points to; 0: none.
    pub record: u64,
    /// What it holds.
    pub bytes: [u8; READ_BYTES],
    /// The record was written, not the variable: whether the variable points to it that does not say.
    pub is_in_place: bool,
}

impl Written {
    /// From what the program hands out (a sample's raw data).
    pub fn read(raw: &[u8]) -> Option<Self> {
        let record = u64::from_ne_bytes(raw.get(..8)?.try_into().ok()?);
        let is_in_place = *raw.get(8 + READ_BYTES)? != 0;
        Some(Self { record, bytes: raw.get(8..8 + READ_BYTES)?.try_into().ok()?, is_in_place })
    }
}

/// Programs that read what was written, and where they put it.
#[derive(Debug)]
pub struct ContextWatch {
    /// The kernel forgets what is entered in it when it is closed.
    _output: OutputMap,
    of_variable: OverflowProgram,
    of_record: OverflowProgram,
    /// Of the byte of a record whose writing is watched.
    byte_at: u64,
}

/// A place of a thread's memory that is watched.
#[derive(Debug)]
pub struct WatchedPlace {
    event: OpenEvent,
    /// Its address.
    pub address: u64,
}

impl ContextWatch {
    /// Of records whose byte at `byte_at` is written when they change; what is read goes to these events, one of each CPU (`bpf-output`).
    ///
    /// # Errors
    /// Where the caller may not, or the kernel cannot.
    pub fn new(byte_at: u64, outputs: &[(u32, &OpenEvent)]) -> Result<Self> {
        let cpus = outputs.iter().map(|(cpu, _)| cpu + 1).max().unwrap_or(1);
        let output = OutputMap::new(cpus)?;
        outputs.iter().try_for_each(|(cpu, event)| output.set(*cpu, event))?;
        let of_variable = OverflowProgram::load(&program(&FROM_VARIABLE, output.number()))?;
        let from_record = [
            load(R3, R1, ADDRESS_AT),
            add(R3, -(byte_at as i32)),
            store(STACK, -(OUTPUT_BYTES as i16), R3),
            // Behind the record's bytes: it was the record.
            instruction(0x62, STACK, 0, 8 + READ_BYTES as i16 - OUTPUT_BYTES as i16, 1),
        ];
        let of_record = OverflowProgram::load(&program(&from_record, output.number()))?;
        Ok(Self { _output: output, of_variable, of_record, byte_at })
    }

    /// Watches a thread's variable, which points to a record.
    ///
    /// # Errors
    /// Where the thread is gone, or has no debug register left.
    pub fn variable(&self, tid: i32, address: u64, catalog: &Catalog) -> Result<WatchedPlace> {
        let place = WatchedPlace { event: open(&breakpoint(address, 8, catalog)?, tid)?, address };
        place.event.run(&self.of_variable)?;
        place.event.enable()?;
        Ok(place)
    }

    /// Watches a record that a thread changes in place, by its address.
    ///
    /// # Errors
    /// As [`ContextWatch::variable`].
    pub fn record(&self, tid: i32, record: u64, catalog: &Catalog) -> Result<WatchedPlace> {
        let address = record.wrapping_add(self.byte_at);
        let place = WatchedPlace { event: open(&breakpoint(address, 1, catalog)?, tid)?, address: record };
        place.event.run(&self.of_record)?;
        place.event.enable()?;
        Ok(place)
    }
}

impl WatchedPlace {
    /// Watches it no more, for a while.
    ///
    /// # Errors
    /// The kernel's.
    pub fn disable(&self) -> Result<()> {
        self.event.disable()
    }

    /// Watches it again.
    ///
    /// # Errors
    /// The kernel's.
    pub fn enable(&self) -> Result<()> {
        self.event.enable()
    }
}

fn breakpoint(address: u64, bytes: u64, catalog: &Catalog) -> Result<Event> {
    parse_one(&format!("mem:{address:#x}/{bytes}:w:u"), catalog)
}

fn open(event: &Event, tid: i32) -> Result<OpenEvent> {
    OpenEvent::open(event, &Sampling::every(1, 0), Target::Thread(tid), None)
}

/// Registers (Documentation/bpf/standardization/instruction-set.rst): R1 to R5 are arguments, R6 to R9 are kept, R10 is the stack.
const R0: u8 = 0;
const R1: u8 = 1;
const R2: u8 = 2;
const R3: u8 = 3;
const R4: u8 = 4;
const R5: u8 = 5;
const R6: u8 = 6;
const STACK: u8 = 10;
/// Helpers (linux/bpf.h): `bpf_perf_event_output`, `bpf_probe_read_user`.
const PERF_EVENT_OUTPUT: i32 = 25;
const PROBE_READ_USER: i32 = 112;
/// `addr` of `struct bpf_perf_event_data`, behind the registers of user mode and the period: where the breakpoint is.
#[cfg(target_arch = "x86_64")]
const ADDRESS_AT: i16 = 21 * 8 + 8;
#[cfg(not(target_arch = "x86_64"))]
const ADDRESS_AT: i16 = 34 * 8 + 8;

const fn instruction(code: u8, to: u8, from: u8, offset: i16, value: i32) -> u64 {
    code as u64 | (((from << 4) | to) as u64) << 8 | (offset as u16 as u64) << 16 | (value as u32 as u64) << 32
}

const fn copy(to: u8, from: u8) -> u64 {
    instruction(0xbf, to, from, 0, 0)
}

const fn set(to: u8, value: i32) -> u64 {
    instruction(0xb7, to, 0, 0, value)
}

const fn add(to: u8, value: i32) -> u64 {
    instruction(0x07, to, 0, 0, value)
}

const fn load(to: u8, from: u8, offset: i16) -> u64 {
    instruction(0x79, to, from, offset, 0)
}

const fn store(to: u8, offset: i16, from: u8) -> u64 {
    instruction(0x7b, to, from, offset, 0)
}

const fn call(helper: i32) -> u64 {
    instruction(0x85, 0, 0, 0, helper)
}

/// The record's address, by the variable's: what lies at the breakpoint.
const FROM_VARIABLE: [u64; 5] =
    [load(R3, R1, ADDRESS_AT), copy(R1, STACK), add(R1, -(OUTPUT_BYTES as i32)), set(R2, 8), call(PROBE_READ_USER)];

/// Puts the record's address in the first word of what is handed out (`find`), reads the record behind it, where there is one, and hands both out.
fn program(find: &[u64], output: i32) -> Vec<u64> {
    let mut all = vec![copy(R6, R1)];
    all.extend((1..=OUTPUT_BYTES / 8).map(|word| instruction(0x7a, STACK, 0, -8 * word as i16, 0)));
    all.extend(find);
    all.extend([
        load(R3, STACK, -(OUTPUT_BYTES as i16)),
        // None: over the four that follow.
        instruction(0x15, R3, 0, 4, 0),
        copy(R1, STACK),
        add(R1, 8 - OUTPUT_BYTES as i32),
        set(R2, READ_BYTES as i32),
        call(PROBE_READ_USER),
        copy(R1, R6),
        // The map, as a value of 64 bits in two places.
        instruction(0x18, R2, 1, 0, output),
        0,
        // Of the current CPU: all 32 bits set, and no more.
        instruction(0xb4, R3, 0, 0, -1),
        copy(R4, STACK),
        add(R4, -(OUTPUT_BYTES as i32)),
        set(R5, OUTPUT_BYTES as i32),
        call(PERF_EVENT_OUTPUT),
        set(R0, 0),
        instruction(0x95, 0, 0, 0, 0),
    ]);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_handed_out_is_read() {
        let mut raw = [0u8; OUTPUT_BYTES + 4];
        raw[..8].copy_from_slice(&0x7f00_1234u64.to_ne_bytes());
        raw[8] = 9;
        raw[8 + READ_BYTES] = 1;
        raw[8 + READ_BYTES + 1] = 77;
        let written = Written::read(&raw);
        assert!(written.is_some_and(|written| written.is_in_place));
        assert_eq!(
            written.map(|written| (written.record, written.bytes[0], written.bytes[READ_BYTES - 1])),
            Some((0x7f00_1234, 9, 0))
        );
        assert_eq!(Written::read(&raw[..20]), None);
    }
}
