//! Records in whatever order rings are written, and whatever stands between, inside or behind them.

use std::os::unix::fs::FileExt;
use std::path::Path;

use perftax_perfdata::recording::Recording;

use crate::bill_built::{ENABLE_ON_EXEC, MS, Pipe, SAMPLE_ID_ALL, SAMPLE_TYPE, TIMES, unpriced_bill as bill};

/// Two processes' lives on two CPUs: a command (7) that executes twice, and a child (8) that executes once, ends first, and is called as the command was when
/// it was forked. cpu-clock has an id for each CPU, and so has a counter that ran half of the time.
fn records(pipe: &Pipe) -> Vec<Vec<u8>> {
    let trailed = |kind: u32, misc: u16, body: Vec<u8>, time: u64| {
        pipe.record_bytes(kind, misc, &[body, pipe.trailer(10, 7, time)].concat())
    };
    let comm =
        |pid: u32, misc: u16, name: &[u8], time: u64| trailed(3, misc, [pipe.halves(&[pid, pid]), name.to_vec()].concat(), time);
    let at = |kind: u32, of: [u32; 4], time: u64| trailed(kind, 0, [pipe.halves(&of), pipe.words(&[time])].concat(), time);
    let read = |tid: u32, id: u64, enabled: u64, running: u64| {
        let body = [pipe.halves(&[tid, tid]), pipe.words(&[1, enabled, running])].concat();
        pipe.record_bytes(8, 0, &[body, pipe.trailer(id, tid, 500 * MS)].concat())
    };
    let mut records = vec![
        comm(7, 1 << 13, b"command\0", MS),
        at(7, [8, 7, 8, 7], 2 * MS),
        comm(7, 1 << 13, b"another\0", 100 * MS),
        at(4, [8, 7, 8, 7], 400 * MS),
        at(4, [7, 1, 7, 1], 1001 * MS),
        read(7, 20, 800, 100),
        read(7, 21, 800, 300),
        read(8, 20, 200, 100),
        read(8, 21, 200, 0),
    ];
    for i in 0..600u64 {
        let mut one = Pipe { big: pipe.big, bytes: Vec::new() };
        let cpu = (i % 3 == 0) as u32;
        one.sample(10 + u64::from(cpu), 7 + cpu, (2 + i) * MS, cpu);
        records.push(one.bytes);
    }
    records
}

fn built(big: bool, order: impl Fn(&mut Vec<Vec<u8>>)) -> Recording {
    let mut pipe = Pipe::new(big);
    pipe.event(1, 0, 1_000_000, SAMPLE_TYPE, 0, SAMPLE_ID_ALL | ENABLE_ON_EXEC, &[10, 11]);
    pipe.event(0, 0, 1 << 40, SAMPLE_TYPE, TIMES, SAMPLE_ID_ALL | ENABLE_ON_EXEC, &[20, 21]);
    let mut records = records(&pipe);
    order(&mut records);
    pipe.bytes.extend(records.concat());
    pipe.read()
}

#[test]
fn any_order_of_records_gives_the_same_bill() {
    let in_time = built(false, |_| ());
    assert_eq!(in_time.command_span_s(), Some(1.0));
    assert_eq!((in_time.counts.comm(7), in_time.counts.comm(8)), ("another", "command"));
    // The command a half, its child a half: on whichever CPU each of them was.
    assert_eq!(in_time.events[1].running(), Some(0.5));
    let expected = serde_json::to_value(bill(&in_time)).unwrap();
    for seed in 0..60 {
        let shuffled = built(seed % 2 == 0, |records| fastrand::Rng::with_seed(seed).shuffle(records));
        assert_eq!(serde_json::to_value(bill(&shuffled)).unwrap(), expected, "seed {seed}");
    }
    // Ring after ring, as perf writes them: of one CPU all, then of the other, the last one first.
    let by_ring = built(false, |records| records.sort_by_key(|record| record.len()));
    assert_eq!(serde_json::to_value(bill(&by_ring)).unwrap(), expected);
}

/// What begins with the exec of a command is told from what was attached.
#[test]
fn without_an_exec_of_perfs_there_is_no_run() {
    let mut pipe = Pipe::new(false);
    pipe.event(1, 0, 1_000_000, SAMPLE_TYPE, 0, SAMPLE_ID_ALL, &[10, 11]);
    pipe.bytes.extend(records(&pipe).concat());
    assert_eq!(pipe.read().command_span_s(), None);
}

