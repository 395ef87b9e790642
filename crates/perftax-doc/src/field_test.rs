//! `perftax field-test`: everything that can be learned on one machine, in one file that names nobody.

use serde::{Deserialize, Serialize};

use crate::{Audit, Calibration, Estimate, Origin, Selfcost};

/// What a machine was found to be like, and which of perftax's claims hold on it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FieldTest {
    /// Where it comes from; its command line is left out.
    #[serde(flatten)]
    pub origin: Origin,
    /// Fewer rounds of each.
    pub is_quick: bool,
    /// Whether the machine is perftax's emulated one, which proves nothing about hardware.
    pub is_emulated: bool,
    /// What was done, in its order.
    pub steps: Vec<FieldStep>,
    /// What can be said of perftax's claims.
    pub claims: Vec<FieldClaim>,
    /// The cost of a sample, by each mechanism that works here.
    pub calibrations: Vec<Calibration>,
    /// Whether samples tell the truth.
    pub audit: Option<Audit>,
    /// What measuring oneself costs.
    pub selfcost: Option<Selfcost>,
}

impl FieldTest {
    /// Claims of a verdict.
    pub fn of(&self, verdict: ClaimVerdict) -> impl Iterator<Item = &FieldClaim> {
        self.claims.iter().filter(move |claim| claim.verdict == verdict)
    }
}

/// A step of a field test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FieldStep {
    /// Its name: `calibrate-pebs`, `audit`.
    pub name: String,
    /// How it ended.
    pub outcome: StepOutcome,
    /// Why it is not done; empty where it is.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub why: String,
    /// How long it took, s.
    pub elapsed_s: f64,
}

/// How a step ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum StepOutcome {
    /// Done.
    Done,
    /// This machine, or this user, cannot do it.
    Impossible,
    /// It failed; it is tried again when the test goes on.
    Failed,
}

/// One of perftax's claims, held against a machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct FieldClaim {
    /// Its name, the same on every machine.
    pub name: String,
    /// What is claimed.
    pub claim: String,
    /// Whether it holds here.
    pub verdict: ClaimVerdict,
    /// What was found, or what is missing.
    pub evidence: String,
    /// The number that decided, where there is one; its unit is in the evidence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<Estimate>,
}

/// Whether a claim holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum ClaimVerdict {
    /// What was found agrees with it.
    Confirmed,
    /// What was found contradicts it.
    Contradicted,
    /// It could not be held against this machine.
    Untested,
}

impl ClaimVerdict {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Self::Confirmed => "confirmed",
            Self::Contradicted => "contradicted",
            Self::Untested => "untested",
        }
    }
}
