//! From transfers to their document, whoever saw them.

mod simulated;

use std::collections::BTreeMap;

use crate::{Access, Bytes, Kind, Line, LineTransfers, Shares, Site, Thread, Touched, advice};
use perftax_doc::{CommLine, CommObject, CommPair, CommRest, CommShare, CommSite};

pub use simulated::simulated_document;

/// Sites of a line that are shown.
const MAX_SITES: usize = 64;
/// Objects of a line that are named; the rest is counted.
const MAX_NAMED: usize = 3;

/// Says what addresses are called.
pub trait Naming {
    /// What lies in a line, from an address in it on: `symbol+0x8 [program]`, `heap`, …
    fn data(&mut self, address: u64) -> String;

    /// The objects of the heap that lay in the line that begins at an address when it was touched, as far as they are known.
    fn objects(&mut self, _line: u64) -> Vec<CommObject> {
        Vec::new()
    }

    /// The function of an instruction, and its source line where that is known.
    fn code(&mut self, ip: u64) -> (String, Option<String>);
}

/// A line that is shared, before its addresses have names.
pub struct UnnamedLine {
    /// It.
    pub line: Line,
    /// The first byte of it that matters: what lies there names it, unless objects of the heap do.
    pub from: u64,
    /// Its transfers.
    pub share: CommShare,
    /// How many between each pair, in any order.
    pub pairs: Vec<(Thread, Thread, f64)>,
    /// What each thread does to it.
    pub touched: Vec<Touched>,
    /// Instructions without their names ([`site`]), those seen most often first.
    pub sites: Vec<CommSite>,
    /// What an estimate rests on.
    pub rest: Option<CommRest>,
}

impl UnnamedLine {
    /// One whose sites tell what its threads do to it: they may come in any order, and each by thread.
    pub fn of_sites(line: Line, share: CommShare, pairs: Vec<(Thread, Thread, f64)>, sites: &[(Site, u64)]) -> Self {
        let (touched, sites) = (touched(line, sites), merged(sites));
        Self { line, from: line.address(), share, pairs, touched, sites, rest: None }
    }

    /// One whose transfers are estimated.
    pub fn estimated(of: &LineTransfers) -> Self {
        let pairs = of.pairs.iter().map(|((from, to), transfers)| (*from, *to, *transfers)).collect();
        Self::of_sites(of.line, estimated(&of.shares), pairs, &of.sites)
    }

    /// With names. Of very many sites those seen most often are kept.
    pub fn named(self, naming: &mut dyn Naming) -> CommLine {
        let Self { line, from, share, mut pairs, touched, mut sites, rest } = self;
        pairs.sort_by(|a, b| b.2.total_cmp(&a.2).then((a.0, a.1).cmp(&(b.0, b.1))));
        let objects = naming.objects(line.address());
        let name = name_of(&objects).unwrap_or_else(|| naming.data(from));
        sites.truncate(MAX_SITES);
        for site in &mut sites {
            site.threads.sort_unstable();
            (site.function, site.source) = naming.code(site.ip);
        }
        CommLine {
            address: line.address(),
            name,
            allocated_at: objects.first().map(|object| object.allocated_at.clone()).unwrap_or_default(),
            objects,
            advice: advice(share.true_sharing.estimate, share.false_sharing.estimate, &touched),
            share,
            pairs,
            sites,
            rest,
        }
    }
}

/// An instruction that has no name yet, and what it touches of a line.
pub fn site(ip: u64, is_store: bool, touched: Bytes, threads: Vec<Thread>, seen: u64) -> CommSite {
    let (offset, bytes) = touched.extent().unwrap_or_default();
    let (function, source) = (String::new(), None);
    CommSite { ip, function, source, is_store, offset: offset as u32, bytes: bytes as u32, threads, seen }
}

/// The core that a thread ran on the most, by how often it was seen on each.
pub fn core_of(cores: &BTreeMap<u32, u64>) -> Option<u32> {
    cores.iter().max_by_key(|(core, times)| (**times, std::cmp::Reverse(**core))).map(|(core, _)| *core)
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

/// What a line is called that objects of the heap lie in; none where none do.
fn name_of(objects: &[CommObject]) -> Option<String> {
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
fn merged(sites: &[(Site, u64)]) -> Vec<CommSite> {
    let mut merged: Vec<CommSite> = Vec::new();
    for (of_thread, seen) in sites {
        let new = site(of_thread.ip, of_thread.kind == Kind::Store, of_thread.bytes, vec![of_thread.thread], *seen);
        let key = |site: &CommSite| (site.ip, site.offset, site.bytes, site.is_store);
        match merged.iter_mut().find(|other| key(other) == key(&new)) {
            Some(other) => {
                other.seen += seen;
                if !other.threads.contains(&of_thread.thread) {
                    other.threads.push(of_thread.thread);
                }
            }
            None => merged.push(new),
        }
    }
    merged.sort_by_key(|site| (std::cmp::Reverse(site.seen), site.ip, site.offset));
    merged
}

#[cfg(test)]
mod tests {
    use super::*;
    use perftax_doc::Estimate;

    /// Says of addresses what they are.
    struct Plain;

    impl Naming for Plain {
        fn data(&mut self, address: u64) -> String {
            format!("data {address:#x}")
        }

        fn code(&mut self, ip: u64) -> (String, Option<String>) {
            (format!("code {ip:#x}"), None)
        }
    }

    fn share() -> CommShare {
        let none = Estimate::exact(0.0);
        CommShare { total: none, true_sharing: none, false_sharing: none, evidence: 0, exact: None }
    }

    #[test]
    fn sites_of_several_threads_are_one_and_the_most_seen_come_first() {
        let of = |thread, ip, kind| Site { thread, ip, kind, bytes: Bytes::new(8, 4) };
        let sites = [(of(2, 0x10, Kind::Load), 3), (of(1, 0x20, Kind::Store), 4), (of(1, 0x10, Kind::Load), 2)];
        let told = UnnamedLine::of_sites(Line::of(0x1000), share(), vec![(0, 1, 1.0), (1, 0, 2.0)], &sites).named(&mut Plain);
        let seen: Vec<_> = told.sites.iter().map(|site| (site.function.as_str(), site.threads.clone(), site.seen)).collect();
        assert_eq!(seen, [("code 0x10", vec![1, 2], 5), ("code 0x20", vec![1], 4)]);
        assert_eq!((told.sites[0].offset, told.sites[0].bytes, told.sites[0].is_store), (8, 4, false));
        assert_eq!((told.name.as_str(), told.pairs), ("data 0x1000", vec![(1, 0, 2.0), (0, 1, 1.0)]));
    }

    #[test]
    fn what_is_named_begins_where_it_matters_and_sites_beyond_the_most_are_left_out() {
        let sites = (0..MAX_SITES as u64 + 1).map(|ip| site(ip, true, Bytes::new(0, 8), Vec::new(), 1)).collect();
        let line = UnnamedLine {
            line: Line::of(0x1000),
            from: 0x1010,
            share: share(),
            pairs: Vec::new(),
            touched: Vec::new(),
            sites,
            rest: None,
        };
        let told = line.named(&mut Plain);
        assert_eq!((told.address, told.name.as_str(), told.sites.len()), (0x1000, "data 0x1010", MAX_SITES));
    }
}
