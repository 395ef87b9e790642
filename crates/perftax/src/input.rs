//! What a program reads that is run again and again, and when each run is over.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use perftax_lab::run::{Input, Lifetime, Load, Pattern, Ready};
use perftax_pmu::Error;

use crate::progress::announce;

/// The choice.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct InputChoice {
    /// The program's standard input, a file; without it perftax's own is kept (up to 1 GiB) and given to each run
    #[arg(long, value_name = "FILE", conflicts_with = "workload")]
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

/// When a run is over.
#[derive(Clone, Debug, Default, clap::Args)]
pub struct LifetimeChoice {
    /// How long each run lasts, for a program that does not end (30s, 500ms): it is told to end then. "end" waits for its end, however long it does nothing
    #[arg(long = "for", value_name = "TIME", value_parser = lifetime)]
    pub lifetime: Option<Lifetime>,
    /// What a program that serves is given to do, a command for the shell that ends: in each run it is started once the program is ready, and when it
    /// ends, the program is told to. Elapsed times are then the load's
    #[arg(long, value_name = "COMMAND", conflicts_with = "lifetime")]
    pub load: Option<String>,
    /// When the program is ready for its --load: a TCP port on which it listens, a file that it makes (from / or ./ on), or a regular expression that
    /// something it says matches; without it, when it has done nothing for a quarter of a second
    #[arg(long, value_name = "PORT|FILE|REGEX", requires = "load", value_parser = ready)]
    pub ready: Option<Ready>,
}

impl LifetimeChoice {
    /// What was chosen.
    pub fn lifetime(&self) -> Lifetime {
        match &self.load {
            Some(command) => Lifetime::Under(Load::new(command, self.ready.clone().unwrap_or_default())),
            None => self.lifetime.clone().unwrap_or_default(),
        }
    }
}

/// `6379`, `./server.sock`, `Ready to accept`.
fn ready(text: &str) -> Result<Ready, String> {
    if !text.is_empty() && text.chars().all(|letter| letter.is_ascii_digit()) {
        let port = text.parse::<u16>().ok().filter(|port| *port > 0);
        return port.map(Ready::Port).ok_or_else(|| format!("'{text}' is no port: 1 to 65535"));
    }
    if ["/", "./", "../"].iter().any(|start| text.starts_with(start)) {
        return Ok(Ready::File(PathBuf::from(text)));
    }
    if text.trim().is_empty() {
        return Err("it is empty: a port, a file (from / or ./ on), or a regular expression".into());
    }
    Pattern::new(text).map(Ready::Says)
}

/// `30s`, `2m`, `500ms`, `end`.
fn lifetime(text: &str) -> Result<Lifetime, String> {
    let needed = || format!("'{text}' is not a time such as 30s, 500ms or 2m, nor 'end'");
    let trimmed = text.trim();
    if trimmed == "end" {
        return Ok(Lifetime::ToItsEndHowever);
    }
    let digits = trimmed.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit_s = match &trimmed[digits.len()..] {
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        _ => return Err(needed()),
    };
    let seconds = digits.trim().parse::<f64>().map_err(|_| needed())? * unit_s;
    // Shorter runs cannot be measured, and longer ones are a mistake.
    if (0.02..=86_400.0).contains(&seconds) {
        Ok(Lifetime::For(Duration::from_secs_f64(seconds)))
    } else {
        Err(format!("'{text}' is not between 20ms and a day"))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    #[test]
    fn ports_files_and_what_is_said_are_told_apart() {
        assert_eq!(ready("6379"), Ok(Ready::Port(6379)));
        assert_eq!(ready("./6379"), Ok(Ready::File("./6379".into())));
        assert_eq!(ready("../a/b"), Ok(Ready::File("../a/b".into())));
        assert_eq!(ready("on http://.*:[0-9]+"), Ok(Ready::Says(Pattern::new("on http://.*:[0-9]+").unwrap())));
        for wrong in ["0", "65536", "", " ", "listening ("] {
            assert!(ready(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_are_read_with_their_unit() {
        let of = |seconds| Ok(Lifetime::For(Duration::from_secs_f64(seconds)));
        assert_eq!((lifetime("30s"), lifetime("1.5 m"), lifetime("500ms")), (of(30.0), of(90.0), of(0.5)));
        assert_eq!(lifetime("end"), Ok(Lifetime::ToItsEndHowever));
        for wrong in ["30", "", "s", "-3s", "NaNs", "infs", "1e9s", "1us", "forever"] {
            assert!(lifetime(wrong).is_err(), "{wrong}");
        }
    }
}
