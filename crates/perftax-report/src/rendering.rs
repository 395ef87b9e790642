//! Whichever document it is, rendered.

use crate::document::Document;
use crate::{csv, text};

impl Document {
    /// The document as text.
    pub fn text(&self) -> String {
        match self {
            Self::Calibration(doc) => text::calibration(doc),
            Self::Prediction(doc) => text::prediction(doc),
            Self::Plan(doc) => text::plan(doc),
            Self::Verification(doc) => text::verification(doc),
            Self::Bill(doc) => text::bill(doc),
            Self::Lint(doc) => text::lint(doc),
            Self::Simulation(doc) => text::simulation(doc),
            Self::Sensitivity(doc) => text::sensitivity(doc),
            Self::Audit(doc) => text::audit(doc),
            Self::Selfcost(doc) => text::selfcost(doc),
            Self::Phase(doc) => text::phase(doc),
            Self::Matrix(doc) => text::matrix(doc),
            Self::Comm(doc) => text::comm(doc),
        }
    }

    /// The document's main table as separated values.
    pub fn csv(&self, separator: &str) -> String {
        match self {
            Self::Calibration(doc) => csv::calibration(doc, separator),
            Self::Prediction(doc) => csv::prediction(doc, separator),
            Self::Plan(doc) => csv::plan(doc, separator),
            Self::Verification(doc) => csv::verification(doc, separator),
            Self::Bill(doc) => csv::bill(doc, separator),
            Self::Lint(doc) => csv::lint(doc, separator),
            Self::Simulation(doc) => csv::simulation(doc, separator),
            Self::Sensitivity(doc) => csv::sensitivity(doc, separator),
            Self::Audit(doc) => csv::audit(doc, separator),
            Self::Selfcost(doc) => csv::selfcost(doc, separator),
            Self::Phase(doc) => csv::phase(doc, separator),
            Self::Matrix(doc) => csv::matrix(doc, separator),
            Self::Comm(doc) => csv::comm(doc, separator),
        }
    }
}
