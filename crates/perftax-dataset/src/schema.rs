//! The tables, and which columns they have.

/// Version of the schema that is written. The one before it is read, too.
pub const VERSION: u32 = 2;
/// The oldest version that is read.
pub const OLDEST: u32 = 1;

/// What a column holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Signed 64-bit integers.
    Int,
    /// UTF-8.
    Text,
    /// Double precision.
    Double,
}

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Column {
    /// Its name.
    pub name: &'static str,
    /// What it holds.
    pub kind: Kind,
    /// Whether it may be NULL.
    pub is_nullable: bool,
    /// The version that brought it: before, it is NULL.
    pub since: u32,
}

/// A table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Table {
    /// Messages that are kept whole.
    Messages,
    /// Where time went.
    Causes,
    /// Latencies of all messages.
    Histograms,
    /// Where messages went and came from.
    Hops,
    /// Samples.
    Profiles,
    /// Traces.
    Recordings,
    /// Machines.
    Hosts,
    /// What events' samples cost.
    Prices,
    /// How true samples are.
    Audits,
}

impl Table {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Messages,
        Self::Causes,
        Self::Histograms,
        Self::Hops,
        Self::Profiles,
        Self::Recordings,
        Self::Hosts,
        Self::Prices,
        Self::Audits,
    ];

    /// Its name in paths.
    pub fn name(self) -> &'static str {
        match self {
            Self::Messages => "messages",
            Self::Causes => "causes",
            Self::Histograms => "histograms",
            Self::Hops => "hops",
            Self::Profiles => "profiles",
            Self::Recordings => "recordings",
            Self::Hosts => "hosts",
            Self::Prices => "prices",
            Self::Audits => "audits",
        }
    }

    /// The one of this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|table| table.name() == name)
    }

    /// Whether its rows belong to a service.
    pub fn is_of_a_service(self) -> bool {
        !matches!(self, Self::Hosts | Self::Prices | Self::Audits)
    }
}