#[test]
fn tracing_data_stand_inside_or_behind() {
    for (name, inside) in [("as perf writes them", false), ("as simpleperf does", true)] {
        let mut pipe = Pipe::new(false);
        pipe.event(1, 0, 1_000_000, SAMPLE_TYPE, 0, SAMPLE_ID_ALL | ENABLE_ON_EXEC, &[10, 11]);
        // They look like samples.
        let mut data = Pipe { big: false, bytes: Vec::new() };
        (0..5).for_each(|i| data.sample(10, 7, i * MS, 0));
        let size = pipe.halves(&[data.bytes.len() as u32]);
        match inside {
            true => pipe.record(66, 0, &[size, data.bytes].concat()),
            false => {
                pipe.record(66, 0, &size);
                pipe.bytes.extend(data.bytes);
            }
        }
        pipe.bytes.extend(records(&pipe).concat());
        let recording = pipe.read();
        assert_eq!((recording.fault.as_ref(), recording.events[0].samples), (None, 600), "{name}");
    }
}

/// A number is a name where the tracing data have it.
#[test]
fn tracepoints_are_named_by_the_tracing_data() {
    let sized = |bytes: &[u8]| [&(bytes.len() as u64).to_le_bytes()[..], bytes].concat();
    let one = 1_u32.to_le_bytes();
    let data = [
        &b"\x17\x08\x44tracing0.6\0\0\x08\0\x10\0\0header_page\0"[..],
        &sized(b"page"),
        b"header_event\0",
        &sized(b"event"),
        &0_u32.to_le_bytes(),
        &one,
        b"sched\0",
        &one,
        &sized(b"name: sched_switch\nID: 314\nformat:\n"),
    ]
    .concat();
    for inside in [false, true] {
        let mut pipe = Pipe::new(false);
        pipe.event(2, 314, 1, SAMPLE_TYPE, 0, SAMPLE_ID_ALL, &[10]);
        let size = pipe.halves(&[data.len() as u32]);
        pipe.record(66, 0, &if inside { [&size[..], &data].concat() } else { size });
        if !inside {
            pipe.bytes.extend(&data);
        }
        pipe.sample(10, 7, 2 * MS, 0);
        let recording = pipe.read();
        assert_eq!((recording.events[0].name.as_str(), recording.events[0].samples), ("sched:sched_switch", 1));
    }
}

/// `perf inject` of a pipe leaves a file whose events stand behind the records.
#[test]
fn events_behind_the_records_are_found_in_a_file() {
    let pipe = Pipe::new(false);
    let data = records(&pipe).concat();
    let mut attribute = Pipe::new(false);
    attribute.event(1, 0, 1_000_000, SAMPLE_TYPE, 0, SAMPLE_ID_ALL | ENABLE_ON_EXEC, &[]);
    // Behind the head of the pipe and of the record.
    let attribute = attribute.bytes[16 + 8..].to_vec();
    let (data_at, ids_at) = (104u64, 104 + data.len() as u64);
    let attribute_at = ids_at + 16;
    let mut file = b"PERFILE2".to_vec();
    let entry_bytes = attribute.len() as u64 + 16;
    file.extend(pipe.words(&[104, entry_bytes, attribute_at, entry_bytes, data_at, data.len() as u64, 0, 0, 0, 0, 0, 0]));
    file.extend(&data);
    file.extend(pipe.words(&[10, 11]));
    file.extend(&attribute);
    file.extend(pipe.words(&[ids_at, 16]));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("injected.data");
    std::fs::write(&path, &file).unwrap();
    let recording = Recording::open(&path).unwrap();
    assert_eq!((recording.events.len(), recording.events[0].samples, recording.fault.as_ref()), (1, 600, None));
    assert_eq!(recording.command_span_s(), Some(1.0));
    // A pipe cannot be read back, and says so; nor is what is cut off invented.
    let piped = Recording::read(&file[..], "-").unwrap_err().to_string();
    assert!(piped.contains("behind the records") && piped.contains("give the file"), "{piped}");
    let written = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    written.set_len(attribute_at + 20).unwrap();
    assert!(Recording::open(&path).is_err());
    // A place beyond all bounds.
    written.set_len(0).unwrap();
    written.write_all_at(&file, 0).unwrap();
    written.write_all_at(&u64::MAX.to_le_bytes(), 24).unwrap();
    assert!(Recording::open(&path).is_err());
}

#[test]
fn parts_of_a_recording_are_told_from_the_whole() {
    let whole = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/recordings/threads.data");
    let folder = tempfile::tempdir().unwrap();
    for name in ["data", "data.0", "data.1"] {
        std::fs::copy(whole.join(name), folder.path().join(name)).unwrap();
    }
    let records = |recording: &Recording| recording.counts.records.values().sum::<u64>();
    let all = records(&Recording::open(folder.path()).unwrap());
    for part in ["data", "data.0", "data.1"] {
        let refused = Recording::open(&folder.path().join(part)).unwrap_err().to_string();
        assert!(refused.contains("one part of the recording") && refused.contains(folder.path().to_str().unwrap()), "{refused}");
    }
    std::fs::remove_file(folder.path().join("data.0")).unwrap();
    let rest = Recording::open(folder.path()).unwrap();
    // This part holds no records of its own.
    assert_eq!(records(&rest), all);
    assert!(rest.fault.as_ref().is_some_and(|fault| fault.why.contains("data.0 is missing")), "{:?}", rest.fault);
}
