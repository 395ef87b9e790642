//! Recordings for lint, built byte by byte: a program that ran for a second, and what each test makes of it.

use perftax_doc::{Lint, LintCheck, MachineProfile};
use perftax_perfdata::lint::{Limits, lint_stream};

use crate::bill_built::{ENABLE_ON_EXEC, MS, Pipe, SAMPLE_ID_ALL, SAMPLE_TYPE, origin};

pub const PERIOD: u64 = 1 << 8;
pub const CALLCHAIN: u64 = 1 << 5;
pub const BY_FREQUENCY: u64 = 1 << 10;
pub const INHERIT: u64 = 1 << 1;
pub const EXCLUDE_KERNEL: u64 = 1 << 5;
/// Where the program's code is.
pub const CODE: u64 = 0x40_0000;
pub const CODE_BYTES: u64 = 0x10_0000;

/// An event of a recording.
#[derive(Clone, Copy)]
pub struct Event {
    pub pmu_type: u32,
    pub config: u64,
    /// A period, or with [`BY_FREQUENCY`] a frequency.
    pub rate: u64,
    pub flags: u64,
    pub sample_type: u64,
    pub read_format: u64,
}

pub const CPU_CLOCK: Event =
    Event { pmu_type: 1, config: 0, rate: 1_000_000, flags: 0, sample_type: SAMPLE_TYPE | PERIOD, read_format: 0 };
pub const PAGE_FAULTS: Event = Event { config: 2, rate: 4, ..CPU_CLOCK };
pub const CYCLES: Event = Event { pmu_type: 0, config: 0, rate: 1000, flags: BY_FREQUENCY, ..CPU_CLOCK };

/// A recording in the making: of process 7, whose event has id 10.
pub struct Built {
    pub pipe: Pipe,
    random: fastrand::Rng,
}

impl Built {
    /// By this command line, on a kernel.
    pub fn new(command: &str, kernel: &str, host: &str, event: Event) -> Self {
        let mut pipe = Pipe::new(false);
        pipe.feature(3, host);
        pipe.feature(4, kernel);
        pipe.feature(8, "some processor");
        let words: Vec<&str> = command.split(' ').collect();
        let mut line = [pipe.words(&[11]), pipe.halves(&[words.len() as u32])].concat();
        for word in words {
            let mut padded = word.as_bytes().to_vec();
            padded.resize(padded.len() / 8 * 8 + 8, 0);
            line.extend(pipe.halves(&[padded.len() as u32]));
            line.extend(padded);
        }
        pipe.record(80, 0, &line);
        let flags = event.flags | SAMPLE_ID_ALL | ENABLE_ON_EXEC;
        pipe.event(event.pmu_type, event.config, event.rate, event.sample_type, event.read_format, flags, &[10]);
        let mut built = Self { pipe, random: fastrand::Rng::with_seed(7) };
        built.comm(7, "program", 1 << 13, MS);
        built
    }

    /// A healthy one of a clock.
    pub fn of_clock() -> Self {
        Self::new("perf record -e cpu-clock -- program", "6.1.0", "elsewhere", CPU_CLOCK)
    }

    /// The program's own file, with its build id.
    pub fn mapped(mut self, file: &str) -> Self {
        self.map(7, file);
        let mut body = self.pipe.halves(&[u32::MAX]);
        body.extend([[9; 20].as_slice(), &[20, 0, 0, 0]].concat());
        body.extend(name(file));
        self.pipe.record(67, 0, &body);
        self
    }

    pub fn map(&mut self, pid: u32, file: &str) {
        let body = [self.pipe.halves(&[pid, pid]), self.pipe.words(&[CODE, CODE_BYTES, 0]), name(file)].concat();
        self.trailed(1, 0, body, MS);
    }

    pub fn comm(&mut self, pid: u32, comm: &str, misc: u16, time: u64) {
        let body = [self.pipe.halves(&[pid, pid]), name(comm)].concat();
        self.trailed(3, misc, body, time);
    }

    /// A record with the trailer that the kernel adds: thread, time, CPU 0, id.
    pub fn trailed(&mut self, kind: u32, misc: u16, body: Vec<u8>, time: u64) {
        self.pipe.with_trailer(kind, misc, body, 10, time);
    }

    pub fn fork(&mut self, tid: u32, from: u64, to: u64) {
        let body = |pipe: &Pipe, time: u64| [pipe.halves(&[7, 7, tid, 7]), pipe.words(&[time])].concat();
        let (begin, end) = (body(&self.pipe, from), body(&self.pipe, to));
        self.trailed(7, 0, begin, from);
        self.trailed(4, 0, end, to);
    }

    /// A sample in user mode.
    pub fn sample(&mut self, tid: u32, time: u64, ip: u64, period: u64, more: &[u8]) {
        let pipe = &mut self.pipe;
        let body = [
            pipe.words(&[10, ip]),
            pipe.halves(&[tid, tid]),
            pipe.words(&[time]),
            pipe.halves(&[0, 0]),
            pipe.words(&[period]),
            more.to_vec(),
        ];
        pipe.record(9, 2, &body.concat());
    }

    /// An address of the program's code.
    pub fn somewhere(&mut self) -> u64 {
        CODE + self.random.u64(..CODE_BYTES)
    }

    /// So many samples, a millisecond apart from 2 ms on.
    pub fn sampled(mut self, many: u64) -> Self {
        for i in 0..many {
            let ip = self.somewhere();
            self.sample(7, 2 * MS + i * MS, ip, 1_000_000, &[]);
        }
        self
    }

    /// The program's end.
    pub fn ended(mut self, time: u64) -> Vec<u8> {
        let body = [self.pipe.halves(&[7, 1, 7, 1]), self.pipe.words(&[time])].concat();
        self.trailed(4, 0, body, time);
        self.pipe.bytes
    }
}

/// A name as records have it: padded to eight bytes.
fn name(text: &str) -> Vec<u8> {
    let mut padded = text.as_bytes().to_vec();
    padded.resize(padded.len() / 8 * 8 + 8, 0);
    padded
}

pub fn linted(bytes: &[u8], limits: &Limits, profile: Option<&MachineProfile>) -> Lint {
    lint_stream(bytes, "built", limits, profile, origin(1060.0)).unwrap()
}

pub fn check_of<'a>(lint: &'a Lint, name: &str) -> &'a LintCheck {
    lint.checks.iter().find(|check| check.check == name).unwrap_or_else(|| panic!("no check {name}"))
}
