//! `perftax lint`: whether a recording can be trusted.

use serde::{Deserialize, Serialize};

use crate::Origin;

/// The verdict on one perf.data recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Lint {
    /// Where it comes from.
    #[serde(flatten)]
    pub origin: Origin,
    /// The recording.
    pub recording: String,
    /// The command that was recorded, from the file's header.
    pub recorded_command: Vec<String>,
    /// The host and kernel that it was recorded on, from the file's header.
    pub recorded_on: String,
    /// Version of the perf that recorded, from the file's header.
    pub recorded_by: String,
    /// Samples in it, of all events.
    pub samples: u64,
    /// How long the recorded run took; none where the recording does not tell.
    pub span_s: Option<f64>,
    /// The worst of all checks; none of them being unknown makes it worse.
    pub verdict: LintVerdict,
    /// Every check, worst first.
    pub checks: Vec<LintCheck>,
}

impl Lint {
    /// How many checks ended so.
    pub fn count(&self, verdict: LintVerdict) -> usize {
        self.checks.iter().filter(|check| check.verdict == verdict).count()
    }
}

/// One check of a recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct LintCheck {
    /// Its name, as a configuration file has it.
    pub check: String,
    /// How it ended.
    pub verdict: LintVerdict,
    /// What `measured` and the thresholds are: what is counted, of what.
    pub measures: String,
    /// Their unit: `share` (a fraction), `count`.
    pub unit: LintUnit,
    /// What the recording has; none where it does not tell.
    pub measured: Option<f64>,
    /// From here on it is a warning; none where it never is.
    pub warning_from: Option<f64>,
    /// From here on it is an error; none where it never is.
    pub error_from: Option<f64>,
    /// What in the recording shows it; of an unknown check, why it is unknown.
    pub evidence: String,
    /// What it does to conclusions; empty where the check passed.
    pub effect: String,
    /// What to do; empty where the check passed.
    pub remedy: String,
}

/// How a check ended, from best to worst.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum LintVerdict {
    /// It was switched off.
    Off,
    /// Nothing found.
    Passed,
    /// The recording does not tell.
    Unknown,
    /// To be kept in mind.
    Warning,
    /// The recording cannot be trusted for what it is usually read for.
    Error,
}

impl LintVerdict {
    /// Its name: `off`, `passed`, `unknown`, `warning`, `error`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Off => "off",
            Self::Passed => "passed",
            Self::Unknown => "unknown",
            Self::Warning => "warning",
            Self::Error => "error",
        }
    }
}

/// What a check measures in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum LintUnit {
    /// A fraction of 1.
    Share,
    /// A number of things.
    Count,
}
