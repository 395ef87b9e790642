//! Marks: what a program says about its messages.

use crate::executed::Executed;

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

/// What a program says into its ring (`perftax_tag.h`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Statement {
    /// A mark: of which message, and what.
    Mark(u64, Kind),
    /// Beyond marks.
    Of(Saying),
    /// What the thread has executed in user mode by then; none where its counters did not count just then.
    Counts(Option<Executed>),
}

/// What a program says beyond marks (`PERFTAX_SAYS_CHILD` … of perftax_tag.h).
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Saying {
    /// A message is part of another one.
    Child {
        /// It.
        id: u64,
        /// The other one.
        parent: u64,
    },
    /// A message goes to another process.
    Send(u64),
    /// It has come from another process.
    Receive(u64),
    /// What others call a message.
    Identity {
        /// The message.
        id: u64,
        /// Its trace and its span.
        identity: TraceIdentity,
    },
    /// What it is called.
    Name {
        /// The message.
        id: u64,
        /// Its text.
        text: String,
    },
    /// The thread goes on with a carrier of messages (a goroutine, a fibre); 0: with none.
    Carrier(u64),
}

/// What tracing systems call a message: W3C's trace and parent identifiers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TraceIdentity {
    /// The trace, 128 bits.
    pub trace: u128,
    /// The span in it, 64 bits.
    pub span: u64,
}

impl std::fmt::Display for TraceIdentity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{:032x}-{:016x}", self.trace, self.span)
    }
}

impl Statement {
    /// From a word whose lower two bits are 0, and the places that follow it; none where it is none that is known, or does not fit.
    pub fn of(word: u64, places: &[[u64; 2]]) -> Option<Self> {
        match (word >> 2 & 0x3f, places) {
            (7, [[instructions, cycles]]) => {
                let is_known = *instructions != u64::MAX && *cycles != u64::MAX;
                Some(Self::Counts(is_known.then_some(Executed { instructions: *instructions, cycles: *cycles })))
            }
            _ => Saying::of(word, places).map(Self::Of),
        }
    }
}

impl Saying {
    /// Bytes of a text that are taken (`PERFTAX_NAME_LONGEST`).
    pub const NAME_LONGEST: u64 = 1024;

    /// From a word whose lower two bits are 0, and the places that follow it; none where it is none that is known, or does not fit.
    pub fn of(word: u64, places: &[[u64; 2]]) -> Option<Self> {
        let first = *places.first()?;
        match (word >> 2 & 0x3f, places.len()) {
            (1, 1) => Some(Self::Child { id: first[0], parent: first[1] }),
            (2, 1) => Some(Self::Send(first[0])),
            (3, 1) => Some(Self::Receive(first[0])),
            (4, 2) => {
                let trace = u128::from(places[1][0]) << 64 | u128::from(places[1][1]);
                Some(Self::Identity { id: first[0], identity: TraceIdentity { trace, span: first[1] } })
            }
            (5, more) => {
                let bytes = word >> 16;
                if bytes > Self::NAME_LONGEST || bytes.div_ceil(16) as usize != more - 1 {
                    return None;
                }
                let text: Vec<u8> =
                    places[1..].iter().flatten().flat_map(|word| word.to_ne_bytes()).take(bytes as usize).collect();
                Some(Self::Name { id: first[0], text: String::from_utf8_lossy(&text).into_owned() })
            }
            (6, 1) => Some(Self::Carrier(first[0])),
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
