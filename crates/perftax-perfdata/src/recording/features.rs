//! What the header says of the machine, the command and the PMUs (`HEADER_*` of perf's `util/header.h`).

use std::collections::BTreeMap;

use super::attribute::Attribute;
use super::bytes::{Cursor, Order, text};
use super::feature::{
    ARCH, BUILD_ID, CMDLINE, CPUDESC, CPUID, EVENT_DESC, HOSTNAME, NRCPUS, OSRELEASE, PMU_MAPPINGS, TRACING_DATA, VERSION,
};
use super::tracing_data;

/// Header features that a bill uses. What a recording lacks stays empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Features {
    /// Host name.
    pub hostname: String,
    /// Kernel release.
    pub kernel: String,
    /// Version of perf.
    pub perf_version: String,
    /// Architecture, as `uname -m` says.
    pub arch: String,
    /// CPU model name.
    pub cpu: String,
    /// perf's CPU id: vendor, family, model, stepping; the MIDR on ARM.
    pub cpuid: String,
    /// Online CPUs.
    pub cpus_online: Option<u32>,
    /// The command line of `perf record`.
    pub command: Vec<String>,
    /// Names of the PMU types.
    pub pmus: BTreeMap<u32, String>,
    /// Described events: attributes, name, ids.
    pub described: Vec<(Attribute, String, Vec<u64>)>,
    /// Names of tracepoints by their numbers, from the tracing data.
    pub tracepoints: BTreeMap<u64, String>,
    /// Build ids by the path of the file; none where the recording has no table of them.
    pub build_ids: Option<BTreeMap<String, Vec<u8>>>,
}

impl Features {
    /// Whether a feature is one of those that are kept, so that the others need not be read.
    pub fn wants(feature: u32) -> bool {
        matches!(
            feature,
            TRACING_DATA
                | BUILD_ID
                | HOSTNAME
                | OSRELEASE
                | VERSION
                | ARCH
                | NRCPUS
                | CPUDESC
                | CPUID
                | CMDLINE
                | EVENT_DESC
                | PMU_MAPPINGS
        )
    }

    /// Takes a feature's section in. A damaged one is left out as far as it cannot be read.
    pub fn take(&mut self, order: Order, feature: u32, section: &[u8]) {
        let mut cursor = Cursor::new(order, section);
        let field = match feature {
            HOSTNAME => &mut self.hostname,
            OSRELEASE => &mut self.kernel,
            VERSION => &mut self.perf_version,
            ARCH => &mut self.arch,
            CPUDESC => &mut self.cpu,
            CPUID => &mut self.cpuid,
            NRCPUS => {
                self.cpus_online = cursor.u32().and_then(|_available| cursor.u32());
                return;
            }
            CMDLINE => {
                let many = cursor.u32().unwrap_or(0);
                self.command = (0..many).map_while(|_| cursor.string()).collect();
                return;
            }
            PMU_MAPPINGS => {
                let many = cursor.u32().unwrap_or(0);
                self.pmus = (0..many).map_while(|_| Some((cursor.u32()?, cursor.string()?))).collect();
                return;
            }
            TRACING_DATA => {
                self.tracepoints.extend(tracing_data::tracepoints(section));
                return;
            }
            BUILD_ID => {
                self.take_build_ids(order, section);
                return;
            }
            EVENT_DESC => {
                let (many, size) = (cursor.u32().unwrap_or(0), cursor.u32().unwrap_or(0) as usize);
                self.described = (0..many).map_while(|_| described_event(&mut cursor, order, size)).collect();
                return;
            }
            _ => return,
        };
        if let Some(text) = cursor.string() {
            *field = text;
        }
    }

    /// Takes `struct perf_record_header_build_id`s in, each behind a record header: a section of them, or one of a pipe.
    fn take_build_ids(&mut self, order: Order, mut section: &[u8]) {
        let ids = self.build_ids.get_or_insert_default();
        while let Some(size) = order.u16(section, 6).map(usize::from).filter(|size| *size > BUILD_ID_BYTES) {
            let Some((entry, rest)) = section.split_at_checked(size) else { return };
            ids.extend(build_id(&entry[8..]));
            section = rest;
        }
    }

    /// Takes the build id in that a record of a pipe brings.
    pub(super) fn take_build_id(&mut self, body: &[u8]) {
        self.build_ids.get_or_insert_default().extend(build_id(body));
    }

    /// Whether it was recorded on this host, as far as names tell.
    pub fn is_of_this_host(&self) -> bool {
        rustix::system::uname().nodename().to_str().is_ok_and(|here| here == self.hostname)
    }

    /// The recorded program itself, without `perf record` and its options, as far as `--` marks it.
    pub fn program(&self) -> &[String] {
        match self.command.iter().position(|word| word == "--") {
            Some(at) => &self.command[at + 1..],
            None => &[],
        }
    }

    /// Host, CPU and kernel in one line; empty where the recording says nothing of them.
    pub fn machine(&self) -> String {
        let cpu = if self.cpu.is_empty() { &self.cpuid } else { &self.cpu };
        let kernel = if self.kernel.is_empty() { String::new() } else { format!("Linux {}", self.kernel) };
        let parts = [self.hostname.as_str(), cpu, &kernel];
        parts.into_iter().filter(|p| !p.is_empty()).collect::<Vec<_>>().join(", ")
    }
}

/// Bytes before the file's name: record header, process, 20 bytes of id, its length, padding.
const BUILD_ID_BYTES: usize = 36;

/// A file and its id, behind the record header.
fn build_id(body: &[u8]) -> Option<(String, Vec<u8>)> {
    let (id, path) = (body.get(4..24)?, body.get(BUILD_ID_BYTES - 8..)?);
    // Its length since Linux 5.9; before that a whole one.
    let length = usize::from(body[24]);
    let length = if (1..=20).contains(&length) { length } else { 20 };
    let id = id[..length].to_vec();
    // Compressed recordings list files with an id of zeros.
    id.iter().any(|byte| *byte != 0).then(|| (text(path), id))
}

fn described_event(cursor: &mut Cursor, order: Order, size: usize) -> Option<(Attribute, String, Vec<u64>)> {
    let (attribute, _) = Attribute::parse(order, cursor.take(size)?)?;
    let ids = cursor.u32()?;
    let name = cursor.string()?;
    let ids = (0..ids).map_while(|_| cursor.u64()).collect();
    Some((attribute, name, ids))
}
