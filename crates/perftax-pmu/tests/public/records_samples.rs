//! Samples of every layout, built byte by byte; numbers are the ABI's, written here once more.

use crate::records_bytes::Bytes;
use perftax_pmu::Error;
use perftax_pmu::record::{
    self, Context, Count, CpuMode, Header, Hops, Layout, Level, Record, RegisterAbi, Sample, Task, Weight,
};

// enum perf_event_sample_format
const IP: u64 = 1 << 0;
const TID: u64 = 1 << 1;
const TIME: u64 = 1 << 2;
const ADDR: u64 = 1 << 3;
const READ: u64 = 1 << 4;
const CALLCHAIN: u64 = 1 << 5;
const ID: u64 = 1 << 6;
const CPU: u64 = 1 << 7;
const PERIOD: u64 = 1 << 8;
const STREAM_ID: u64 = 1 << 9;
const RAW: u64 = 1 << 10;
const BRANCH_STACK: u64 = 1 << 11;
const REGS_USER: u64 = 1 << 12;
const STACK_USER: u64 = 1 << 13;
const WEIGHT: u64 = 1 << 14;
const DATA_SRC: u64 = 1 << 15;
const IDENTIFIER: u64 = 1 << 16;
const TRANSACTION: u64 = 1 << 17;
const REGS_INTR: u64 = 1 << 18;
const PHYS_ADDR: u64 = 1 << 19;
const AUX: u64 = 1 << 20;
const CGROUP: u64 = 1 << 21;
const DATA_PAGE_SIZE: u64 = 1 << 22;
const CODE_PAGE_SIZE: u64 = 1 << 23;
const WEIGHT_STRUCT: u64 = 1 << 24;

fn layout(sample_type: u64) -> Layout {
    Layout { sample_type, ..Layout::default() }
}

fn decode<'a>(bytes: &'a [u8], layout: &Layout) -> perftax_pmu::Result<Sample<'a>> {
    let (head, body) = bytes.split_first_chunk().unwrap();
    match record::decode(Header::parse(head), body, layout)? {
        Record::Sample(sample) => Ok(sample),
        other => panic!("not a sample: {other:?}"),
    }
}

#[track_caller]
fn malformed_at(bytes: &[u8], layout: &Layout, expected: u64) {
    match decode(bytes, layout) {
        Err(Error::Malformed { offset, .. }) => assert_eq!(offset, expected),
        other => panic!("expected malformed at {expected}, got {other:?}"),
    }
}

/// Every field at once, in the kernel's order.
fn everything() -> (Vec<u8>, Layout) {
    let layout = Layout {
        sample_type: (1 << 25) - 1 - WEIGHT,
        read_format: 0,
        branch_sample_type: 1 << 17 | 1 << 19, // HW_INDEX, COUNTERS
        sample_regs_user: 0x180,               // SP, IP
        sample_regs_intr: 0x20_0001,           // AX, R13
        sample_id_all: true,
    };
    let bytes = Bytes::new()
        .u64(0x1111)
        .u64(0xffff_8000_0000_1234)
        .u32(4242)
        .u32(4243)
        .u64(987_654_321_000)
        .u64(0x7fff_1234_5678)
        .u64(0x2222)
        .u64(0x3333)
        .u32(5)
        .u32(0xdead_beef) // reserved
        .u64(100_003)
        .u64(77) // READ: value alone
        .u64(3) // CALLCHAIN
        .u64s(&[0xffff_ffff_ffff_ff80, 0xffff_8000_0000_1234, 0xffff_8000_0000_5678])
        .u32(12) // RAW
        .raw(b"twelve bytes")
        .u64(2) // BRANCH_STACK
        .u64(31) // hardware index
        .u64s(&[0x10, 0x20, 0x1])
        .u64s(&[0x30, 0x40, 0x2])
        .u64s(&[0x0101, 0x0202]) // counters
        .u64(2) // REGS_USER, 64-bit
        .u64s(&[0x7ffe_0000, 0x40_0000])
        .u64(16) // STACK_USER
        .raw(b"sixteen bytes!!!")
        .u64(9)
        .u32(321) // WEIGHT_STRUCT
        .u16(45)
        .u16(6)
        .u64(0x1e_0508_0021) // DATA_SRC
        .u64(0x1_0000_0012) // TRANSACTION
        .u64(2) // REGS_INTR
        .u64s(&[0xaaaa, 0xdddd])
        .u64(0x8_0000_1000) // PHYS_ADDR
        .u64(99) // CGROUP
        .u64(2 << 20) // DATA_PAGE_SIZE
        .u64(4096) // CODE_PAGE_SIZE
        .u64(8) // AUX
        .raw(b"aux data");
    (bytes.record(9, 0x4002), layout)
}

