//! What a program reads that is run again and again.

use std::path::PathBuf;

use anyhow::Result;
use perftax_lab::run::Input;
use perftax_pmu::Error;

use crate::progress::announce;

/// The choice.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct InputChoice {
    /// The program's standard input, a file; without it perftax's own is kept (up to 1 GiB) and given to each run
    #[arg(long, value_name = "FILE")]
    pub stdin: Option<PathBuf>,
}

impl InputChoice {
    /// What each run gets.
    pub fn input(&self) -> Result<Input> {
        let Some(path) = &self.stdin else {
            return Ok(Input::of_ours(|said| announce(&said))?);
        };
        std::fs::File::open(path).map_err(|source| Error::File { path: path.clone(), source })?;
        Ok(Input::File(path.clone()))
    }
}
