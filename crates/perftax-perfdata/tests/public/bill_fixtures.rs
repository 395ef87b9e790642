//! Checked-in recordings by perf 6.1 on Linux 6.18 decode to the counts that perf itself gave (fixtures/recordings/make.sh).

use std::io::Read;
use std::path::PathBuf;

use crate::bill_support::{Stats, assert_same};
use linux_perf_data::{PerfFileReader, PerfFileRecord};
use perftax_perfdata::recording::Recording;
use perftax_pmu::Error;

fn fixture(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/recordings").join(name)
}

fn open(name: &str) -> Recording {
    Recording::open(&fixture(name)).unwrap()
}

fn as_perf_counts(name: &str) -> Recording {
    let recording = open(name);
    let stats = std::fs::read_to_string(fixture(&format!("{name}.stats"))).unwrap();
    assert_same(&recording, &Stats::parse(&stats));
    recording
}

#[test]
fn cpu_clock() {
    let recording = as_perf_counts("cpu-clock.data");
    assert!(!recording.piped);
    assert_eq!(recording.events[0].attribute.frequency, Some(1000));
    assert_eq!(recording.features.hostname, "vm");
    assert_eq!(recording.features.kernel, "6.18.44-fc-v669");
    assert_eq!(recording.features.perf_version, "6.1.187");
    assert_eq!(recording.features.cpuid, "GenuineIntel,6,167,8");
    assert_eq!(recording.features.cpus_online, Some(2));
    assert_eq!(recording.features.pmus[&5], "breakpoint");
    assert_eq!(recording.features.program()[0], "perl");
    let thread = recording.counts.by_thread.keys().next().unwrap().0;
    assert_eq!(recording.counts.comm(thread.tid), "perl");
    let (command, samples) = (recording.command_span_s().unwrap(), recording.sample_span_s().unwrap());
    assert!(samples < command && command < 10.0 * samples, "{samples} {command}");
}

#[test]
fn several_events_on_known_cpus() {
    let recording = as_perf_counts("several.data");
    assert_eq!(recording.events.len(), 3);
    let samples: u64 = recording.events.iter().map(|e| e.samples).sum();
    assert_eq!(recording.counts.by_cpu.values().sum::<u64>(), samples, "ids tell the CPU of every sample");
}

#[test]
fn pipes() {
    assert!(as_perf_counts("piped.data").piped);
    let tracepoint = as_perf_counts("piped-tracepoint.data");
    assert!(tracepoint.events.iter().any(|e| e.name == "sched:sched_switch" && e.samples > 0));
}

#[test]
fn compressed() {
    as_perf_counts("compressed.data");
}

#[test]
fn losses_count_once() {
    let recording = as_perf_counts("lost.data");
    let event = &recording.events[0];
    assert_eq!(event.lost(), event.lost_samples);
    // The ring's own LOST records tell of the same losses again, up to those that no later record announced.
    assert!(event.lost_in_ring > 0 && event.lost_in_ring <= event.lost_samples, "{event:?}");
}

#[test]
fn throttling() {
    let recording = as_perf_counts("throttled.data");
    let clock = recording.events.iter().find(|e| e.name == "cpu-clock").unwrap();
    assert!(clock.throttled > 0);
    assert_eq!(clock.attribute.period, Some(20011));
}

#[test]
fn events_of_different_layout_and_a_fork() {
    let recording = as_perf_counts("two-layouts.data");
    let threads: std::collections::BTreeSet<_> = recording.counts.by_thread.keys().map(|k| k.0.tid).collect();
    assert_eq!(threads.len(), 2);
    assert!(threads.iter().all(|&tid| recording.counts.comm(tid) == "perl"), "the child is named after its parent");
}

#[test]
fn directory_of_record_threads() {
    as_perf_counts("threads.data");
}

/// A second reader that shares no code with ours, also for the one recording that perf 6.1 cannot read back itself.
#[test]
fn another_reader_counts_the_same() {
    for (name, piped) in
        [("cpu-clock.data", false), ("several.data", false), ("compressed.data", false), ("piped-compressed.data", true)]
    {
        let file = std::io::BufReader::new(std::fs::File::open(fixture(name)).unwrap());
        let mut theirs = std::collections::BTreeMap::<usize, u64>::new();
        let mut count = |record: PerfFileRecord| {
            if let PerfFileRecord::EventRecord { attr_index, record } = record
                && record.record_type.0 == 9
            {
                *theirs.entry(attr_index).or_default() += 1;
            }
        };
        if piped {
            let PerfFileReader { mut perf_file, mut record_iter } = PerfFileReader::parse_pipe(file).unwrap();
            while let Some(record) = record_iter.next_record(&mut perf_file).unwrap() {
                count(record);
            }
        } else {
            let PerfFileReader { mut perf_file, mut record_iter } = PerfFileReader::parse_file(file).unwrap();
            while let Some(record) = record_iter.next_record(&mut perf_file).unwrap() {
                count(record);
            }
        }
        let recording = open(name);
        assert_eq!(recording.fault, None);
        for (index, event) in recording.events.iter().enumerate() {
            assert_eq!(event.samples, theirs.get(&index).copied().unwrap_or(0), "{name}: {}", event.name);
        }
        assert!(theirs.values().sum::<u64>() > 0);
    }
}