#[test]
fn every_field_stands_where_the_kernel_puts_it() {
    let (bytes, layout) = everything();
    let sample = decode(&bytes, &layout).unwrap();
    assert_eq!(sample.cpu_mode, CpuMode::User);
    assert!(sample.exact_ip);
    assert_eq!(sample.identifier, Some(0x1111));
    assert_eq!(sample.ip, Some(0xffff_8000_0000_1234));
    assert_eq!(sample.task, Some(Task { pid: 4242, tid: 4243 }));
    assert_eq!(sample.time_ns, Some(987_654_321_000));
    assert_eq!(sample.address, Some(0x7fff_1234_5678));
    assert_eq!(sample.id, Some(0x2222));
    assert_eq!(sample.stream_id, Some(0x3333));
    assert_eq!(sample.cpu, Some(5));
    assert_eq!(sample.period, Some(100_003));
    let counts: Vec<Count> = sample.counts.unwrap().iter().collect();
    assert_eq!(counts, [Count { value: 77, id: None, lost: None }]);
    let frames: Vec<_> = sample.callchain.unwrap().frames().map(|frame| (frame.address, frame.context)).collect();
    assert_eq!(frames, [(0xffff_8000_0000_1234, Context::Kernel), (0xffff_8000_0000_5678, Context::Kernel)]);
    assert_eq!(sample.raw, Some(&b"twelve bytes"[..]));
    let branches = sample.branches.unwrap();
    assert_eq!(branches.hardware_index, Some(31));
    let pairs: Vec<_> = branches.iter().map(|b| (b.from, b.to, b.flags.mispredicted(), b.flags.predicted())).collect();
    assert_eq!(pairs, [(0x10, 0x20, true, false), (0x30, 0x40, false, true)]);
    assert_eq!(branches.counters.unwrap().iter().collect::<Vec<_>>(), [0x0101, 0x0202]);
    let user = sample.user_registers.unwrap();
    assert_eq!(
        (user.abi, user.get(7), user.get(8), user.get(0)),
        (RegisterAbi::Bits64, Some(0x7ffe_0000), Some(0x40_0000), None)
    );
    let stack = sample.user_stack.unwrap();
    assert_eq!((stack.valid, stack.dumped_bytes), (&b"sixteen b"[..], 16));
    assert_eq!(sample.weight, Some(Weight::Parts { var1: 321, var2: 45, var3: 6 }));
    assert_eq!(sample.data_source.unwrap().0, 0x1e_0508_0021);
    let transaction = sample.transaction.unwrap();
    assert!(transaction.transaction() && transaction.retry() && !transaction.elision() && !transaction.conflict());
    assert_eq!(transaction.abort_code(), 1);
    let registers = sample.interrupt_registers.unwrap();
    assert_eq!(registers.iter().collect::<Vec<_>>(), [(0, 0xaaaa), (21, 0xdddd)]);
    assert_eq!((registers.get(21), registers.get(64), registers.get(u32::MAX)), (Some(0xdddd), None, None));
    assert_eq!(sample.physical_address, Some(0x8_0000_1000));
    assert_eq!(sample.cgroup, Some(99));
    assert_eq!((sample.data_page_bytes, sample.code_page_bytes), (Some(2 << 20), Some(4096)));
    assert_eq!(sample.aux, Some(&b"aux data"[..]));
}

