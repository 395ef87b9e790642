#![allow(clippy::unwrap_used)] // tests may

use std::collections::BTreeMap;
use std::path::Path;

use super::*;
use crate::executed::ExecutedTotals;
use crate::kernel::{Interruption, KernelEvent, What};
use crate::mark::Kind;
use crate::row::EventRow;
use crate::spot::Spot;
use crate::tracker::{Counted, Record, Sampled};

const MARKS_WRITTEN: u64 = GROUP_ROWS as u64 + 3;

fn write(folder: &Path) -> Vec<Record> {
    let kinds = [Kind::Begin, Kind::Switch, Kind::End];
    let whats = [
        What::Switch { is_runnable: false, next: 6 },
        What::Switch { is_runnable: true, next: 0 },
        What::Wakeup { tid: 9 },
        What::Enter(Interruption::Softirq, 3),
        What::Exit(Interruption::Vector, 1),
        What::SyscallEnter(60),
        What::SyscallExit(60),
        What::FaultEnter,
        What::FaultExit,
        What::Ran(1 << 40),
        What::Migrate { tid: 4, to: Some(0) },
        What::TlbFlush(2),
        What::Nmi(1 << 33),
    ];
    let mut writer = StoreWriter::create(folder).unwrap();
    let mut records = Vec::new();
    for i in 0..MARKS_WRITTEN {
        let mark = Mark { time_ns: 3 * i, tid: 7, id: u64::MAX >> 2, kind: kinds[i as usize % 3] };
        writer.mark(&mark).unwrap();
        records.push(Record::Mark(mark));
    }
    for (i, what) in whats.into_iter().enumerate() {
        let event = KernelEvent { time_ns: 5 * i as u64 + 1, cpu: 1, tid: 5, what };
        writer.kernel(&event).unwrap();
        records.push(Record::Kernel(event));
    }
    for (i, ip) in [0x40_1000, u64::MAX - 5, 0x99].into_iter().enumerate() {
        let time_ns = 10 * i as u64 + 2;
        writer.sample(&SampleRow { time_ns, cpu: 1, pid: 7, tid: 7, ip, tag: 0xdead }).unwrap();
        records.push(Record::Sample(Sampled { time_ns, tid: 7, function: [1, 2, 0][i] }));
    }
    let function = |name: &str, module: &str| Function { name: name.into(), module: module.into() };
    // Sorted by process and address: the kernel's comes first, and its number would be 1.
    let symbols =
        BTreeMap::from([((0, u64::MAX - 5), function("schedule", "[kernel]")), ((7, 0x40_1000), function("main", "a.out"))]);
    let room = writer.finish(&symbols, &[(8, "SELECT")]).unwrap();
    assert_eq!(room, Room { marks: MARKS_WRITTEN, samples: 3, kernel: 13, events: 0, executed: 0, refused: 0 });
    for record in &mut records {
        if let Record::Sample(sample) = record {
            sample.function = [0, 2, 1][sample.function as usize];
        }
    }
    records.sort_by_key(|record| (record.time_ns(), matches!(record, Record::Mark(_)), matches!(record, Record::Sample(_))));
    records
}

#[test]
fn what_was_written_is_read_again_in_order_of_time() {
    let folder = tempfile::tempdir().unwrap();
    let written = write(folder.path());
    let store = Store::open(folder.path()).unwrap();
    let mut read = Vec::new();
    store.records(|record| read.push(*record)).unwrap();
    assert_eq!(read.len(), written.len());
    assert!(read == written);
    assert_eq!(store.symbols.get(store.symbols.function(3, u64::MAX - 5)).name, "schedule");
    assert_eq!(store.labels.get(&8).map(String::as_str), Some("SELECT"));
    let mut tags = Vec::new();
    store.samples(|sample| tags.push((sample.cpu, sample.pid, sample.tag))).unwrap();
    assert_eq!(tags, [(1, 7, 0xdead); 3]);
}

