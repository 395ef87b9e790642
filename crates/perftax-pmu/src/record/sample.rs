//! Samples: `PERF_RECORD_SAMPLE` in the order in which the kernel's `perf_output_sample` writes it.

use super::branch::BranchStack;
use super::callchain::Callchain;
use super::counts::Counts;
use super::cursor::Cursor;
use super::data_source::DataSource;
use super::header::{CpuMode, Header};
use super::layout::Layout;
use super::registers::Registers;
use super::sample_id::{Task, cpu};
use super::transaction::Transaction;
use super::weight::Weight;
use super::words::Words;
use crate::Result;
use perf_event_open_sys::bindings as abi;

/// One sample. A field is `Some` exactly if the attribute's `sample_type` has its bit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample<'a> {
    /// Mode of the CPU at the sample.
    pub cpu_mode: CpuMode,
    /// The address is that of the very instruction that made the event.
    pub exact_ip: bool,
    /// `IDENTIFIER`: which event, at a fixed place.
    pub identifier: Option<u64>,
    /// `IP`: address of the instruction.
    pub ip: Option<u64>,
    /// `TID`.
    pub task: Option<Task>,
    /// `TIME`: ns on the event's clock.
    pub time_ns: Option<u64>,
    /// `ADDR`: address of the data, or what the event makes of it (a page fault's address, a breakpoint's).
    pub address: Option<u64>,
    /// `ID`: which event; the original's where it was inherited.
    pub id: Option<u64>,
    /// `STREAM_ID`: which event, each inherited copy its own.
    pub stream_id: Option<u64>,
    /// `CPU`.
    pub cpu: Option<u32>,
    /// `PERIOD`: events since the last sample.
    pub period: Option<u64>,
    /// `READ`.
    pub counts: Option<Counts<'a>>,
    /// `CALLCHAIN`.
    pub callchain: Option<Callchain<'a>>,
    /// `RAW`: a tracepoint's record, IBS's registers. Its padding is part of it.
    pub raw: Option<&'a [u8]>,
    /// `BRANCH_STACK`.
    pub branches: Option<BranchStack<'a>>,
    /// `REGS_USER`.
    pub user_registers: Option<Registers<'a>>,
    /// `STACK_USER`.
    pub user_stack: Option<UserStack<'a>>,
    /// `WEIGHT` or `WEIGHT_STRUCT`.
    pub weight: Option<Weight>,
    /// `DATA_SRC`.
    pub data_source: Option<DataSource>,
    /// `TRANSACTION`.
    pub transaction: Option<Transaction>,
    /// `REGS_INTR`.
    pub interrupt_registers: Option<Registers<'a>>,
    /// `PHYS_ADDR`: physical address of the data, 0 where not known.
    pub physical_address: Option<u64>,
    /// `CGROUP`: its id.
    pub cgroup: Option<u64>,
    /// `DATA_PAGE_SIZE`: bytes of the page that holds the data, 0 where not known.
    pub data_page_bytes: Option<u64>,
    /// `CODE_PAGE_SIZE`: bytes of the page that holds the instruction, 0 where not known.
    pub code_page_bytes: Option<u64>,
    /// `AUX`: a piece of trace that ends at the sample.
    pub aux: Option<&'a [u8]>,
}

/// A copy of the top of the user's stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UserStack<'a> {
    /// The valid bytes, from the stack pointer up.
    pub valid: &'a [u8],
    /// Bytes that the dump took in the record: the kernel reserves before it knows how many are readable.
    pub dumped_bytes: u64,
}

impl<'a> Sample<'a> {
    pub(super) fn decode(header: Header, body: &'a [u8], layout: &Layout) -> Result<Self> {
        let first = Self::decode_as(header, body, layout, true);
        if first.is_err() && layout.samples(abi::PERF_SAMPLE_BRANCH_STACK) && layout.branches(abi::PERF_SAMPLE_BRANCH_HW_INDEX) {
            // See BranchStack::decode. The first answer stays the error to report.
            return Self::decode_as(header, body, layout, false).or(first);
        }
        first
    }

