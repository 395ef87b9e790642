//! Marks: what a program says about its messages.

/// What a mark says (`PERFTAX_BEGIN` … of perftax_tag.h).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    /// The thread starts to work on the message.
    Begin,
    /// The message is done.
    End,
    /// The thread goes on with the message; id 0: with none.
    Switch,
    /// What the thread does lets another message go on, of which it is not at work. No program marks it: Go's scheduler is watched for it.
    Wake,
}

impl Kind {
    /// From the lower two bits of a mark's word; none of ours is 0.
    pub fn of(bits: u64) -> Option<Self> {
        match bits & 3 {
            1 => Some(Self::Begin),
            2 => Some(Self::End),
            3 => Some(Self::Switch),
            _ => None,
        }
    }
}

/// One mark, on whichever clock its reader has put it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// When.
    pub time_ns: u64,
    /// The thread that said it.
    pub tid: u32,
    /// The message; 0 for none.
    pub id: u64,
    /// What it says.
    pub kind: Kind,
}
