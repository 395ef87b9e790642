//! Whether the machine of a catalog can sample an event.

use perftax_doc::Mechanism;
use perftax_doc::steps::Operation;

use crate::error::{Error, Result};
use crate::machine::Vendor;

use super::catalog::{Catalog, Pmu};
use super::parse::IBS_MAX_PRECISE;
use super::{ABSENT_PMU, Event, pmu_types, symbolic};

/// What to do where hardware is missing.
fn remedy() -> String {
    let (here, elsewhere) = (Operation::PlanByTimer, Operation::PredictElsewhere);
    format!("{here} samples by the kernel's timer here; {elsewhere} predicts for another machine")
}

impl Event {
    /// Whether the machine of the catalog can sample this event, as far as sysfs tells; the kernel has the last word
    /// when the event is opened.
    ///
    /// # Errors
    /// `Unsupported` with the fact that forbids it and what to do instead.
    pub fn check_supported(&self, catalog: &Catalog) -> Result<()> {
        if self.is_symbolic()
            && catalog.core_pmu().is_some()
            && let Some(why) = symbolic::foreign(&self.name, catalog)
        {
            return Err(self.unsupported(&why));
        }
        match self.pmu_type {
            pmu_types::SOFTWARE | pmu_types::TRACEPOINT => Ok(()),
            pmu_types::BREAKPOINT => self.needs_pmu("breakpoint", catalog).map(|_| ()),
            pmu_types::HARDWARE | pmu_types::HW_CACHE | pmu_types::RAW => {
                let named = self.core.as_deref().filter(|name| *name != "cpu" || catalog.pmu(name).is_some());
                let core = match named {
                    Some(name) => self.needs_pmu(name, catalog)?,
                    None => catalog.core_pmu().ok_or_else(|| self.no_pmu("cpu", catalog))?,
                };
                self.check_kind(catalog)?;
                self.check_reload(core)?;
                self.check_precise(core, catalog)
            }
            _ if self.uprobe.is_some() => self.needs_pmu("uprobe", catalog).map(|_| ()),
            ABSENT_PMU => Err(self.no_pmu(self.name.split('/').next().unwrap_or_default(), catalog)),
            number => match catalog.pmu_of_type(number) {
                None => Err(self.unsupported(&format!("no PMU in {} has type {number}", catalog.devices().display()))),
                Some(pmu) if pmu.is_core => {
                    self.check_reload(pmu)?;
                    self.check_precise(pmu, catalog)
                }
                Some(pmu) => self.check_other(pmu),
            },
        }
    }

    /// What is silently done to this event by the kernel, in words for the user; none where it is taken as written.
    pub fn note(&self) -> Option<String> {
        let forwarded = self.mechanism == Mechanism::IbsOp && matches!(self.pmu_type, pmu_types::HARDWARE | pmu_types::RAW);
        forwarded.then(|| {
            let count = if self.config == AMD_MICRO_OPS { "dispatched micro-operations (cnt_ctl=1)" } else { "cycles" };
            format!("{}: on AMD the kernel forwards a precise event to ibs_op, which counts {count}", self.name)
        })
    }

    /// Whether the name is one of libpfm's.
    fn is_symbolic(&self) -> bool {
        self.uprobe.is_none() && !self.name.contains('/') && self.name.contains("::")
    }

    /// Where cores are of several kinds an event is of one of them: the kernel takes one that names none for the first kind's, and counts nothing on the CPUs of
    /// the others (`perf_init_event`, PERF_TYPE_RAW; arch/x86/events/intel/core.c, `intel_pmu_filter`).
    fn check_kind(&self, catalog: &Catalog) -> Result<()> {
        let kinds = catalog.core_pmus();
        if kinds.len() < 2 || self.core.as_deref().is_some_and(|name| kinds.iter().any(|pmu| pmu.name == name)) {
            return Ok(());
        }
        let named: Vec<String> = kinds
            .iter()
            .map(|pmu| match &pmu.cpus {
                Some(cpus) => format!("{} (CPUs {cpus})", pmu.name),
                None => pmu.name.clone(),
            })
            .collect();
        let why = format!(
            "cores are of several kinds here, {}, and an event that names none is counted on one kind alone",
            named.join(" and ")
        );
        let ways: Vec<String> = kinds.iter().map(|pmu| self.written_for(&pmu.name)).collect();
        let remedy = format!("name the kind: {}", ways.join(", or "));
        Err(Error::Unsupported { what: format!("sample {}", self.name), why, remedy })
    }

