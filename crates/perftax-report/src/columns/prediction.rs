//! Columns of `perftax predict`: one row a period.

use perftax_doc::{Prediction, PredictionRow};

use super::{Column, ends};
use crate::units;

/// A row, and the prediction that it is of.
pub(crate) struct Predicted<'a> {
    pub(crate) doc: &'a Prediction,
    pub(crate) row: &'a PredictionRow,
}

impl<'a> Predicted<'a> {
    pub(crate) fn all(doc: &'a Prediction) -> impl Iterator<Item = Self> {
        doc.rows.iter().map(move |row| Self { doc, row })
    }
}

pub(crate) struct PredictionColumns<'a> {
    pub(crate) event: Column<Predicted<'a>>,
    pub(crate) period: Column<Predicted<'a>>,
    pub(crate) samples: Column<Predicted<'a>>,
    pub(crate) rate: Column<Predicted<'a>>,
    pub(crate) bytes: Column<Predicted<'a>>,
    pub(crate) overhead: Column<Predicted<'a>>,
    pub(crate) of_cpu: Column<Predicted<'a>>,
    pub(crate) of_busiest: Column<Predicted<'a>>,
    pub(crate) elapsed: Column<Predicted<'a>>,
}

impl PredictionColumns<'_> {
    pub(crate) fn new() -> Self {
        Self {
            event: Column::field(&["event"], |of| vec![of.doc.event.clone()]),
            period: Column::number("period", |of: &Predicted| units::period(of.doc.mechanism, of.row.period))
                .under(&["period"], |of| vec![of.row.period.to_string()]),
            samples: Column::number("samples", |of: &Predicted| units::about(of.row.samples.round()))
                .under(&["samples"], |of| vec![of.row.samples.to_string()]),
            rate: Column::number("samples/s", |of: &Predicted| units::rate(of.row.samples_per_s))
                .under(&["samples_per_s"], |of| vec![of.row.samples_per_s.to_string()]),
            bytes: Column::number("into the ring", |of: &Predicted| units::bytes_per_s(of.row.bytes_per_s))
                .under(&["bytes_per_s"], |of| vec![of.row.bytes_per_s.to_string()]),
            overhead: Column::number("overhead", |of: &Predicted| units::estimate_share(&of.row.overhead))
                .under(&["overhead", "overhead_low", "overhead_high"], |of| ends(Some(&of.row.overhead)))
                .main(),
            of_cpu: Column::number("of CPU time", |of: &Predicted| {
                of.row.cpu_overhead.as_ref().map_or(String::new(), units::estimate_share)
            })
            .under(&["cpu_overhead", "cpu_overhead_low", "cpu_overhead_high"], |of| ends(of.row.cpu_overhead.as_ref())),
            of_busiest: Column::number("of the busiest thread", |of: &Predicted| {
                of.row.busiest_overhead.as_ref().map_or(String::new(), units::estimate_share)
            })
            .under(&["busiest_overhead", "busiest_overhead_low", "busiest_overhead_high"], |of| {
                ends(of.row.busiest_overhead.as_ref())
            }),
            elapsed: Column::number("elapsed", |of: &Predicted| units::estimate_s(&of.row.elapsed_s))
                .under(&["elapsed_s", "elapsed_low_s", "elapsed_high_s"], |of| ends(Some(&of.row.elapsed_s))),
        }
    }
}
