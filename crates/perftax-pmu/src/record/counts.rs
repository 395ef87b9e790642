//! Counts read together with a sample, or when a thread ends (`struct read_format`).

use super::cursor::Cursor;
use super::layout::Layout;
use super::words::Words;
use crate::Result;
use perf_event_open_sys::bindings as abi;

/// One read of one event or of its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts<'a> {
    /// `TOTAL_TIME_ENABLED`: ns.
    pub time_enabled_ns: Option<u64>,
    /// `TOTAL_TIME_RUNNING`: ns; less than enabled where events were multiplexed.
    pub time_running_ns: Option<u64>,
    events: Events<'a>,
}

/// The count of one event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Count {
    /// Events counted.
    pub value: u64,
    /// `ID`.
    pub id: Option<u64>,
    /// `LOST`: samples that this event could not write.
    pub lost: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Events<'a> {
    Alone(Count),
    Group { words: Words<'a>, has_id: bool, has_lost: bool },
}

impl<'a> Counts<'a> {
    pub(super) fn decode(cursor: &mut Cursor<'a>, layout: &Layout) -> Result<Self> {
        let has_id = layout.reads(abi::PERF_FORMAT_ID);
        let has_lost = layout.reads(abi::PERF_FORMAT_LOST);
        // A group: its size, the times once, then each event. One event: its value, the times, then the rest of it.
        let first = cursor.u64("READ's value or number of events")?;
        let time_enabled_ns =
            layout.reads(abi::PERF_FORMAT_TOTAL_TIME_ENABLED).then(|| cursor.u64("READ's time enabled")).transpose()?;
        let time_running_ns =
            layout.reads(abi::PERF_FORMAT_TOTAL_TIME_RUNNING).then(|| cursor.u64("READ's time running")).transpose()?;
        let events = if layout.reads(abi::PERF_FORMAT_GROUP) {
            let words = first.saturating_mul(words_per_event(has_id, has_lost));
            Events::Group { words: Words::new(cursor.chunks(words, "READ's group")?), has_id, has_lost }
        } else {
            let id = has_id.then(|| cursor.u64("READ's id")).transpose()?;
            let lost = has_lost.then(|| cursor.u64("READ's lost")).transpose()?;
            Events::Alone(Count { value: first, id, lost })
        };
        Ok(Self { time_enabled_ns, time_running_ns, events })
    }

    /// How many events were read.
    pub fn len(&self) -> usize {
        match self.events {
            Events::Alone(_) => 1,
            Events::Group { words, has_id, has_lost } => words.len() / words_per_event(has_id, has_lost) as usize,
        }
    }

    /// Whether none was: an empty group, which a kernel does not write.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The event at `index`; the leader is the first.
    pub fn get(&self, index: usize) -> Option<Count> {
        match self.events {
            Events::Alone(count) => (index == 0).then_some(count),
            Events::Group { words, has_id, has_lost } => {
                let at = index.checked_mul(words_per_event(has_id, has_lost) as usize)?;
                let value = words.get(at)?;
                let id = if has_id { words.get(at + 1) } else { None };
                let lost = if has_lost { words.get(at + 1 + usize::from(has_id)) } else { None };
                Some(Count { value, id, lost })
            }
        }
    }

    /// All events, the leader first.
    pub fn iter(&self) -> impl Iterator<Item = Count> + use<'a> {
        let counts = *self;
        (0..counts.len()).filter_map(move |index| counts.get(index))
    }
}

fn words_per_event(has_id: bool, has_lost: bool) -> u64 {
    1 + u64::from(has_id) + u64::from(has_lost)
}
