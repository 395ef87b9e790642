//! Columns of `perftax predict --tool`: one row a term.

use perftax_doc::{ToolSampler, ToolTerm};

use super::{Column, ends};
use crate::printable::printable;
use crate::units;

pub(crate) struct ToolColumns<'a> {
    pub(crate) what: Column<&'a ToolTerm>,
    pub(crate) count: Column<&'a ToolTerm>,
    pub(crate) each: Column<&'a ToolTerm>,
    pub(crate) overhead: Column<&'a ToolTerm>,
    pub(crate) source: Column<&'a ToolTerm>,
}

impl ToolColumns<'_> {
    pub(crate) fn new() -> Self {
        Self {
            what: Column::name("what costs", |term: &&ToolTerm| printable(&term.what))
                .under(&["what"], |term| vec![term.what.clone()]),
            count: Column::number("a run", |term: &&ToolTerm| term.count.as_ref().map_or(String::new(), units::brief_estimate))
                .under(&["count", "count_low", "count_high"], |term| ends(term.count.as_ref())),
            each: Column::number("each", |term: &&ToolTerm| term.each_ns.as_ref().map_or(String::new(), units::estimate_ns))
                .under(&["each_ns", "each_low_ns", "each_high_ns"], |term| ends(term.each_ns.as_ref())),
            overhead: Column::number("of the run", |term: &&ToolTerm| units::estimate_share(&term.overhead))
                .under(&["overhead", "overhead_low", "overhead_high"], |term| ends(Some(&term.overhead)))
                .main(),
            source: Column::name("price", |term: &&ToolTerm| term.source.name().into())
                .under(&["source"], |term| vec![term.source.name().into()]),
        }
    }
}

pub(crate) struct SamplerColumns<'a> {
    pub(crate) event: Column<&'a ToolSampler>,
    pub(crate) period: Column<&'a ToolSampler>,
    pub(crate) samples: Column<&'a ToolSampler>,
    pub(crate) bytes: Column<&'a ToolSampler>,
    pub(crate) rate: Column<&'a ToolSampler>,
}

impl SamplerColumns<'_> {
    pub(crate) fn new() -> Self {
        Self {
            event: Column::name("event", |of: &&ToolSampler| printable(&of.event)),
            period: Column::number("every", |of: &&ToolSampler| units::period(of.mechanism, of.period)),
            samples: Column::number("samples", |of: &&ToolSampler| units::brief_estimate(&of.samples)),
            bytes: Column::number("bytes of one", |of: &&ToolSampler| {
                ranged(&of.bytes_per_sample, |bytes| units::about(bytes.round()))
            }),
            rate: Column::number("into the ring", |of: &&ToolSampler| ranged(&of.bytes_per_s, units::bytes_per_s)),
        }
    }
}

/// From where to where, where only the program tells.
fn ranged(of: &perftax_doc::Estimate, text: impl Fn(f64) -> String) -> String {
    if of.relative_half_width() < 0.2 { text(of.estimate) } else { format!("{} to {}", text(of.low), text(of.high)) }
}
