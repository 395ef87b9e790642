//! Where an event happened that is counted by message.

/// What an event was, and where: by function and by what lies at its address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Spot {
    /// Which event, in the order in which they were asked for.
    pub event: u32,
    /// The function, as the trace's symbols number them.
    pub function: u32,
    /// The object, as the trace numbers them; 0 where it is not known.
    pub object: u32,
}

impl Spot {
    /// The first that an event can have.
    pub(crate) fn first(event: u32) -> Self {
        Self { event, ..Self::default() }
    }
}
