//! `generate FOLDER MESSAGES SAMPLES [waits | PERF_DATA MARKS_CSV]`: a trace of so many messages and samples, for measuring how fast one is read.
//! `waits`: every fifth message waits for another thread, which wakes it.
//! With two more names the same samples as a perf.data file, and the messages as separated values, for comparing with other tools.
//!
//! Four threads take turns; every hundredth message takes twice as long, in a function of its own.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::Path;

use perftax_trace::store::Function;
use perftax_trace::{KernelEvent, Kind, Mark, SampleRow, StoreWriter, What};

type Failure = Box<dyn std::error::Error>;

const THREADS: u64 = 4;
const PID: u32 = 1000;
const BASE_IP: u64 = 0x40_0000;
const ADDRESSES: u64 = 5000;
const FUNCTION_BYTES: u64 = 50;
const START_NS: u64 = 1_000_000_000;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = std::env::args().collect();
    let number =
        |at: usize| arguments.get(at).and_then(|text| text.parse::<u64>().ok()).ok_or("generate FOLDER MESSAGES SAMPLES");
    let (messages, samples) = (number(2)?, number(3)?);
    let folder = Path::new(&arguments[1]);
    std::fs::create_dir_all(folder)?;
    let mut store = StoreWriter::create(folder)?;
    let mut other = match (arguments.get(4), arguments.get(5)) {
        (Some(data), Some(marks)) => Some((PerfData::create(Path::new(data))?, BufWriter::new(File::create(marks)?))),
        _ => None,
    };
    let waits = arguments.get(4).is_some_and(|word| word == "waits");
    let each = samples / messages;
    let mut now_ns = START_NS;
    let mut random = 88_172_645_463_325_252u64;
    for id in 1..=messages {
        let tid = PID + (id % THREADS) as u32;
        let is_slow = id % 100 == 0;
        store.mark(&Mark { time_ns: now_ns, tid, id, kind: Kind::Begin })?;
        let begin_ns = now_ns;
        if id % 10 == 0 {
            now_ns += 50;
            store.kernel(&KernelEvent { time_ns: now_ns, cpu: 0, tid, what: What::SyscallEnter((id % 300) as u32) })?;
            now_ns += 400;
            store.kernel(&KernelEvent { time_ns: now_ns, cpu: 0, tid, what: What::SyscallExit((id % 300) as u32) })?;
        }
        if waits && id % 5 == 1 {
            let others = PID + ((id + 1) % THREADS) as u32;
            let switch =
                |time_ns, tid, next| KernelEvent { time_ns, cpu: 0, tid, what: What::Switch { is_runnable: false, next } };
            store.kernel(&switch(now_ns + 50, tid, others))?;
            store.kernel(&KernelEvent { time_ns: now_ns + 300, cpu: 0, tid: others, what: What::Wakeup { tid } })?;
            store.kernel(&switch(now_ns + 350, others, tid))?;
            now_ns += 400;
        }
        for _ in 0..each {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            now_ns += 900 + random % 200 + if is_slow { 1000 } else { 0 };
            let ip = if is_slow { ADDRESSES + random % FUNCTION_BYTES } else { random % ADDRESSES };
            store.sample(&SampleRow { time_ns: now_ns, cpu: 0, pid: PID, tid, ip: BASE_IP + ip, tag: 0 })?;
            if let Some((data, _)) = &mut other {
                data.sample(now_ns, tid, BASE_IP + ip)?;
            }
        }
        now_ns += 500;
        store.mark(&Mark { time_ns: now_ns, tid, id, kind: Kind::End })?;
        if let Some((_, marks)) = &mut other {
            writeln!(marks, "{id},{tid},{begin_ns},{now_ns}")?;
        }
        now_ns += 100;
    }
    let symbol = |ip: u64| {
        let name = format!("function_{}", ip / FUNCTION_BYTES);
        ((PID, BASE_IP + ip), Function { name, module: "generated".into() })
    };
    let symbols: BTreeMap<(u32, u64), Function> = (0..ADDRESSES + FUNCTION_BYTES).map(symbol).collect();
    println!("{:?}", store.finish(&symbols, &[])?);
    if let Some((data, mut marks)) = other {
        data.finish()?;
        marks.flush()?;
    }
    std::fs::write(folder.join("meta.json"), META)?;
    Ok(())
}

