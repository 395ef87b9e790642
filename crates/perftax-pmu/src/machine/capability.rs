//! What a vendor's precise sampling can do: the qualitative side of the PES study (Sasongko, Chabbi, Kelly, Unat:
//! "Precise Event Sampling on AMD Versus Intel", IEEE TPDS 34(5), 2023, table I), put in our words and extended to ARM.

use std::borrow::Cow;

use serde::Serialize;

use super::{Vendor, amd, arm, intel};

/// One row of the table.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Capability {
    /// The capability.
    pub feature: &'static str,
    /// What the vendor's mechanism does.
    pub value: Cow<'static, str>,
    /// Where that stands.
    pub source: &'static str,
}

impl Capability {
    pub(super) fn new(feature: &'static str, value: impl Into<Cow<'static, str>>, source: &'static str) -> Self {
        Self { feature, value: value.into(), source }
    }
}

impl Vendor {
    /// The name of the vendor's precise mechanism.
    pub fn mechanism_name(self) -> &'static str {
        match self {
            Self::Intel => "PEBS",
            Self::Amd => "IBS",
            Self::Arm => "SPE",
            Self::Other => "none",
        }
    }

    /// The table for this vendor; empty for a vendor without precise sampling.
    pub fn capabilities(self) -> Vec<Capability> {
        match self {
            Self::Intel => intel::capabilities(),
            Self::Amd => amd::capabilities(),
            Self::Arm => arm::capabilities(),
            Self::Other => Vec::new(),
        }
    }
}
