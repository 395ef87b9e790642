//! What hardware writes: IBS registers in raw samples, PEBS records of every format, SPE packets. Bytes after the manuals'
//! tables; expectations are literals.

use crate::records_bytes::Bytes;
use perftax_pmu::Error;
use perftax_pmu::record::pebs::{self, Adaptive, Architectural, Fixed, Format};
use perftax_pmu::record::spe::{self, AddressKind, CounterKind, Packet};
use perftax_pmu::record::{self, Header, Layout, Record, ibs};

#[track_caller]
fn malformed_at<T: std::fmt::Debug>(result: perftax_pmu::Result<T>, expected: u64) {
    match result {
        Err(Error::Malformed { offset, .. }) => assert_eq!(offset, expected),
        other => panic!("expected malformed at {expected}, got {other:?}"),
    }
}

/// Capabilities of a Zen 4: bits 0 to 9 and 11, no OpData4.
const ZEN_4: u32 = 0xbff;

fn ibs_op(capabilities: u32) -> Bytes {
    Bytes::new()
        .u32(capabilities)
        // period 0x125_6780: bits 26:20 are 0x12, bits 15:0 0x5678, times 16; op valid, enabled, counts ops; current count 0x123
        .u64(0x5678 | 1 << 17 | 1 << 18 | 1 << 19 | 0x12 << 20 | 0x123 << 32)
        .u64(0xffff_ffff_8100_1234)
        // 7 cycles to retirement, 300 from the tag; a taken, mispredicted, retired branch
        .u64(7 | 300 << 16 | 1 << 35 | 1 << 36 | 1 << 37)
        // source 5 | 1 << 3: low bits 7:0 = 0b01_0_1_0_101, remote node
        .u64(0b0101_0101)
        // load, L1 TLB miss, cache miss, both addresses valid, L2 miss, 8 bytes (code 4), 9 open requests, 450 and 33 cycles
        .u64(1 | 1 << 2 | 1 << 7 | 1 << 17 | 1 << 18 | 1 << 20 | 4 << 22 | 9 << 26 | 450 << 32 | 33 << 48)
        .u64(0x7f00_1234_5678)
        .u64(0x1_2345_6678)
}

#[test]
fn ibs_ops_inside_a_sample() {
    // As the kernel writes them: IP, then the raw data behind their length. 4 + 8 * 8 bytes: no padding is needed.
    let raw = ibs_op(ZEN_4).u64(0x40_2000);
    assert_eq!(raw.0.len(), 68);
    let bytes = Bytes::new().u64(0xffff_ffff_8100_1234).u32(68).raw(&raw.0).record(9, 0x4001);
    let layout = Layout { sample_type: 1 | 1 << 10, ..Layout::default() };
    let header = Header::parse(bytes.first_chunk().unwrap());
    let Record::Sample(sample) = record::decode(header, &bytes[8..], &layout).unwrap() else { panic!() };
    let op = ibs::Op::decode(sample.raw.unwrap()).unwrap();
    assert!(op.capabilities.zen_4() && op.capabilities.branch_target() && op.capabilities.counts_ops());
    assert!(op.capabilities.rip_invalid_check() && !op.capabilities.op_data_4() && !op.capabilities.load_latency_filter());
    assert_eq!((op.control.period(), op.control.current_count()), (0x125_6780, 0x123));
    assert!(op.control.enabled() && op.control.valid() && op.control.counts_ops() && !op.control.l3_miss_only());
    assert_eq!(op.control.load_latency_threshold_cycles(), None);
    assert_eq!(op.rip, 0xffff_ffff_8100_1234);
    assert_eq!((op.data.completion_to_retirement_cycles(), op.data.tag_to_retirement_cycles()), (7, 300));
    assert!(op.data.branch_taken() && op.data.branch_mispredicted() && op.data.branch_retired());
    assert!(!op.data.is_return() && !op.data.rip_invalid() && !op.data.branch_fused() && !op.data.microcode());
    assert_eq!((op.data2.data_source(), op.data2.remote_node(), op.data2.cache_hit_owned()), (13, true, false));
    let data3 = op.data3;
    assert!(data3.load() && !data3.store() && data3.l1_tlb_miss() && !data3.l2_tlb_miss() && data3.data_cache_miss());
    assert!(data3.linear_address_valid() && data3.physical_address_valid() && data3.l2_miss() && !data3.software_prefetch());
    assert!(
        !data3.misaligned() && !data3.locked() && !data3.uncached() && !data3.write_combining() && !data3.miss_without_buffer()
    );
    assert_eq!((data3.width_bytes(), data3.open_requests()), (Some(8), 9));
    assert_eq!((data3.miss_latency_cycles(), data3.tlb_refill_cycles()), (450, 33));
    assert_eq!((op.linear_address, op.physical_address), (0x7f00_1234_5678, 0x1_2345_6678));
    assert_eq!((op.branch_target, op.data4), (Some(0x40_2000), None));
}

