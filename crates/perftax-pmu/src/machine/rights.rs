//! What this process may do, each right found by trying it: a fact like any other.
//!
//! Files tell what a knob says; whether a process may is decided by knobs, capabilities, filters and security modules together, and by patches of the
//! distributions that no file shows. So each right is tried once, on this very process, and the files explain what the kernel refused.

use serde::{Serialize, Serializer};

use super::{Machine, Probe};

/// Something that measuring may need.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Right {
    /// Count and sample own processes while they are in user mode.
    OwnUserMode,
    /// The same while the kernel works for them.
    OwnKernelMode,
    /// Everything that happens on a CPU.
    WholeCpus,
    /// Tracepoints, with what they carry.
    Tracepoints,
    /// Instructions of a program, as uprobes.
    Uprobes,
    /// The addresses of the kernel's functions, by their names.
    KernelNames,
    /// Rings of records of perf's own size, one on each CPU.
    Rings,
    /// The limits at which the kernel throttles samples, to raise them.
    SamplingLimits,
    /// Real-time scheduling: to run before what is measured.
    RealTime,
}

/// What came of trying.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trial {
    /// It is allowed.
    Allowed,
    /// It is refused.
    Refused {
        /// By what, in a sentence.
        why: String,
        /// What helps: a command where there is one.
        remedy: String,
    },
    /// Nobody tried.
    NotTried,
}

/// A right, and whether this process has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct RightStatus {
    /// Which one.
    #[serde(rename = "name", serialize_with = "by_name")]
    #[cfg_attr(feature = "schema", schemars(with = "String"))]
    pub right: Right,
    /// Whether it is there; none where nobody tried.
    pub held: Option<bool>,
    /// What refuses it; empty where nothing does.
    pub why_not: String,
    /// What helps; empty where nothing has to.
    pub remedy: String,
}

fn by_name<S: Serializer>(right: &Right, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(right.name())
}

impl Right {
    /// All, those first that most depends on.
    pub const ALL: [Self; 9] = [
        Self::OwnUserMode,
        Self::OwnKernelMode,
        Self::WholeCpus,
        Self::Tracepoints,
        Self::Uprobes,
        Self::KernelNames,
        Self::Rings,
        Self::SamplingLimits,
        Self::RealTime,
    ];

    /// The name used in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::OwnUserMode => "own-user-mode",
            Self::OwnKernelMode => "own-kernel-mode",
            Self::WholeCpus => "whole-cpus",
            Self::Tracepoints => "tracepoints",
            Self::Uprobes => "uprobes",
            Self::KernelNames => "kernel-names",
            Self::Rings => "rings",
            Self::SamplingLimits => "sampling-limits",
            Self::RealTime => "real-time",
        }
    }

    /// What it is the right to do, for people: "may …".
    pub fn to_do(self) -> &'static str {
        match self {
            Self::OwnUserMode => "sample your own programs in user mode",
            Self::OwnKernelMode => "sample what the kernel does for them",
            Self::WholeCpus => "watch whole CPUs",
            Self::Tracepoints => "use tracepoints",
            Self::Uprobes => "use uprobes",
            Self::KernelNames => "see the names of kernel addresses",
            Self::Rings => "map rings of 512 KiB on each CPU",
            Self::SamplingLimits => "raise the kernel's sampling limits",
            Self::RealTime => "run ahead of what is measured (real time)",
        }
    }
}

impl Machine {
    /// Every right, tried.
    pub fn rights(&self, probe: &dyn Probe) -> Vec<RightStatus> {
        Right::ALL.into_iter().map(|right| self.right(right, probe)).collect()
    }

    /// One right, tried.
    pub fn right(&self, right: Right, probe: &dyn Probe) -> RightStatus {
        match probe.may(right) {
            Trial::Allowed => RightStatus { right, held: Some(true), why_not: String::new(), remedy: String::new() },
            Trial::Refused { why, remedy } => RightStatus { right, held: Some(false), why_not: why, remedy },
            Trial::NotTried => RightStatus { right, held: None, why_not: "nobody tried".into(), remedy: String::new() },
        }
    }
}