#[test]
fn every_truncation_and_every_surplus_is_refused_where_it_is() {
    let (bytes, layout) = everything();
    for end in 8..bytes.len() {
        let mut cut = bytes[..end].to_vec();
        cut[6..8].copy_from_slice(&(end as u16).to_le_bytes());
        match decode(&cut, &layout) {
            Err(Error::Malformed { what, offset, .. }) => {
                assert_eq!(what, "PERF_RECORD_SAMPLE");
                assert!(offset <= end as u64 && offset >= 8, "{offset} of {end}");
            }
            other => panic!("cut at {end}: {other:?}"),
        }
    }
    let surplus = Bytes(bytes[8..].to_vec()).u64(0).record(9, 0);
    malformed_at(&surplus, &layout, bytes.len() as u64);
    // A header that says more than there is.
    malformed_at(&bytes[..bytes.len() - 8], &layout, 0);
}

#[test]
fn one_field_at_a_time() {
    let word = |value: u64| Bytes::new().u64(value).record(9, 1);
    let one = |field: u64, bytes: &[u8]| format!("{:?}", decode(bytes, &layout(field)).unwrap());
    for (field, shown) in [
        (IDENTIFIER, "identifier: Some(513)"),
        (IP, "ip: Some(513)"),
        (TIME, "time_ns: Some(513)"),
        (ADDR, "address: Some(513)"),
        (ID, "id: Some(513)"),
        (STREAM_ID, "stream_id: Some(513)"),
        (PERIOD, "period: Some(513)"),
        (PHYS_ADDR, "physical_address: Some(513)"),
        (CGROUP, "cgroup: Some(513)"),
        (DATA_PAGE_SIZE, "data_page_bytes: Some(513)"),
        (CODE_PAGE_SIZE, "code_page_bytes: Some(513)"),
        (WEIGHT, "weight: Some(Full(513))"),
        (WEIGHT_STRUCT, "weight: Some(Parts { var1: 513, var2: 0, var3: 0 })"),
        (DATA_SRC, "data_source: Some(DataSource(513))"),
        (TRANSACTION, "transaction: Some(Transaction(513))"),
        (CPU, "cpu: Some(513)"),
        (TID, "task: Some(Task { pid: 513, tid: 0 })"),
    ] {
        let shown_all = one(field, &word(513));
        assert!(shown_all.contains(shown), "{shown} in {shown_all}");
        assert_eq!(shown_all.matches("Some(").count() - shown.matches("Some(").count(), 0, "only {shown} in {shown_all}");
    }
}

#[test]
fn a_weight_struct_is_one_word_and_what_follows_is_not_lost() {
    let layout = layout(IP | WEIGHT_STRUCT | DATA_SRC | PHYS_ADDR);
    let bytes = Bytes::new().u64(1).u32(0x8000_0001).u16(0xffff).u16(0x1234).u64(2).u64(3).record(9, 2);
    let sample = decode(&bytes, &layout).unwrap();
    assert_eq!(sample.weight, Some(Weight::Parts { var1: 0x8000_0001, var2: 0xffff, var3: 0x1234 }));
    assert_eq!((sample.data_source.unwrap().0, sample.physical_address), (2, Some(3)));
    malformed_at(&Bytes::new().u64(1).u64(0).u64(2).record(9, 2), &layout, 32);
}

