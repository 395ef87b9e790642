//! What `perftax sim stat` and `perftax vm stat` have in common: events, runs, the baseline, the verdict.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use perftax_doc::{Stat, StatFile, Warning};
use perftax_lab::stat::{compare, incomparable, is_repeatable};
use perftax_pmu::Error;
use perftax_pmu::guard::interrupted;
use perftax_report::{Document, text};
use perftax_symbols::elf::Elf;

use crate::failure::Outcome;
use crate::output::{Output, check_file, write_atomically};

/// What is counted, how often, and what it is held against.
#[derive(Debug, clap::Args)]
pub struct StatArgs {
    /// Events, as perf stat takes them
    #[arg(short, long, value_name = "EVENT,…", default_value = "instructions:u,branches:u")]
    pub event: String,
    /// Run it so often; where runs differ, by how much is shown
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub repeat: u32,
    /// Compare with a baseline: exit 4, and the difference by function, where a count is not within the tolerance
    #[arg(long, value_name = "FILE", help_heading = "Baseline")]
    baseline: Option<PathBuf>,
    /// Write what is counted as a baseline
    #[arg(long, value_name = "FILE", help_heading = "Baseline")]
    write_baseline: Option<PathBuf>,
    /// By how much a count may differ from the baseline's: 0 is not at all, 0.1% or 0.001
    #[arg(long, value_name = "SHARE", default_value = "0", value_parser = share, help_heading = "Baseline")]
    tolerance: f64,
    /// Write the counts as perf stat -j does, a line of JSON an event, instead of the text
    #[arg(short = 'j', long, conflicts_with = "separator", help_heading = "Output")]
    perf_json: bool,
    #[command(flatten)]
    output: Output,
}

impl StatArgs {
    /// Fails before the program runs where a file cannot be written or read; the baseline.
    pub fn baseline(&self) -> Result<Option<Stat>> {
        self.output.check_writable()?;
        self.write_baseline.as_deref().map_or(Ok(()), check_file)?;
        let Some(path) = &self.baseline else { return Ok(None) };
        self.output.check_spares(&[path])?;
        let refused = |needed: String| Error::Argument { argument: "--baseline", value: path.display().to_string(), needed };
        let text = std::fs::read_to_string(path).map_err(|error| {
            refused(match error.kind() {
                std::io::ErrorKind::NotFound => {
                    format!("a baseline that is there: --write-baseline {} makes it, of the same command", path.display())
                }
                _ => format!("a baseline that can be read: {error}"),
            })
        })?;
        match Document::read(&text).map(|documents| documents.into_iter().next()) {
            Ok(Some(Document::Stat(baseline))) => Ok(Some(*baseline)),
            Ok(_) => Err(refused("what --write-baseline has written; this is another command's result".into()).into()),
            Err(error) => Err(refused(format!("what --write-baseline has written; this is {error}")).into()),
        }
    }

    /// Whether functions are wanted, where they take a run of their own.
    pub fn needs_functions(&self) -> bool {
        self.baseline.is_some() || self.write_baseline.is_some()
    }

    /// Compares, writes and shows it; our exit code, where the program's own is 0.
    pub fn finish(&self, mut stat: Stat, baseline: Option<&Stat>) -> Result<Outcome> {
        if !is_repeatable(&stat.counts) {
            stat.origin.warnings.push(Warning::Other {
                message: "runs differ: something that the program depends on is not fixed".into(),
                remedy: "docs/guide/ci.md lists what is fixed and what is not; functions that vary are marked in --json, or give a --tolerance"
                    .into(),
            });
        }
        if let Some(path) = self.write_baseline.as_ref().filter(|_| stat.exit_code == 0) {
            let mut text = serde_json::to_string_pretty(&stat)?;
            text.push('\n');
            write_atomically(path, text.as_bytes())?;
            stat.written_to = Some(path.to_string_lossy().into_owned());
        }
        if let Some((before, path)) = baseline.zip(self.baseline.as_ref()) {
            let why = incomparable(before, &stat);
            if !why.is_empty() {
                let needed =
                    format!("a baseline of the same machine and command: {}. --write-baseline makes it anew", why.join("; "));
                return Err(Error::Argument { argument: "--baseline", value: path.display().to_string(), needed }.into());
            }
            stat.comparison = Some(compare(before, &stat, &path.to_string_lossy(), self.tolerance));
        }
        if self.perf_json {
            self.output.write_json(&stat)?;
            self.output.write_beside_child(&text::perf_lines(&stat))?;
            self.output.write_page(&stat)?;
        } else {
            self.output.emit_beside_child(&stat)?;
        }
        let holds = stat.comparison.as_ref().is_none_or(|comparison| comparison.holds);
        match u8::try_from(stat.exit_code).unwrap_or(1) {
            0 if !holds => Ok(Outcome::Negative),
            code => Ok(Outcome::Passed(code)),
        }
    }
}

/// What a file is known by.
pub fn identity(path: &Path) -> Result<StatFile> {
    let sha256 = perftax_vm::bundle::sha256_of(path, interrupted).with_context(|| format!("cannot read {}", path.display()))?;
    let build_id = Elf::open(path).ok().and_then(|elf| elf.build_id());
    Ok(StatFile {
        name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        sha256,
        build_id: build_id.map(|id| id.iter().map(|byte| format!("{byte:02x}")).collect()),
    })
}

/// `0.1%` or `0.001`.
fn share(text: &str) -> Result<f64, String> {
    let (number, unit) = text.strip_suffix('%').map_or((text, 1.0), |number| (number, 100.0));
    let share = number.trim().parse::<f64>().map_err(|_| format!("'{text}' is no share: 0, 0.1% or 0.001"))? / unit;
    if (0.0..=1.0).contains(&share) { Ok(share) } else { Err(format!("'{text}' is not within 0 to 100%")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tolerance_is_a_share() {
        assert_eq!((share("0"), share("0.5%"), share("0.005"), share("100%")), (Ok(0.0), Ok(0.005), Ok(0.005), Ok(1.0)));
        assert!(share("-1%").is_err() && share("101%").is_err() && share("x").is_err() && share("nan").is_err());
    }
}