#[test]
fn ibs_ops_have_the_registers_that_the_capabilities_announce() {
    let none = ibs_op(0x1f);
    let op = ibs::Op::decode(&none.0).unwrap();
    assert_eq!((op.branch_target, op.data4), (None, None));
    let last = ibs_op(1 << 10).u64(1);
    assert_eq!(ibs::Op::decode(&last.0).unwrap().data4, Some(1));
    let both = ibs_op(1 << 5 | 1 << 10).u64(5).u64(6);
    let op = ibs::Op::decode(&both.0).unwrap();
    assert_eq!((op.branch_target, op.data4), (Some(5), Some(6)));
    malformed_at(ibs::Op::decode(&none.clone().u64(0).0), 60);
    malformed_at(ibs::Op::decode(&none.0[..59]), 52);
    malformed_at(ibs::Op::decode(&ibs_op(1 << 5).0), 60);
    malformed_at(ibs::Op::decode(&[]), 0);
    // Zen 5's filter: enabled, threshold 3 is 512 cycles.
    let filtered = Bytes::new().u32(0).u64(1 << 63 | 3 << 59).u64s(&[0; 6]);
    assert_eq!(ibs::Op::decode(&filtered.0).unwrap().control.load_latency_threshold_cycles(), Some(512));
}

#[test]
fn ibs_fetches() {
    // period 0x10000, 0x8000 so far, 120 cycles; enabled, valid, complete, cache miss, physical address valid, 2 MiB pages,
    // L1 TLB miss, randomised, L2 and L3 miss
    let control = 0x1000 | 0x800 << 16 | 120 << 32 | 0b1_1111 << 48 | 1 << 53 | 1 << 55 | 1 << 57 | 1 << 58 | 1 << 61;
    let registers = |capabilities: u32| Bytes::new().u32(capabilities).u64(control).u64(0x40_1000).u64(0x9_9000);
    let extended = registers(ZEN_4).u64(0xffff_0000_0000_0021);
    let fetch = ibs::Fetch::decode(&extended.0).unwrap();
    assert_eq!((fetch.linear_address, fetch.physical_address, fetch.tlb_refill_cycles), (0x40_1000, 0x9_9000, Some(0x21)));
    let c = fetch.control;
    assert_eq!((c.period(), c.current_count(), c.latency_cycles(), c.page_size()), (0x1_0000, 0x8000, 120, 1));
    assert!(c.enabled() && c.valid() && c.complete() && c.cache_miss() && c.physical_address_valid() && c.l1_tlb_miss());
    assert!(!c.l2_tlb_miss() && c.randomised() && c.l2_miss() && !c.l3_miss_only() && !c.op_cache_miss() && c.l3_miss());
    assert_eq!(ibs::Fetch::decode(&registers(0x1f).0).unwrap().tlb_refill_cycles, None);
    // An old kernel on a machine with both: their two registers are of no use to a fetch.
    let old = registers(1 << 5 | 1 << 9 | 1 << 10).u64(1).u64(2);
    assert_eq!(ibs::Fetch::decode(&old.0).unwrap().tlb_refill_cycles, None);
    malformed_at(ibs::Fetch::decode(&registers(0x1f).u64(0).0), 28);
    malformed_at(ibs::Fetch::decode(&registers(0x1f).0[..27]), 20);
}

/// flags, ip, ax, bx, cx, dx, si, di, bp, sp, r8 to r15: 144 bytes of format 0.
const CORE: [u64; 18] = [0x246, 0x40_1003, 10, 11, 12, 13, 14, 15, 16, 17, 108, 109, 110, 111, 112, 113, 114, 115];

