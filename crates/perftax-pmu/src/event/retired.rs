//! What every core can count of the instructions that it retires, by vendors' own events.

use super::{Catalog, Vendor};

/// What a core counts of the instructions that it retires.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retired {
    /// Instructions.
    Instructions,
    /// Loads.
    Loads,
    /// Stores.
    Stores,
    /// Branches.
    Branches,
    /// Taken branches.
    Taken,
    /// Locked loads.
    Locked,
    /// Returns.
    Returns,
}

impl Retired {
    /// All of them: the PES study's mix (TPDS'23, figure 12).
    pub const ALL: [Self; 7] =
        [Self::Instructions, Self::Loads, Self::Stores, Self::Branches, Self::Taken, Self::Locked, Self::Returns];

    /// What they are called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Instructions => "instructions",
            Self::Loads => "loads",
            Self::Stores => "stores",
            Self::Branches => "branches",
            Self::Taken => "taken branches",
            Self::Locked => "locked loads",
            Self::Returns => "returns",
        }
    }

    /// The vendor's own event for it in perf's words, under a name; none where there is no core PMU, or none is known.
    pub fn in_perfs_words(self, name: &str, catalog: &Catalog) -> Option<String> {
        let ((code, mask), pmu) = (self.selector(catalog.vendor(), catalog.cores())?, catalog.core_pmu()?);
        Some(format!("{}/event={code:#x},umask={mask:#x},name={name}/", pmu.name))
    }

    /// Event code and unit mask; none where a vendor has no such event, or none is known. Intel from Haswell on: SDM volume 3, chapter 20 (MEM_INST_RETIRED, in older generations MEM_UOPS_RETIRED;
    /// BR_INST_RETIRED); efficient cores, by their microarchitecture's name: perf's lists of Tremont, Crestmont and Darkmont. AMD family 17h: PPR, section 2.1.15.4 (LsDispatch, ExRet…).
    pub fn selector(self, vendor: Vendor, cores: &str) -> Option<(u64, u64)> {
        let (taken, returns) = match cores {
            "Tremont" | "Gracemont" | "Crestmont" => (0xc0, 0xf7),
            "Skymont" | "Darkmont" => (0xfb, 0x08),
            _ => (0x20, 0x08),
        };
        match (self, vendor) {
            (Self::Instructions, Vendor::Intel | Vendor::Amd) => Some((0xc0, 0)),
            (Self::Loads, Vendor::Intel) => Some((0xd0, 0x81)),
            (Self::Stores, Vendor::Intel) => Some((0xd0, 0x82)),
            (Self::Branches, Vendor::Intel) => Some((0xc4, 0)),
            (Self::Taken, Vendor::Intel) => Some((0xc4, taken)),
            (Self::Locked, Vendor::Intel) => Some((0xd0, 0x21)),
            (Self::Returns, Vendor::Intel) => Some((0xc4, returns)),
            (Self::Branches, Vendor::Amd) => Some((0xc2, 0)),
            (Self::Taken, Vendor::Amd) => Some((0xc4, 0)),
            (Self::Returns, Vendor::Amd) => Some((0xc8, 0)),
            (Self::Loads, Vendor::Amd) => Some((0x29, 1)),
            (Self::Stores, Vendor::Amd) => Some((0x29, 2)),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn efficient_cores_have_numbers_of_their_own() {
        let taken = |cores| Retired::Taken.selector(Vendor::Intel, cores);
        assert_eq!(
            ["", "Golden Cove", "Crestmont", "Darkmont"].map(taken),
            [0x20, 0x20, 0xc0, 0xfb].map(|mask| Some((0xc4, mask)))
        );
        assert_eq!(Retired::Returns.selector(Vendor::Intel, "Crestmont"), Some((0xc4, 0xf7)));
        assert_eq!(Retired::Taken.selector(Vendor::Amd, ""), Some((0xc4, 0)));
    }
}
