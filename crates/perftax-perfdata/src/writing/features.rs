//! What a recording says of the machine and the command (`HEADER_*` of perf's `util/header.h`; `perf.data-file-format.txt`).

use super::file::EventDescription;
use crate::recording::feature::{
    ARCH, BUILD_ID, CMDLINE, CPUDESC, EVENT_DESC, HOSTNAME, NRCPUS, OSRELEASE, PMU_MAPPINGS, SAMPLE_TIME, TOTAL_MEM, VERSION,
};
use crate::recording::kind::{MISC_KERNEL, MISC_USER};

/// What is said behind the records. What is empty, or none, is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Files that samples fell into.
    pub build_ids: Vec<BuildId>,
    /// Host name.
    pub hostname: String,
    /// Kernel release.
    pub kernel: String,
    /// Who recorded.
    pub recorder: String,
    /// Architecture, as `uname -m` says.
    pub arch: String,
    /// CPUs online.
    pub cpus: u32,
    /// CPU model name.
    pub cpu: String,
    /// Memory, KiB.
    pub memory_kib: u64,
    /// The command line.
    pub command: Vec<String>,
    /// Names of the PMU types.
    pub pmus: Vec<(u32, String)>,
    /// Times of the first and the last sample, ns of the events' clock.
    pub sample_times_ns: Option<(u64, u64)>,
}

/// A file and its build id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildId {
    /// The file, or `[kernel.kallsyms]`.
    pub path: String,
    /// At most 20 bytes.
    pub id: Vec<u8>,
    /// Whether it is the kernel's own.
    pub is_kernel: bool,
}

/// Room for an id in a table of build ids.
const ID_ROOM: usize = 20;

impl Features {
    /// The sections, by the number of their feature, ascending.
    pub(super) fn sections(&self, events: &[EventDescription]) -> Vec<(u32, Vec<u8>)> {
        let mut sections = Vec::new();
        let mut add = |feature: u32, is_there: bool, section: Vec<u8>| {
            if is_there {
                sections.push((feature, section));
            }
        };
        add(BUILD_ID, !self.build_ids.is_empty(), self.build_ids.iter().flat_map(|id| id.bytes(0)).collect());
        for (feature, text) in
            [(HOSTNAME, &self.hostname), (OSRELEASE, &self.kernel), (VERSION, &self.recorder), (ARCH, &self.arch)]
        {
            add(feature, !text.is_empty(), string(text));
        }
        add(NRCPUS, self.cpus > 0, [self.cpus, self.cpus].iter().flat_map(|n| n.to_le_bytes()).collect());
        add(CPUDESC, !self.cpu.is_empty(), string(&self.cpu));
        add(TOTAL_MEM, self.memory_kib > 0, self.memory_kib.to_le_bytes().to_vec());
        let words = self.command.iter().flat_map(|word| string(word));
        add(CMDLINE, !self.command.is_empty(), many(self.command.len()).chain(words).collect());
        add(EVENT_DESC, !events.is_empty(), described(events));
        let pmus = self.pmus.iter().flat_map(|(kind, name)| kind.to_le_bytes().into_iter().chain(string(name)));
        add(PMU_MAPPINGS, !self.pmus.is_empty(), many(self.pmus.len()).chain(pmus).collect());
        let (first, last) = self.sample_times_ns.unwrap_or_default();
        add(SAMPLE_TIME, self.sample_times_ns.is_some(), [first, last].iter().flat_map(|ns| ns.to_le_bytes()).collect());
        sections
    }
}

impl BuildId {
    /// `struct perf_record_header_build_id`: of a file's table of kind 0, in a stream a record of its own kind.
    pub(super) fn bytes(&self, kind: u32) -> Vec<u8> {
        /// `PERF_RECORD_MISC_BUILD_ID_SIZE` (Linux 5.9): the id's length is told.
        const WITH_LENGTH: u16 = 1 << 15;
        let id = &self.id[..self.id.len().min(ID_ROOM)];
        let mut path = padded_to(self.path.as_bytes(), 64);
        // Whole words, without which perf refuses a stream (7.2: `perf_session__process_event`).
        path.resize(path.len() + 4, 0);
        let size = 8 + 4 + ID_ROOM + 4 + path.len();
        let misc = WITH_LENGTH | if self.is_kernel { MISC_KERNEL } else { MISC_USER };
        let mut bytes = [&kind.to_le_bytes()[..], &misc.to_le_bytes(), &(size as u16).to_le_bytes()].concat();
        // Nobody's process: it belongs to the host.
        bytes.extend((-1i32).to_le_bytes());
        bytes.extend(id);
        bytes.resize(bytes.len() + ID_ROOM - id.len(), 0);
        bytes.extend([id.len() as u8, 0, 0, 0]);
        bytes.extend(path);
        bytes
    }
}

fn many(count: usize) -> impl Iterator<Item = u8> {
    (count as u32).to_le_bytes().into_iter()
}

/// A text behind its length, NULs and padding counted.
fn string(text: &str) -> Vec<u8> {
    let bytes = padded_to(text.as_bytes(), 64);
    many(bytes.len()).chain(bytes).collect()
}

/// With at least one NUL behind it.
fn padded_to(text: &[u8], multiple: usize) -> Vec<u8> {
    let mut bytes = text.to_vec();
    bytes.resize((bytes.len() + 1).next_multiple_of(multiple), 0);
    bytes
}

fn described(events: &[EventDescription]) -> Vec<u8> {
    let size = events.first().map_or(0, |event| event.attribute.len());
    let mut bytes: Vec<u8> = many(events.len()).chain(many(size)).collect();
    for event in events {
        bytes.extend(&event.attribute);
        bytes.extend(many(event.ids.len()));
        bytes.extend(string(&event.name));
        bytes.extend(event.ids.iter().flat_map(|id| id.to_le_bytes()));
    }
    bytes
}