#[test]
fn fixed_pebs_records() {
    let core = Bytes::new().u64s(&CORE);
    let format_1 = core.clone().u64(1 << 2).u64(0x7f00_0040).u64(0x6).u64(230);
    let format_2 = format_1.clone().u64(0x40_1000).u64(0x4_0000_0050);
    let format_3 = format_2.clone().u64(987_654_321_987);
    let decode = |format, bytes: &Bytes| Fixed::decode(format, &bytes.0).unwrap();
    let [zero, one, two, three] = [
        decode(Format::Format0, &core),
        decode(Format::Format1, &format_1),
        decode(Format::Format2, &format_2),
        decode(Format::Format3, &format_3),
    ];
    for record in [zero, one, two, three] {
        let r = record.registers;
        assert_eq!((r.flags, r.ip, r.ax, r.bx, r.cx, r.dx), (0x246, 0x40_1003, 10, 11, 12, 13));
        assert_eq!((r.si, r.di, r.bp, r.sp), (14, 15, 16, 17));
        assert_eq!(r.r8_to_r15, [108, 109, 110, 111, 112, 113, 114, 115]);
    }
    assert_eq!((zero.status, zero.access), (None, None));
    for record in [one, two, three] {
        let access = record.access.unwrap();
        assert_eq!((record.status, access.address, access.source, access.latency_cycles), (Some(4), 0x7f00_0040, 6, 230));
    }
    assert_eq!((one.eventing_ip, one.tsx, one.tsc), (None, None, None));
    for record in [two, three] {
        let tsx = record.tsx.unwrap();
        assert_eq!((record.eventing_ip, tsx.cycles(), tsx.flags()), (Some(0x40_1000), 0x50, 4));
    }
    assert_eq!((two.tsc, three.tsc), (None, Some(987_654_321_987)));

    // As many as the kernel says fit into its 64 KiB: 372, 341, 327.
    for (format, bytes, number) in
        [(Format::Format1, format_1, 372), (Format::Format2, format_2, 341), (Format::Format3, format_3, 327)]
    {
        assert_eq!(65_536 / format.record_bytes(), number);
        let buffer = bytes.0.repeat(3);
        assert_eq!(format.records(&buffer).map(Result::unwrap).count(), 3);
        assert_eq!(format.records(&buffer[..buffer.len() - 1]).filter(Result::is_err).count(), 1);
        malformed_at(Fixed::decode(format, &bytes.u64(0).0), format.record_bytes() as u64);
    }
}

fn basic(groups: u64, bytes: u64) -> Bytes {
    // 21 cycles of retire latency between groups and size
    Bytes::new().u64(groups | 21 << 32 | bytes << 48).u64(0x40_1000).u64(1 << 1 | 1 << 32).u64(123_456_789)
}

