//! What the filters of AMD's IBS and ARM's SPE take: the drivers answer EINVAL or EOPNOTSUPP to the rest, and do not say to what.

use super::Event;
use super::catalog::Pmu;
use super::format::Word;
use super::pmu_event::number;

/// A term whose values have a range where it is not 0 (arch/x86/events/amd/ibs.c, `perf_ibs_init`, Linux 7.1): PMU, term, least and most. The hardware knows
/// steps of 128 cycles; the driver drops what is below the threshold itself.
const RANGES: [(&str, &str, u64, u64); 2] = [("ibs_op", "ldlat", 128, 2048), ("ibs_fetch", "fetchlat", 128, 1920)];

/// SPE's filters by events: records that have none of these bits, or any of those, are not kept (Arm ARM, PMSEVFR_EL1 and PMSNEVFR_EL1).
const SPE_FILTERS: [&str; 2] = ["event_filter", "inv_event_filter"];

impl Event {
    /// The value of a term of its PMU; `None` where the PMU has no such term.
    pub(super) fn term(&self, pmu: &Pmu, term: &str) -> Option<u64> {
        let field = pmu.formats.get(term)?;
        let word = match field.word {
            Word::Config => self.config,
            Word::Config1 => self.config1,
            Word::Config2 => self.config2,
            Word::Config3 => self.config3,
            Word::Config4 => self.config4,
        };
        Some(field.extract(word))
    }

    /// What of its filters the driver of that PMU would refuse, in words; `None` where nothing is known to be wrong.
    pub(super) fn refused_filter(&self, pmu: &Pmu) -> Option<String> {
        self.out_of_range(pmu).or_else(|| self.spe_filter(pmu))
    }

    fn out_of_range(&self, pmu: &Pmu) -> Option<String> {
        RANGES.iter().filter(|(name, ..)| *name == pmu.name).find_map(|(_, term, least, most)| {
            let value = self.term(pmu, term).filter(|value| *value != 0 && !(*least..=*most).contains(value))?;
            Some(format!("{term} is {value}, needs {least} to {most} cycles, or 0 for no filter"))
        })
    }

    fn spe_filter(&self, pmu: &Pmu) -> Option<String> {
        if !pmu.name.starts_with("arm_spe") {
            return None;
        }
        let values = SPE_FILTERS.map(|term| self.term(pmu, term).unwrap_or(0));
        if let Some(able) = pmu.caps.get("event_filter").and_then(|text| number(text)) {
            for (term, value) in SPE_FILTERS.iter().zip(values) {
                if value & !able != 0 {
                    let bits = value & !able;
                    return Some(format!(
                        "{term} has bits {bits:#x} that this CPU does not filter by (caps/event_filter is {able:#x})"
                    ));
                }
            }
        }
        let [kept, dropped] = values;
        (kept & dropped != 0).then(|| {
            format!("event_filter and inv_event_filter share bits {:#x}: what the one keeps the other drops, so that no sample is left", kept & dropped)
        })
    }
}
