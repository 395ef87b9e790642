//! How alike two documents of transfers are.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Comm, CommLine};

/// Lines of each document that are compared.
const TOP: usize = 10;

/// Half the width of a 95 % interval of a normal deviate, in standard deviations.
const HALF_WIDTH_SD: f64 = 1.96;

/// Two documents held against each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CommLikeness {
    /// Total variation distance of the shares that the pairs have of all transfers, ½ Σ |p − q|, pairs by the numbers of their threads:
    /// 0 where they are the same, 1 where no pair is in both.
    pub distance: f64,
    /// What chance alone brings about, were both the same: ½ Σ of the mean size of a normal deviate as wide as the intervals of both
    /// shares. A distance of this size says nothing.
    pub chance: f64,
    /// Of the lines with the most transfers, how many both have.
    pub lines_in_common: usize,
    /// How many lines were compared: ten, or those of the one that has fewer.
    pub lines: usize,
}

impl Comm {
    /// The share that each pair has of all transfers, and half of its interval's width. Half-widths are those of the pair's transfers:
    /// what the total moves by is left out.
    pub fn pair_shares(&self) -> BTreeMap<(u32, u32), (f64, f64)> {
        let total: f64 = self.pairs.iter().map(|pair| pair.share.total.estimate).sum();
        let share = |of: f64| if total > 0.0 { of / total } else { 0.0 };
        let of = |pair: &crate::CommPair| {
            let transfers = &pair.share.total;
            ((pair.from, pair.to), (share(transfers.estimate), share(transfers.half_width())))
        };
        self.pairs.iter().map(of).collect()
    }

    /// How alike another is.
    pub fn likeness(&self, other: &Self) -> CommLikeness {
        let (ours, theirs) = (self.pair_shares(), other.pair_shares());
        let pairs: BTreeSet<_> = ours.keys().chain(theirs.keys()).collect();
        let of = |shares: &BTreeMap<_, (f64, f64)>, pair| shares.get(pair).copied().unwrap_or_default();
        let (mut distance, mut chance) = (0.0, 0.0);
        for pair in pairs {
            let ((p, p_half), (q, q_half)) = (of(&ours, pair), of(&theirs, pair));
            distance += (p - q).abs() / 2.0;
            chance += p_half.hypot(q_half) / HALF_WIDTH_SD * std::f64::consts::FRAC_2_PI.sqrt() / 2.0;
        }
        let (ours, theirs) = (self.keys_of_top(), other.keys_of_top());
        let lines = self.lines.len().min(other.lines.len()).min(TOP);
        CommLikeness { distance, chance, lines_in_common: ours.intersection(&theirs).count(), lines }
    }

    /// The lines with the most transfers, each with what tells it from the others in another run: objects of the heap by who allocated them,
    /// others by name, and by address where that is not one line's.
    pub fn top_lines(&self) -> impl Iterator<Item = (String, &CommLine)> {
        let is_one = |key: &String| self.lines.iter().filter_map(key_of).filter(|other| other == key).count() == 1;
        let key = move |line: &CommLine| key_of(line).filter(is_one).unwrap_or_else(|| format!("{:#x}", line.address));
        self.lines.iter().take(TOP).map(move |line| (key(line), line))
    }

    fn keys_of_top(&self) -> BTreeSet<String> {
        self.top_lines().map(|(key, _)| key).collect()
    }
}

/// What tells a line from others; none where it has no name.
fn key_of(line: &CommLine) -> Option<String> {
    let of = |name: &str, allocated_at: &[String]| match allocated_at.first() {
        Some(site) => format!("{name} of {site}"),
        None => name.into(),
    };
    if !line.objects.is_empty() {
        let objects = line.objects.iter().map(|object| of(&object.name_in_any_run(), &object.allocated_at));
        return Some(objects.collect::<Vec<_>>().join(", "));
    }
    (!line.name.is_empty()).then(|| of(&line.name, &line.allocated_at))
}
