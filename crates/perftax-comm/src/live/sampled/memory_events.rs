//! What samples loads and stores with the addresses of their data.

use perftax_doc::steps::{Emulation, Experiment, Operation};
use perftax_pmu::event::{Catalog, Event, Retired, Vendor, parse_one};
use perftax_pmu::{Error, Result};

/// Events that count all loads and all stores of a program, and sample some of them.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryEvents {
    /// Loads.
    pub loads: Event,
    /// Stores.
    pub stores: Event,
    /// Loads that take long, with where they found their data; none where the machine or its kernel cannot tell.
    pub slow_loads: Option<Event>,
}

/// Loads that take so many cycles are sampled with where they found their data: more than a hit in the second level takes, less than to fetch a
/// line out of another core's cache (perf c2c has the same, tools/perf/arch/x86/util/mem-events.c).
const SLOW_CYCLES: u64 = 30;

impl MemoryEvents {
    /// What they are called.
    pub fn names(&self) -> Vec<String> {
        [&self.loads, &self.stores].into_iter().chain(&self.slow_loads).map(|event| event.name.clone()).collect()
    }

    /// Those of this machine: PEBS of MEM_INST_RETIRED (in older generations MEM_UOPS_RETIRED), which names the instruction and the data of
    /// each (SDM volume 3, 20.6.2.4 "PEBS records").
    ///
    /// # Errors
    /// Where nothing samples memory accesses, with what does without.
    pub fn of(catalog: &Catalog) -> Result<Self> {
        let missing = |why: String| Error::Unsupported {
            what: "sample loads and stores with their addresses".into(),
            why,
            remedy: format!(
                "{} watches lines that you name, on every machine with debug registers; {} sees every access; {} has an emulated PMU",
                Operation::WatchNamed,
                Operation::SimulateSharing,
                Operation::Emulate(Emulation { cpus: Some(4), experiment: Some(Experiment::Sharing), ..Emulation::default() })
            ),
        };
        match (catalog.core_pmu(), catalog.vendor()) {
            (None, _) => {
                return Err(missing(format!(
                    "the kernel exposes no core PMU (nothing like {}/cpu)",
                    catalog.devices().display()
                )));
            }
            (Some(_), Vendor::Intel) => {}
            (Some(_), Vendor::Amd) => {
                return Err(missing(
                    "this machine's IBS is not built in yet: its samples are of all operations, not of accesses".into(),
                ));
            }
            (Some(_), _) => {
                return Err(missing("this machine's core has no event of all loads or all stores that is known".into()));
            }
        }
        let event = |retired: Retired, name: &str| -> Result<Event> {
            let text = retired.in_perfs_words(name, catalog).ok_or_else(|| missing(format!("{name} have no event here")))?;
            let event = parse_one(&format!("{text}upp"), catalog)?;
            event.check_supported(catalog).map_err(|error| missing(error.in_one_line()))?;
            Ok(event)
        };
        // MEM_TRANS_RETIRED.LOAD_LATENCY (SDM volume 3, 20.3.4.4.2 "Load Latency Performance Monitoring Facility").
        let slow_loads = catalog
            .core_pmu()
            .and_then(|pmu| {
                parse_one(&format!("{}/event=0xcd,umask=0x1,ldlat={SLOW_CYCLES},name=slow-loads/upp", pmu.name), catalog).ok()
            })
            .filter(|event| event.check_supported(catalog).is_ok());
        Ok(Self { loads: event(Retired::Loads, "loads")?, stores: event(Retired::Stores, "stores")?, slow_loads })
    }
}
