//! What samples carry beyond instruction pointer, thread and time.

use std::fmt::{self, Display, Formatter};
use std::str::FromStr;

/// A part of a sample that has a price of its own: a term of calibrations, and a value of `--with`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PayloadTerm {
    /// The call chain, by frame pointers.
    Callchain,
    /// The registers of user mode.
    UserRegisters,
    /// A copy of the user's stack.
    UserStack,
    /// The hardware's branch records.
    Branches,
}

impl PayloadTerm {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Callchain, Self::UserRegisters, Self::UserStack, Self::Branches];

    /// The name of its term.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Callchain => "callchain",
            Self::UserRegisters => "user-regs",
            Self::UserStack => "user-stack",
            Self::Branches => "branch-stack",
        }
    }
}

impl Display for PayloadTerm {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for PayloadTerm {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let names = || Self::ALL.map(Self::name).join(", ");
        Self::ALL.into_iter().find(|term| term.name() == name).ok_or_else(|| format!("needs one of {}", names()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_term_is_read_from_its_name() {
        assert_eq!(PayloadTerm::ALL.map(|term| term.to_string()), ["callchain", "user-regs", "user-stack", "branch-stack"]);
        assert!(PayloadTerm::ALL.into_iter().all(|term| term.name().parse() == Ok(term)));
        assert!("user".parse::<PayloadTerm>().is_err());
    }
}