    fn decode_as(header: Header, body: &'a [u8], layout: &Layout, empty_stack_has_index: bool) -> Result<Self> {
        let mut cursor = Cursor::new("PERF_RECORD_SAMPLE", Header::BYTES, body);
        let c = &mut cursor;
        let has = |field| layout.samples(field);
        // Struct fields are evaluated in the order written here, which is the kernel's.
        let sample = Self {
            cpu_mode: header.cpu_mode(),
            exact_ip: header.is_exact_ip(),
            identifier: has(abi::PERF_SAMPLE_IDENTIFIER).then(|| c.u64("IDENTIFIER")).transpose()?,
            ip: has(abi::PERF_SAMPLE_IP).then(|| c.u64("IP")).transpose()?,
            task: has(abi::PERF_SAMPLE_TID).then(|| Task::decode(c)).transpose()?,
            time_ns: has(abi::PERF_SAMPLE_TIME).then(|| c.u64("TIME")).transpose()?,
            address: has(abi::PERF_SAMPLE_ADDR).then(|| c.u64("ADDR")).transpose()?,
            id: has(abi::PERF_SAMPLE_ID).then(|| c.u64("ID")).transpose()?,
            stream_id: has(abi::PERF_SAMPLE_STREAM_ID).then(|| c.u64("STREAM_ID")).transpose()?,
            cpu: has(abi::PERF_SAMPLE_CPU).then(|| cpu(c)).transpose()?,
            period: has(abi::PERF_SAMPLE_PERIOD).then(|| c.u64("PERIOD")).transpose()?,
            counts: has(abi::PERF_SAMPLE_READ).then(|| Counts::decode(c, layout)).transpose()?,
            callchain: has(abi::PERF_SAMPLE_CALLCHAIN).then(|| callchain(c)).transpose()?,
            raw: has(abi::PERF_SAMPLE_RAW).then(|| raw(c)).transpose()?,
            branches: has(abi::PERF_SAMPLE_BRANCH_STACK)
                .then(|| BranchStack::decode(c, layout, empty_stack_has_index))
                .transpose()?,
            user_registers: has(abi::PERF_SAMPLE_REGS_USER)
                .then(|| Registers::decode(c, layout.sample_regs_user, "REGS_USER"))
                .transpose()?,
            user_stack: has(abi::PERF_SAMPLE_STACK_USER).then(|| UserStack::decode(c)).transpose()?,
            weight: weight(c, layout)?,
            data_source: has(abi::PERF_SAMPLE_DATA_SRC).then(|| c.u64("DATA_SRC")).transpose()?.map(DataSource),
            transaction: has(abi::PERF_SAMPLE_TRANSACTION).then(|| c.u64("TRANSACTION")).transpose()?.map(Transaction),
            interrupt_registers: has(abi::PERF_SAMPLE_REGS_INTR)
                .then(|| Registers::decode(c, layout.sample_regs_intr, "REGS_INTR"))
                .transpose()?,
            physical_address: has(abi::PERF_SAMPLE_PHYS_ADDR).then(|| c.u64("PHYS_ADDR")).transpose()?,
            cgroup: has(abi::PERF_SAMPLE_CGROUP).then(|| c.u64("CGROUP")).transpose()?,
            data_page_bytes: has(abi::PERF_SAMPLE_DATA_PAGE_SIZE).then(|| c.u64("DATA_PAGE_SIZE")).transpose()?,
            code_page_bytes: has(abi::PERF_SAMPLE_CODE_PAGE_SIZE).then(|| c.u64("CODE_PAGE_SIZE")).transpose()?,
            aux: has(abi::PERF_SAMPLE_AUX).then(|| aux(c)).transpose()?,
        };
        cursor.finish()?;
        Ok(sample)
    }
}

fn callchain<'a>(cursor: &mut Cursor<'a>) -> Result<Callchain<'a>> {
    let count = cursor.u64("CALLCHAIN's number of entries")?;
    Ok(Callchain { entries: Words::new(cursor.chunks(count, "CALLCHAIN")?) })
}

fn raw<'a>(cursor: &mut Cursor<'a>) -> Result<&'a [u8]> {
    // The kernel pads so that the length and the data together are whole words, and the length counts the padding.
    let size = cursor.u32("RAW's size")?;
    cursor.bytes(u64::from(size), "RAW")
}

fn weight(cursor: &mut Cursor<'_>, layout: &Layout) -> Result<Option<Weight>> {
    Ok(if layout.samples(abi::PERF_SAMPLE_WEIGHT) {
        Some(Weight::Full(cursor.u64("WEIGHT")?))
    } else if layout.samples(abi::PERF_SAMPLE_WEIGHT_STRUCT) {
        Some(Weight::parts(cursor.u64("WEIGHT_STRUCT")?))
    } else {
        None
    })
}

fn aux<'a>(cursor: &mut Cursor<'a>) -> Result<&'a [u8]> {
    let size = cursor.u64("AUX's size")?;
    cursor.bytes(size, "AUX")
}

impl<'a> UserStack<'a> {
    fn decode(cursor: &mut Cursor<'a>) -> Result<Self> {
        let dumped_bytes = cursor.u64("STACK_USER's size")?;
        if dumped_bytes == 0 {
            // Nothing to dump (a kernel thread): then the valid size is left out too.
            return Ok(Self { valid: &[], dumped_bytes });
        }
        let dump = cursor.bytes(dumped_bytes, "STACK_USER")?;
        let before = cursor.clone();
        let valid_bytes = cursor.u64("STACK_USER's valid size")?;
        match usize::try_from(valid_bytes).ok().and_then(|valid| dump.get(..valid)) {
            Some(valid) => Ok(Self { valid, dumped_bytes }),
            None => Err(before.malformed(format!("STACK_USER says {valid_bytes} of {dumped_bytes} bytes are valid"))),
        }
    }
}
