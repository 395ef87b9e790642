//! Layouts of PEBS records, as far as their size.

use serde::{Deserialize, Serialize};

/// Format of a PEBS record (IA32_PERF_CAPABILITIES bits 11:8; SDM volume 3, 20.6.2.4 and 20.9.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RecordFormat {
    /// Core microarchitecture: flags, IP, general registers.
    Fmt0,
    /// Nehalem to Ivy Bridge: adds status, data address, data source, latency.
    Fmt1,
    /// Haswell, Broadwell: adds eventing IP and transaction state.
    Fmt2,
    /// Skylake to Comet Lake: adds the time stamp.
    Fmt3,
    /// Ice Lake on: the basic group and whatever is asked for.
    Adaptive {
        /// Memory information group.
        memory: bool,
        /// General registers group.
        registers: bool,
        /// XMM registers group.
        xmm: bool,
        /// Entries of the last-branch-record group.
        lbr_entries: u8,
    },
}

impl RecordFormat {
    /// Bytes of one record.
    pub fn bytes(self) -> u64 {
        match self {
            Self::Fmt0 => 144,
            Self::Fmt1 => 176,
            Self::Fmt2 => 192,
            Self::Fmt3 => 200,
            Self::Adaptive { memory, registers, xmm, lbr_entries } => {
                32 + if memory { 32 } else { 0 }
                    + if registers { 144 } else { 0 }
                    + if xmm { 256 } else { 0 }
                    + 24 * u64::from(lbr_entries)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Records in perf's 64 KiB, as counted in arch/x86/events/intel/ds.c's sizes.
    #[test]
    fn so_many_fit_into_perfs_buffer() {
        let basic = RecordFormat::Adaptive { memory: false, registers: false, xmm: false, lbr_entries: 0 };
        let with_memory = RecordFormat::Adaptive { memory: true, registers: true, xmm: false, lbr_entries: 0 };
        let fit = |format: RecordFormat| 65_536 / format.bytes();
        assert_eq!([RecordFormat::Fmt1, RecordFormat::Fmt2, RecordFormat::Fmt3, basic].map(fit), [372, 341, 327, 2048]);
        assert_eq!(with_memory.bytes(), 208);
    }
}