#[test]
fn adaptive_pebs_records() {
    let bare = basic(0, 32);
    let record = Adaptive::decode(&bare.0).unwrap();
    let b = record.basic;
    assert_eq!((b.ip, b.counters, b.tsc, b.record_bytes), (0x40_1000, 0x1_0000_0002, 123_456_789, 32));
    assert_eq!((b.retire_latency_cycles, record.memory, record.registers, record.xmm), (21, None, None, None));
    assert_eq!((record.lbr().len(), record.other), (0, &[][..]));

    // flags, ip, ax, cx, dx, bx, sp, bp, si, di, r8 to r15: another order than the fixed records'.
    let registers = [0x246, 0x40_1003, 10, 12, 13, 11, 17, 16, 14, 15, 108, 109, 110, 111, 112, 113, 114, 115];
    let with_registers = basic(0b10, 176).u64s(&registers);
    assert_eq!(with_registers.0.len(), 176);
    let r = Adaptive::decode(&with_registers.0).unwrap().registers.unwrap();
    assert_eq!((r.flags, r.ip, r.ax, r.bx, r.cx, r.dx), (0x246, 0x40_1003, 10, 11, 12, 13));
    assert_eq!((r.si, r.di, r.bp, r.sp), (14, 15, 16, 17));
    assert_eq!(r.r8_to_r15, [108, 109, 110, 111, 112, 113, 114, 115]);

    let memory = [0x7f00_0040, 0x6, 230 | 190 << 32, 0x4_0000_0050];
    let with_memory = basic(0b11, 208).u64s(&memory).u64s(&registers);
    assert_eq!(with_memory.0.len(), 208);
    let m = Adaptive::decode(&with_memory.0).unwrap().memory.unwrap();
    assert_eq!((m.address, m.source, m.tsx.cycles(), m.tsx.flags()), (0x7f00_0040, 6, 0x50, 4));
    assert_eq!((m.instruction_latency_cycles(), m.cache_latency_cycles()), (230, 190));

    // All groups, two branches (number less one in bits 31:24), and eight bytes of a group of later machines.
    let xmm: Vec<u64> = (1000..1032).collect();
    let all = basic(0b1111 | 1 << 24, 208 + 256 + 48 + 8).u64s(&memory).u64s(&registers).u64s(&xmm);
    let all = all.u64s(&[1, 2, 3, 4, 5, 6]).u64(0xabcd);
    assert_eq!(all.0.len(), 520);
    let record = Adaptive::decode(&all.0).unwrap();
    assert_eq!(record.xmm.unwrap().iter().collect::<Vec<_>>(), xmm);
    let branches: Vec<_> = record.lbr().map(|branch| (branch.from, branch.to, branch.info)).collect();
    assert_eq!(branches, [(1, 2, 3), (4, 5, 6)]);
    assert_eq!(record.other, 0xabcd_u64.to_le_bytes());

    let buffer = [&bare.0[..], &all.0, &with_memory.0, &bare.0].concat();
    let sizes: Vec<u16> = pebs::adaptive(&buffer).map(|record| record.unwrap().basic.record_bytes).collect();
    assert_eq!(sizes, [32, 520, 208, 32]);
    let mut cut = pebs::adaptive(&buffer[..600]);
    assert_eq!(cut.by_ref().take(2).filter(Result::is_ok).count(), 2);
    malformed_at(cut.next().unwrap(), 552);
    assert!(cut.next().is_none());
    malformed_at(Adaptive::decode(&basic(0, 31).0), 0);
    malformed_at(Adaptive::decode(&basic(0, 0).0), 0);
    malformed_at(Adaptive::decode(&basic(0b10, 32).0), 32);
    malformed_at(Adaptive::decode(&bare.0[..31]), 24);
}

/// Format 6: header (general counters 0 and 9, fixed 1, metrics), then a word each, slots and metrics last.
#[test]
fn adaptive_records_hold_counters_from_format_6_on() {
    let counters = |masks: [u32; 4], words: &[u64]| {
        let bytes = 32 + 16 + 8 * words.len() as u64;
        let [general, fixed, metrics, reserved] = masks;
        basic(0b11_0000, bytes).u32(general).u32(fixed).u32(metrics).u32(reserved).u64s(words)
    };
    let all = counters([1 | 1 << 9, 1 << 1, 3, 0], &[100, 101, 102, 103, 104]);
    let counted = Adaptive::decode(&all.0).unwrap().counters.unwrap();
    assert_eq!((counted.general_mask, counted.fixed_mask, counted.metrics), (0x201, 2, Some((103, 104))));
    assert_eq!(counted.general.iter().collect::<Vec<_>>(), [100, 101]);
    assert_eq!(counted.fixed.iter().collect::<Vec<_>>(), [102]);
    let without_metrics = counters([0, 1, 0, 0], &[7]);
    let counted = Adaptive::decode(&without_metrics.0).unwrap().counters.unwrap();
    assert_eq!((counted.general.len(), counted.fixed.get(0), counted.metrics), (0, Some(7), None));
    // Another number of metrics is not guessed at, nor are counters that are not there.
    malformed_at(Adaptive::decode(&counters([0, 0, 1, 0], &[1, 2]).0), 32);
    malformed_at(Adaptive::decode(&counters([0b111, 0, 0, 0], &[1, 2]).0), 48);
}

/// `struct arch_pebs_header`: size in bits 15:0, continued 31, counters 39:35, branches 41:40, XMM 49, registers 61, access 62, basic 63.
fn fragment(groups: u64, bytes: usize) -> Bytes {
    Bytes::new().u64(groups | bytes as u64).u64(0)
}

const ARCH_BASIC: u64 = 1 << 63;
const ARCH_CONTINUED: u64 = 1 << 31;

/// 48 bytes: address, counters, time, 21 cycles of retire latency that are valid, two reserved words.
fn arch_basic(valid: u64) -> Bytes {
    Bytes::new().u64s(&[0x40_1000, 1 << 3 | 1 << 33, 123_456_789, 21 | valid << 16, 0, 0])
}

