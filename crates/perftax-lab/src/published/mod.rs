//! Published calibrations, as TOML data under `machines/` of perftax-model: what others measured, so that a prediction can be made for a
//! machine that is not at hand.

pub mod pes;

use std::collections::BTreeMap;
use std::path::Path;

use perftax_doc::steps::{Calibrated, Operation, Setting};
use perftax_doc::{Calibration, MachineId, Origin, SCHEMA, StopReason};
use perftax_doc::{Estimate, Mechanism, Warning};
use perftax_model::machine::{self, Machine};
use perftax_pmu::event::Event;
use perftax_pmu::{Error, Result};
use serde::Deserialize;

pub use machine::shipped_names;

/// The shipped machines, sorted by name.
pub fn shipped() -> Vec<Published> {
    shipped_names().into_iter().filter_map(|name| Published::parse(machine::shipped(name)?, name).ok()).collect()
}

/// A machine whose cost per sample was published.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// Short name, the file's stem: what `--machine` takes.
    pub name: String,
    /// CPU model.
    pub cpu: String,
    /// Its microarchitecture.
    pub microarchitecture: String,
    /// Cores, where known.
    #[serde(default)]
    pub cpus: u32,
    /// Kernel it was measured under.
    pub kernel: String,
    /// Publication, and where in it.
    pub source: String,
    /// The year of the publication, where known: data sets have days.
    #[serde(default)]
    pub year: Option<u16>,
    /// What a reader must know before using the numbers.
    #[serde(default)]
    pub notes: Vec<String>,
    /// The costs, the best documented first.
    #[serde(rename = "cost", default)]
    pub costs: Vec<PublishedCost>,
    /// The machine for the software PMU.
    #[serde(default)]
    pub model: Option<Machine>,
}

/// The published cost of a sample by one mechanism and event.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PublishedCost {
    /// The mechanism.
    pub mechanism: Mechanism,
    /// The event it was measured with, by its vendor's or perf's name.
    pub event: String,
    /// Under which settings: records per interrupt, signals.
    pub condition: String,
    /// α: elapsed time that one sample adds.
    pub alpha_ns: Estimate,
    /// How the interval of `alpha_ns` was obtained.
    pub interval: String,
    /// Further terms, ns a sample, on top of α.
    #[serde(default)]
    pub terms: BTreeMap<String, Estimate>,
    /// How the intervals of `terms` were obtained.
    #[serde(default)]
    pub terms_interval: String,
    /// The periods for which it was measured.
    pub periods: PeriodRange,
}

/// A closed range of sampling periods, in events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PeriodRange {
    /// Shortest.
    pub low: u64,
    /// Longest.
    pub high: u64,
}

impl PeriodRange {
    /// Whether the period lies in the range.
    pub fn contains(&self, period: u64) -> bool {
        (self.low..=self.high).contains(&period)
    }
}

impl Published {
    /// What it is sampled by where nothing else is asked for.
    pub fn first_mechanism(&self) -> Mechanism {
        self.costs.first().map_or(Mechanism::Pebs, |cost| cost.mechanism)
    }

    /// What an event that is known here as `event` is there, and what samples it: the same as here where that machine has a price for it; else its own
    /// first mechanism, and the event need only have a name, which this machine may not know.
    pub fn event(&self, event: Option<Event>) -> (Option<Event>, Mechanism) {
        let has = |mechanism: Mechanism| self.costs.iter().any(|cost| cost.mechanism == mechanism);
        match event {
            // Not an event of a core's: its mechanism is the kernel's, there as here.
            Some(event) if has(event.mechanism) || !event.mechanism.is_hardware() => {
                let mechanism = event.mechanism;
                (Some(event), mechanism)
            }
            known => (known, self.first_mechanism()),
        }
    }

