//! Columns of tables that a document has in more than one form: each is declared once, with what it is called and how it is drawn in each of them. A
//! form lists the columns that it has, in its own order.

mod field_test;
mod prediction;
mod sensitivity;
mod simulation;
mod stat;
mod tool;

use perftax_doc::Estimate;

pub(crate) use field_test::ClaimColumns;
pub(crate) use prediction::{Predicted, PredictionColumns};
pub(crate) use sensitivity::SensitivityColumns;
pub(crate) use simulation::{Counted, RunColumns, SampledAt, Simulated, addresses, counts};
pub(crate) use stat::{counts as stat_counts, differences, function_differences, functions, number, signed};
pub(crate) use tool::{SamplerColumns, ToolColumns};

/// A column of rows of one kind.
pub(crate) struct Column<R> {
    /// To people.
    pub(crate) heading: &'static str,
    /// The same on a page, where it is called otherwise there.
    page_heading: Option<&'static str>,
    /// Whether it is of numbers, which stand to the right.
    pub(crate) is_number: bool,
    /// Whether a terminal shows it bold: it is what the table is about.
    pub(crate) is_main: bool,
    /// A cell, as people read it.
    pub(crate) cell: fn(&R) -> String,
    /// Names in separated values, with their unit: one, or three of an estimate. None where it has no place there.
    pub(crate) keys: &'static [&'static str],
    /// The fields under these, with all digits.
    pub(crate) fields: fn(&R) -> Vec<String>,
}

impl<R> Column<R> {
    /// A column of numbers.
    pub(crate) fn number(heading: &'static str, cell: fn(&R) -> String) -> Self {
        let fields = |_: &R| Vec::new();
        Self { heading, page_heading: None, is_number: true, is_main: false, cell, keys: &[], fields }
    }

    /// A column of names.
    pub(crate) fn name(heading: &'static str, cell: fn(&R) -> String) -> Self {
        Self { is_number: false, ..Self::number(heading, cell) }
    }

    /// A column of separated values alone.
    pub(crate) fn field(keys: &'static [&'static str], fields: fn(&R) -> Vec<String>) -> Self {
        Self::number("", |_| String::new()).under(keys, fields)
    }

    /// Under these names in separated values.
    fn under(self, keys: &'static [&'static str], fields: fn(&R) -> Vec<String>) -> Self {
        Self { keys, fields, ..self }
    }

    /// What the table is about.
    fn main(self) -> Self {
        Self { is_main: true, ..self }
    }

    /// Called otherwise on a page.
    fn on_page(self, heading: &'static str) -> Self {
        Self { page_heading: Some(heading), ..self }
    }

    /// What a page calls it.
    #[cfg(feature = "html")]
    pub(crate) fn on_a_page(&self) -> &'static str {
        self.page_heading.unwrap_or(self.heading)
    }
}

/// An estimate and its ends, or three empty fields.
pub(crate) fn ends(e: Option<&Estimate>) -> Vec<String> {
    e.map_or(vec![String::new(); 3], |e| [e.estimate, e.low, e.high].map(|x| x.to_string()).to_vec())
}
