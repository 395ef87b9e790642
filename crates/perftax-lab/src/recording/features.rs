//! What the header says of the machine, the command and the PMUs (`HEADER_*` of perf's `util/header.h`).

use std::collections::BTreeMap;

use super::attribute::Attribute;
use super::bytes::{Cursor, Order};

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
}

const HOSTNAME: u32 = 3;
const OSRELEASE: u32 = 4;
const VERSION: u32 = 5;
const ARCH: u32 = 6;
const NRCPUS: u32 = 7;
const CPUDESC: u32 = 8;
const CPUID: u32 = 9;
const CMDLINE: u32 = 11;
const EVENT_DESC: u32 = 12;
const PMU_MAPPINGS: u32 = 16;

impl Features {
    /// Whether a feature is one of those that are kept, so that the others need not be read.
    pub fn wants(feature: u32) -> bool {
        matches!(feature, HOSTNAME | OSRELEASE | VERSION | ARCH | NRCPUS | CPUDESC | CPUID | CMDLINE | EVENT_DESC | PMU_MAPPINGS)
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

fn described_event(cursor: &mut Cursor, order: Order, size: usize) -> Option<(Attribute, String, Vec<u64>)> {
    let (attribute, _) = Attribute::parse(order, cursor.take(size)?)?;
    let ids = cursor.u32()?;
    let name = cursor.string()?;
    let ids = (0..ids).map_while(|_| cursor.u64()).collect();
    Some((attribute, name, ids))
}
