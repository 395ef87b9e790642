//! Every sample into a Parquet file.

use std::fs::File;
use std::io::{BufReader, ErrorKind, Read};
use std::path::Path;

use anyhow::{Context, Result};
use perftax_lab::simulation::functions;
use perftax_model::run::{Outcome, Request, SampleRow};
use perftax_report::samples::{SampledRun, Samples};
use tempfile::NamedTempFile;

use crate::output::{Partial, folder_of};

/// The file, and the rows that the run at hand leaves.
pub struct SampleFile {
    table: Samples<Partial>,
    rows: NamedTempFile,
    runs: u32,
}

impl SampleFile {
    /// Where asked; rows wait beside it, so that they need no room elsewhere.
    pub fn create(path: &Path) -> Result<Self> {
        let cannot = || format!("cannot write {}", path.display());
        let table = Samples::new(Partial::create(path)?).with_context(cannot)?;
        Ok(Self { table, rows: NamedTempFile::new_in(folder_of(path)).with_context(cannot)?, runs: 0 })
    }

    /// The request with a place for its rows.
    pub fn asking(&self, request: &Request) -> Request {
        Request { samples: Some(self.rows.path().to_string_lossy().into_owned()), ..request.clone() }
    }

    /// Takes over the rows of a run that has ended.
    pub fn take(&mut self, outcome: &Outcome, request: &Request) -> Result<()> {
        let run = SampledRun {
            run: self.runs,
            period: request.sampling.map_or(0, |sampling| sampling.period),
            buffer_bytes: request.buffer().map(|(_, bytes)| bytes),
        };
        self.runs += 1;
        let mut file = BufReader::new(File::open(self.rows.path()).context("cannot read the samples again")?);
        let rows = std::iter::from_fn(|| {
            let mut row = [0; SampleRow::BYTES];
            match file.read_exact(&mut row) {
                Ok(()) => Some(Ok(SampleRow::from_bytes(&row))),
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => None,
                Err(error) => Some(Err(error)),
            }
        });
        let mut functions = functions(outcome);
        self.table.add(run, rows, |address| functions.name(address)).context("cannot write the samples")
    }

    /// Everything is in it.
    pub fn finish(self) -> Result<()> {
        self.table.finish().context("cannot write the samples")?.finish()
    }
}