#[test]
fn every_read_format() {
    let read = |read_format, words: &[u64]| {
        let bytes = Bytes::new().u64s(words).record(9, 0);
        let layout = Layout { read_format, ..layout(READ) };
        let counts = decode(&bytes, &layout).unwrap().counts.unwrap();
        let each: Vec<_> = counts.iter().map(|count| (count.value, count.id, count.lost)).collect();
        (counts.time_enabled_ns, counts.time_running_ns, each)
    };
    // TOTAL_TIME_ENABLED 1, TOTAL_TIME_RUNNING 2, ID 4, GROUP 8, LOST 16
    assert_eq!(read(0, &[7]), (None, None, vec![(7, None, None)]));
    assert_eq!(read(1, &[7, 8]), (Some(8), None, vec![(7, None, None)]));
    assert_eq!(read(2, &[7, 8]), (None, Some(8), vec![(7, None, None)]));
    assert_eq!(read(3, &[7, 8, 9]), (Some(8), Some(9), vec![(7, None, None)]));
    assert_eq!(read(4, &[7, 8]), (None, None, vec![(7, Some(8), None)]));
    assert_eq!(read(16, &[7, 8]), (None, None, vec![(7, None, Some(8))]));
    assert_eq!(read(23, &[7, 8, 9, 10, 11]), (Some(8), Some(9), vec![(7, Some(10), Some(11))]));
    assert_eq!(read(8, &[2, 7, 8]), (None, None, vec![(7, None, None), (8, None, None)]));
    assert_eq!(read(8, &[0]), (None, None, vec![]));
    assert_eq!(read(12, &[2, 7, 8, 9, 10]), (None, None, vec![(7, Some(8), None), (9, Some(10), None)]));
    assert_eq!(read(24, &[2, 7, 8, 9, 10]), (None, None, vec![(7, None, Some(8)), (9, None, Some(10))]));
    assert_eq!(
        read(31, &[2, 50, 40, 7, 8, 9, 10, 11, 12]),
        (Some(50), Some(40), vec![(7, Some(8), Some(9)), (10, Some(11), Some(12))])
    );
    let layout = Layout { read_format: 12, ..layout(READ) };
    malformed_at(&Bytes::new().u64s(&[3, 1, 2, 3, 4, 5]).record(9, 0), &layout, 16);
    malformed_at(&Bytes::new().u64s(&[u64::MAX, 1, 2]).record(9, 0), &layout, 16);
}

#[test]
fn branch_stacks_with_and_without_index_and_counters() {
    let with = |branch_sample_type| Layout { branch_sample_type, ..layout(BRANCH_STACK | WEIGHT) };
    let entry = [0x40_1000, 0x40_2000, 1 | 1 << 2 | 1000 << 4 | 4 << 20 | 2 << 24 | 1 << 30];
    let plain = Bytes::new().u64(1).u64s(&entry).u64(5).record(9, 2);
    let sample = decode(&plain, &with(0)).unwrap();
    let stack = sample.branches.unwrap();
    let branch = stack.iter().next().unwrap();
    assert_eq!((stack.len(), stack.hardware_index, stack.counters), (1, None, None));
    assert_eq!((branch.from, branch.to), (0x40_1000, 0x40_2000));
    let flags = branch.flags;
    assert!(flags.mispredicted() && !flags.predicted() && flags.in_transaction() && !flags.abort());
    assert_eq!((flags.cycles(), flags.kind(), flags.speculation(), flags.privilege()), (1000, 4, 2, 1));
    assert_eq!(sample.weight, Some(Weight::Full(5)));

    let indexed = Bytes::new().u64(1).u64(17).u64s(&entry).u64(5).record(9, 2);
    assert_eq!(decode(&indexed, &with(1 << 17)).unwrap().branches.unwrap().hardware_index, Some(17));
    let counted = Bytes::new().u64(1).u64s(&entry).u64(0x33).u64(5).record(9, 2);
    let stack = decode(&counted, &with(1 << 19)).unwrap().branches.unwrap();
    assert_eq!(stack.counters.unwrap().get(0), Some(0x33));

    // Empty: the index follows if the hardware's stack was read, a bare 0 stands there if it was not.
    let empty = Bytes::new().u64(0).u64(u64::MAX).u64(5).record(9, 2);
    let sample = decode(&empty, &with(1 << 17)).unwrap();
    assert_eq!((sample.branches.unwrap().hardware_index, sample.weight), (Some(u64::MAX), Some(Weight::Full(5))));
    let bare = Bytes::new().u64(0).u64(5).record(9, 2);
    let sample = decode(&bare, &with(1 << 17)).unwrap();
    assert_eq!((sample.branches.unwrap().hardware_index, sample.weight), (None, Some(Weight::Full(5))));
    assert!(sample.branches.unwrap().is_empty());
    // With entries the index is never left out.
    malformed_at(&plain, &with(1 << 17), 48);

    malformed_at(&Bytes::new().u64(2).u64s(&entry).u64(5).record(9, 2), &with(0), 16);
}

