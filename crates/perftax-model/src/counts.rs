//! Totals of all event classes.

use std::collections::BTreeMap;
use std::ops::{AddAssign, Index, IndexMut};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::Event;

/// How many events of each class happened. A class that was not watched is zero: whoever counts says which were.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts([u64; Event::COUNT]);

impl Index<Event> for Counts {
    type Output = u64;

    fn index(&self, event: Event) -> &u64 {
        &self.0[event as usize]
    }
}

impl IndexMut<Event> for Counts {
    fn index_mut(&mut self, event: Event) -> &mut u64 {
        &mut self.0[event as usize]
    }
}

impl AddAssign<&Counts> for Counts {
    fn add_assign(&mut self, other: &Counts) {
        for (sum, more) in self.0.iter_mut().zip(other.0) {
            *sum += more;
        }
    }
}

impl Serialize for Counts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(Event::all().map(|event| (event.name(), self[event])))
    }
}

impl<'de> Deserialize<'de> for Counts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut counts = Self::default();
        for (name, count) in BTreeMap::<String, u64>::deserialize(deserializer)? {
            counts[Event::parse(&name).map_err(serde::de::Error::custom)?] = count;
        }
        Ok(counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_again() {
        let mut counts = Counts::default();
        counts[Event::Loads] = 7;
        counts += &counts.clone();
        assert_eq!(counts[Event::Loads], 14);
        let text = serde_json::to_string(&counts).unwrap();
        assert_eq!(serde_json::from_str::<Counts>(&text).unwrap(), counts);
    }
}