#[test]
fn architectural_pebs_records() {
    let bare = fragment(ARCH_BASIC, 64).raw(&arch_basic(1).0);
    let record = Architectural::decode(&bare.0).unwrap();
    let b = record.basic.unwrap();
    assert_eq!(
        (record.bytes, b.ip, b.counters, b.tsc, b.retire_latency_cycles),
        (64, 0x40_1000, 0x2_0000_0008, 123_456_789, Some(21))
    );
    assert_eq!((record.memory, record.registers, record.xmm, record.counters, record.lbr().len()), (None, None, None, None, 0));
    let not_valid = fragment(ARCH_BASIC, 64).raw(&arch_basic(0).0);
    assert_eq!(Architectural::decode(&not_valid.0).unwrap().basic.unwrap().retire_latency_cycles, None);

    // The access: address, four reserved words, source, latencies, transaction; registers in the adaptive order, ssp, a reserved word.
    let access = Bytes::new().u64s(&[0x7f00_0040, 9, 9, 9, 9, 0x6, 230 | 190 << 32, 0x4_0000_0050]);
    let registers =
        Bytes::new().u64s(&[0x246, 0x40_1003, 10, 12, 13, 11, 17, 16, 14, 15, 108, 109, 110, 111, 112, 113, 114, 115, 0x7777, 0]);
    let xmm: Vec<u64> = (1000..1032).collect();
    let vectors = Bytes::new().u64s(&[0, 0]).u64s(&xmm);
    // Two branches by depth: reserved, control, depth, last event record (three words), then the entries.
    let branches = Bytes::new().u64s(&[0, 0, 2, 7, 7, 7]).u64s(&[1, 2, 3, 4, 5, 6]);
    let counters = Bytes::new().u32(1 << 4).u32(1).u32(0).u32(0).u64s(&[41, 42]);
    let groups = ARCH_BASIC | 1 << 62 | 1 << 61 | 1 << 49 | 3 << 40 | 0b11 << 35;
    let parts = [&arch_basic(1).0[..], &access.0, &registers.0, &vectors.0, &branches.0, &counters.0].concat();
    let all = fragment(groups, 16 + parts.len()).raw(&parts);
    assert_eq!(all.0.len(), 16 + 48 + 64 + 160 + 272 + 48 + 48 + 32);
    let record = Architectural::decode(&all.0).unwrap();
    let m = record.memory.unwrap();
    assert_eq!(
        (m.address, m.source, m.tsx.cycles(), m.instruction_latency_cycles(), m.cache_latency_cycles()),
        (0x7f00_0040, 6, 0x50, 230, 190)
    );
    let r = record.registers.unwrap();
    assert_eq!((r.ip, r.ax, r.bx, r.cx, r.sp, r.r8_to_r15[7]), (0x40_1003, 10, 11, 12, 17, 115));
    assert_eq!(record.shadow_stack_pointer, Some(0x7777));
    assert_eq!(record.xmm.unwrap().iter().collect::<Vec<_>>(), xmm);
    assert_eq!(record.lbr().map(|branch| (branch.from, branch.to, branch.info)).collect::<Vec<_>>(), [(1, 2, 3), (4, 5, 6)]);
    let counted = record.counters.unwrap();
    assert_eq!((counted.general.get(0), counted.fixed.get(0), counted.general_mask), (Some(41), Some(42), 16));

    // Cut into fragments: basic and access, then the registers; and a fragment of nothing between.
    let first = fragment(ARCH_BASIC | 1 << 62 | ARCH_CONTINUED, 16 + 48 + 64).raw(&arch_basic(1).0).raw(&access.0);
    let nothing = fragment(0, 16);
    let last = fragment(1 << 61, 16 + 160).raw(&registers.0);
    let cut = [&first.0[..], &nothing.0, &last.0].concat();
    let whole = Architectural::decode(&cut).unwrap();
    assert_eq!(
        (whole.bytes, whole.basic, whole.memory, whole.registers),
        (cut.len(), record.basic, record.memory, record.registers)
    );

    let buffer = [&bare.0[..], &cut, &all.0].concat();
    let sizes: Vec<usize> = pebs::architectural(&buffer).map(|record| record.unwrap().bytes).collect();
    assert_eq!(sizes, [64, cut.len(), all.0.len()]);
}