#[test]
fn a_kernel_thread_has_no_registers_and_no_stack() {
    let layout = Layout { sample_regs_user: 0xff_0fff, ..layout(REGS_USER | STACK_USER | WEIGHT) };
    let bytes = Bytes::new().u64(0).u64(0).u64(8).record(9, 1);
    let sample = decode(&bytes, &layout).unwrap();
    let registers = sample.user_registers.unwrap();
    assert_eq!((registers.abi, registers.mask, registers.iter().count()), (RegisterAbi::None, 0, 0));
    assert_eq!(sample.user_stack.unwrap().valid, b"");
    assert_eq!(sample.weight, Some(Weight::Full(8)));
}

#[test]
fn register_dumps_of_32_bit_tasks_and_of_no_known_abi() {
    let layout = Layout { sample_regs_user: 0x3, ..layout(REGS_USER) };
    let registers = Bytes::new().u64(1).u64s(&[5, 6]).record(9, 2);
    let registers = decode(&registers, &layout).unwrap().user_registers.unwrap();
    assert_eq!((registers.abi, registers.get(1)), (RegisterAbi::Bits32, Some(6)));
    malformed_at(&Bytes::new().u64(3).u64s(&[5, 6]).record(9, 2), &layout, 8);
    malformed_at(&Bytes::new().u64(1 << 40).u64s(&[5, 6]).record(9, 2), &layout, 8);
    // Fewer registers than the mask has.
    malformed_at(&Bytes::new().u64(2).u64s(&[5]).record(9, 2), &layout, 16);
}

#[test]
fn the_register_of_a_tag_in_a_pebs_record() {
    // IP, TID, ADDR, then R13 alone: what a tag in a register costs in a record.
    let layout = Layout { sample_regs_intr: 1 << 21, ..layout(IP | TID | ADDR | REGS_INTR) };
    let bytes = Bytes::new().u64(0x40_1000).u32(1).u32(2).u64(0x7000).u64(2).u64(0xfeed_0000_0000_0007).record(9, 0x4002);
    let sample = decode(&bytes, &layout).unwrap();
    assert_eq!(sample.interrupt_registers.unwrap().get(21), Some(0xfeed_0000_0000_0007));
    assert_eq!(layout.sample_size_bytes(&record::Payload::default()), bytes.len() as u64);
}

#[test]
fn a_stack_cannot_be_more_valid_than_it_is_long() {
    let layout = layout(STACK_USER);
    malformed_at(&Bytes::new().u64(8).u64(0x55).u64(9).record(9, 2), &layout, 24);
    let full = Bytes::new().u64(8).u64(0x55).u64(8).record(9, 2);
    assert_eq!(decode(&full, &layout).unwrap().user_stack.unwrap().valid.len(), 8);
    malformed_at(&Bytes::new().u64(u64::MAX).u64(0x55).u64(9).record(9, 2), &layout, 16);
}