#[test]
fn a_file_read_from_a_pipe_is_the_same() {
    let file = std::fs::File::open(fixture("several.data")).unwrap();
    // One byte at a time, as a slow pipe may give it.
    struct Slow<R>(R);
    impl<R: Read> Read for Slow<R> {
        fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
            let end = into.len().min(1);
            self.0.read(&mut into[..end])
        }
    }
    let slow = Recording::read(Slow(file), "slow").unwrap();
    let whole = open("several.data");
    assert_eq!(slow.counts.records, whole.counts.records);
    assert_eq!(slow.features, whole.features);
}

/// Cut at every byte: never a panic, never more samples than the whole, and a fault that names where the file ends.
#[test]
fn truncated_anywhere() {
    for name in ["several.data", "compressed.data", "piped.data", "lost.data"] {
        let whole = std::fs::read(fixture(name)).unwrap();
        let full: u64 = open(name).events.iter().map(|e| e.samples).sum();
        let word = |at: usize| u64::from_le_bytes(whole[at..at + 8].try_into().unwrap()) as usize;
        // Behind the records stand features that a bill does not read: a cut among those is no matter.
        let records_end = word(40).saturating_add(word(48));
        let mut last = 0;
        for length in (0..whole.len()).step_by(7) {
            match Recording::read(&whole[..length], name) {
                Err(Error::Malformed { offset, why, .. }) => {
                    assert!(offset <= length as u64, "{name} cut at {length}: {offset}: {why}");
                }
                Err(other) => panic!("{name} cut at {length}: {other}"),
                Ok(recording) => {
                    let samples: u64 = recording.events.iter().map(|e| e.samples).sum();
                    assert!(samples >= last && samples <= full, "{name} cut at {length}: {samples} of {full}");
                    last = samples;
                    if let Some(fault) = recording.fault {
                        assert!(fault.at_byte <= length as u64, "{name} cut at {length}: {fault:?}");
                    } else if !recording.piped && length < records_end {
                        panic!("{name} cut at {length} shows no fault");
                    }
                }
            }
        }
    }
}

/// `perf record` that was killed never writes the length of the data section.
/// What stands behind the records is to be there as well, whether anybody looks at it or not.
#[test]
fn a_file_that_ends_inside_its_header_features_is_cut_off() {
    let bytes = std::fs::read(fixture("several.data")).unwrap();
    assert_eq!(Recording::read(&bytes[..], "whole").unwrap().fault, None);
    for missing in [1, 8, 40] {
        let cut = Recording::read(&bytes[..bytes.len() - missing], "cut").unwrap();
        assert!(cut.fault.is_some_and(|fault| fault.why.contains("header features")), "{missing} bytes");
    }
}

#[test]
fn killed_recorder() {
    let mut bytes = std::fs::read(fixture("several.data")).unwrap();
    let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
    let data_end = (word(40) + word(48)) as usize;
    bytes.truncate(data_end);
    bytes[48..56].fill(0);
    let killed = Recording::read(&bytes[..], "killed").unwrap();
    let whole = open("several.data");
    assert_eq!(killed.counts.records, whole.counts.records);
    assert!(killed.fault.unwrap().why.contains("killed"));
    assert_eq!(killed.events[1].name, "page-faults", "named by its attributes, as the names stood in the features");
}

/// The first version of the format, in both orders: perf reads it to this day.
#[test]
fn the_first_version_is_read() {
    let mut bytes = std::fs::read(fixture("several.data")).unwrap();
    let second = Recording::read(&bytes[..], "second").unwrap();
    bytes[..8].copy_from_slice(b"PERFFILE");
    let first = Recording::read(&bytes[..], "first").unwrap();
    assert_eq!((first.counts.records, first.fault), (second.counts.records, None));
    let mut big = crate::bill_built::two_events(true);
    let of_second = big.read().counts.records;
    big.bytes[..8].copy_from_slice(b"PERFFILE");
    assert_eq!(big.read().counts.records, of_second);
}

#[test]
fn foreign_files_are_named() {
    let elf = Recording::read(&b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0"[..], "ls").unwrap_err().to_string();
    assert!(elf.contains("7f 45 4c 46") && elf.contains(".ELF") && elf.contains("PERFILE2"), "{elf}");
    let empty = Recording::read(&b""[..], "empty").unwrap_err().to_string();
    assert!(empty.contains("empty"), "{empty}");
    let packed = Recording::read(&b"\x1f\x8b\x08\0\0\0\0\0\0\0\0\0\0\0\0\0\0"[..], "perf.data.gz").unwrap_err().to_string();
    assert!(packed.contains("gzip") && packed.contains("zcat"), "{packed}");
    let missing = Recording::open(std::path::Path::new("/nonexistent/perf.data")).unwrap_err().to_string();
    assert!(missing.contains("/nonexistent/perf.data"), "{missing}");
}
