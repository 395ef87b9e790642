//! The processor that the guest sees.

/// A generation whose PMU is modelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Generation {
    /// 4 + 3 counters, PEBS format 2, 16 branches.
    Haswell,
    /// As Haswell.
    Broadwell,
    /// 4 + 3 counters, PEBS format 3, 32 branches.
    #[default]
    Skylake,
    /// 8 + 4 counters, adaptive PEBS, 32 branches.
    IceLake,
    /// 8 + 4 counters, adaptive PEBS, 32 architectural branch records.
    SapphireRapids,
    /// 8 + 6 counters, architectural PEBS, 32 architectural branch records.
    ClearwaterForest,
    /// AMD: 6 counters, instruction-based sampling.
    Zen2,
    /// As Zen 2.
    Zen3,
    /// AMD: 6 counters with a control of all, 16 branch records, instruction-based sampling that can leave hits out.
    Zen4,
    /// As Zen 4, with sampling of loads by latency.
    Zen5,
}

impl Generation {
    /// QEMU's model. The ones without transactions: the emulation has none.
    pub fn model(self) -> &'static str {
        match self {
            Self::Haswell => "Haswell-noTSX",
            Self::Broadwell => "Broadwell-noTSX",
            Self::Skylake => "Skylake-Client-noTSX-IBRS",
            // From this version on it has the model number of the real one.
            Self::IceLake => "Icelake-Server-v4",
            // QEMU 7.2 has none of its own: what it has beyond Ice Lake (AMX, half floats) the emulation would not have either.
            Self::SapphireRapids => "Icelake-Server-v4,model=143,stepping=8,model-id=Intel Xeon Processor (SapphireRapids)",
            // Quick strings are as below.
            Self::ClearwaterForest => "ClearwaterForest,fsrs=off",
            Self::Zen2 => "EPYC-Rome",
            Self::Zen3 => "EPYC-Milan",
            // QEMU 7.2 has none of its own.
            Self::Zen4 => "EPYC-Milan,model=17,stepping=1,model-id=AMD EPYC-Genoa Processor",
            // The number of those that are sold: QEMU's has 0.
            Self::Zen5 => "EPYC-Turin,model=2,stepping=1",
        }
    }
}

/// Which event PEBS records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Arm {
    /// The one after the overflow: one in period + 1.
    #[default]
    Next,
    /// The one that overflowed: one in period.
    Same,
}

/// What a processor lacks, as those of guests in clouds do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Without {
    /// Counters, and all that is of them.
    pub pmu: bool,
    /// Branch records.
    pub lbr: bool,
    /// PEBS.
    pub pebs: bool,
    /// Interrupts of counters: they count, and nothing can be sampled.
    pub pmi: bool,
    /// RDPMC of programs: their counters are read by system calls alone.
    pub rdpmc: bool,
}

impl Without {
    /// As perftax_engine.h has it.
    fn bits(self) -> u32 {
        [self.lbr, self.pebs, self.pmi, self.rdpmc, self.pmu]
            .into_iter()
            .enumerate()
            .map(|(at, lacks)| u32::from(lacks) << at)
            .sum()
    }
}

/// A processor, and what its manual leaves open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Processor {
    /// Its generation.
    pub generation: Generation,
    /// How many.
    pub count: u32,
    /// Time that a PEBS assist takes, ns.
    pub assist_ns: u64,
    /// Time from an overflow to the handler's first instruction, ns.
    pub interrupt_ns: u64,
    /// Instructions from an ordinary counter's overflow to its interrupt.
    pub skid: u32,
    /// Which event PEBS records.
    pub arm: Arm,
    /// Whether caches are simulated: cache events and latencies, at a tenth of the speed.
    pub caches: bool,
    /// Whether the counts of AMD's instruction-based sampling start at random, from a seed, as the hardware's do.
    pub ibs_random: bool,
    /// What it lacks.
    pub without: Without,
    /// Whether a load that misses takes the time that it takes: all instructions are followed then, also where nothing is counted. With caches.
    pub miss_time: bool,
}

impl Default for Processor {
    fn default() -> Self {
        Self {
            generation: Generation::default(),
            count: 1,
            assist_ns: 0,
            interrupt_ns: 0,
            skid: 0,
            arm: Arm::Next,
            caches: false,
            ibs_random: false,
            without: Without::default(),
            miss_time: false,
        }
    }
}

impl Processor {
    /// The processor that a saved machine of this one booted with: what may differ from command to command is at its default.
    pub fn as_booted(&self) -> Self {
        Self { generation: self.generation, count: self.count, caches: self.caches, without: self.without, ..Self::default() }
    }

    /// QEMU's -cpu; properties at their defaults are left out. Nobody is told that strings of bytes are copied quickly (ERMS, FSRM): each byte is an
    /// instruction's time here, and a word of eight is as much.
    pub fn option(&self) -> String {
        let usual = Self::default();
        let mut option = format!("{},pmu=on,check=off,erms=off,fsrm=off", self.generation.model());
        for (name, value, usual) in [
            ("pebs-assist-ns", self.assist_ns, usual.assist_ns),
            ("pmi-ns", self.interrupt_ns, usual.interrupt_ns),
            ("pmi-skid", self.skid.into(), usual.skid.into()),
            ("pmu-without", self.without.bits().into(), 0),
        ] {
            if value != usual {
                option.push_str(&format!(",{name}={value}"));
            }
        }
        let switches = [
            ("pebs-arm-same", self.arm == Arm::Same),
            ("pmu-caches", self.caches),
            ("ibs-random", self.ibs_random),
            ("pmu-miss-time", self.miss_time),
        ];
        for (name, on) in switches {
            if on {
                option.push_str(&format!(",{name}=on"));
            }
        }
        option
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_is_said() {
        assert_eq!(Processor::default().option(), "Skylake-Client-noTSX-IBRS,pmu=on,check=off,erms=off,fsrm=off");
        let other = Processor { generation: Generation::Broadwell, assist_ns: 286, arm: Arm::Same, ..Processor::default() };
        assert_eq!(other.option(), "Broadwell-noTSX,pmu=on,check=off,erms=off,fsrm=off,pebs-assist-ns=286,pebs-arm-same=on");
        let without = Without { pebs: true, rdpmc: true, ..Without::default() };
        let cloud = Processor { without, ..Processor::default() };
        assert!(cloud.option().ends_with(",fsrm=off,pmu-without=10"));
        let without = Without { pmu: true, ..Without::default() };
        assert!(Processor { without, ..Processor::default() }.option().ends_with(",fsrm=off,pmu-without=16"));
        let newer = Processor { generation: Generation::SapphireRapids, ..Processor::default() };
        assert!(newer.option().starts_with("Icelake-Server-v4,model=143,") && newer.option().contains(",pmu=on"));
        let amd = Processor { generation: Generation::Zen2, ibs_random: true, ..Processor::default() };
        assert_eq!(amd.option(), "EPYC-Rome,pmu=on,check=off,erms=off,fsrm=off,ibs-random=on");
    }
}
