//! The main table of a document as separated values: a line of names, then one line a row, base SI units in the names.
//!
//! Fields that hold the separator, a quote or a line end are quoted as in RFC 4180, section 2. Numbers carry all digits.

use crate::columns::{Column, ends};

mod audit;
mod bill;
mod calibration;
mod comm;
mod field_test;
mod lint;
mod matrix;
mod phase;
mod plan;
mod prediction;
mod recorded;
mod selfcost;
mod sensitivity;
mod simulation;
mod stat;
mod tool;
mod verification;

pub use audit::audit;
pub use bill::bill;
pub use calibration::calibration;
pub use comm::{comm, comm_cores, comm_lines};
pub use field_test::field_test;
pub use lint::lint;
pub use matrix::matrix;
pub use phase::phase;
pub use plan::plan;
pub use prediction::prediction;
pub use recorded::recorded;
pub use selfcost::selfcost;
pub use sensitivity::sensitivity;
pub use simulation::simulation;
pub use stat::stat;
pub use tool::tool_prediction;
pub use verification::verification;

/// A table of what is no document of this crate's: its names, then its rows.
pub fn table<const N: usize>(separator: &str, names: [&str; N], rows: impl IntoIterator<Item = [String; N]>) -> String {
    let mut table = Rows::new(separator, &names);
    rows.into_iter().for_each(|row| table.row(row.into()));
    table.out
}

struct Rows<'a> {
    separator: &'a str,
    out: String,
}

impl<'a> Rows<'a> {
    fn new(separator: &'a str, names: &[&str]) -> Self {
        let mut rows = Self { separator, out: String::new() };
        rows.row(names.iter().map(ToString::to_string).collect());
        rows
    }

    /// These columns of some rows, all of it.
    fn of<R>(separator: &'a str, columns: &[&Column<R>], all: impl Iterator<Item = R>) -> String {
        let names: Vec<&str> = columns.iter().flat_map(|column| column.keys).copied().collect();
        let mut rows = Self::new(separator, &names);
        all.for_each(|row| rows.row(columns.iter().flat_map(|column| (column.fields)(&row)).collect()));
        rows.out
    }

    fn row(&mut self, cells: Vec<String>) {
        let fields: Vec<String> = cells.iter().map(|cell| field(cell, self.separator)).collect();
        self.out += &fields.join(self.separator);
        self.out.push('\n');
    }
}

pub(crate) fn field(text: &str, separator: &str) -> String {
    let quoted = (!separator.is_empty() && text.contains(separator)) || text.contains(['"', '\n', '\r']);
    if quoted { format!("\"{}\"", text.replace('"', "\"\"")) } else { text.into() }
}

/// The word that a variant has in JSON.
fn word(variant: &impl serde::Serialize) -> String {
    serde_json::to_value(variant).ok().and_then(|value| value.as_str().map(String::from)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn awkward_fields_are_quoted() {
        assert_eq!(field("cpu/event=0xc2,umask=1/", ","), "\"cpu/event=0xc2,umask=1/\"");
        assert_eq!(field("say \"hi\"", ";"), "\"say \"\"hi\"\"\"");
        assert_eq!(field("plain", ","), "plain");
    }
}