    /// Loads by path (anything with a `/` or ending in `.toml`) or by the name of a shipped one, in any case of letters.
    ///
    /// # Errors
    /// [`Error::File`], [`Error::Malformed`] with the byte, or [`Error::Argument`] for a name that is not shipped.
    pub fn load(path_or_name: &str) -> Result<Self> {
        if path_or_name.contains('/') || path_or_name.ends_with(".toml") {
            let path = Path::new(path_or_name);
            let text = std::fs::read_to_string(path).map_err(Error::file(path))?;
            return Self::parse(&text, path_or_name);
        }
        let name = path_or_name.to_lowercase();
        machine::shipped(&name).map_or_else(
            || {
                Err(Error::Argument {
                    argument: Setting::Machine.name(),
                    value: path_or_name.into(),
                    needed: format!("the path of a description (.toml), or one of {}", shipped_names().join(", ")),
                })
            },
            |text| Self::parse(text, &format!("machines/{name}.toml")),
        )
    }

    /// Reads a machine from its text; `origin` names it in errors.
    ///
    /// # Errors
    /// [`Error::Malformed`] with the byte where the text is not a machine, or where an interval does not hold its estimate.
    pub fn parse(text: &str, origin: &str) -> Result<Self> {
        let malformed = |offset: usize, why: String| Error::Malformed { what: origin.into(), offset: offset as u64, why };
        let machine: Self =
            toml::from_str(text).map_err(|e| malformed(e.span().map_or(0, |span| span.start), e.message().to_owned()))?;
        if machine.costs.is_empty() && machine.model.is_none() {
            return Err(malformed(0, "neither a [[cost]] nor a [model]".into()));
        }
        if let Some(model) = &machine.model {
            model.check().map_err(|e| malformed(text.find("[model]").unwrap_or(0), e.to_string()))?;
        }
        for cost in &machine.costs {
            for (name, e) in std::iter::once(("alpha_ns", &cost.alpha_ns)).chain(cost.terms.iter().map(|(n, e)| (n.as_str(), e)))
            {
                let sound = e.low > 0.0 && e.contains(e.estimate) && e.high.is_finite() && (0.0..1.0).contains(&e.confidence);
                if !sound {
                    let why =
                        format!("{} {name} is {e:?}, needs 0 < low <= estimate <= high and a confidence below 1", cost.event);
                    return Err(malformed(0, why));
                }
            }
        }
        Ok(machine)
    }

    /// The cost of a mechanism, measured with exactly this event where that is given; the first of the mechanism else.
    pub fn find(&self, mechanism: Mechanism, event: Option<&str>) -> Option<&PublishedCost> {
        self.costs.iter().find(|c| c.mechanism == mechanism && event.is_none_or(|e| c.event.eq_ignore_ascii_case(e)))
    }

    /// The machine's identity, as far as it was published.
    pub fn machine_id(&self) -> MachineId {
        MachineId {
            name: format!("{} ({}), published", self.cpu, self.microarchitecture),
            fingerprint: format!("published-{}", self.name),
            cpu: self.cpu.clone(),
            virtualisation: "none".into(),
            cpus: self.cpus,
            ..MachineId::default()
        }
    }

    /// The machine for the software PMU.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where its file describes none.
    pub fn model(&self) -> Result<&Machine> {
        self.model.as_ref().ok_or_else(|| Error::Unsupported {
            what: format!("simulate {}", self.name),
            why: "its description has no [model]".into(),
            remedy: format!("add one (docs/guide/sim.md says what is in it), or take another, as {} broadwell", Setting::Machine),
        })
    }

