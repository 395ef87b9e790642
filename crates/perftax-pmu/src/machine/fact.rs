//! One thing to know about a machine.

use std::fmt;

use serde::Serialize;

/// The heading that a fact stands under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Group {
    /// What the machine is: CPU, hypervisor, kernel, mitigations.
    Machine,
    /// What can take samples: PMUs, counters, PEBS, IBS, SPE, LBR.
    Hardware,
    /// What the kernel lets this process do.
    Permission,
    /// Limits at which the kernel throttles or refuses.
    Limits,
    /// What moves a measured cost from run to run.
    Noise,
}

impl Group {
    /// All groups in the order of reading.
    pub const ALL: [Self; 5] = [Self::Machine, Self::Hardware, Self::Permission, Self::Limits, Self::Noise];
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Machine => "machine",
            Self::Hardware => "sampling hardware",
            Self::Permission => "permission",
            Self::Limits => "kernel limits",
            Self::Noise => "what disturbs a measurement",
        })
    }
}

/// A fact: its value here, what that means for sampling, and the command that changes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Fact {
    /// The heading that it stands under.
    pub group: Group,
    /// Name, for people.
    pub name: String,
    /// Value, for people; `unknown` with the reason where it could not be read.
    pub value: String,
    /// What the value means for sampling.
    pub meaning: String,
    /// A command to paste that changes it for the better; empty where nothing does, or nothing has to be done.
    pub fix: String,
}

impl Fact {
    /// A fact that needs no change.
    pub fn new(group: Group, name: &str, value: impl Into<String>, meaning: impl Into<String>) -> Self {
        Self { group, name: name.into(), value: value.into(), meaning: meaning.into(), fix: String::new() }
    }

    /// The same with the command that changes it.
    pub fn fix(self, fix: impl Into<String>) -> Self {
        Self { fix: fix.into(), ..self }
    }

    /// The same with the command, where it is worth giving.
    pub fn fix_if(self, condition: bool, fix: impl Into<String>) -> Self {
        if condition { self.fix(fix) } else { self }
    }
}
