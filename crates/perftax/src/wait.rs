//! Waiting for another perftax that measures: two would disturb each other, so one measures at a time.

use std::time::Duration;

use anyhow::Result;
use perftax_pmu::Error;
use perftax_pmu::guard::WAIT_VARIABLE;

/// The option of every command that measures alone.
#[derive(Clone, Copy, Debug, Default, clap::Args)]
pub struct Wait {
    /// Where another perftax measures, wait for it, so many seconds at most (600 without a number), instead of failing. The variable
    /// PERFTAX_WAIT=SECONDS does the same
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "600")]
    wait: Option<u64>,
}

impl Wait {
    /// How long to wait at most.
    ///
    /// # Errors
    /// Where the variable holds no number.
    pub fn longest(self) -> Result<Duration> {
        let seconds = match (self.wait, std::env::var(WAIT_VARIABLE)) {
            (Some(seconds), _) => seconds,
            (None, Ok(text)) => text.trim().parse().map_err(|_| Error::Argument {
                argument: WAIT_VARIABLE,
                value: format!("'{text}'"),
                needed: "seconds to wait for another perftax, 0 or more".into(),
            })?,
            (None, Err(_)) => 0,
        };
        Ok(Duration::from_secs(seconds))
    }
}
