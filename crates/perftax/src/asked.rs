//! What a prediction is asked for, and what it rests on.

use std::path::PathBuf;

use anyhow::Result;
use perftax_doc::{Mechanism, Origin, PayloadTerm};
use perftax_lab::prediction::{SampleCost, of_published};
use perftax_lab::published::Published;
use perftax_pmu::Error;

/// Where the counts of a program's events come from, if it is not run as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum CountsFrom {
    /// One run under the model of --machine, by qemu-user
    Sim,
}

/// Whose costs are taken, and where the counts of events come from.
#[derive(Clone, Debug, clap::Args)]
pub struct CostChoice {
    /// A published machine (broadwell, haswell, skylake, …) instead of this one
    #[arg(long, value_name = "NAME", conflicts_with = "profile")]
    pub machine: Option<String>,
    /// A machine profile (or the --json of calibrate) instead of this machine's own
    #[arg(long, value_name = "FILE")]
    pub profile: Option<PathBuf>,
    /// Events of one run, for an event that cannot be counted here
    #[arg(long, value_name = "N")]
    pub count_of: Option<f64>,
    /// Count in the model of --machine (one run in qemu-user): elapsed time, caches and pollution are then that machine's, too
    #[arg(long, value_name = "WHERE", value_enum, requires = "machine", conflicts_with_all = ["count_of", "lifetime", "load", "pid"])]
    pub counts_from: Option<CountsFrom>,
}

impl CostChoice {
    /// Whether they are another machine's, or may be: what may be done there nobody knows.
    pub fn is_elsewhere(&self) -> bool {
        self.machine.is_some() || self.profile.is_some()
    }
}

/// What a prediction was asked for.
pub struct CostQuery<'a> {
    /// Event text.
    pub event: Option<&'a str>,
    /// An event that counts pieces of work, too.
    pub work: Option<&'a str>,
    /// Payload that samples carry, by the names of its terms.
    pub payload: &'a [PayloadTerm],
    /// Whose costs, and where counts come from.
    pub cost: &'a CostChoice,
}

/// The published cost of a machine.
pub fn published(published: &Published, name: &str, mechanism: Mechanism, origin: &mut Origin) -> Result<SampleCost> {
    let Some((cost, warning)) = of_published(published, mechanism) else {
        let known: Vec<String> = published.costs.iter().map(|cost| cost.mechanism.to_string()).collect();
        let needed = format!("an event sampled by {}: that is what {name} has published costs for", known.join(" or "));
        return Err(Error::Argument { argument: "--machine", value: name.into(), needed }.into());
    };
    origin.warnings.push(warning);
    Ok(cost)
}
