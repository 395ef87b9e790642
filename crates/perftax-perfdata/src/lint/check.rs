//! What every check is.

use perftax_doc::Bill;
pub use perftax_doc::LintUnit as Unit;

use crate::recording::{Recording, SeenRecord, SeenSample};

/// What a check measures, and from where on that is bad.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rule {
    /// Its name, as a configuration file has it.
    pub name: &'static str,
    /// What is measured, of what.
    pub measures: &'static str,
    /// In which unit.
    pub unit: Unit,
    /// From here on it is a warning; none where it never is.
    pub warning: Option<f64>,
    /// From here on it is an error; none where it never is.
    pub error: Option<f64>,
    /// Where the rule and its thresholds come from.
    pub source: &'static str,
}

/// One check of a recording.
pub(super) trait Check {
    fn rule(&self) -> &'static Rule;

    fn sees_samples(&self) -> bool {
        false
    }

    fn sees_records(&self) -> bool {
        false
    }

    /// Whether another check needs what it sees.
    fn is_read_by_others(&self) -> bool {
        false
    }

    fn sample(&mut self, _: &SeenSample<'_>) {}

    fn record(&mut self, _: &SeenRecord<'_>) {}

    fn judge(&self, whole: &Whole<'_>) -> Judgement;
}

/// All that was read.
pub(super) struct Whole<'a> {
    pub(super) recording: &'a Recording,
    pub(super) bill: &'a Bill,
}

impl Whole<'_> {
    /// How long the run took, s; none where the recording does not tell.
    pub(super) fn span_s(&self) -> Option<f64> {
        Some(self.bill.span_s).filter(|span_s| *span_s > 0.0)
    }

    /// The command line of `perf record`.
    pub(super) fn perf_record(&self) -> Option<&[String]> {
        let command = &self.recording.features.command;
        command.iter().any(|word| word == "record").then_some(command)
    }

    /// Samples of all events.
    pub(super) fn samples(&self) -> u64 {
        self.recording.events.iter().map(|event| event.samples).sum()
    }
}

/// What a check found.
pub(super) enum Judgement {
    /// The recording does not tell, and why.
    Unknown(String),
    Measured(Measured),
}

/// What a check measured.
pub(super) struct Measured {
    pub(super) value: f64,
    /// What in the recording shows it.
    pub(super) evidence: String,
    /// What it does to conclusions.
    pub(super) effect: String,
    /// What to do.
    pub(super) remedy: String,
    /// Whether it is no error, however large.
    pub(super) is_a_warning_at_most: bool,
}

impl Judgement {
    pub(super) fn measured(
        value: f64,
        evidence: impl Into<String>,
        effect: impl Into<String>,
        remedy: impl Into<String>,
    ) -> Self {
        let (evidence, effect, remedy) = (evidence.into(), effect.into(), remedy.into());
        Self::Measured(Measured { value, evidence, effect, remedy, is_a_warning_at_most: false })
    }

    /// Nothing of what the check looks for.
    pub(super) fn none(evidence: impl Into<String>) -> Self {
        Self::measured(0.0, evidence, "", "")
    }

    pub(super) fn unknown(why: impl Into<String>) -> Self {
        Self::Unknown(why.into())
    }

    pub(super) fn a_warning_at_most(self, is_one: bool) -> Self {
        match self {
            Self::Measured(measured) => Self::Measured(Measured { is_a_warning_at_most: is_one, ..measured }),
            unknown => unknown,
        }
    }
}
