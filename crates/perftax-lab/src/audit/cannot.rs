//! Why a row is impossible.

use std::convert::Infallible;
use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

/// The remark of a row whose event or mechanism is missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cannot {
    /// What cannot be done; empty where a remark says nothing but why.
    pub what: String,
    /// Why.
    pub why: String,
}

const CANNOT: &str = "cannot ";
const BECAUSE: &str = ": ";

impl Display for Cannot {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        let Self { what, why } = self;
        if what.is_empty() { f.write_str(why) } else { write!(f, "{CANNOT}{what}{BECAUSE}{why}") }
    }
}

impl FromStr for Cannot {
    type Err = Infallible;

    fn from_str(remark: &str) -> Result<Self, Infallible> {
        let parts = remark.strip_prefix(CANNOT).and_then(|rest| rest.split_once(BECAUSE)).unwrap_or(("", remark));
        Ok(Self { what: parts.0.into(), why: parts.1.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_and_why_are_read_from_a_remark() {
        for (remark, what, why) in [
            ("cannot sample pebs loads: no core PMU: nothing", "sample pebs loads", "no core PMU: nothing"),
            ("it takes minutes", "", "it takes minutes"),
        ] {
            let cannot = Cannot { what: what.into(), why: why.into() };
            assert_eq!(cannot.to_string(), remark);
            assert_eq!(remark.parse(), Ok(cannot));
        }
    }
}