    /// A cost as the calibration that this perftax would have written, for whatever predicts from calibrations. It holds no
    /// observations, and its warnings say where it comes from.
    pub fn calibration(&self, cost: &PublishedCost) -> Calibration {
        let other = |message: String| Warning::Other {
            message,
            remedy: format!("{} on the machine in question", Operation::Calibrate(Calibrated::All)),
        };
        let origin = Origin {
            schema: SCHEMA,
            kind: "calibrate".into(),
            perftax: env!("CARGO_PKG_VERSION").into(),
            machine: self.machine_id(),
            kernel: self.kernel.clone(),
            taken_at_s: 0.0,
            command: Vec::new(),
            warnings: [format!("published, not measured here: {} ({})", self.source, cost.condition)]
                .into_iter()
                .chain([format!("interval of alpha: {}", cost.interval)])
                .chain(self.notes.iter().cloned())
                .map(other)
                .collect(),
        };
        Calibration {
            origin,
            mechanism: cost.mechanism,
            event: cost.event.clone(),
            alpha_ns: cost.alpha_ns,
            floor_ns: None,
            samples: 0,
            expected_samples: 0.0,
            lost: 0,
            throttled: 0,
            terms: cost.terms.clone(),
            wide_code_pages: None,
            linearity: None,
            control: None,
            cross_check: None,
            direct: None,
            drift: 0.0,
            sessions: 0,
            elapsed_s: 0.0,
            stopped: StopReason::Precision,
            blocks: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_machine_is_one_and_bears_its_files_name() {
        for name in shipped_names() {
            assert_eq!(Published::load(name).unwrap().name, name);
        }
        assert_eq!(shipped().len(), shipped_names().len());
    }

    #[test]
    fn the_published_numbers_are_the_papers() {
        let alpha = |name: &str, mechanism, event: Option<&str>| {
            Published::load(name).unwrap().find(mechanism, event).map(|c| (c.alpha_ns, c.terms.get("signal").copied()))
        };
        // Akiyama & Hirofuchi, ROSS'17, section 4.2: 286, 238 and 232 ns.
        for (name, ns) in [("broadwell", 286.0), ("Haswell", 238.0), ("skylake", 232.0)] {
            assert_eq!(alpha(name, Mechanism::Pebs, None).unwrap().0.estimate, ns);
        }
        // Sasongko et al., TPDS'23, data set: 2.49 µs, 5.92 with a signal; IBS op 2.91 and 6.55.
        let (pebs, signal) = alpha("cascade-lake", Mechanism::Pebs, Some("inst_retired.prec_dist")).unwrap();
        assert!((pebs.estimate - 2490.0).abs() < 5.0 && (pebs.estimate + signal.unwrap().estimate - 5920.0).abs() < 5.0);
        let (ibs, signal) = alpha("zen2", Mechanism::IbsOp, None).unwrap();
        assert!((ibs.estimate - 2910.0).abs() < 5.0 && (ibs.estimate + signal.unwrap().estimate - 6550.0).abs() < 5.0);
        assert!(alpha("zen2", Mechanism::Pebs, None).is_none(), "never one mechanism for another");
        assert!(alpha("broadwell", Mechanism::Pebs, Some("cycles")).is_none(), "never one event for another");
    }

    #[test]
    fn a_calibration_says_where_it_comes_from() {
        let machine = Published::load("broadwell").unwrap();
        let calibration = machine.calibration(&machine.costs[0]);
        assert!(calibration.origin.warnings.iter().any(|w| w.to_string().contains("ROSS'17")));
        assert!(calibration.origin.warnings.iter().any(|w| w.to_string().contains("4 % of the run time")));
        assert_eq!((calibration.samples, calibration.origin.machine.cpus), (0, 10));
    }

    #[test]
    fn bad_machines_are_refused() {
        assert!(matches!(Published::load("pentium").unwrap_err(), Error::Argument { .. }));
        let head = "name = 'a'\ncpu = 'c'\nmicroarchitecture = 'm'\nkernel = 'k'\nsource = 's'\n";
        let cost = |alpha: &str| {
            format!(
                "{head}[[cost]]\nmechanism = 'pebs'\nevent = 'e'\ncondition = 'c'\ninterval = 'i'\n\
                 periods = {{ low = 1, high = 2 }}\nalpha_ns = {alpha}\n"
            )
        };
        assert!(Published::parse(&cost("{ estimate = 2, low = 1, high = 3, confidence = 0.95 }"), "a.toml").is_ok());
        for bad in [
            cost("{ estimate = 4, low = 1, high = 3, confidence = 0.95 }"),
            cost("{ estimate = 2, low = 0, high = 3, confidence = 0.95 }"),
            cost("{ estimate = 2, low = 1, high = inf, confidence = 0.95 }"),
            cost("{ estimate = nan, low = 1, high = 3, confidence = 0.95 }"),
            cost("{ estimate = 2, low = 1, high = 3, confidence = 95 }"),
            cost("2"),
            format!("{head}cost = []\n"),
            head.to_owned(),
        ] {
            assert!(Published::parse(&bad, "a.toml").is_err(), "{bad}");
        }
    }
}
