//! What programs said of their messages beyond marks: what they are part of, what others call them, where they went.

use std::collections::BTreeMap;
use std::path::Path;

use perftax_pmu::Result;

use super::table::{read_texts, write_texts};
use crate::mark::TraceIdentity;
use crate::marked::{Hop, Relation};

const RELATIONS: (&str, ([&str; 5], [&str; 0])) =
    ("relations.parquet", (["id", "parent", "trace_high", "trace_low", "span"], []));
const HOPS: (&str, ([&str; 4], [&str; 0])) = ("hops.parquet", (["time_ns", "tid", "id", "way"], []));
/// A hop's way.
const SENT: u64 = 1;
const RECEIVED: u64 = 2;

/// Writes what was said, where anything was.
///
/// # Errors
/// Where it cannot be written.
pub fn write_relations(folder: &Path, relations: &BTreeMap<u64, Relation>, hops: &[Hop]) -> Result<()> {
    let relation = |(id, relation): (&u64, &Relation)| {
        let TraceIdentity { trace, span } = relation.identity;
        ([*id, relation.parent, (trace >> 64) as u64, trace as u64, span], [])
    };
    let relations: Vec<([u64; 5], [&str; 0])> = relations.iter().map(relation).collect();
    if !relations.is_empty() {
        write_texts(&folder.join(RELATIONS.0), RELATIONS.1, &relations)?;
    }
    let hop = |hop: &Hop| ([hop.time_ns, hop.tid.into(), hop.id, if hop.is_sent { SENT } else { RECEIVED }], []);
    let hops: Vec<([u64; 4], [&str; 0])> = hops.iter().map(hop).collect();
    if !hops.is_empty() {
        write_texts(&folder.join(HOPS.0), HOPS.1, &hops)?;
    }
    Ok(())
}

/// What was said of messages.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Relations {
    by_message: BTreeMap<u64, Relation>,
    /// Messages that are part of one.
    parts: BTreeMap<u64, Vec<u64>>,
    /// In order of time.
    hops: Vec<Hop>,
}

impl Relations {
    /// Reads them; a trace without has none.
    pub(super) fn read(folder: &Path) -> Result<Self> {
        let mut relations = Self::default();
        let path = folder.join(RELATIONS.0);
        if path.exists() {
            for ([id, parent, high, low, span], []) in read_texts(&path, RELATIONS.1)? {
                let identity = TraceIdentity { trace: u128::from(high) << 64 | u128::from(low), span };
                relations.by_message.insert(id, Relation { parent, identity });
                if parent != 0 {
                    relations.parts.entry(parent).or_default().push(id);
                }
            }
        }
        let path = folder.join(HOPS.0);
        if path.exists() {
            let hop = |([time_ns, tid, id, way], []): ([u64; 4], [String; 0])| Hop {
                time_ns,
                id,
                tid: tid as u32,
                is_sent: way == SENT,
            };
            relations.hops = read_texts(&path, HOPS.1)?.into_iter().map(hop).collect();
        }
        Ok(relations)
    }

    /// Of a message.
    pub fn of(&self, id: u64) -> Relation {
        self.by_message.get(&id).copied().unwrap_or_default()
    }

    /// Of all messages, in the order of their numbers.
    pub fn all(&self) -> impl Iterator<Item = (u64, Relation)> {
        self.by_message.iter().map(|(id, relation)| (*id, *relation))
    }

    /// The messages that are part of it, by their numbers.
    pub fn parts(&self, id: u64) -> &[u64] {
        self.parts.get(&id).map_or(&[], Vec::as_slice)
    }

    /// Where messages went and came from, all of them, in order of time.
    pub fn all_hops(&self) -> impl Iterator<Item = &Hop> {
        self.hops.iter()
    }

    /// Where it went and came from, in order of time.
    pub fn hops(&self, id: u64) -> impl Iterator<Item = &Hop> {
        self.hops.iter().filter(move |hop| hop.id == id)
    }

    /// The messages of a trace of others', by their numbers; of one span of it, where that is said.
    pub fn of_trace(&self, trace: u128, span: Option<u64>) -> Vec<u64> {
        let is = |identity: TraceIdentity| identity.trace == trace && span.is_none_or(|span| span == identity.span);
        self.by_message.iter().filter(|(_, relation)| is(relation.identity)).map(|(id, _)| *id).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;
    use crate::mark::Saying;
    use crate::marked::Marked;

    #[test]
    fn what_was_said_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(Relations::read(folder.path()).unwrap(), Relations::default());
        let identity = TraceIdentity { trace: 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736, span: 0xf067_aa0b_a902_b700 };
        let mut marked = Marked::default();
        for (time_ns, saying) in [
            (1, Saying::Child { id: 7, parent: 5 }),
            (2, Saying::Identity { id: 7, identity }),
            (3, Saying::Child { id: 6, parent: 5 }),
            (4, Saying::Send(7)),
            (5, Saying::Receive(7)),
        ] {
            marked.take(time_ns, (1, 2), saying, &mut |_| unreachable!());
        }
        write_relations(folder.path(), &marked.relations, &marked.hops).unwrap();
        let read = Relations::read(folder.path()).unwrap();
        assert_eq!(read.of(7), Relation { parent: 5, identity });
        assert_eq!((read.parts(5), read.parts(7).len(), read.of(5)), (&[6, 7][..], 0, Relation::default()));
        assert_eq!(
            read.hops(7).map(|hop| (hop.time_ns, hop.tid, hop.is_sent)).collect::<Vec<_>>(),
            [(4, 2, true), (5, 2, false)]
        );
        assert_eq!(read.of_trace(identity.trace, None), [7]);
        assert!(read.of_trace(identity.trace, Some(1)).is_empty());
        assert_eq!(identity.to_string(), "4bf92f3577b34da6a3ce929d0e0e4736-f067aa0ba902b700");
    }
}
