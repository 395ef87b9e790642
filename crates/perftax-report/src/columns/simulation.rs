//! Columns of `perftax sim`: of runs, of their samples by instruction, and of what the program did.

use perftax_doc::{AddressSamples, SimulatedRun, Simulation};

use super::Column;
use crate::units;

/// A run, and the simulation that it is of.
pub(crate) struct Simulated<'a> {
    pub(crate) doc: &'a Simulation,
    pub(crate) run: &'a SimulatedRun,
}

/// One row a run: one, or those of a sweep.
pub(crate) struct RunColumns<'a> {
    pub(crate) period: Column<Simulated<'a>>,
    pub(crate) buffer: Column<Simulated<'a>>,
    pub(crate) samples: Column<Simulated<'a>>,
    /// A terminal shows its sign.
    pub(crate) overhead: Column<Simulated<'a>>,
    pub(crate) assists: Column<Simulated<'a>>,
    pub(crate) interrupts: Column<Simulated<'a>>,
    pub(crate) draining: Column<Simulated<'a>>,
    pub(crate) pollution: Column<Simulated<'a>>,
    pub(crate) read: Column<Simulated<'a>>,
    pub(crate) written: Column<Simulated<'a>>,
}

impl RunColumns<'_> {
    pub(crate) fn new() -> Self {
        Self {
            period: Column::number("period", |of: &Simulated| units::count(of.run.period))
                .under(&["period"], |of| vec![of.run.period.to_string()]),
            buffer: Column::number("buffer", |of: &Simulated| {
                of.run.buffer_bytes.map_or(String::new(), |bytes| units::bytes(bytes as f64))
            })
            .under(&["buffer_bytes"], |of| vec![of.run.buffer_bytes.map_or(String::new(), |bytes| bytes.to_string())]),
            samples: Column::number("samples", |of: &Simulated| units::count(of.run.samples))
                .under(&["samples"], |of| vec![of.run.samples.to_string()]),
            overhead: Column::number("overhead", |of: &Simulated| units::share(of.run.predicted_overhead))
                .under(&["overhead"], |of| vec![of.run.predicted_overhead.to_string()]),
            assists: Column::number("assists", |of: &Simulated| part(of.run, of.run.terms_s.assist))
                .under(&["assist_s"], |of| vec![of.run.terms_s.assist.to_string()]),
            interrupts: Column::number("PMIs", |of: &Simulated| part(of.run, of.run.terms_s.pmi))
                .on_page("interrupts")
                .under(&["pmi_s"], |of| vec![of.run.terms_s.pmi.to_string()]),
            draining: Column::number("draining", |of: &Simulated| part(of.run, of.run.terms_s.drain))
                .under(&["drain_s"], |of| vec![of.run.terms_s.drain.to_string()]),
            pollution: Column::number("pollution", |of: &Simulated| part(of.run, of.run.terms_s.pollution))
                .under(&["pollution_s"], |of| vec![of.run.terms_s.pollution.to_string()]),
            read: Column::number("read", |of: &Simulated| traffic(of.run, of.run.memory_read_bytes))
                .under(&["memory_read_bytes"], |of| vec![of.run.memory_read_bytes.to_string()]),
            written: Column::number("written", |of: &Simulated| traffic(of.run, of.run.memory_write_bytes))
                .under(&["memory_write_bytes"], |of| vec![of.run.memory_write_bytes.to_string()]),
        }
    }
}

/// Samples at an instruction, and the run that they are of.
pub(crate) struct SampledAt<'a> {
    pub(crate) run: &'a SimulatedRun,
    pub(crate) row: &'a AddressSamples,
}

impl<'a> SampledAt<'a> {
    pub(crate) fn all(run: &'a SimulatedRun) -> impl Iterator<Item = Self> {
        run.by_address.iter().map(move |row| Self { run, row })
    }
}

/// One row an instruction, most samples first.
pub(crate) fn addresses<'a>() -> [Column<SampledAt<'a>>; 4] {
    [
        Column::number("samples", |at| units::count(at.row.samples)),
        Column::number("share", |at| units::share(at.row.samples as f64 / at.run.samples.max(1) as f64)),
        Column::name("instruction", |at| format!("{:#x}", at.row.address)),
        Column::name("where", |at| at.row.symbol.clone()),
    ]
}

/// A count of the program's, and the run that it is of.
pub(crate) struct Counted<'a> {
    run: &'a SimulatedRun,
    name: &'a str,
    count: u64,
}

impl<'a> Counted<'a> {
    pub(crate) fn all(run: &'a SimulatedRun) -> impl Iterator<Item = Self> {
        run.counts.iter().map(move |(name, count)| Self { run, name, count: *count })
    }
}

/// One row an event.
pub(crate) fn counts<'a>() -> [Column<Counted<'a>>; 3] {
    [
        Column::name("event", |of| of.name.to_string()),
        Column::number("count", |of| units::count(of.count)),
        Column::number("per instruction", |of| format!("{:.5}", of.count as f64 / of.run.instructions.max(1) as f64)),
    ]
}

/// A term as a share of the run.
fn part(run: &SimulatedRun, s: f64) -> String {
    units::share(s / run.elapsed_s)
}

/// Bytes, where caches were modelled.
fn traffic(run: &SimulatedRun, bytes: u64) -> String {
    if run.caches { units::bytes(bytes as f64) } else { String::new() }
}
