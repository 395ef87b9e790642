//! Columns of `perftax sensitivity`: one row a size.

use perftax_doc::SensitivityRow;

use super::{Column, ends};
use crate::units;

pub(crate) struct SensitivityColumns<'a> {
    pub(crate) taken: Column<&'a SensitivityRow>,
    pub(crate) loss: Column<&'a SensitivityRow>,
    pub(crate) visit: Column<&'a SensitivityRow>,
    pub(crate) traffic: Column<&'a SensitivityRow>,
    pub(crate) rounds: Column<&'a SensitivityRow>,
}

impl SensitivityColumns<'_> {
    pub(crate) fn new() -> Self {
        Self {
            taken: Column::number("taken away", |row: &&SensitivityRow| units::bytes(row.taken_bytes as f64))
                .under(&["taken_bytes"], |row| vec![row.taken_bytes.to_string()]),
            loss: Column::number("program loses", |row: &&SensitivityRow| units::estimate_share(&row.loss))
                .under(&["loss", "loss_low", "loss_high"], |row| ends(Some(&row.loss)))
                .main(),
            visit: Column::number("a visit", |row: &&SensitivityRow| {
                row.loss_ns_per_visit.as_ref().map_or(String::new(), units::estimate_ns)
            })
            .under(&["loss_ns_per_visit", "visit_low_ns", "visit_high_ns"], |row| ends(row.loss_ns_per_visit.as_ref())),
            traffic: Column::number("memory traffic", |row: &&SensitivityRow| {
                row.memory_bytes.as_ref().map_or(String::new(), |e| units::bytes(e.estimate))
            }),
            rounds: Column::number("rounds", |row: &&SensitivityRow| row.rounds.to_string())
                .under(&["rounds"], |row| vec![row.rounds.to_string()]),
        }
    }
}
