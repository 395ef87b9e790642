//! From transfers to their document, whoever saw them.

mod simulated;

use crate::{Access, Kind, Line, Shares, Site, Thread, Touched, advice};
use perftax_doc::{CommLine, CommObject, CommPair, CommShare, CommSite};

pub use simulated::simulated_document;

/// Sites of a line that are shown.
const MAX_SITES: usize = 64;
/// Objects of a line that are named; the rest is counted.
const MAX_NAMED: usize = 3;

/// Says what addresses are called.
pub trait Called {
    /// What lies in the line that begins at an address.
    fn line(&mut self, address: u64) -> String;

    /// The objects of the heap that lay in it when it was touched, as far as they are known.
    fn objects(&mut self, _address: u64) -> Vec<CommObject> {
        Vec::new()
    }

    /// The function of an instruction, and its source line where that is known.
    fn code(&mut self, ip: u64) -> (String, Option<String>);
}

/// An estimate, no truth being known.
pub fn estimated(shares: &Shares) -> CommShare {
    let Shares { total, true_sharing, false_sharing, evidence } = *shares;
    CommShare { total, true_sharing, false_sharing, evidence, exact: None }
}

/// Pairs, the most transfers first.
pub fn pairs(shares: impl Iterator<Item = ((Thread, Thread), CommShare)>) -> Vec<CommPair> {
    let mut pairs: Vec<_> = shares.map(|((from, to), share)| CommPair { from, to, share }).collect();
    pairs.sort_by(|a, b| b.share.total.estimate.total_cmp(&a.share.total.estimate).then((a.from, a.to).cmp(&(b.from, b.to))));
    pairs
}

/// A line, its pairs (with how many transfers each) and sites in any order.
pub fn line(
    line: Line,
    share: CommShare,
    mut pairs: Vec<(u32, u32, f64)>,
    sites: &[(Site, u64)],
    called: &mut dyn Called,
) -> CommLine {
    pairs.sort_by(|a, b| b.2.total_cmp(&a.2).then((a.0, a.1).cmp(&(b.0, b.1))));
    let objects = called.objects(line.address());
    CommLine {
        address: line.address(),
        name: name_of(&objects).unwrap_or_else(|| called.line(line.address())),
        allocated_at: objects.first().map(|object| object.allocated_at.clone()).unwrap_or_default(),
        objects,
        advice: advice(share.true_sharing.estimate, share.false_sharing.estimate, &touched(line, sites)),
        share,
        pairs,
        sites: merged(sites, called),
        rest: None,
    }
}

/// What a line is called that objects of the heap lie in; none where none do.
pub fn name_of(objects: &[CommObject]) -> Option<String> {
    let names: Vec<String> = objects.iter().take(MAX_NAMED).map(CommObject::name).collect();
    let rest = objects.len().saturating_sub(MAX_NAMED);
    let more = if rest > 0 { format!(" and {rest} more") } else { String::new() };
    (!objects.is_empty()).then(|| format!("{}{more}", names.join(", ")))
}

/// What each thread does to a line, as its sites tell.
fn touched(line: Line, sites: &[(Site, u64)]) -> Vec<Touched> {
    let mut touched = Vec::new();
    for (site, _) in sites {
        let Site { thread, ip, kind, bytes } = *site;
        Touched::add(&mut touched, &Access { thread, line, bytes, kind, ip });
    }
    touched
}

/// One entry an instruction and what it touches, with the threads that execute it; those seen most often first.
fn merged(sites: &[(Site, u64)], called: &mut dyn Called) -> Vec<CommSite> {
    let mut merged: Vec<CommSite> = Vec::new();
    for (site, seen) in sites {
        let (offset, bytes) = site.bytes.extent().unwrap_or_default();
        let (offset, bytes, is_store) = (offset as u32, bytes as u32, site.kind == Kind::Store);
        let same =
            |other: &&mut CommSite| (other.ip, other.offset, other.bytes, other.is_store) == (site.ip, offset, bytes, is_store);
        match merged.iter_mut().find(same) {
            Some(other) => {
                other.seen += seen;
                if !other.threads.contains(&site.thread) {
                    other.threads.push(site.thread);
                }
            }
            None => {
                let threads = vec![site.thread];
                let (function, source) = (String::new(), None);
                merged.push(CommSite { ip: site.ip, function, source, is_store, offset, bytes, threads, seen: *seen });
            }
        }
    }
    merged.sort_by_key(|site| (std::cmp::Reverse(site.seen), site.ip, site.offset));
    merged.truncate(MAX_SITES);
    for site in &mut merged {
        site.threads.sort_unstable();
        (site.function, site.source) = called.code(site.ip);
    }
    merged
}
