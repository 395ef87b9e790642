//! The ways in which an event can be sampled.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A way to take samples. Each has a cost of its own, so a calibration belongs to exactly one of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Mechanism {
    /// Intel's precise event-based sampling: microcode writes the record, an interrupt drains the buffer.
    Pebs,
    /// AMD instruction-based sampling of dispatched operations: one interrupt a sample.
    IbsOp,
    /// AMD instruction-based sampling of fetches: one interrupt a sample.
    IbsFetch,
    /// ARM's statistical profiling extension: packets into an AUX buffer.
    Spe,
    /// A counter's overflow interrupt (performance monitoring interrupt), without precise hardware.
    Pmi,
    /// The kernel's high-resolution timer, running while the thread runs: time-driven.
    CpuClock,
    /// Software events of the kernel: page faults, context switches, migrations.
    Software,
    /// Debug-register breakpoints and watchpoints.
    Breakpoint,
    /// Static kernel tracepoints.
    Tracepoint,
    /// Dynamic user-space probes: a trap at an instruction of a program.
    Uprobe,
    /// PEBS by our own kernel module (kmod/), without perf: any buffer size, records counted and thrown away.
    PebsDirect,
}

impl Mechanism {
    /// Whether its samples come by the non-maskable interrupt of x86's counters.
    pub fn interrupts_by_nmi(self) -> bool {
        matches!(self, Self::Pebs | Self::Pmi | Self::IbsOp | Self::IbsFetch)
    }

    /// Every mechanism, best first: the order in which a default is chosen among those that are available.
    pub const ALL: [Self; 11] = [
        Self::Pebs,
        Self::IbsOp,
        Self::IbsFetch,
        Self::Spe,
        Self::Pmi,
        Self::CpuClock,
        Self::Software,
        Self::Breakpoint,
        Self::Tracepoint,
        Self::Uprobe,
        Self::PebsDirect,
    ];

    /// The name used on the command line and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pebs => "pebs",
            Self::IbsOp => "ibs-op",
            Self::IbsFetch => "ibs-fetch",
            Self::Spe => "spe",
            Self::Pmi => "pmi",
            Self::CpuClock => "cpu-clock",
            Self::Software => "software",
            Self::Breakpoint => "breakpoint",
            Self::Tracepoint => "tracepoint",
            Self::Uprobe => "uprobe",
            Self::PebsDirect => "pebs-direct",
        }
    }

    /// Whether its events are places in somebody's code or memory, of which only some can be made to happen: it is calibrated by one of its own, and not by
    /// each.
    pub fn is_of_places(self) -> bool {
        matches!(self, Self::Tracepoint | Self::Uprobe | Self::Breakpoint)
    }

    /// Whether samples come from the passing of time (and so sample their own overhead) and not from counted events.
    pub fn is_time_driven(self) -> bool {
        self == Self::CpuClock
    }

    /// Whether a core's own counters or samplers drive it; else the kernel does.
    pub fn is_hardware(self) -> bool {
        matches!(self, Self::Pebs | Self::PebsDirect | Self::IbsOp | Self::IbsFetch | Self::Spe | Self::Pmi)
    }

    /// Whether the hardware keeps records in a buffer, which is read when it is full or the event is stopped.
    pub fn keeps_a_buffer(self) -> bool {
        matches!(self, Self::Pebs | Self::PebsDirect)
    }

    /// Whether it serves measurements alone: its samples go nowhere, so nothing is planned or verified with it.
    pub fn only_measures(self) -> bool {
        self == Self::PebsDirect
    }
}

impl fmt::Display for Mechanism {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Mechanism {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|m| m.name() == name).ok_or_else(|| {
            let names: Vec<_> = Self::ALL.iter().map(|m| m.name()).collect();
            format!("unknown mechanism '{name}': one of {}", names.join(", "))
        })
    }
}
