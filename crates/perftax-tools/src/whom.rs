//! Whom a tool watches.

/// Whom a line asks to watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Whom {
    /// A command and what it creates; the command's words, where the line has them.
    Command(Vec<String>),
    /// Processes that run, by their numbers as they are written.
    Processes(String),
    /// Threads that run.
    Threads(String),
    /// CPUs, whatever runs there; which, where not all.
    Cpus(Option<String>),
}

impl Whom {
    /// Whether all that runs on a CPU is watched, and nothing inherited.
    pub fn is_of_cpus(&self) -> bool {
        matches!(self, Self::Cpus(_))
    }
}
