//! A run of a program under the model: what is asked of it, and what comes back. Whoever executes the program (a plugin of
//! qemu-user) reads the one and writes the other.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::cache::LINE_BYTES;
use crate::cache::Traffic;
use crate::machine::{Handler, LlcShare, Machine, MachineError, Mechanism, Setup};
use crate::pollution::{CacheProfile, Stream};
use crate::unit::Spe;
use crate::{Core, Counts, Event, RING_BYTES, Terms};

/// What is asked.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Request {
    /// The machine.
    pub machine: Machine,
    /// How to sample; none: count only.
    pub sampling: Option<Sampling>,
    /// Whether the caches are simulated.
    pub caches: bool,
    /// Whether the caches are simulated once more without the records, to tell what these take away from the program.
    pub reference: bool,
    /// Whether stack distances are taken of the first core's program, see [`crate::pollution`].
    pub profile: bool,
    /// How much of the last level there is.
    pub llc: LlcShare,
    /// Cores that threads are dealt to in turn; a thread stays on its core.
    pub cores: u32,
    /// Seed of everything random.
    pub seed: u64,
    /// Where the outcome goes.
    pub outcome: String,
    /// Where the samples go, if they are wanted: [`crate::Sample`]s as rows of 40 bytes, see [`SampleRow`].
    pub samples: Option<String>,
}

/// How to sample.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sampling {
    /// The mechanism.
    pub mechanism: Mechanism,
    /// The event.
    pub event: Event,
    /// Events between samples.
    pub period: u64,
    /// Bytes of the buffer; none: the machine's usual one.
    pub buffer_bytes: Option<u64>,
    /// What the handler does with the records.
    pub handler: Handler,
}

impl Request {
    /// Count on all cores of a machine, with the whole of its last level and without simulating its caches.
    pub fn counting(machine: Machine) -> Self {
        Self {
            cores: machine.cores,
            machine,
            sampling: None,
            caches: false,
            reference: false,
            profile: false,
            llc: LlcShare::Whole,
            seed: 1,
            outcome: String::new(),
            samples: None,
        }
    }

    /// The core that a thread runs on: threads are dealt to the cores in turn.
    pub fn core_of(&self, thread: u32) -> u32 {
        thread % self.cores.max(1)
    }

    /// Bytes of a record and of the buffer that they go to; `None` for mechanisms that write no records.
    pub fn buffer(&self) -> Option<(u64, u64)> {
        let sampling = self.sampling?;
        let (record_bytes, usual) = match sampling.mechanism {
            Mechanism::Pebs => self.machine.pebs.map(|pebs| (pebs.format.bytes(), pebs.buffer_bytes))?,
            Mechanism::Spe => self.machine.spe.map(|spe| (Spe::RECORD_BYTES, spe.buffer_bytes))?,
            Mechanism::IbsOp | Mechanism::IbsFetch | Mechanism::Interrupt => return None,
        };
        Some((record_bytes, sampling.buffer_bytes.unwrap_or(usual)))
    }

    /// The lines that so many samples of a core bring into its caches; none for mechanisms that write no records.
    pub fn streams(&self, samples: u64) -> Vec<Stream> {
        let (Some(sampling), Some((record_bytes, buffer_bytes))) = (self.sampling, self.buffer()) else { return Vec::new() };
        // A record that is no whole number of lines shares its last with the next, which then finds it.
        let touches = samples as f64 * record_bytes as f64 / LINE_BYTES as f64;
        let footprint_bytes = (buffer_bytes / record_bytes).max(1) as f64 * record_bytes as f64;
        let buffer = Stream { touches, footprint_bytes };
        match sampling.handler {
            Handler::Discards => vec![buffer],
            // Read once more, and written into the ring.
            Handler::Copies => {
                vec![Stream { touches: 2.0 * touches, ..buffer }, Stream { touches, footprint_bytes: RING_BYTES as f64 }]
            }
        }
    }

    /// The core with its unit, as asked; none where nothing samples.
    ///
    /// # Errors
    /// Where the machine cannot do it.
    pub fn core(&self, number: u32) -> Result<Option<Core>, MachineError> {
        let Some(sampling) = self.sampling else { return Ok(None) };
        let Sampling { mechanism, period, buffer_bytes, handler, .. } = sampling;
        let setup = Setup { mechanism, period, buffer_bytes, handler, seed: self.seed };
        Ok(Some(Core::new(number, self.machine.unit(&setup, number)?)))
    }
}

/// What came.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// One entry a core that ran something, by number.
    pub cores: Vec<CoreOutcome>,
    /// Samples by instruction address.
    pub by_address: BTreeMap<u64, u64>,
    /// Threads that ran, by number.
    pub threads: Vec<ThreadOutcome>,
    /// Where the program and its libraries were mapped.
    pub mappings: Vec<Mapping>,
    /// Event classes that were counted.
    pub counted: Vec<Event>,
    /// Whether the caches were simulated.
    pub caches: bool,
    /// How the first core's threads use the caches by themselves, where that was asked for.
    pub profile: Option<CacheProfile>,
}

/// What one core did.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CoreOutcome {
    /// Its number.
    pub core: u32,
    /// Threads that ran on it.
    pub threads: Vec<u32>,
    /// Events of each class.
    pub counts: Counts,
    /// Samples kept.
    pub samples: u64,
    /// Samples due but not kept.
    pub lost: u64,
    /// Interrupts.
    pub interrupts: u64,
    /// Time spent sampling, pollution not known here.
    pub terms: Terms,
    /// What went through its caches.
    pub traffic: Traffic,
    /// What would have gone through them without records, where that was asked for.
    pub reference: Option<Traffic>,
}

/// What one thread did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadOutcome {
    /// Its number, in the order of creation.
    pub thread: u32,
    /// The core that it ran on.
    pub core: u32,
    /// Instructions that it retired.
    pub instructions: u64,
    /// Samples of it.
    pub samples: u64,
}

/// A mapped file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// Behind the last.
    pub end: u64,
    /// Offset in the file.
    pub offset: u64,
    /// The file.
    pub path: String,
}

/// A sample as it is written to disk: five little-endian 64-bit words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SampleRow {
    /// Instructions retired on the core before it.
    pub instructions: u64,
    /// Address of the instruction.
    pub ip: u64,
    /// Address of the data; 0 where not known.
    pub data: u64,
    /// Core.
    pub core: u64,
    /// Thread, in the order of creation.
    pub thread: u64,
}

impl SampleRow {
    /// Bytes of a row.
    pub const BYTES: usize = 40;

    /// The row as bytes.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let words = [self.instructions, self.ip, self.data, self.core, self.thread];
        for (chunk, word) in bytes.chunks_exact_mut(8).zip(words) {
            chunk.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    /// The row from bytes.
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Self {
        let word = |i: usize| {
            let mut word = [0; 8];
            word.copy_from_slice(&bytes[8 * i..8 * i + 8]);
            u64::from_le_bytes(word)
        };
        Self { instructions: word(0), ip: word(1), data: word(2), core: word(3), thread: word(4) }
    }
}