/// Counted events come between what the kernel did and samples; what lies at their addresses has its name, and the sums of what was not kept stay.
#[test]
fn counted_events_are_read_with_their_objects() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = StoreWriter::create(folder.path()).unwrap();
    writer.count_events().unwrap();
    let row = |time_ns, ip, event, object| EventRow { time_ns, cpu: 0, pid: 7, tid: 8, event, object, ip, address: 0x9000 };
    for (time_ns, kind) in [(10, Kind::Begin), (30, Kind::End)] {
        writer.mark(&Mark { time_ns, tid: 8, id: 1, kind }).unwrap();
    }
    [row(20, 0x40_1000, 1, 2), row(21, 0x99, 0, 0)].iter().for_each(|row| writer.event(row).unwrap());
    let symbols = BTreeMap::from([((7, 0x40_1000), Function { name: "main".into(), module: "a.out".into() })]);
    assert_eq!(writer.finish(&symbols, &[]).unwrap().events, 2);
    write_objects(folder.path(), &["heap".to_string(), "table [a.out]".to_string()]).unwrap();
    let mut store = Store::open(folder.path()).unwrap();
    let mut read = Vec::new();
    store.records(|record| read.push(*record)).unwrap();
    let function = store.symbols.function(7, 0x40_1000);
    let spot = Spot { event: 1, function, object: 2 };
    assert_eq!(read[1], Record::Counted(Counted { time_ns: 20, tid: 8, spot }));
    assert_eq!((read.len(), function != 0, store.objects[1].as_str()), (4, true, "table [a.out]"));
    let mut background = Background::default();
    background.usual.events = BTreeMap::from([(spot, 70), (Spot::default(), 3)]);
    background.write(folder.path(), &store.symbols, &store.objects).unwrap();
    store = Store::open(folder.path()).unwrap();
    assert_eq!(store.background.unwrap().usual.events, background.usual.events);
}

/// What threads have executed comes before marks of the same time, and the sums of what was not kept stay.
#[test]
fn what_threads_have_executed_is_read_before_their_marks() {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = StoreWriter::create(folder.path()).unwrap();
    let counted = Executed { instructions: 1 << 40, cycles: 7 };
    let readings = [(10, Some(counted), ReadBy::Us), (30, None, ReadBy::UsAsItLeaves)];
    let reading = |(time_ns, executed, by)| Reading { time_ns, tid: 8, executed, by };
    writer.executed(&reading(readings[0])).unwrap();
    writer.count_executed().unwrap();
    for (time_ns, kind) in [(10, Kind::Begin), (30, Kind::End)] {
        writer.mark(&Mark { time_ns, tid: 8, id: 1, kind }).unwrap();
    }
    readings.iter().for_each(|one| writer.executed(&reading(*one)).unwrap());
    assert_eq!(writer.finish(&BTreeMap::new(), &[]).unwrap().executed, 2);
    let store = Store::open(folder.path()).unwrap();
    let mut read = Vec::new();
    store.records(|record| read.push(*record)).unwrap();
    assert_eq!([read[0], read[2]], readings.map(|one| Record::Executed(reading(one))));
    assert!(read.len() == 4 && matches!((read[1], read[3]), (Record::Mark(_), Record::Mark(_))), "{read:?}");
    let mut background = Background::default();
    background.usual.executed = ExecutedTotals { messages: 3, executed: counted, on_cpu_ns: 11 };
    background.write(folder.path(), &store.symbols, &store.objects).unwrap();
    let usual = Store::open(folder.path()).unwrap().background.unwrap().usual;
    assert_eq!(usual.executed, background.usual.executed);
}

#[test]
fn what_is_no_trace_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let error = |folder: &Path| match Store::open(folder) {
        Ok(store) => store.records(|_| ()).unwrap_err().to_string(),
        Err(error) => error.to_string(),
    };
    assert!(error(folder.path()).contains("symbols.parquet"));
    write(folder.path());
    let marks = folder.path().join("marks.parquet");
    let whole = std::fs::read(&marks).unwrap();
    std::fs::write(&marks, &whole[..whole.len() - 10]).unwrap();
    assert!(error(folder.path()).contains("marks.parquet is malformed"), "{}", error(folder.path()));
    // Torn within: the footer is whole, and the data is not.
    let mut torn = whole.clone();
    torn[100..5000].fill(0x5a);
    std::fs::write(&marks, torn).unwrap();
    assert!(error(folder.path()).contains("marks.parquet"), "{}", error(folder.path()));
    std::fs::copy(folder.path().join("kernel.parquet"), &marks).unwrap();
    let mixed = error(folder.path());
    assert!(mixed.contains("has columns time_ns, cpu, tid, what, other, needs id"), "{mixed}");
    assert!(StoreWriter::create(&folder.path().join("missing")).is_err());
}
