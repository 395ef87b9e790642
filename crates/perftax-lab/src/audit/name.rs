//! Names of experiments.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

use perftax_doc::steps::Setting;
use perftax_pmu::Error;

/// What `--only` calls an experiment, and documents, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Name {
    Count,
    Interval,
    Misses,
    Stability,
    Threads,
    Bias,
    Overhead,
    Memory,
    Events,
    Mode,
    Address,
    Generic,
}

impl Name {
    /// All of them, in the order in which they are done.
    pub const ALL: [Self; 12] = [
        Self::Count,
        Self::Interval,
        Self::Misses,
        Self::Stability,
        Self::Threads,
        Self::Bias,
        Self::Overhead,
        Self::Memory,
        Self::Events,
        Self::Mode,
        Self::Address,
        Self::Generic,
    ];

    /// Its text.
    pub fn text(self) -> &'static str {
        match self {
            Self::Count => "count",
            Self::Interval => "interval",
            Self::Misses => "misses",
            Self::Stability => "stability",
            Self::Threads => "threads",
            Self::Bias => "bias",
            Self::Overhead => "overhead",
            Self::Memory => "memory",
            Self::Events => "events",
            Self::Mode => "mode",
            Self::Address => "address",
            Self::Generic => "generic",
        }
    }
}

impl Display for Name {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        f.write_str(self.text())
    }
}

impl FromStr for Name {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|name| name.text() == text).ok_or_else(|| {
            let needed = format!("one or more of {}", Self::ALL.map(Self::text).join(", "));
            Error::Argument { argument: Setting::Only.name(), value: text.into(), needed }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_read_from_its_text() {
        let texts = "count interval misses stability threads bias overhead memory events mode address generic";
        assert_eq!(Name::ALL.map(|name| name.to_string()).join(" "), texts);
        for name in Name::ALL {
            assert_eq!(name.text().parse::<Name>().ok(), Some(name));
        }
        let error = "counts".parse::<Name>().map_err(|error| error.to_string());
        assert!(error.as_ref().is_err_and(|error| error.contains("one or more of count, interval")), "{error:?}");
        let experiments = crate::audit::ALL.map(|experiment| experiment.name());
        assert_eq!(experiments, Name::ALL);
    }
}
