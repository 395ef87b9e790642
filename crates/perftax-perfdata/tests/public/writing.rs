//! Recordings that are written are read: by ourselves, by a reader that others wrote, and by perf.

use std::fs::File;
use std::io::{Read, Seek};
use std::path::Path;
use std::process::Command;

use linux_perf_data::{PerfFileReader, PerfFileRecord};
use perftax_perfdata::recording::Recording;
use perftax_perfdata::writing::{BuildId, Destination, EventDescription, Features, FileWriter, Writer};
use perftax_pmu::event::{Catalog, parse};
use perftax_pmu::record::{Encoder, Header, MappedCode, Task};
use perftax_pmu::sampler::{Payload, Sampling, attribute_bytes};

const TASK: Task = Task { pid: 7000, tid: 7001 };

fn sampling() -> Sampling {
    Sampling::every(1_000_003, 1 << 16).carrying(Payload::BASIC.with_cpu().with_period())
}

fn described() -> Vec<EventDescription> {
    let event = parse("cpu-clock", &Catalog::of_this_machine()).unwrap().remove(0);
    vec![EventDescription {
        name: "cpu-clock".into(),
        attribute: attribute_bytes(&event, &sampling(), Some(1000)),
        ids: Vec::new(),
    }]
}

/// `IP`, `TID`, `TIME`, `CPU`, `PERIOD`.
fn sample(ip: u64, time_ns: u64, period: u64) -> Vec<u8> {
    let size = Header::BYTES + 5 * 8;
    let mut bytes = Header { kind: 9, misc: 2, size: size as u16 }.bytes().to_vec();
    let task = u64::from(TASK.pid) | u64::from(TASK.tid) << 32;
    bytes.extend([ip, task, time_ns, 1, period].iter().flat_map(|word| word.to_le_bytes()));
    bytes
}

fn features() -> Features {
    Features {
        build_ids: vec![BuildId { path: "/usr/bin/made up".into(), id: (1..=20).collect(), is_kernel: false }],
        hostname: "somewhere".into(),
        kernel: "6.1.0".into(),
        recorder: "perftax test".into(),
        arch: "x86_64".into(),
        cpus: 2,
        cpu: "A processor".into(),
        memory_kib: 1024,
        command: ["perftax", "record", "--", "made up", "-x"].map(String::from).to_vec(),
        pmus: vec![(1, "software".into())],
        sample_times_ns: Some((1_000, 500_000)),
    }
}

/// Rounds of samples with a process that is known; how many samples there are.
fn write(file: File) -> (FileWriter, u64) {
    let mut writer = FileWriter::create(file, described()).unwrap();
    let encoder = Encoder::new(&sampling().payload.layout());
    let code =
        MappedCode { address: 0x1000, length: 0x1000, file_offset: 0, path: b"/usr/bin/made up", device: (0, 0), inode: 0 };
    let known = [encoder.comm(TASK, b"made up"), encoder.mmap2(TASK, &code)].concat();
    writer.write(&known).unwrap();
    for round in 0..10 {
        let mut records: Vec<u8> = (0..50).flat_map(|i| sample(0x1000 + i, 1_000 * (round * 50 + i + 1), 1_000_003)).collect();
        records.extend(Encoder::finished_round());
        writer.write(&records).unwrap();
    }
    (writer, 500)
}

fn count_by_others(path: &Path) -> (u64, u64) {
    let mut file = File::open(path).unwrap();
    file.rewind().unwrap();
    let PerfFileReader { mut record_iter, mut perf_file } = PerfFileReader::parse_file(file).unwrap();
    let (mut samples, mut weight) = (0, 0);
    while let Some(record) = record_iter.next_record(&mut perf_file).unwrap() {
        if let PerfFileRecord::EventRecord { record, .. } = record
            && let linux_perf_data::linux_perf_event_reader::EventRecord::Sample(sample) = record.parse().unwrap()
        {
            samples += 1;
            weight += sample.period.unwrap();
        }
    }
    (samples, weight)
}