/// What cannot be read is refused by name and place, and never passed over.
#[test]
fn architectural_records_are_not_guessed_at() {
    for (bit, name) in [(50, "YMM"), (53, "mask"), (54, "ZMM"), (55, "ZMM16")] {
        let error = Architectural::decode(&fragment(ARCH_BASIC | 1 << bit, 64).raw(&arch_basic(1).0).0).unwrap_err().to_string();
        assert!(error.contains(name), "{error}");
    }
    for bit in [16, 32, 42, 51, 56, 60] {
        let error = Architectural::decode(&fragment(ARCH_BASIC | 1 << bit, 64).raw(&arch_basic(1).0).0).unwrap_err().to_string();
        assert!(error.contains(&format!("{:#x}", 1_u64 << bit)), "{error}");
    }
    let basic = fragment(ARCH_BASIC, 64).raw(&arch_basic(1).0);
    malformed_at(Architectural::decode(&basic.0[..63]), 0);
    malformed_at(Architectural::decode(&fragment(ARCH_BASIC, 15).0), 0);
    malformed_at(Architectural::decode(&fragment(ARCH_BASIC, 56).raw(&arch_basic(1).0[..40]).0), 48);
    malformed_at(Architectural::decode(&fragment(ARCH_BASIC, 72).raw(&arch_basic(1).0).u64(0).0), 64);
    // A continued record whose next fragment is not there.
    malformed_at(Architectural::decode(&fragment(ARCH_BASIC | ARCH_CONTINUED, 64).raw(&arch_basic(1).0).0), 64);
}

/// What Zen 5 and 6 tell of an op, by the capability bits 19 and 16; on others the same bits have no meaning.
#[test]
fn ibs_ops_of_zen_5_and_6() {
    let op = |capabilities: u32, data2: u64, data3: u64| {
        let bytes = Bytes::new().u32(capabilities).u64s(&[0, 0x1000, 0, data2, data3, 0x7000, 0]).u64(0);
        ibs::Op::decode(&bytes.0).unwrap()
    };
    let zen_6 = ZEN_4 | 1 << 12 | 1 << 13 | 1 << 14 | 1 << 15 | 1 << 16 | 1 << 19;
    let capabilities = op(zen_6, 0, 0).capabilities;
    assert!(capabilities.disable_bit() && capabilities.fetch_latency_filter() && capabilities.privilege_filter());
    assert!(capabilities.streaming_store_and_remote_socket() && capabilities.data_tlb_page_size());
    let told = |op: &ibs::Op| (op.streaming_store(), op.remote_socket());
    assert_eq!(told(&op(zen_6, 1 << 8, 0)), (Some(true), Some(false)));
    assert_eq!(told(&op(zen_6, 1 << 9, 0)), (Some(false), Some(true)));
    assert_eq!(told(&op(ZEN_4, 3 << 8, 0)), (None, None));
    // Sources: low bits 2:0, high bits 7:6 from Zen 4 on.
    let source = |capabilities, low: u64, high: u64| op(capabilities, low | high << 6, 0).source();
    let zen_4 = [1, 2, 3, 5, 6, 7].map(|low| source(ZEN_4, low, 0));
    use ibs::OpSource::*;
    assert_eq!(zen_4, [OwnComplex, NearComplex, Memory, OtherNode, PersistentMemory, Device]);
    assert_eq!(
        [source(ZEN_4, 0, 1), source(ZEN_4, 4, 1), source(ZEN_4, 4, 0), source(ZEN_4, 0, 0)],
        [ExtensionMemory, PeerMemory, Unknown(4), NotSaid]
    );
    let zen_3 = 0x3ff;
    assert_eq!([source(zen_3, 2, 0), source(zen_3, 4, 1), source(zen_3, 1, 0)], [OwnNode, OtherNode, Unknown(1)]);
    // Pages: hit in the first TLB by bits 4 and 5, in the second by 6 and 19, where the address (bit 17) is valid.
    let page = |data3: u64| op(ZEN_4, 0, data3).data_page_bytes();
    let address = 1 << 17;
    assert_eq!([page(address), page(address | 1 << 4), page(address | 1 << 5)], [Some(4096), Some(2 << 20), Some(1 << 30)]);
    assert_eq!(
        [page(address | 1 << 2 | 1 << 6), page(address | 1 << 2 | 1 << 19), page(address | 0b1100)],
        [Some(2 << 20), Some(1 << 30), None]
    );
    assert_eq!(page(1 << 4), None);
    // With bit 19: a number in bits 5:4, where the physical address (bit 18) is valid, whatever the TLBs.
    let zen_5 = ZEN_4 | 1 << 12 | 1 << 19;
    let page = |data3: u64| op(zen_5, 0, address | data3).data_page_bytes();
    let sized = |size: u64| page(1 << 18 | 0b1100 | size << 4);
    assert_eq!([sized(0), sized(1), sized(2), sized(3)], [Some(4096), Some(2 << 20), Some(1 << 30), None]);
    assert_eq!([page(1 << 4), op(zen_5, 0, 1 << 18).data_page_bytes()], [None, None]);
    // A threshold of 384 cycles.
    let control = |value: u64| ibs::OpControl(value).load_latency_threshold_cycles();
    assert_eq!([control(1 << 63 | 2 << 59), control(2 << 59)], [Some(384), None]);
}