    /// Automatic counter reload is between the events of a group, and a counter that reloads itself alone interrupts no more (`is_acr_self_reload_event`).
    fn check_reload(&self, core: &Pmu) -> Result<()> {
        match self.term(core, "acr_mask").unwrap_or(0) {
            0 => Ok(()),
            mask => Err(Error::Unsupported {
                what: format!("sample {} by itself", self.name),
                why: format!(
                    "acr_mask is {mask:#x}, needs 0: it reloads counters of the event's group, and events are opened one by one here"
                ),
                remedy: "leave acr_mask out; perf record -e '{…}' has groups".into(),
            }),
        }
    }

    /// Its text with a PMU in front: `cpu_atom/cycles/pp` of `cycles:pp`.
    fn written_for(&self, pmu: &str) -> String {
        let inside = self.name.split_once('/').map(|(_, inside)| inside.to_string());
        let inside = inside.unwrap_or_else(|| {
            let (event, modifiers) = self.name.split_once(':').unwrap_or((&self.name, ""));
            format!("{event}/{modifiers}")
        });
        format!("{pmu}/{inside}")
    }

    fn check_precise(&self, core: &Pmu, catalog: &Catalog) -> Result<()> {
        let precise = self.modifiers.precise;
        let wanted = precise > 0 || self.modifiers.precise_max;
        match (self.mechanism, catalog.vendor()) {
            (Mechanism::IbsOp, _) => self.check_forwarded(catalog),
            (Mechanism::Pebs, _) => match core.max_precise() {
                Some(0) => Err(self.unsupported(&format!("{} is 0: no PEBS here", cap_path(core, catalog)))),
                Some(most) if precise > most => {
                    Err(self.unsupported(&format!("{} is {most}, needs {precise}", cap_path(core, catalog))))
                }
                _ => Ok(()),
            },
            (_, Vendor::Arm) if wanted => {
                Err(self.unsupported("ARM has no precise counters: its precise source is a PMU of its own, arm_spe_0//"))
            }
            (_, vendor) if wanted => Err(self.unsupported(&format!("precise events are unknown for this CPU ({vendor:?})"))),
            _ => Ok(()),
        }
    }

    /// AMD: what arch/x86/events/amd/ibs.c forwards (`perf_ibs_precise_event`).
    fn check_forwarded(&self, catalog: &Catalog) -> Result<()> {
        if matches!(self.pmu_type, pmu_types::HARDWARE | pmu_types::RAW) {
            self.needs_pmu("ibs_op", catalog)?;
        }
        let is_forwarded = match self.pmu_type {
            pmu_types::HARDWARE => self.config == 0,
            pmu_types::RAW => matches!(self.config, AMD_CYCLES | AMD_MICRO_OPS),
            pmu_types::HW_CACHE => false,
            _ => true,
        };
        if !is_forwarded {
            return Err(self.unsupported("on AMD only cycles, r076 and r0c1 can be precise: the kernel forwards no other to IBS"));
        }
        if self.modifiers.precise > IBS_MAX_PRECISE {
            let why = format!("AMD's precise levels end at {IBS_MAX_PRECISE}, not {}", self.modifiers.precise);
            return Err(self.unsupported(&why));
        }
        Ok(())
    }

    fn check_other(&self, pmu: &Pmu) -> Result<()> {
        let samples = matches!(self.mechanism, Mechanism::IbsOp | Mechanism::IbsFetch | Mechanism::Spe);
        if samples {
            return self.refused_filter(pmu).map_or(Ok(()), |why| Err(self.unsupported(&why)));
        }
        let why = format!("the PMU {} is not a core's: it counts (perf stat), but no overflow interrupts a program", pmu.name);
        Err(self.unsupported(&why))
    }

    fn needs_pmu<'a>(&self, name: &str, catalog: &'a Catalog) -> Result<&'a Pmu> {
        catalog.pmu(name).ok_or_else(|| self.no_pmu(name, catalog))
    }

    fn no_pmu(&self, pmu: &str, catalog: &Catalog) -> Error {
        let missing = catalog.devices().join(pmu);
        self.unsupported(&format!("the kernel exposes no {pmu} PMU ({} is missing)", missing.display()))
    }

    fn unsupported(&self, why: &str) -> Error {
        Error::Unsupported { what: format!("sample {}", self.name), why: why.into(), remedy: remedy() }
    }
}

/// `r076` and `r0c1`: AMD's cycles and retired micro-operations.
const AMD_CYCLES: u64 = 0x76;
const AMD_MICRO_OPS: u64 = 0xc1;

fn cap_path(core: &Pmu, catalog: &Catalog) -> String {
    catalog.devices().join(&core.name).join("caps/max_precise").display().to_string()
}
