//! Where a document comes from.

use serde::{Deserialize, Serialize};

use crate::Warning;

/// Version of the JSON documents. Raised when a key changes its meaning or goes away, not when one is added.
pub const SCHEMA: u32 = 1;

/// The machine that numbers belong to: what a stale or foreign profile is recognised by.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MachineId {
    /// For people: CPU model, hypervisor, cores.
    pub name: String,
    /// Hash over CPU model, microcode, kernel, mitigations and virtualisation; names the profile's file.
    pub fingerprint: String,
    /// CPU model name as the kernel gives it.
    pub cpu: String,
    /// Microcode revision as the kernel gives it, empty where it does not.
    pub microcode: String,
    /// Hypervisor, or `none`.
    pub virtualisation: String,
    /// The state of the mitigations that change the cost of an interrupt, one line.
    pub mitigations: String,
    /// Online logical CPUs.
    pub cpus: u32,
}

/// The head of every document.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Origin {
    /// Version of the format of documents: it goes up when a key changes its meaning or goes away.
    pub schema: u32,
    /// What kind of document this is: the name of the command that wrote it.
    pub kind: String,
    /// Version of perftax.
    pub perftax: String,
    /// The machine that the numbers belong to.
    pub machine: MachineId,
    /// Kernel release, as `uname -r` says.
    pub kernel: String,
    /// Seconds since 1970 when it was written.
    pub taken_at_s: f64,
    /// The command line.
    pub command: Vec<String>,
    /// What weakens the result.
    #[serde(default)]
    pub warnings: Vec<Warning>,
}