/// Vector registers in samples: proposed as a bit of the ABI, in no released kernel's. A dump with it is longer than its mask says.
#[test]
fn register_sets_of_simd_are_refused_by_name() {
    let layout = Layout { sample_type: 1 << 18, sample_regs_intr: 0b11, ..Layout::default() };
    let decode = |abi: u64, words: &[u64]| {
        let bytes = Bytes::new().u64(abi).u64s(words).record(9, 0);
        let header = Header::parse(bytes.first_chunk().unwrap());
        record::decode(header, &bytes[8..], &layout).map(|_| ()).map_err(|error| error.to_string())
    };
    assert_eq!(decode(2, &[1, 2]), Ok(()));
    let simd = decode(6, &[1, 2, 0x0001_0002, 3, 4]).unwrap_err();
    assert!(simd.contains("SIMD") && simd.contains("REGS_INTR has ABI 6"), "{simd}");
    let unknown = decode(8, &[1, 2]).unwrap_err();
    assert!(unknown.contains("ABI 8") && !unknown.contains("SIMD"), "{unknown}");
}

/// A load that missed L1, with all packets that an implementation may write.
fn spe_load() -> Bytes {
    Bytes::new()
        .u8(0xb0) // address, instruction: EL1, not secure
        .u64(0x8000_0000_0000_0000 | 1 << 61 | 0x00ff_8000_0012_3458)
        .u8(0x65) // context of EL2
        .u32(4711)
        .u8(0x49) // operation: load or store
        .u8(0x00)
        .u8(0x52) // events, 16 bits: retired, L1 access, L1 refill, TLB access, last level access
        .u16(0b1_0001_1110)
        .u8(0x98) // counter: total
        .u16(310)
        .u8(0x99) // counter: issue
        .u16(12)
        .u8(0x9a) // counter: translation
        .u16(2)
        .u8(0xb2) // address, data: a tag of 0xa5 in the top byte
        .u64(0xa500_7fff_1234_5678)
        .u8(0xb3) // address, physical
        .u64(0x8000_0001_2345_6678)
        .u8(0x43) // data source
        .u8(0x0d)
        .u8(0x71) // time stamp
        .u64(0x1122_3344_5566)
}

#[test]
fn spe_packets() {
    let load = spe_load();
    let packets: Vec<Packet> = spe::packets(&load.0).map(Result::unwrap).collect();
    assert_eq!(packets.len(), 11);
    let Packet::Address(instruction) = packets[0] else { panic!("{packets:?}") };
    assert_eq!((instruction.kind, instruction.address()), (AddressKind::Instruction, 0xffff_8000_0012_3458));
    assert_eq!((instruction.exception_level(), instruction.non_secure()), (1, true));
    assert_eq!(packets[1], Packet::Context { exception_level: 2, id: 4711 });
    let Packet::Operation(operation) = packets[2] else { panic!("{packets:?}") };
    assert!(operation.is_load() && !operation.is_store() && !operation.is_atomic() && !operation.is_branch());
    let Packet::Events(events) = packets[3] else { panic!("{packets:?}") };
    assert!(events.retired() && events.l1_access() && events.l1_refill() && events.tlb_access() && events.last_level_access());
    assert!(!events.exception() && !events.tlb_walk() && !events.not_taken() && !events.mispredicted());
    assert!(!events.last_level_miss() && !events.remote_access() && !events.misaligned());
    assert_eq!(packets[4], Packet::Counter { kind: CounterKind::Total, cycles: 310 });
    assert_eq!(packets[5], Packet::Counter { kind: CounterKind::Issue, cycles: 12 });
    assert_eq!(packets[6], Packet::Counter { kind: CounterKind::Translation, cycles: 2 });
    let Packet::Address(data) = packets[7] else { panic!("{packets:?}") };
    assert_eq!((data.kind, data.address()), (AddressKind::DataVirtual, 0x7fff_1234_5678));
    let Packet::Address(physical) = packets[8] else { panic!("{packets:?}") };
    assert_eq!((physical.kind, physical.address()), (AddressKind::DataPhysical, 0x1_2345_6678));
    assert_eq!(packets[9..], [Packet::DataSource(0x0d), Packet::Timestamp(0x1122_3344_5566)]);
}