#[test]
fn a_complete_recording_says_all_of_itself() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.data");
    let (writer, samples) = write(File::create_new(&path).unwrap());
    writer.finish(&features()).1.unwrap();
    let read = Recording::open(&path).unwrap();
    assert_eq!(read.events.iter().map(|event| event.samples).sum::<u64>(), samples);
    assert_eq!((read.events.len(), read.events[0].name.as_str()), (1, "cpu-clock"));
    assert!(read.fault.is_none());
    let said = &read.features;
    assert_eq!((said.hostname.as_str(), said.kernel.as_str(), said.cpu.as_str()), ("somewhere", "6.1.0", "A processor"));
    assert_eq!(said.program(), ["made up", "-x"]);
    assert_eq!(said.build_ids.as_ref().unwrap()["/usr/bin/made up"], (1..=20).collect::<Vec<u8>>());
    assert_eq!(count_by_others(&path), (samples, samples * 1_000_003));
}

/// Whoever was killed had written whole rounds, and the head says how many.
#[test]
fn a_recording_without_an_end_is_one_without_features() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.data");
    let (writer, samples) = write(File::create_new(&path).unwrap());
    drop(writer);
    let read = Recording::open(&path).unwrap();
    assert_eq!(read.events.iter().map(|event| event.samples).sum::<u64>(), samples);
    assert!(read.features.hostname.is_empty());
    assert_eq!(count_by_others(&path).0, samples);
}

#[test]
fn perf_reads_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.data");
    let (writer, samples) = write(File::create_new(&path).unwrap());
    writer.finish(&features()).1.unwrap();
    let perf = |arguments: &[&str]| {
        let output = Command::new("perf").args(arguments).arg("-i").arg(&path).output().unwrap();
        assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let script = perf(&["script", "-F", "comm,tid,ip,period,dso"]);
    assert_eq!(script.lines().count() as u64, samples, "{script}");
    assert!(script.lines().all(|line| line.contains("made up") && line.contains("1000003") && line.contains("7001")), "{script}");
    let header = perf(&["report", "--header-only"]);
    for said in ["hostname : somewhere", "os release : 6.1.0", "nrcpus online : 2", "A processor", "software = 1"] {
        assert!(header.contains(said), "{said}: {header}");
    }
    let ids = perf(&["buildid-list"]);
    assert!(ids.contains("0102030405060708090a0b0c0d0e0f1011121314") && ids.contains("/usr/bin/made up"), "{ids}");
}

/// What a full disk took of a round is not there, and what was before is.
#[test]
fn records_that_do_not_fit_leave_what_was_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.data");
    let (mut writer, samples) = write(File::create_new(&path).unwrap());
    let whole = writer.data_bytes();
    // As if half a record had been written before the disk was full.
    std::os::unix::fs::FileExt::write_all_at(&File::options().write(true).open(&path).unwrap(), &[9; 20], whole + 168).unwrap();
    writer.write(&[]).unwrap();
    writer.finish(&features()).1.unwrap();
    let mut bytes = Vec::new();
    File::open(&path).unwrap().read_to_end(&mut bytes).unwrap();
    assert_eq!(Recording::open(&path).unwrap().events[0].samples, samples);
    assert_eq!(Recording::open(&path).unwrap().features.hostname, "somewhere");
}

/// Every record of a stream is of whole words: newer readers refuse others.
#[test]
fn streams_are_of_whole_words() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.data");
    let stream = Destination::Pipe(File::create_new(&path).unwrap());
    let mut writer = Writer::create(stream, &described(), &features()).unwrap();
    writer.write(&sample(0x1000, 5, 1_000_003)).unwrap();
    // Paths of many lengths.
    let build_ids = (1..200).map(|length| BuildId { path: "x".repeat(length), id: vec![7; 20], is_kernel: false }).collect();
    writer.finish(&Features { build_ids, ..features() }).1.unwrap();
    let bytes = std::fs::read(&path).unwrap();
    let (mut at, mut records) = (16, 0);
    while at < bytes.len() {
        let size = usize::from(u16::from_le_bytes([bytes[at + 6], bytes[at + 7]]));
        assert!(size >= 8 && size.is_multiple_of(8), "{size} bytes at {at}");
        (at, records) = (at + size, records + 1);
    }
    assert!(at == bytes.len() && records > 200, "{at} {records}");
    assert_eq!(Recording::open(&path).unwrap().events[0].samples, 1);
}