/// What `trace record` writes beside the tables.
const META: &str = r#"{"schema":1,"kind":"trace","perftax":"0.1.0","machine":{"name":"generated","fingerprint":"","cpu":"generated",
"microcode":"","virtualisation":"none","mitigations":"","cpus":1},"kernel":"generated","taken_at_s":0.0,"command":["generate"],
"warnings":[],"program":["generated"],"code":0,"elapsed_s":1.0,"cpu_s":1.0,"recorded":[0,0,0],
"mark_ns":{"estimate":0.0,"low":0.0,"high":0.0,"confidence":0.95},"event":"cpu-clock","period":1000,"sampling_gap_ns":1000,
"kernel_noise":true,"rings":4,"lost":0,"dropped":0,"refused":0,"late":0,"broken":[],"rows":[0,0,0],"missing":[],"steal_s":null,
"losses_ns":[],"threads":[],"irqs":[]}"#;

/// A perf.data file of one software event (tools/perf/Documentation/perf.data-file-format.txt).
struct PerfData {
    file: BufWriter<File>,
    data_bytes: u64,
}

const HEADER_BYTES: u64 = 104;
const ATTRIBUTE_BYTES: u64 = 128;
/// Each attribute is followed by where its ids are.
const DATA_AT: u64 = HEADER_BYTES + ATTRIBUTE_BYTES + 16;
const SAMPLE_RECORD: u32 = 9;
const SAMPLE_BYTES: u16 = 8 + 8 + 8 + 8;
/// IP, TID, TIME.
const SAMPLE_TYPE: u64 = 1 | 2 | 4;
/// `PERF_TYPE_SOFTWARE`, cpu-clock.
const SOFTWARE: u32 = 1;

impl PerfData {
    fn create(path: &Path) -> Result<Self, Failure> {
        let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
        file.write_all(&[0; DATA_AT as usize])?;
        Ok(Self { file, data_bytes: 0 })
    }

    fn sample(&mut self, time_ns: u64, tid: u32, ip: u64) -> Result<(), Failure> {
        let mut record = [0u8; SAMPLE_BYTES as usize];
        record[..4].copy_from_slice(&SAMPLE_RECORD.to_le_bytes());
        // User mode.
        record[4..6].copy_from_slice(&2u16.to_le_bytes());
        record[6..8].copy_from_slice(&SAMPLE_BYTES.to_le_bytes());
        record[8..16].copy_from_slice(&ip.to_le_bytes());
        record[16..20].copy_from_slice(&PID.to_le_bytes());
        record[20..24].copy_from_slice(&tid.to_le_bytes());
        record[24..].copy_from_slice(&time_ns.to_le_bytes());
        self.data_bytes += u64::from(SAMPLE_BYTES);
        Ok(self.file.write_all(&record)?)
    }

    fn finish(self) -> Result<(), Failure> {
        let mut file = self.file.into_inner()?;
        file.seek(SeekFrom::Start(0))?;
        let mut header: Vec<u8> = b"PERFILE2".to_vec();
        // Size of the header, of an attribute; where attributes, data and event types are; then the bits of optional parts: none.
        let words = [HEADER_BYTES, ATTRIBUTE_BYTES + 16, HEADER_BYTES, ATTRIBUTE_BYTES + 16, DATA_AT, self.data_bytes, 0, 0];
        words.iter().for_each(|word| header.extend(word.to_le_bytes()));
        header.resize(HEADER_BYTES as usize, 0);
        header.extend(SOFTWARE.to_le_bytes());
        header.extend((ATTRIBUTE_BYTES as u32).to_le_bytes());
        // config, period, sample_type.
        [0u64, 1000, SAMPLE_TYPE].iter().for_each(|word| header.extend(word.to_le_bytes()));
        header.resize(DATA_AT as usize, 0);
        file.write_all(&header)?;
        Ok(())
    }
}