#[test]
fn call_chains_tell_whose_an_address_is() {
    let markers = [(-32_i64, 1), (-128, 2), (-512, 3), (-640, 4), (-2048, 5), (-2176, 6), (-2560, 7), (-4095, 8), (-1, 9)];
    let bytes = markers.iter().fold(Bytes::new().u64(19).u64(0xabc), |bytes, (marker, ip)| bytes.u64(*marker as u64).u64(*ip));
    let bytes = bytes.record(9, 2);
    let frames: Vec<_> = decode(&bytes, &layout(CALLCHAIN)).unwrap().callchain.unwrap().frames().collect();
    use Context::*;
    let expected = [Unknown, Hypervisor, Kernel, User, UserDeferred, Guest, GuestKernel, GuestUser, Unknown, Unknown];
    assert_eq!(frames.iter().map(|frame| frame.context).collect::<Vec<_>>(), expected);
    assert_eq!(frames.iter().map(|frame| frame.address).collect::<Vec<_>>(), [0xabc, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
    malformed_at(&Bytes::new().u64(2).u64(1).record(9, 2), &layout(CALLCHAIN), 16);
    malformed_at(&Bytes::new().u64(1 << 61).u64(1).record(9, 2), &layout(CALLCHAIN), 16);
}

#[test]
fn raw_data_end_where_their_length_says() {
    let layout = layout(RAW | WEIGHT);
    let bytes = Bytes::new().u32(4).u32(0).u64(9).record(9, 2);
    assert_eq!(decode(&bytes, &layout).unwrap().raw, Some(&[0; 4][..]));
    malformed_at(&Bytes::new().u32(100).u32(0).u64(9).record(9, 2), &layout, 12);
}

#[test]
fn data_sources() {
    let source = |word: u64| {
        let bytes = Bytes::new().u64(word).record(9, 2);
        decode(&bytes, &layout(DATA_SRC)).unwrap().data_source.unwrap()
    };
    // What the kernel writes for an event without a source: all parts "not available" (PERF_MEM_NA).
    let none = source(0x1e_0508_0021);
    assert!(none.operation().not_available && none.level_flags().not_available && none.snoop().not_available);
    assert!(none.lock().not_available && none.data_tlb().not_available);
    assert_eq!(none.level(), Level::NotAvailable);
    // A load that hit L3 modified in another core: op 2, level 2|64 from bit 5, snoop 16 from bit 19, lock 2 from bit 24,
    // TLB hit 2 | L1 8 from bit 26, number 3 from bit 33, remote bit 37, forwarded bit 38, blocked by data 2 from bit 40,
    // hops 2 from bit 43, region 5 from bit 46.
    let word = 2 | (2 | 64) << 5 | 16 << 19 | 2 << 24 | (2 | 8) << 26 | 3 << 33 | 1 << 37 | 1 << 38 | 2 << 40 | 2 << 43 | 5 << 46;
    let load = source(word);
    let (operation, level, snoop) = (load.operation(), load.level_flags(), load.snoop());
    assert!(operation.load && !operation.store && !operation.prefetch && !operation.execute && !operation.not_available);
    assert!(level.hit && level.l3 && !level.miss && !level.l1 && !level.l2 && !level.local_ram);
    assert!(snoop.hit_modified && snoop.forwarded && !snoop.hit && !snoop.peer && !snoop.miss);
    assert!(load.lock().locked && !load.lock().not_available);
    let tlb = load.data_tlb();
    assert!(tlb.hit && tlb.l1 && !tlb.miss && !tlb.l2 && !tlb.walker && !tlb.os);
    assert_eq!((load.level(), load.remote(), load.hops(), load.region()), (Level::L3, true, Hops::SameSocket, 5));
    assert!(load.blocked().data && !load.blocked().address);
    let levels: Vec<Level> = (0..16).map(|number| source(number << 33).level()).collect();
    use Level::*;
    assert_eq!(levels[..8], [Unset, L1, L2, L3, L4, L2MissHandling, MemorySideCache, L0]);
    assert_eq!(levels[8..], [Uncached, Cxl, Io, AnyCache, LineFillBuffer, Ram, PersistentMemory, NotAvailable]);
    assert_eq!(source(7 << 43).hops(), Hops::Reserved(7));
}

#[test]
fn sizes_are_those_of_the_bytes() {
    use record::Payload;
    let (bytes, layout_of_all) = everything();
    let payload = Payload { callchain_entries: 3, stack_bytes: 16, raw_bytes: 12, branches: 2, group_events: 0, aux_bytes: 8 };
    assert_eq!(layout_of_all.sample_size_bytes(&payload), bytes.len() as u64);
    // perf record's default: IP, TID, TIME, PERIOD: 40 bytes with the header.
    assert_eq!(layout(IP | TID | TIME | PERIOD).sample_size_bytes(&Payload::default()), 40);
    let group = Layout { read_format: 31, ..layout(READ) };
    assert_eq!(group.sample_size_bytes(&Payload { group_events: 2, ..Payload::default() }), 8 + 9 * 8);
    // A length and data that do not fill words are padded: 4 + 5 bytes are two words.
    assert_eq!(layout(RAW).sample_size_bytes(&Payload { raw_bytes: 5, ..Payload::default() }), 24);
    let stack = layout(STACK_USER | AUX);
    assert_eq!(stack.sample_size_bytes(&Payload::default()), 24);
    assert_eq!(stack.sample_size_bytes(&Payload { stack_bytes: u64::MAX, ..Payload::default() }), 65_528);
}