#[test]
fn spe_samples() {
    let branch = Bytes::new()
        .u8(0xb0)
        .u64(0x40_1000)
        .u8(0xb1)
        .u64(0x40_2000)
        .u8(0x4a) // branch, conditional
        .u8(0x01)
        .u8(0x42) // events, 8 bits: retired, mispredicted
        .u8(0x82)
        .u8(0x01) // end
        .u8(0x00) // padding
        .u8(0x00);
    let bytes = [&spe_load().0[..], &branch.0, &spe_load().0[..20]].concat();
    let samples: Vec<_> = spe::samples(&bytes).collect();
    assert_eq!(samples.len(), 3, "the cut one says so");
    let load = samples[0].as_ref().unwrap();
    assert_eq!((load.total_cycles, load.issue_cycles, load.translation_cycles), (Some(310), Some(12), Some(2)));
    assert_eq!((load.context, load.data_source, load.timestamp), (Some(4711), Some(13), Some(0x1122_3344_5566)));
    let branch = samples[1].as_ref().unwrap();
    assert_eq!(branch.branch_target.unwrap().address(), 0x40_2000);
    let operation = branch.operation.unwrap();
    assert!(operation.is_branch() && operation.is_conditional() && !operation.is_indirect_branch() && !operation.is_load());
    assert!(branch.events.unwrap().mispredicted());
    assert_eq!((branch.timestamp, branch.total_cycles), (None, None));
    assert!(samples[2].is_err());
}

#[test]
fn spe_headers_of_two_bytes_and_bad_ones() {
    let one = |bytes: Bytes| spe::packets(&bytes.0).next().unwrap();
    // Extended: index 8 + 0, a counter of the implementation.
    let extended = one(Bytes::new().u8(0x21).u8(0x98).u16(9)).unwrap();
    assert_eq!(extended, Packet::Counter { kind: CounterKind::Other(8), cycles: 9 });
    let Packet::Address(address) = one(Bytes::new().u8(0x20).u8(0xb4).u64(7)).unwrap() else { panic!() };
    assert_eq!(address.kind, AddressKind::PreviousBranchTarget);
    // Alignment to 8 bytes (n = 2): from the fourth byte on, four bytes of anything are passed over.
    let aligned = Bytes::new().raw(&[0, 0, 0, 0]).u8(0x22).u8(0).u16(0xffff).u8(0x01);
    let packets: Vec<Packet> = spe::packets(&aligned.0).map(Result::unwrap).collect();
    assert_eq!(packets[4..], [Packet::Padding, Packet::End]);
    // Events of 32 and 64 bits, a data source of 16.
    assert_eq!(one(Bytes::new().u8(0x62).u32(0x0004_0002)).unwrap(), Packet::Events(spe::Events(0x0004_0002)));
    assert_eq!(one(Bytes::new().u8(0x72).u64(1 << 63)).unwrap(), Packet::Events(spe::Events(1 << 63)));
    assert_eq!(one(Bytes::new().u8(0x53).u16(0x1234)).unwrap(), Packet::DataSource(0x1234));
    for bad in [0x02, 0x1f, 0x24, 0x2f, 0x30, 0x80, 0xc0, 0xff] {
        malformed_at(one(Bytes::new().u8(bad).u64(u64::MAX)), 0);
    }
    malformed_at(one(Bytes::new().u8(0xb0).u32(1)), 1);
    malformed_at(one(Bytes::new().u8(0x20)), 1);
    let mut packets = spe::packets(&[0x00, 0xff, 0x00]);
    assert!(packets.next().unwrap().is_ok() && packets.next().unwrap().is_err() && packets.next().is_none());
    assert_eq!(packets.offset(), 1);
}
