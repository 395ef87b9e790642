//! Every kind of record, built byte by byte; the stream that holds them; the tally over it.

use crate::records_bytes::Bytes;
use perftax_pmu::Error;
use perftax_pmu::record::{self, CpuMode, Header, Layout, MappedFile, NamespaceLink, Record, SampleId, Tally, Task};

/// TID, TIME, ID, STREAM_ID, CPU, IDENTIFIER, with sample_id_all: all that a trailer can hold. IP and ADDR are in samples only.
const LAYOUT: Layout = Layout {
    sample_type: 1 << 1 | 1 << 2 | 1 << 6 | 1 << 9 | 1 << 7 | 1 << 16 | 1 | 1 << 3,
    read_format: 0,
    branch_sample_type: 0,
    sample_regs_user: 0,
    sample_regs_intr: 0,
    sample_id_all: true,
};

const ID: SampleId = SampleId {
    task: Some(Task { pid: 70, tid: 71 }),
    time_ns: Some(1_000_000_007),
    id: Some(501),
    stream_id: Some(502),
    cpu: Some(3),
    identifier: Some(503),
};

fn with_trailer(bytes: Bytes) -> Bytes {
    bytes.u32(70).u32(71).u64(1_000_000_007).u64(501).u64(502).u32(3).u32(0).u64(503)
}

fn decode<'a>(bytes: &'a [u8], layout: &Layout) -> perftax_pmu::Result<Record<'a>> {
    let (head, body) = bytes.split_first_chunk().unwrap();
    record::decode(Header::parse(head), body, layout)
}

