//! Recordings built byte by byte from the kernel's and perf's headers, in both byte orders.

use perftax_doc::{Bill, MachineId, Origin};
use perftax_perfdata::bill;
use perftax_perfdata::recording::Recording;

/// A piped recording in the making.
pub struct Pipe {
    pub big: bool,
    pub bytes: Vec<u8>,
}

impl Pipe {
    pub fn new(big: bool) -> Self {
        let mut pipe = Self { big, bytes: if big { b"2ELIFREP".to_vec() } else { b"PERFILE2".to_vec() } };
        let size = pipe.words(&[16]);
        pipe.bytes.extend(size);
        pipe
    }

    pub fn words(&self, words: &[u64]) -> Vec<u8> {
        words.iter().flat_map(|w| if self.big { w.to_be_bytes() } else { w.to_le_bytes() }).collect()
    }

    pub fn halves(&self, halves: &[u32]) -> Vec<u8> {
        halves.iter().flat_map(|w| if self.big { w.to_be_bytes() } else { w.to_le_bytes() }).collect()
    }

    pub fn record(&mut self, kind: u32, misc: u16, body: &[u8]) {
        let bytes = self.record_bytes(kind, misc, body);
        self.bytes.extend(bytes);
    }

    pub fn record_bytes(&self, kind: u32, misc: u16, body: &[u8]) -> Vec<u8> {
        let short = |x: u16| if self.big { x.to_be_bytes() } else { x.to_le_bytes() };
        [&self.halves(&[kind])[..], &short(misc), &short(8 + body.len() as u16), body].concat()
    }

    /// `PERF_RECORD_HEADER_ATTR` of a 64-byte attribute; flags as bits in the order of declaration.
    #[allow(clippy::too_many_arguments)] // the fields of an attribute, in the order of the ABI
    pub fn event(
        &mut self,
        pmu_type: u32,
        config: u64,
        period: u64,
        sample_type: u64,
        read_format: u64,
        flags: u64,
        ids: &[u64],
    ) {
        let flags = if self.big { flags.reverse_bits() } else { flags };
        let mut body = self.halves(&[pmu_type, 64]);
        body.extend(self.words(&[config, period, sample_type, read_format, flags]));
        body.extend(self.halves(&[0, 0]));
        body.extend(self.words(&[0]));
        body.extend(self.words(ids));
        self.record(64, 0, &body);
    }

    /// A header feature that is a text (`HEADER_CPUDESC` is 8).
    pub fn feature(&mut self, feature: u64, text: &str) {
        let mut padded = text.as_bytes().to_vec();
        padded.resize(padded.len() / 8 * 8 + 8, 0);
        let body = [self.words(&[feature]), self.halves(&[padded.len() as u32]), padded].concat();
        self.record(80, 0, &body);
    }

    /// A sample of IDENTIFIER|IP|TID|TIME|CPU.
    pub fn sample(&mut self, id: u64, tid: u32, time: u64, cpu: u32) {
        let body = [self.words(&[id, 0x40_1000]), self.halves(&[tid, tid]), self.words(&[time]), self.halves(&[cpu, 0])].concat();
        // The idle task is the kernel's.
        self.record(9, if tid == 0 { 1 } else { 2 }, &body);
    }

    /// The trailer of other records: TID|TIME|CPU|IDENTIFIER.
    pub fn trailer(&self, id: u64, tid: u32, time: u64) -> Vec<u8> {
        [self.halves(&[tid, tid]), self.words(&[time]), self.halves(&[0, 0]), self.words(&[id])].concat()
    }

    pub fn with_trailer(&mut self, kind: u32, misc: u16, body: Vec<u8>, id: u64, time: u64) {
        let body = [body, self.trailer(id, 7, time)].concat();
        self.record(kind, misc, &body);
    }

    pub fn read(&self) -> Recording {
        Recording::read(&self.bytes[..], "built").unwrap()
    }
}

pub const SAMPLE_TYPE: u64 = 1 << 16 | 1 | 1 << 1 | 1 << 2 | 1 << 7;
pub const SAMPLE_ID_ALL: u64 = 1 << 18;
pub const ENABLE_ON_EXEC: u64 = 1 << 12;
pub const TIMES: u64 = 3;
pub const MS: u64 = 1_000_000;

/// Two events, cpu-clock (id 10, 11) and page-faults (id 20), of a command that ran from 1 ms to 1001 ms.
pub fn two_events(big: bool) -> Pipe {
    let mut pipe = Pipe::new(big);
    pipe.feature(8, "some processor");
    pipe.event(1, 0, 1_000_000, SAMPLE_TYPE, 0, SAMPLE_ID_ALL | ENABLE_ON_EXEC, &[10, 11]);
    pipe.event(1, 2, 1, SAMPLE_TYPE, TIMES, SAMPLE_ID_ALL, &[20]);
    let comm = [pipe.halves(&[7, 7]), b"program\0".to_vec()].concat();
    pipe.with_trailer(3, 1 << 13, comm, 10, MS);
    pipe
}

pub fn exit(pipe: &mut Pipe) {
    let body = [pipe.halves(&[7, 1, 7, 1]), pipe.words(&[1001 * MS])].concat();
    pipe.with_trailer(4, 0, body, 10, 1001 * MS);
}

/// What was built, billed without prices: what of it tells of the recording alone.
pub fn unpriced_bill(recording: &Recording) -> Bill {
    bill::bill(recording, None, origin(0.0))
}

pub fn origin(taken_at_s: f64) -> Origin {
    Origin {
        schema: 1,
        kind: "bill".into(),
        perftax: "0".into(),
        machine: MachineId::default(),
        kernel: String::new(),
        taken_at_s,
        command: Vec::new(),
        warnings: Vec::new(),
    }
}
