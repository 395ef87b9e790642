//! Why a line cannot be read.

/// What is wrong with a tool's command line. Messages name the tool, the option, and what would do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A quote that does not end, or no word at all.
    #[error("'{line}' cannot be split into words: {why}")]
    Words {
        /// The line.
        line: String,
        /// What is wrong.
        why: &'static str,
    },
    /// No tool whose lines are known.
    #[error("'{name}' is no tool whose command line is known here ({known})")]
    UnknownTool {
        /// Its name.
        name: String,
        /// Those that are.
        known: &'static str,
    },
    /// An option that the tool does not have, as far as is known: whether it takes a value is then not known either.
    #[error("{tool} has no option '{option}' that is known here{near}")]
    UnknownOption {
        /// The tool.
        tool: &'static str,
        /// As it was written.
        option: String,
        /// The one that may have been meant, in a clause of its own; empty where none is near.
        near: String,
    },
    /// A short form that several options have.
    #[error("{tool}: '{option}' may be {candidates}")]
    Ambiguous {
        /// The tool.
        tool: &'static str,
        /// As it was written.
        option: String,
        /// What it may be.
        candidates: String,
    },
    /// An option without the value that it takes, or a value that it cannot have.
    #[error("{tool}: {option} is '{value}', needs {needed}")]
    Value {
        /// The tool.
        tool: &'static str,
        /// The option, or the argument.
        option: String,
        /// Its value, or `nothing`.
        value: String,
        /// What it needs.
        needed: String,
    },
}
