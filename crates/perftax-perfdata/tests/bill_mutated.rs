//! A hundred damaged files of each way that a recording can be read: bill and lint end, soon, and in little memory.

#![allow(clippy::unwrap_used)] // tests may

#[allow(dead_code)] // a part of it is used here
#[path = "public/bill_built.rs"]
mod bill_built;
#[allow(dead_code)]
#[path = "public/lint_built.rs"]
mod lint_built;

use std::alloc::{GlobalAlloc, Layout, System};
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use perftax_perfdata::lint::{self, Limits};
use rustix::time::{ClockId, clock_gettime};

use bill_built::{ENABLE_ON_EXEC, MS, Pipe, SAMPLE_ID_ALL, SAMPLE_TYPE, TIMES, exit, origin, two_events};
use lint_built::{BY_FREQUENCY, Built, CALLCHAIN, CODE, CPU_CLOCK, EXCLUDE_KERNEL, Event, INHERIT, PERIOD};

/// Counts what is allocated, and the most at a time.
struct Counting;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MAX: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator, unchanged; counting allocates nothing.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        MAX.fetch_max(now, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of this very method.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: as above.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

const MUTATIONS: usize = 100;
const MAX_CPU_TIME_S: f64 = 0.5;
const MAX_BYTES: usize = 64 << 20;

/// Every new way, by name.
fn seeds() -> Vec<(&'static str, Vec<u8>)> {
    let clock = |flags: u64, more: &dyn Fn(&mut Pipe)| {
        let mut pipe = Pipe::new(false);
        pipe.event(1, 0, 1_000_000, SAMPLE_TYPE, 0, SAMPLE_ID_ALL | ENABLE_ON_EXEC | flags, &[10, 11]);
        more(&mut pipe);
        (0..100).for_each(|i| pipe.sample(10, 7, (2 + i) * MS, (i % 2) as u32));
        exit(&mut pipe);
        pipe.bytes
    };
    let with_event = |event: Event, extra: &[u8]| {
        let mut built = Built::new("perf record -e cpu-clock -- program", "6.1.0", "elsewhere", event).mapped("/bin/program");
        for i in 0..100_u32 {
            let ip = built.somewhere();
            built.sample(7, 2 * MS + u64::from(i) * MS, ip, 1_000_000, extra);
            built.fork(100 + i, 3 * MS, 4 * MS);
            built.pipe.record(68, 0, &[]);
        }
        built.ended(900 * MS)
    };
    let traced = |pmu: &str, aux_type: u32| {
        let mut pipe = Pipe::new(false);
        let mut named = pmu.as_bytes().to_vec();
        named.resize(named.len() / 8 * 8 + 8, 0);
        let section = [pipe.words(&[16]), pipe.halves(&[1, 9, named.len() as u32]), named].concat();
        pipe.record(80, 0, &section);
        pipe.event(9, 0x300, 1, SAMPLE_TYPE, 0, SAMPLE_ID_ALL | ENABLE_ON_EXEC, &[10, 11]);
        pipe.event(0, 1, 1000, SAMPLE_TYPE, 0, SAMPLE_ID_ALL, &[1_000_000_010]);
        let info = pipe.halves(&[aux_type, 0, 0, 0]);
        pipe.record(70, 0, &info);
        for _ in 0..20 {
            let fields = pipe.words(&[64, 0, 0, 0, 0]);
            pipe.record(71, 0, &fields);
            pipe.bytes.extend((0..7).flat_map(|_| [0x71, 1, 2, 3, 4, 5, 6, 7, 8]).chain([0]));
            pipe.sample(1_000_000_010, 7, 2 * MS, 0);
        }
        pipe.bytes
    };
    let sized = |bytes: &[u8]| [&(bytes.len() as u64).to_le_bytes()[..], bytes].concat();
    let one = 1_u32.to_le_bytes();
    let head = b"\x17\x08\x44tracing0.6\0\0\x08\0\x10\0\0header_page\0";
    let format = sized(b"name: sched_switch\nID: 314\nformat:\n");
    let names = [&head[..], &sized(b"p"), b"header_event\0", &sized(b"e"), &[0; 4], &one, b"sched\0", &one, &format].concat();
    let first_version = {
        let mut pipe = two_events(false);
        pipe.bytes[..8].copy_from_slice(b"PERFFILE");
        (0..100).for_each(|i| pipe.sample(10, 7, (2 + i) * MS, 0));
        pipe.bytes
    };
    let behind = |inside: bool| {
        clock(0, &|pipe: &mut Pipe| {
            let size = pipe.halves(&[names.len() as u32]);
            pipe.record(66, 0, &if inside { [&size[..], &names].concat() } else { size });
            if !inside {
                pipe.bytes.extend(&names);
            }
        })
    };
    let chain = [4_u64, -512_i64 as u64, CODE, CODE + 8, CODE + 16].map(u64::to_le_bytes).concat();
    let times = [5_u64, 1000, 300].map(u64::to_le_bytes).concat();
    vec![
        ("exec and exit", two_events(true).bytes),
        ("tracing data inside", behind(true)),
        ("tracing data behind", behind(false)),
        ("left out modes", clock(EXCLUDE_KERNEL, &|_| ())),
        ("overwritten", clock(1 << 27, &|_| ())),
        ("AUX", traced("intel_pt", 1)),
        ("SPE", traced("arm_spe_0", 4)),
        ("times", with_event(Event { sample_type: SAMPLE_TYPE | PERIOD | 1 << 4, read_format: TIMES, ..CPU_CLOCK }, &times)),
        ("call chains", with_event(Event { sample_type: SAMPLE_TYPE | PERIOD | CALLCHAIN, ..CPU_CLOCK }, &chain)),
        ("by frequency, inherited", with_event(Event { flags: BY_FREQUENCY | INHERIT, ..CPU_CLOCK }, &[])),
        ("first version", first_version),
        ("idle CPUs", clock(0, &|pipe: &mut Pipe| (0..100).for_each(|i| pipe.sample(11, 0, (2 + i) * MS, 1)))),
    ]
}

fn mutated(seed: &[u8], random: &mut fastrand::Rng) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..random.usize(1..6) {
        let at = random.usize(..bytes.len());
        match random.u8(..5) {
            0 => bytes[at] = random.u8(..),
            1 => {
                let end = (at + 8).min(bytes.len());
                let word = [0, 1, u64::MAX, 1 << 40, random.u64(..)][random.usize(..5)].to_le_bytes();
                bytes[at..end].copy_from_slice(&word[..end - at]);
            }
            2 => bytes.truncate(at.max(17)),
            _ => {
                let piece = bytes[at..(at + random.usize(..512)).min(bytes.len())].to_vec();
                bytes.splice(at..at, piece);
            }
        }
    }
    bytes
}

