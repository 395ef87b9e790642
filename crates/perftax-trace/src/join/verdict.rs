//! Whose clocks causality contradicts.

use rustc_hash::FxHashSet;

use super::{HostTrace, Pair, Shared};

/// A clock of a host that causality contradicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lying {
    /// The host, from 0.
    pub host: usize,
    /// Its clock.
    pub clock: Shared,
    /// By how much it and another one are further apart than their kernels admit together, at least, ns.
    pub by_ns: u128,
    /// That one's may be wrong instead: of two that contradict each other nobody tells which.
    pub or_host: Option<usize>,
}

/// Clocks agree where they are known to be together to this share of a contradiction.
const AGREES_TO: u128 = 4;

/// What two hosts' clocks have to do with each other.
#[derive(Clone, Copy, Debug)]
struct Said {
    hosts: [usize; 2],
    /// By how much causality contradicts them, ns.
    against_ns: u128,
    /// To what they are known to be together otherwise, ns.
    known_to_ns: u128,
}

impl Said {
    /// The one that is not this.
    fn other(&self, host: usize) -> Option<usize> {
        let [a, b] = self.hosts;
        if a == host { Some(b) } else { (b == host).then_some(a) }
    }

    /// Whether they agree, closely enough to have a say in a contradiction of so much.
    fn agrees(&self, by_ns: u128) -> bool {
        self.against_ns == 0 && self.known_to_ns <= by_ns / AGREES_TO
    }
}

/// Hosts that agree with one, and those that agree with them, in a contradiction of so much; all but one, who is not asked.
fn together(said: &[Said], with: usize, without: Option<usize>, by_ns: u128) -> FxHashSet<usize> {
    let (mut group, mut asked) = (FxHashSet::from_iter([with]), vec![with]);
    while let Some(host) = asked.pop() {
        let agrees = said.iter().filter(|said| said.agrees(by_ns)).filter_map(|said| said.other(host));
        for other in agrees.filter(|other| Some(*other) != without) {
            if group.insert(other) {
                asked.push(other);
            }
        }
    }
    group
}

/// Whether of two hosts that contradict each other by so much it is the first one: most of those that have to do with it contradict it and agree among each other, and they are more than
/// those that agree with it, itself among them.
fn is_first(said: &[Said], host: usize, other: usize, by_ns: u128) -> bool {
    let with = said.iter().filter_map(|said| Some((said.other(host)?, said)));
    let evidence: Vec<(usize, &Said)> = with.filter(|(_, said)| said.against_ns > 0 || said.agrees(by_ns)).collect();
    let hosts: FxHashSet<usize> = evidence.iter().map(|(other, _)| *other).collect();
    let contradict: FxHashSet<usize> = evidence.iter().filter(|(_, said)| said.against_ns > 0).map(|(other, _)| *other).collect();
    let against = together(said, other, Some(host), by_ns).intersection(&contradict).count();
    against > 1 && 2 * against > hosts.len() && against > together(said, host, None, by_ns).len()
}

/// Which clocks lie. One alone is named where most of the hosts that have to do with it agree among each other and contradict it; of two that contradict each other either may otherwise.
pub fn lying(hosts: &[HostTrace], pairs: &[Pair]) -> Vec<Lying> {
    // Several traces of one host have one clock: the first one of them speaks.
    let speaker = |host: usize| hosts.iter().position(|other| other.is_one_host(&hosts[host])).unwrap_or(host);
    let mut lying = Vec::new();
    for clock in Shared::ALL {
        let of_pair = |pair: &Pair| {
            let at = pair.stated.iter().position(|(shared, ..)| *shared == clock)?;
            let known_to_ns = pair.known_to_ns[at].unsigned_abs();
            Some(Said { hosts: pair.hosts.map(speaker), against_ns: pair.stated[at].2, known_to_ns })
        };
        let said: Vec<Said> = pairs.iter().filter_map(of_pair).collect();
        lying.extend(judge(&said).into_iter().map(|(host, or_host, by_ns)| Lying { host, clock, by_ns, or_host }));
    }
    lying
}

/// Who lies, or who else does, and by how much.
fn judge(said: &[Said]) -> Vec<(usize, Option<usize>, u128)> {
    let mut named: Vec<(usize, Option<usize>, u128)> = Vec::new();
    for Said { hosts: [a, b], against_ns, .. } in said.iter().copied().filter(|said| said.against_ns > 0) {
        let (host, or_host) = match (is_first(said, a, b, against_ns), is_first(said, b, a, against_ns)) {
            (true, false) => (a, None),
            (false, true) => (b, None),
            _ => (a.min(b), Some(a.max(b))),
        };
        match named.iter_mut().find(|other| (other.0, other.1) == (host, or_host)) {
            Some(other) => other.2 = other.2.max(against_ns),
            None => named.push((host, or_host, against_ns)),
        }
    }
    // Who is named alone has been: what it has with others says no more.
    let alone: FxHashSet<usize> = named.iter().filter(|(_, or_host, _)| or_host.is_none()).map(|(host, ..)| *host).collect();
    named.retain(|(host, or_host, _)| or_host.is_none_or(|or_host| !alone.contains(host) && !alone.contains(&or_host)));
    named.sort_by_key(|(host, or_host, _)| (*host, *or_host));
    named
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u128 = 1_000_000;

    fn said(hosts: [usize; 2], against_ms: u128, known_to_ms: u128) -> Said {
        Said { hosts, against_ns: against_ms * MS, known_to_ns: known_to_ms * MS }
    }

    fn told(said: &[Said]) -> Vec<(usize, Option<usize>)> {
        judge(said).into_iter().map(|(host, or_host, _)| (host, or_host)).collect()
    }

    /// Two that agree do not outvote two others that do.
    #[test]
    fn two_camps_of_one_size_name_pairs() {
        let cross = [[0, 2], [0, 3], [1, 2], [1, 3]].map(|hosts| said(hosts, 46, 4));
        let mut all = cross.to_vec();
        all.extend([said([0, 1], 0, 4), said([2, 3], 0, 4)]);
        assert_eq!(told(&all), [(0, Some(2)), (0, Some(3)), (1, Some(2)), (1, Some(3))]);
        // A third one who agrees with the last two decides it.
        all.extend([said([2, 4], 0, 4), said([3, 4], 0, 4), said([0, 4], 46, 4), said([1, 4], 46, 4)]);
        assert_eq!(told(&all), [(0, None), (1, None)]);
    }

    /// Agreement to 10 ms has no say in a contradiction of 1 ms, whatever else contradicts by 50.
    #[test]
    fn agreement_counts_by_the_contradiction_at_hand() {
        let all = [said([0, 1], 0, 10), said([0, 2], 50, 10), said([1, 2], 50, 10), said([0, 3], 1, 10), said([1, 3], 1, 10)];
        assert_eq!(told(&all), [(0, Some(3)), (1, Some(3)), (2, None)]);
    }

    /// Two of four that have to do with one agree against it: that is no majority.
    #[test]
    fn a_minority_names_nobody_alone() {
        let all = [said([0, 1], 46, 4), said([0, 2], 46, 4), said([0, 3], 90, 4), said([0, 4], 140, 4), said([1, 2], 0, 4)];
        assert_eq!(told(&all), [(0, Some(1)), (0, Some(2)), (0, Some(3)), (0, Some(4))]);
        // Two of three are one, where they agree.
        assert_eq!(told(&all[..3]), [(0, Some(1)), (0, Some(2)), (0, Some(3))]);
        assert_eq!(told(&[all[0], all[1], all[2], all[4]]), [(0, None)]);
    }
}
