//! From bytes to a record.

use super::aux::{Aux, AuxOutputHardwareId, ItraceStart};
use super::cursor::Cursor;
use super::deferred::{CallchainDeferred, Read};
use super::header::Header;
use super::kernel_text::{BpfEvent, Ksymbol, TextPoke};
use super::layout::Layout;
use super::loss::{Lost, LostSamples, Throttle};
use super::mapping::{Mmap, Mmap2};
use super::place::{Cgroup, Namespaces};
use super::sample::Sample;
use super::sample_id::SampleId;
use super::task::{Comm, Lifetime, Switch};
use crate::Result;
use perf_event_open_sys::bindings as abi;

/// A record of the ring. What has a variable length borrows from the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant)] // Nearly all records are samples, and nobody stores them: a box would cost each one.
#[non_exhaustive]
pub enum Record<'a> {
    /// A sample.
    Sample(Sample<'a>),
    /// A mapping.
    Mmap(Mmap<'a>),
    /// A mapping, with the identity of its file.
    Mmap2(Mmap2<'a>),
    /// A task took a name.
    Comm(Comm<'a>),
    /// A task died.
    Exit(Lifetime),
    /// A task was born.
    Fork(Lifetime),
    /// An event was throttled.
    Throttle(Throttle),
    /// It goes on.
    Unthrottle(Throttle),
    /// Counts of a thread that ended.
    Read(Read<'a>),
    /// Records are missing.
    Lost(Lost),
    /// Samples are missing.
    LostSamples(LostSamples),
    /// New data in the AUX area.
    Aux(Aux),
    /// A trace began.
    ItraceStart(ItraceStart),
    /// The task came to the CPU or left it.
    Switch(Switch),
    /// The same, seen from a CPU.
    SwitchCpuWide(Switch),
    /// A task's namespaces.
    Namespaces(Namespaces<'a>),
    /// A kernel symbol came or went.
    Ksymbol(Ksymbol<'a>),
    /// A BPF program came or went.
    BpfEvent(BpfEvent),
    /// A control group's name.
    Cgroup(Cgroup<'a>),
    /// Kernel code was rewritten.
    TextPoke(TextPoke<'a>),
    /// How the hardware names an event in a trace.
    AuxOutputHardwareId(AuxOutputHardwareId),
    /// The user part of earlier call chains.
    CallchainDeferred(CallchainDeferred<'a>),
    /// A kind that the ABI had not when this was written, or one of perf's own (64 and above). Its bytes are not looked at.
    Other {
        /// `header.kind`.
        kind: u32,
    },
}

/// Decodes one record: `body` is what follows the header. Reads nothing outside of it, allocates nothing but an error's text.
///
/// Bytes are taken as little-endian, as every CPU that perftax supports writes them.
///
/// # Errors
/// [`crate::Error::Malformed`] where the body is shorter or longer than the header says, ends inside a field, or has bytes left
/// over after the last one; the offset counts from the header's first byte. Either the bytes are broken or the layout is
/// another event's: files with several events need [`identifier`] to find the right one.
pub fn decode<'a>(header: Header, body: &'a [u8], layout: &Layout) -> Result<Record<'a>> {
    if usize::from(header.size) != Header::BYTES + body.len() {
        let why = format!("its header says {} bytes, it has {}", header.size, Header::BYTES + body.len());
        return Err(Cursor::new(header.kind_name(), 0, body).malformed(why));
    }
    if header.kind == abi::PERF_RECORD_SAMPLE {
        return Sample::decode(header, body, layout).map(Record::Sample);
    }
    if header.kind == 0 || header.kind >= abi::PERF_RECORD_MAX {
        return Ok(Record::Other { kind: header.kind });
    }
    let (body, id) = SampleId::split(header.kind_name(), body, layout)?;
    Ok(match header.kind {
        abi::PERF_RECORD_MMAP => Record::Mmap(Mmap::decode(header, body, id)?),
        abi::PERF_RECORD_LOST => Record::Lost(Lost::decode(header, body, id)?),
        abi::PERF_RECORD_COMM => Record::Comm(Comm::decode(header, body, id)?),
        abi::PERF_RECORD_EXIT => Record::Exit(Lifetime::decode(header, body, id)?),
        abi::PERF_RECORD_THROTTLE => Record::Throttle(Throttle::decode(header, body, id)?),
        abi::PERF_RECORD_UNTHROTTLE => Record::Unthrottle(Throttle::decode(header, body, id)?),
        abi::PERF_RECORD_FORK => Record::Fork(Lifetime::decode(header, body, id)?),
        abi::PERF_RECORD_READ => Record::Read(Read::decode(header, body, layout, id)?),
        abi::PERF_RECORD_MMAP2 => Record::Mmap2(Mmap2::decode(header, body, id)?),
        abi::PERF_RECORD_AUX => Record::Aux(Aux::decode(header, body, id)?),
        abi::PERF_RECORD_ITRACE_START => Record::ItraceStart(ItraceStart::decode(header, body, id)?),
        abi::PERF_RECORD_LOST_SAMPLES => Record::LostSamples(LostSamples::decode(header, body, id)?),
        abi::PERF_RECORD_SWITCH => Record::Switch(Switch::decode(header, body, id)?),
        abi::PERF_RECORD_SWITCH_CPU_WIDE => Record::SwitchCpuWide(Switch::decode(header, body, id)?),
        abi::PERF_RECORD_NAMESPACES => Record::Namespaces(Namespaces::decode(header, body, id)?),
        abi::PERF_RECORD_KSYMBOL => Record::Ksymbol(Ksymbol::decode(header, body, id)?),
        abi::PERF_RECORD_BPF_EVENT => Record::BpfEvent(BpfEvent::decode(header, body, id)?),
        abi::PERF_RECORD_CGROUP => Record::Cgroup(Cgroup::decode(header, body, id)?),
        abi::PERF_RECORD_TEXT_POKE => Record::TextPoke(TextPoke::decode(header, body, id)?),
        abi::PERF_RECORD_AUX_OUTPUT_HW_ID => Record::AuxOutputHardwareId(AuxOutputHardwareId::decode(header, body, id)?),
        abi::PERF_RECORD_CALLCHAIN_DEFERRED => Record::CallchainDeferred(CallchainDeferred::decode(header, body, id)?),
        kind => Record::Other { kind },
    })
}

/// Whose record it is, read before its layout is known: `IDENTIFIER`, else `ID`. `layout` may be that of any event of the
/// file: `IDENTIFIER` stands at a fixed place (first in samples, last in others), and where events lack it perf gives all of
/// them the same `sample_type`. `None` where there is neither, for perf's own records, and for a body too short.
pub fn identifier(header: Header, body: &[u8], layout: &Layout) -> Option<u64> {
    let words_of = |fields: u32| (layout.sample_type & u64::from(fields)).count_ones() as usize;
    let fixed = layout.samples(abi::PERF_SAMPLE_IDENTIFIER);
    if !fixed && !layout.samples(abi::PERF_SAMPLE_ID) {
        return None;
    }
    let at = if header.kind == abi::PERF_RECORD_SAMPLE {
        let before = abi::PERF_SAMPLE_IP | abi::PERF_SAMPLE_TID | abi::PERF_SAMPLE_TIME | abi::PERF_SAMPLE_ADDR;
        if fixed { 0 } else { 8 * words_of(before) }
    } else if layout.sample_id_all && header.kind != 0 && header.kind < abi::PERF_RECORD_MAX {
        let after = if fixed { 0 } else { words_of(abi::PERF_SAMPLE_STREAM_ID | abi::PERF_SAMPLE_CPU) };
        body.len().checked_sub(8 * (1 + after))?
    } else {
        return None;
    };
    body.get(at..)?.first_chunk().map(|word| u64::from_le_bytes(*word))
}
