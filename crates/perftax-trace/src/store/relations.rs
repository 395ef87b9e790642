//! What programs said of their messages beyond marks: what they are part of, what others call them, where they went.

use std::collections::BTreeMap;
use std::path::Path;

use perftax_pmu::Result;

use super::table::{read_texts, write_texts};
use crate::mark::TraceIdentity;
use crate::marked::{Hop, NamedHop, Relation};

const RELATIONS: (&str, ([&str; 5], [&str; 0])) =
    ("relations.parquet", (["id", "parent", "trace_high", "trace_low", "span"], []));
const HOPS: (&str, ([&str; 7], [&str; 0])) =
    ("hops.parquet", (["time_ns", "tid", "id", "way", "trace_high", "trace_low", "span"], []));
/// Those of before 2026-11-29 do not know what their messages were called then.
const UNNAMED_HOPS: ([&str; 4], [&str; 0]) = (["time_ns", "tid", "id", "way"], []);
/// A hop's way; what nobody said has ways of its own.
const SENT: u64 = 1;
const RECEIVED: u64 = 2;
const SENT_INFERRED: u64 = 3;
const RECEIVED_INFERRED: u64 = 4;

fn way(hop: &NamedHop) -> u64 {
    match (hop.is_sent, hop.is_inferred) {
        (true, false) => SENT,
        (false, false) => RECEIVED,
        (true, true) => SENT_INFERRED,
        (false, true) => RECEIVED_INFERRED,
    }
}

fn halves(TraceIdentity { trace, span }: TraceIdentity) -> [u64; 3] {
    [(trace >> 64) as u64, trace as u64, span]
}

fn whole([high, low, span]: [u64; 3]) -> TraceIdentity {
    TraceIdentity { trace: u128::from(high) << 64 | u128::from(low), span }
}

/// Writes what was said, where anything was. Hops of which it was not looked for what their messages were called are written with what those were called last.
///
/// # Errors
/// Where it cannot be written.
pub fn write_relations<H: Copy + Into<NamedHop>>(folder: &Path, relations: &BTreeMap<u64, Relation>, hops: &[H]) -> Result<()> {
    let row = |(id, relation): (&u64, &Relation)| {
        let [high, low, span] = halves(relation.identity);
        ([*id, relation.parent, high, low, span], [])
    };
    let rows: Vec<([u64; 5], [&str; 0])> = relations.iter().map(row).collect();
    if !rows.is_empty() {
        write_texts(&folder.join(RELATIONS.0), RELATIONS.1, &rows)?;
    }
    let hop = |hop: &H| {
        let hop: NamedHop = (*hop).into();
        let last = || relations.get(&hop.id).map(|relation| relation.identity).unwrap_or_default();
        let [high, low, span] = halves(hop.identity.unwrap_or_else(last));
        ([hop.time_ns, hop.tid.into(), hop.id, way(&hop), high, low, span], [])
    };
    let hops: Vec<([u64; 7], [&str; 0])> = hops.iter().map(hop).collect();
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
    hops: Vec<NamedHop>,
}

impl Relations {
    /// Reads them; a trace without has none.
    pub(super) fn read(folder: &Path) -> Result<Self> {
        let mut relations = Self::default();
        let path = folder.join(RELATIONS.0);
        if path.exists() {
            for ([id, parent, high, low, span], []) in read_texts(&path, RELATIONS.1)? {
                let identity = whole([high, low, span]);
                relations.by_message.insert(id, Relation { parent, identity });
                if parent != 0 {
                    relations.parts.entry(parent).or_default().push(id);
                }
            }
        }
        let path = folder.join(HOPS.0);
        if path.exists() {
            relations.hops = relations.read_hops(&path)?;
        }
        Ok(relations)
    }

    /// What an older trace does not say of hops is as their messages were called last.
    fn read_hops(&self, path: &Path) -> Result<Vec<NamedHop>> {
        let hop = |[time_ns, tid, id, way]: [u64; 4], identity| NamedHop {
            hop: Hop { time_ns, id, tid: tid as u32, is_sent: [SENT, SENT_INFERRED].contains(&way) },
            identity: Some(identity),
            is_inferred: [SENT_INFERRED, RECEIVED_INFERRED].contains(&way),
        };
        let named = read_texts(path, HOPS.1).map(|rows| {
            let row = |([time_ns, tid, id, way, high, low, span], []): ([u64; 7], [String; 0])| {
                hop([time_ns, tid, id, way], whole([high, low, span]))
            };
            rows.into_iter().map(row).collect()
        });
        named.or_else(|_| {
            let rows = read_texts(path, UNNAMED_HOPS)?;
            let row = |(row, []): ([u64; 4], [String; 0])| hop(row, self.of(row[2]).identity);
            Ok(rows.into_iter().map(row).collect())
        })
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
        self.hops.iter().map(|hop| &hop.hop)
    }

    /// The same with what their messages were called then, and whether anybody said so.
    pub fn named_hops(&self) -> impl Iterator<Item = &NamedHop> {
        self.hops.iter()
    }

    /// Where it went and came from, in order of time.
    pub fn hops(&self, id: u64) -> impl Iterator<Item = &Hop> {
        self.all_hops().filter(move |hop| hop.id == id)
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

    /// Numbers that are used again keep their names, and what nobody said stays known as such; older tables say neither.
    #[test]
    fn hops_are_read_as_they_were_named_and_older_ones_by_their_messages() {
        let folder = tempfile::tempdir().unwrap();
        let identity = |span| TraceIdentity { trace: 9 << 70 | 5, span };
        let hop = |time_ns, is_sent| Hop { time_ns, id: 7, tid: 2, is_sent };
        let relations = BTreeMap::from([(7, Relation { parent: 0, identity: identity(3) })]);
        let named = |at: usize, span, is_inferred| NamedHop {
            hop: hop(at as u64, at.is_multiple_of(2)),
            identity: Some(identity(span)),
            is_inferred,
        };
        let hops = [named(1, 1, false), named(2, 1, false), named(3, 2, true), named(4, 2, true)];
        write_relations(folder.path(), &relations, &hops).unwrap();
        let read = Relations::read(folder.path()).unwrap();
        assert_eq!(read.named_hops().copied().collect::<Vec<_>>(), hops);
        assert_eq!(read.hops(7).map(|hop| hop.is_sent).collect::<Vec<_>>(), [false, true, false, true]);
        // Plain ones.
        let plain = [hop(1, false), hop(2, true)];
        let by_message = plain.map(|hop| NamedHop { identity: Some(identity(3)), ..hop.into() });
        write_relations(folder.path(), &relations, &plain).unwrap();
        assert_eq!(Relations::read(folder.path()).unwrap().named_hops().copied().collect::<Vec<_>>(), by_message);
        // A table of before.
        let rows: Vec<([u64; 4], [&str; 0])> = vec![([1, 2, 7, RECEIVED], []), ([2, 2, 7, SENT], [])];
        write_texts(&folder.path().join(HOPS.0), UNNAMED_HOPS, &rows).unwrap();
        assert_eq!(Relations::read(folder.path()).unwrap().named_hops().copied().collect::<Vec<_>>(), by_message);
    }
}