/// Decodes with a trailer and without, and refuses every cut and a surplus word of both unless `tail` says that the kind ends
/// in text or padding, where a word more or less is not seen.
fn check(kind: u32, misc: u16, body: Bytes, open_ended: bool, look: impl Fn(&Record<'_>, SampleId)) {
    let bare = Layout { sample_id_all: false, ..LAYOUT };
    for (layout, id, body) in [(LAYOUT, ID, with_trailer(body.clone())), (bare, SampleId::default(), body)] {
        let bytes = body.clone().record(kind, misc);
        look(&decode(&bytes, &layout).unwrap(), id);
        assert_eq!(
            record::identifier(Header::parse(bytes.first_chunk().unwrap()), &bytes[8..], &layout),
            layout.sample_id_all.then_some(503)
        );
        if !open_ended {
            for end in 0..body.0.len() {
                let cut = Bytes(body.0[..end].to_vec()).record(kind, misc);
                assert!(matches!(decode(&cut, &layout), Err(Error::Malformed { .. })), "kind {kind} cut at {end}");
            }
            let surplus = body.u64(0).record(kind, misc);
            assert!(matches!(decode(&surplus, &layout), Err(Error::Malformed { .. })), "kind {kind} with a word more");
        }
    }
}

const TASK: Task = Task { pid: 10, tid: 11 };

#[test]
fn mappings() {
    let body = Bytes::new().u32(10).u32(11).u64(0x40_0000).u64(0x1000).u64(0x2000).text("/usr/bin/true", 16);
    check(1, 0x2002, body, true, |record, id| {
        let Record::Mmap(mmap) = record else { panic!("{record:?}") };
        assert_eq!((mmap.task, mmap.address, mmap.length, mmap.file_offset), (TASK, 0x40_0000, 0x1000, 0x2000));
        assert_eq!((mmap.path, mmap.is_data, mmap.sample_id), (&b"/usr/bin/true"[..], true, id));
    });
    let front = Bytes::new().u32(10).u32(11).u64(0x40_0000).u64(0x1000).u64(0x2000);
    let by_inode = front.clone().u32(254).u32(1).u64(247_530).u64(9).u32(5).u32(2).text("/bin/a", 8);
    check(10, 2, by_inode, true, |record, id| {
        let Record::Mmap2(mmap) = record else { panic!("{record:?}") };
        assert_eq!(mmap.file, MappedFile::Inode { major: 254, minor: 1, inode: 247_530, generation: 9 });
        assert_eq!((mmap.protection, mmap.flags, mmap.mapping.path), (5, 2, &b"/bin/a"[..]));
        assert_eq!((mmap.mapping.is_data, mmap.mapping.sample_id), (false, id));
    });
    let by_build_id = front.u8(4).u8(0).u16(0).raw(b"\xde\xad\xbe\xef").raw(&[0; 16]).u32(5).u32(2).text("[vdso]", 8);
    check(10, 0x4002, by_build_id, true, |record, _| {
        let Record::Mmap2(mmap) = record else { panic!("{record:?}") };
        assert_eq!(mmap.file, MappedFile::BuildId(b"\xde\xad\xbe\xef"));
    });
    let too_long = Bytes::new().u64s(&[0; 4]).u8(21).raw(&[0; 23]).u64(0).text("x", 8).record(10, 0x4002);
    assert!(matches!(decode(&too_long, &Layout::default()), Err(Error::Malformed { offset: 40, .. })));
    let endless = Bytes::new().u64s(&[0; 4]).raw(b"notended").record(1, 2);
    assert!(matches!(decode(&endless, &Layout::default()), Err(Error::Malformed { offset: 40, .. })));
}

#[test]
fn tasks() {
    check(3, 0x2002, Bytes::new().u32(10).u32(11).text("awk", 8), true, |record, id| {
        let Record::Comm(comm) = record else { panic!("{record:?}") };
        assert_eq!((comm.task, comm.name, comm.by_exec, comm.sample_id), (TASK, &b"awk"[..], true, id));
    });
    // The ABI's order: pid, ppid, tid, ptid.
    let body = Bytes::new().u32(10).u32(8).u32(11).u32(9).u64(77);
    for kind in [4, 7] {
        check(kind, 2, body.clone(), false, |record, id| {
            let (Record::Exit(life) | Record::Fork(life)) = record else { panic!("{record:?}") };
            assert_eq!(matches!(record, Record::Exit(_)), kind == 4);
            assert_eq!((life.task, life.parent, life.time_ns, life.sample_id), (TASK, Task { pid: 8, tid: 9 }, 77, id));
        });
    }
    for (misc, out, preempted) in [(0, false, false), (0x2000, true, false), (0x6000, true, true)] {
        check(14, misc, Bytes::new(), false, |record, id| {
            let Record::Switch(switch) = record else { panic!("{record:?}") };
            assert_eq!((switch.out, switch.preempted, switch.other, switch.sample_id), (out, preempted, None, id));
        });
        check(15, misc, Bytes::new().u32(10).u32(11), false, |record, _| {
            let Record::SwitchCpuWide(switch) = record else { panic!("{record:?}") };
            assert_eq!((switch.out, switch.preempted, switch.other), (out, preempted, Some(TASK)));
        });
    }
}

#[test]
fn losses() {
    check(2, 0, Bytes::new().u64(501).u64(95), false, |record, id| {
        let Record::Lost(lost) = record else { panic!("{record:?}") };
        assert_eq!((lost.id, lost.lost, lost.sample_id), (501, 95, id));
    });
    for (misc, by_filter) in [(0, false), (0x8000, true)] {
        check(13, misc, Bytes::new().u64(12), false, |record, id| {
            let Record::LostSamples(lost) = record else { panic!("{record:?}") };
            assert_eq!((lost.lost, lost.by_filter, lost.sample_id), (12, by_filter, id));
        });
    }
    for kind in [5, 6] {
        check(kind, 0, Bytes::new().u64(1).u64(2).u64(3), false, |record, id| {
            let (Record::Throttle(throttle) | Record::Unthrottle(throttle)) = record else { panic!("{record:?}") };
            assert_eq!(matches!(record, Record::Throttle(_)), kind == 5);
            assert_eq!((throttle.time_ns, throttle.id, throttle.stream_id, throttle.sample_id), (1, 2, 3, id));
        });
    }
}

#[test]
fn aux_area() {
    for (flags, expected) in [
        (0_u64, (false, false, false, false, 0)),
        (1, (true, false, false, false, 0)),
        (2, (false, true, false, false, 0)),
        (4, (false, false, true, false, 0)),
        (8, (false, false, false, true, 0)),
        (0x109, (true, false, false, true, 1)),
    ] {
        check(11, 0, Bytes::new().u64(0x10000).u64(0x800).u64(flags), false, |record, id| {
            let Record::Aux(aux) = record else { panic!("{record:?}") };
            assert_eq!((aux.offset, aux.size, aux.sample_id), (0x10000, 0x800, id));
            let f = aux.flags;
            assert_eq!((f.truncated(), f.overwrite(), f.partial(), f.collision(), f.pmu_format()), expected);
        });
    }
    check(12, 0, Bytes::new().u32(10).u32(11), false, |record, id| {
        let Record::ItraceStart(start) = record else { panic!("{record:?}") };
        assert_eq!((start.task, start.sample_id), (TASK, id));
    });
    check(21, 0, Bytes::new().u64(0xabcd), false, |record, id| {
        let Record::AuxOutputHardwareId(output) = record else { panic!("{record:?}") };
        assert_eq!((output.hardware_id, output.sample_id), (0xabcd, id));
    });
}

#[test]
fn kernel_text() {
    let body = Bytes::new().u64(0xffff_ffff_c000_0000).u32(120).u16(1).u16(1).text("bpf_prog_1", 16);
    check(17, 0, body, true, |record, id| {
        let Record::Ksymbol(symbol) = record else { panic!("{record:?}") };
        assert_eq!((symbol.address, symbol.length, symbol.kind), (0xffff_ffff_c000_0000, 120, 1));
        assert_eq!((symbol.unregistered, symbol.name, symbol.sample_id), (true, &b"bpf_prog_1"[..], id));
    });
    check(18, 0, Bytes::new().u16(1).u16(0).u32(42).raw(b"\x01\x02\x03\x04\x05\x06\x07\x08"), false, |record, id| {
        let Record::BpfEvent(event) = record else { panic!("{record:?}") };
        assert_eq!((event.kind, event.flags, event.id, event.sample_id), (1, 0, 42, id));
        assert_eq!(event.tag, [1, 2, 3, 4, 5, 6, 7, 8]);
    });
    let poke = Bytes::new().u64(0xffff_ffff_8100_0000).u16(2).u16(5).raw(b"\x66\x90").raw(b"\xe8\x01\x02\x03\x04").raw(&[0; 5]);
    check(20, 0, poke.clone(), true, |record, id| {
        let Record::TextPoke(poke) = record else { panic!("{record:?}") };
        assert_eq!((poke.address, poke.old, poke.new), (0xffff_ffff_8100_0000, &b"\x66\x90"[..], &b"\xe8\x01\x02\x03\x04"[..]));
        assert_eq!(poke.sample_id, id);
    });
    let surplus = poke.u64(0).record(20, 0);
    assert!(matches!(decode(&surplus, &Layout::default()), Err(Error::Malformed { offset: 27, .. })));
}

#[test]
fn places() {
    check(19, 0, Bytes::new().u64(7).text("/user.slice", 16), true, |record, id| {
        let Record::Cgroup(cgroup) = record else { panic!("{record:?}") };
        assert_eq!((cgroup.id, cgroup.path, cgroup.sample_id), (7, &b"/user.slice"[..], id));
    });
    check(16, 0, Bytes::new().u32(10).u32(11).u64(2).u64s(&[3, 0xf000_0001, 3, 0xf000_0002]), false, |record, id| {
        let Record::Namespaces(namespaces) = record else { panic!("{record:?}") };
        assert_eq!((namespaces.task, namespaces.sample_id), (TASK, id));
        let links: Vec<_> = namespaces.links().collect();
        let link = |inode| NamespaceLink { device: 3, inode };
        assert_eq!(links, [link(0xf000_0001), link(0xf000_0002)]);
    });
}

#[test]
fn reads_and_deferred_chains() {
    check(8, 0, Bytes::new().u32(10).u32(11).u64(99), false, |record, id| {
        let Record::Read(read) = record else { panic!("{record:?}") };
        assert_eq!((read.task, read.counts.get(0).unwrap().value, read.sample_id), (TASK, 99, id));
    });
    check(22, 2, Bytes::new().u64(0x5_0000_0001).u64(2).u64s(&[0x40_1000, 0x40_2000]), false, |record, id| {
        let Record::CallchainDeferred(deferred) = record else { panic!("{record:?}") };
        assert_eq!((deferred.cookie, deferred.sample_id), (0x5_0000_0001, id));
        assert_eq!(deferred.callchain.entries.iter().collect::<Vec<_>>(), [0x40_1000, 0x40_2000]);
    });
}

#[test]
fn kinds_of_another_time_are_kept_apart() {
    for kind in [0, 23, 64, 82, u32::MAX] {
        let bytes = Bytes::new().u32(1).record(kind, 0);
        assert_eq!(decode(&bytes, &LAYOUT).unwrap(), Record::Other { kind });
    }
}

#[test]
fn headers() {
    let header = Header::parse(&[9, 0, 0, 0, 0x02, 0x40, 0x28, 0x01]);
    assert_eq!((header.kind, header.misc, header.size, header.body_len()), (9, 0x4002, 0x128, 0x120));
    assert!(header.is_exact_ip());
    let modes: Vec<CpuMode> = (0..8).map(|misc| Header { kind: 9, misc, size: 8 }.cpu_mode()).collect();
    use CpuMode::*;
    assert_eq!(modes, [Unknown, Kernel, User, Hypervisor, GuestKernel, GuestUser, Reserved(6), Reserved(7)]);
    assert_eq!(Header { kind: 1, misc: 0, size: 3 }.body_len(), 0);
}

#[test]
fn identifiers_stand_where_any_layout_puts_them() {
    let sample = |words: &[u64]| Bytes::new().u64s(words).record(9, 0);
    let at = |sample_type: u64, bytes: &[u8]| {
        let layout = Layout { sample_type, sample_id_all: true, ..Layout::default() };
        record::identifier(Header::parse(bytes.first_chunk().unwrap()), &bytes[8..], &layout)
    };
    assert_eq!(at(1 << 16 | 1 << 6 | 1, &sample(&[5, 6, 7])), Some(5));
    assert_eq!(at(1 << 6 | 1, &sample(&[5, 6])), Some(6)); // IP, ID
    assert_eq!(at(1 << 6 | 0xf, &sample(&[1, 2, 3, 4, 5])), Some(5)); // IP, TID, TIME, ADDR, ID
    assert_eq!(at(1 << 6 | 0xf, &sample(&[1, 2, 3, 4])), None);
    assert_eq!(at(1, &sample(&[1])), None);
    let lost = Bytes::new().u64s(&[1, 2, 30, 31, 32]).record(2, 0);
    assert_eq!(at(1 << 6 | 1 << 7 | 1 << 9, &lost), Some(30)); // ID, STREAM_ID, CPU
    assert_eq!(at(1 << 6 | 1 << 16, &lost), Some(32));
}

#[test]
fn a_stream_is_walked_and_tallied() {
    let mut bytes = Vec::new();
    let mut put = |record: Vec<u8>| bytes.extend(record);
    put(Bytes::new().u64(1).record(9, 2));
    put(Bytes::new().u64(2).u64(3).record(9, 2));
    put(Bytes::new().u64(501).u64(95).record(2, 0));
    put(Bytes::new().u64(501).u64(5).record(2, 0));
    put(Bytes::new().u64(7).record(13, 0));
    put(Bytes::new().u64s(&[1, 2, 3]).record(5, 0));
    put(Bytes::new().u64s(&[1, 2, 3]).record(6, 0));
    put(Bytes::new().u64s(&[0, 100, 8]).record(11, 0));
    put(Bytes::new().u64s(&[100, 50, 1 | 4]).record(11, 0));
    put(Bytes::new().u32(1).u32(1).text("a", 8).record(3, 0));
    put(Bytes::new().record(68, 0));
    put(Bytes::new().record(68, 0));
    let mut tally = Tally::default();
    let mut offsets = Vec::new();
    for raw in record::stream(&bytes) {
        let raw = raw.unwrap();
        offsets.push(raw.offset);
        tally.add(raw.header, raw.body).unwrap();
    }
    assert_eq!(offsets, [0, 16, 40, 64, 88, 104, 136, 168, 200, 232, 256, 264]);
    let expected = Tally {
        samples: 2,
        lost: 100,
        lost_samples: 7,
        throttled: 1,
        unthrottled: 1,
        aux_records: 2,
        aux_bytes: 150,
        aux_collisions: 1,
        aux_truncated: 1,
        aux_partial: 1,
        other: [(3, 1), (68, 2)].into(),
        bytes: 272,
    };
    assert_eq!(tally, expected);
    assert!(tally.is_discarded() && !Tally::default().is_discarded());
    let mut twice = tally.clone();
    twice.merge(&tally);
    assert_eq!((twice.samples, twice.lost, twice.other[&68], twice.bytes), (4, 200, 4, 544));
    assert!(tally.add(Header { kind: 2, misc: 0, size: 16 }, &[0; 8]).is_err());
}

#[test]
fn a_broken_stream_stops_where_it_breaks() {
    let good = Bytes::new().u64(1).record(9, 2);
    let broken = |tail: &[u8]| {
        let bytes = [&good[..], tail].concat();
        let mut stream = record::stream(&bytes);
        assert!(stream.next().unwrap().is_ok());
        match stream.next() {
            Some(Err(Error::Malformed { offset: 16, .. })) => {}
            other => panic!("{other:?}"),
        }
        assert!(stream.next().is_none());
        assert_eq!(stream.offset(), 16);
    };
    broken(&[9, 0, 0]);
    broken(&[9, 0, 0, 0, 0, 0, 7, 0]);
    broken(&[9, 0, 0, 0, 0, 0, 0, 0]);
    broken(&[9, 0, 0, 0, 0, 0, 17, 0, 1, 2, 3, 4, 5, 6, 7, 8]);
    broken(&Bytes::new().u64(u64::MAX).record(71, 0));
}

#[test]
fn what_perf_attaches_to_its_own_records_is_passed_over() {
    let mut bytes = Bytes::new().u64(5).u64s(&[0; 4]).record(71, 0);
    bytes.extend(b"trace");
    bytes.extend(Bytes::new().record(68, 0));
    let records: Vec<_> = record::stream(&bytes).map(Result::unwrap).collect();
    assert_eq!(records[0].attachment, b"trace");
    assert_eq!((records.len(), records[1].header.kind), (2, 68));
    let mut bytes = Bytes::new().u32(3).record(66, 0);
    bytes.extend(b"fmt\0\0\0\0\0");
    bytes.extend(Bytes::new().record(68, 0));
    let records: Vec<_> = record::stream(&bytes).piped().map(Result::unwrap).collect();
    assert_eq!((records.len(), records[0].attachment), (2, &b"fmt\0\0\0\0\0"[..]));
}