fn cpu_time_s() -> f64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as f64 + now.tv_nsec as f64 * 1e-9
}

/// Reads it as bill and lint do.
fn read(name: &str, path: &Path) {
    let (begin_s, before) = (cpu_time_s(), NOW.load(Ordering::Relaxed));
    MAX.store(before, Ordering::Relaxed);
    if let Ok(lint) = lint::lint(path, &Limits::default(), None, origin(0.0)) {
        serde_json::to_string(&lint).unwrap();
    }
    let (took_s, bytes) = (cpu_time_s() - begin_s, MAX.load(Ordering::Relaxed) - before);
    assert!(took_s <= MAX_CPU_TIME_S, "{name}: {took_s} s");
    assert!(bytes <= MAX_BYTES, "{name}: {bytes} bytes");
}

#[test]
fn damaged_files_of_every_way_to_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let mut random = fastrand::Rng::with_seed(29);
    let file = folder.path().join("damaged.data");
    let seeds = seeds();
    for (name, seed) in &seeds {
        std::fs::write(&file, seed).unwrap();
        read(name, &file);
        for number in 0..MUTATIONS {
            std::fs::write(&file, mutated(seed, &mut random)).unwrap();
            read(&format!("{name}, {number}"), &file);
        }
    }
    // The parts of perf record --threads, and a file whose events stand behind its records.
    let whole = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/recordings/threads.data");
    let parts = folder.path().join("threads.data");
    std::fs::create_dir(&parts).unwrap();
    for number in 0..MUTATIONS {
        for part in ["data", "data.0", "data.1"] {
            let seed = std::fs::read(whole.join(part)).unwrap();
            let damaged = if seed.len() > 32 { mutated(&seed, &mut random) } else { seed };
            std::fs::write(parts.join(part), damaged).unwrap();
        }
        read(&format!("threads, {number}"), &parts);
    }
    let injected = injected();
    std::fs::write(&file, &injected).unwrap();
    assert!(lint::lint(&file, &Limits::default(), None, origin(0.0)).unwrap().samples > 0);
    for number in 0..MUTATIONS {
        std::fs::write(&file, mutated(&injected, &mut random)).unwrap();
        read(&format!("events behind, {number}"), &file);
    }
}

/// As `perf inject` leaves a pipe's recording: ids and events behind the records.
fn injected() -> Vec<u8> {
    let mut records = Pipe { big: false, bytes: Vec::new() };
    (0..100).for_each(|i| records.sample(10, 7, (2 + i) * MS, 0));
    let mut attribute = Pipe::new(false);
    attribute.event(1, 0, 1_000_000, SAMPLE_TYPE, 0, SAMPLE_ID_ALL | ENABLE_ON_EXEC, &[]);
    let attribute = attribute.bytes[16 + 8..].to_vec();
    let ids_at = 104 + records.bytes.len() as u64;
    let entry_bytes = attribute.len() as u64 + 16;
    let mut file = b"PERFILE2".to_vec();
    let (attribute_at, data_bytes) = (ids_at + 16, records.bytes.len() as u64);
    file.extend(records.words(&[104, entry_bytes, attribute_at, entry_bytes, 104, data_bytes, 0, 0, 0, 0, 0, 0]));
    file.extend(&records.bytes);
    file.extend(records.words(&[10, 11]));
    file.extend(&attribute);
    file.extend(records.words(&[ids_at, 16]));
    file
}
