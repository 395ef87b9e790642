//! The last minute, put together from its slices.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use super::kinds::LiveKinds;
use super::slice::{Slice, Slow};
use crate::blame::{Blame, Usual, blame};
use crate::cause::{Cause, Shares};
use crate::distribution::{Distribution, Population};

/// Messages of now.
pub struct View<'l> {
    /// From when.
    pub from_ns: u64,
    /// Until when.
    pub to_ns: u64,
    /// For how long recording was on meanwhile, ns.
    pub on_ns: u64,
    /// All messages that ended.
    pub population: &'l Population,
    /// The quantile from which on a message is slow.
    pub slow_from: f64,
    /// The latency from which on a message is slow, ns.
    pub slow_ns: u64,
    /// The slow ones that were kept, slowest first.
    pub slow: Vec<&'l Slow>,
    /// Slow ones that were not kept.
    pub slow_left_out: u64,
    /// The others.
    pub usual: Usual,
    /// Kinds of messages, those first whose slow messages took the most time beyond the median.
    pub kinds: Vec<KindView<'l>>,
    /// Messages of kinds that had no histogram of their own.
    pub other_kinds: u64,
}

/// Messages of a kind.
pub struct KindView<'l> {
    /// What it is called.
    pub name: &'l str,
    /// How long they took.
    pub latency: Distribution,
    /// How many of them are slow.
    pub slow: u64,
    /// What those took beyond the median of all messages, together, ns.
    pub beyond_ns: u64,
    /// What most of that went to.
    pub mostly: Option<Cause>,
}

impl<'l> View<'l> {
    pub(super) fn of(slices: &'l VecDeque<Slice>, population: &'l Population, kinds: &'l LiveKinds, slow_from: f64) -> Self {
        let (mut usual, mut slow_left_out, mut other_kinds) = (Usual::default(), 0, 0);
        for slice in slices {
            usual.join(&slice.usual);
            slow_left_out += slice.slow_left_out;
            other_kinds += slice.other_kinds;
        }
        usual.latency_ns = population.latency.quantile_ns(0.5);
        usual.shares = population.usual();
        let slow_ns = population.latency.from_quantile_ns(slow_from);
        // Those that were slow by what was known then, and are by what is known now.
        let all_slow = slices.iter().flat_map(|slice| slice.slow.values());
        let mut slow: Vec<&Slow> = all_slow.filter(|slow| slow.brief.latency_ns >= slow_ns).collect();
        slow.sort_by_key(|slow| std::cmp::Reverse((slow.brief.latency_ns, slow.brief.begin_ns)));
        let kinds = of_kinds(slices, kinds, &slow, &usual);
        let (from_ns, to_ns) = (slices.front().map_or(0, |slice| slice.from_ns), slices.back().map_or(0, |slice| slice.to_ns));
        let on_ns = slices.iter().map(|slice| slice.on_ns).sum();
        Self { from_ns, to_ns, on_ns, population, slow_from, slow_ns, slow, slow_left_out, usual, kinds, other_kinds }
    }

    /// What the extra time of the slow ones went to; none with fewer than two of them.
    pub fn blame(&self) -> Option<Blame> {
        let mut briefs: Vec<_> = self.slow.iter().map(|slow| &slow.brief).collect();
        // Those that follow each other in time share what they suffered from.
        briefs.sort_by_key(|brief| brief.begin_ns);
        blame(&briefs, &self.usual)
    }
}

fn of_kinds<'l>(slices: &VecDeque<Slice>, kinds: &'l LiveKinds, slow: &[&Slow], usual: &Usual) -> Vec<KindView<'l>> {
    let mut all: FxHashMap<u32, (KindView<'l>, Shares)> = FxHashMap::default();
    let none = |kind| KindView { name: kinds.name(kind), latency: Distribution::coarse(), slow: 0, beyond_ns: 0, mostly: None };
    for (kind, latency) in slices.iter().flat_map(|slice| &slice.kinds) {
        all.entry(*kind).or_insert_with(|| (none(*kind), Shares::default())).0.latency.join(latency);
    }
    for slow in slow {
        let Some((view, beyond)) = all.get_mut(&slow.kind) else { continue };
        view.slow += 1;
        view.beyond_ns += slow.brief.latency_ns.saturating_sub(usual.latency_ns);
        for cause in Cause::ALL {
            beyond.add(cause, slow.brief.shares.of(cause).saturating_sub(usual.shares.of(cause)));
        }
    }
    let view = |(view, beyond): (KindView<'l>, Shares)| {
        let mostly = Cause::ALL.into_iter().rev().max_by_key(|cause| beyond.of(*cause)).filter(|_| view.slow > 0);
        KindView { mostly, ..view }
    };
    let mut views: Vec<KindView<'l>> = all.into_values().map(view).collect();
    views.sort_by(|a, b| (b.beyond_ns, b.latency.len(), a.name).cmp(&(a.beyond_ns, a.latency.len(), b.name)));
    views
}
