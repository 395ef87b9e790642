//! The document of what was watched.

use std::collections::BTreeMap;

use crate::{Bytes, advice};
use perftax_doc::{Comm, CommCost, CommEvidence, CommLine, CommPair, CommPlace, CommSite, CommThread, CommWay, Origin};
use perftax_doc::{Estimate, Warning};

use super::Images;
use super::accounts::{Accounts, Kept, LineSeen};
use super::estimate::Estimator;
use super::heap::{Heaps, named};
use super::session::Watched;
use crate::document::name_of;

/// Says what addresses of a process are called.
pub trait Naming {
    /// What lies at an address: `symbol+0x8 [program]`, `heap`, …
    fn data(&mut self, images: &Images, pid: u32, address: u64) -> String;

    /// The function of an instruction, and its source line where that is known.
    fn code(&mut self, images: &Images, pid: u32, ip: u64) -> (String, Option<String>);
}

/// Sites of a line that are shown.
const MAX_SITES: usize = 64;
/// CPUs busy with traps while registers are on, above which that is said.
const SLOWED: f64 = 0.05;

impl Watched {
    /// The document.
    pub fn document(&self, mut origin: Origin, program: Vec<String>, price: Price, naming: &mut dyn Naming) -> Comm {
        origin.warnings.extend(self.warnings());
        origin.warnings.extend(self.slowed(price));
        origin.warnings.extend(self.heaps.iter().flat_map(|heaps| warnings_of_heap(heaps, self.is_joined)));
        let accounts = &self.accounts;
        let estimator = Estimator::new(accounts, self.elapsed_ns, self.plan.turns.len(), self.is_exact);
        let places = self.places.iter().map(|p| CommPlace { address: p.address, bytes: p.bytes, name: p.name.clone() });
        if !estimator.is_resampled() && !accounts.transfers.is_empty() {
            origin.warnings.push(other(
                "places were on too few times to say how slices differ: intervals are those of what comes by chance".into(),
                "a longer run, fewer places, or a larger --budget",
            ));
        }
        Comm {
            origin,
            program,
            way: CommWay::Watched { places: places.collect(), watchpoints: self.registers as u32 },
            elapsed_s: self.elapsed_ns as f64 * 1e-9,
            threads: threads(accounts),
            total: estimator.share(&accounts.transfers),
            pairs: pairs(accounts, &estimator, |kept| kept.threads),
            core_pairs: pairs(accounts, &estimator, |kept| kept.cores).into_iter().filter(|pair| pair.from != pair.to).collect(),
            lines: self.lines(&estimator, naming),
            evidence: with_heap(self.evidence, self.heaps.as_ref()),
            cost: Some(with_probes(self.cost(price), self.heaps.as_ref())),
        }
    }

    fn lines(&self, estimator: &Estimator, naming: &mut dyn Naming) -> Vec<CommLine> {
        let mut by_line: BTreeMap<_, Vec<(&Kept, &u64)>> = BTreeMap::new();
        for (kept, count) in &self.accounts.transfers {
            by_line.entry(kept.line).or_default().push((kept, count));
        }
        let mut lines: Vec<CommLine> = Vec::new();
        for (line, seen) in &self.accounts.lines {
            let transfers = by_line.remove(line).unwrap_or_default();
            let share = estimator.share(transfers.iter().copied());
            let mut between: BTreeMap<(u32, u32), Vec<(&Kept, &u64)>> = BTreeMap::new();
            transfers.iter().for_each(|one| between.entry(one.0.threads).or_default().push(*one));
            let mut pairs: Vec<(u32, u32, f64)> =
                between.into_iter().map(|((from, to), of_pair)| (from, to, estimator.share(of_pair).total.estimate)).collect();
            pairs.sort_by(|a, b| b.2.total_cmp(&a.2).then((a.0, a.1).cmp(&(b.0, b.1))));
            let pid = seen.processes.first().copied().unwrap_or(self.pid);
            let objects = self.heaps.as_ref().map(|heaps| heaps.objects(pid, line.address())).unwrap_or_default();
            let objects = named(&objects, |ip| naming.code(&self.images, pid, ip));
            let name = name_of(&objects);
            lines.push(CommLine {
                address: line.address(),
                name: name.unwrap_or_else(|| naming.data(&self.images, pid, self.first_watched(line.address()))),
                allocated_at: objects.first().map(|object| object.allocated_at.clone()).unwrap_or_default(),
                objects,
                advice: advice(share.true_sharing.estimate, share.false_sharing.estimate, &seen.touched),
                share,
                pairs,
                sites: sites(seen, pid, &self.images, naming),
                rest: None,
            });
        }
        lines.sort_by(|a, b| b.share.total.estimate.total_cmp(&a.share.total.estimate).then(a.address.cmp(&b.address)));
        lines
    }

    /// The first byte of a line that was watched.
    fn first_watched(&self, line: u64) -> u64 {
        let piece = self.plan.pieces.iter().find(|piece| piece.line().address() == line);
        piece.map_or(line, |piece| piece.address)
    }

    fn cost(&self, price: Price) -> CommCost {
        let on_ns: u64 = self.accounts.slices.iter().map(|slice| slice.to_ns - slice.from_ns).sum();
        price.cost(self.evidence.traps, self.own_ns, self.cpu_ns, on_ns, self.elapsed_ns)
    }

    /// Where what is seen in slices is that of a program that traps slow down, and so stands for too little of what it does without.
    fn slowed(&self, price: Price) -> Option<Warning> {
        let on_ns: u64 = self.accounts.slices.iter().map(|slice| slice.to_ns - slice.from_ns).sum();
        let in_traps = self.evidence.traps as f64 * price.trap_ns?.estimate / on_ns.max(1) as f64;
        (!self.is_exact && in_traps > SLOWED).then(|| {
            other(
                format!(
                    "while registers were on, {in_traps:.2} CPUs were busy with traps: transfers are those of a program that is slowed down so, \
                     and at its own speed there are more"
                ),
                "compare lines and pairs with each other; watched all the time (no --budget, four places) a program that does a fixed amount \
                 of work has all of its transfers counted",
            )
        })
    }

    /// What weakens the result.
    fn warnings(&self) -> Vec<Warning> {
        let mut all = Vec::new();
        let evidence = &self.evidence;
        let mut warn = |message: String, remedy: &str| all.push(other(message, remedy));
        if evidence.lost_traps > 0 {
            warn(
                format!("{} traps were lost: the transfers around them are missing", evidence.lost_traps),
                "-m with a larger power of two, or --budget",
            );
        }
        if evidence.throttled > 0 {
            warn(
                format!("the kernel throttled {} times: accesses meanwhile are missing", evidence.throttled),
                "sysctl kernel.perf_event_max_sample_rate=1000000, or --budget",
            );
        }
        if evidence.unwatched_threads > 0 {
            let message = format!("{} threads were created while perftax came, and are not watched", evidence.unwatched_threads);
            warn(message, "start the program under perftax, or attach again");
        }
        if evidence.undecoded > 0 {
            let message = format!(
                "of {} of {} traps it is not known which instruction it was: they count as reads",
                evidence.undecoded, evidence.traps
            );
            warn(message, "a program with its symbols (no strip)");
        }
        if self.late > 0 {
            let message = format!("{} records came late, and count as of when they came", self.late);
            warn(message, "fewer other programs on this machine, or a real-time priority for perftax (chrt -f 1)");
        }
        if !self.accounts.left.is_empty() {
            let message =
                format!("{} processes executed another program, and were not watched from then on", self.accounts.left.len());
            warn(message, "watch that program itself");
        }
        let is_split = self.plan.turns.iter().enumerate().any(|(number, turn)| {
            let line = |piece: &usize| self.plan.pieces[*piece].line();
            turn.iter().any(|piece| self.plan.turns[..number].iter().flatten().any(|other| line(other) == line(piece)))
        });
        if is_split {
            warn(
                "a line has more watched bytes than registers: its parts are watched two by two, which finds a transfer also where a third part \
                 has caused it already, so that its transfers are rather too many"
                    .into(),
                "watch fewer bytes of a line: SYMBOL+OFFSET/BYTES",
            );
        }
        if self.absent > 0 {
            warn(
                format!(
                    "places of --lines-from that are not watched: {} (the program had nothing mapped there when watching began)",
                    self.absent
                ),
                if self.is_joined {
                    "take lines from this very process: what it had there is unmapped, or they are another's, or the kernel's"
                } else {
                    "take lines from a process that runs (-p): in another run stacks, libraries and the heap lie elsewhere"
                },
            );
        }
        for unmet in &self.unmet {
            let remedy = "a longer run; a function that allocates (itself, or by what it calls) and is not inlined; a lower #N";
            warn(format!("{unmet} was never there: no such object was allocated"), remedy);
        }
        if self.accounts.slices.is_empty() {
            warn("nothing was watched: the budget was never enough for a slice".into(), "a longer run, or a larger --budget");
        } else if self.accounts.accesses == 0 {
            warn(
                "nobody touched what was watched while it was".into(),
                "another place; a longer run; accesses by the kernel (read(2) into a buffer) are not seen",
            );
        }
        all
    }
}

/// What traps cost, and what they may.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Price {
    /// One, ns.
    pub trap_ns: Option<Estimate>,
    /// The share of the program's CPU time that all may take.
    pub budget: Option<f64>,
}

impl Price {
    /// What so many traps, and our own CPU time, took beside a program's own CPU time; registers were on for `on_ns` of `elapsed_ns`.
    pub(super) fn cost(self, traps: u64, own_ns: u64, cpu_ns: Option<u64>, on_ns: u64, elapsed_ns: u64) -> CommCost {
        let cpu_ns = cpu_ns.unwrap_or(0) as f64;
        let of = |trap_ns: f64| {
            let traps_ns = traps as f64 * trap_ns;
            // Traps are in the program's own CPU time. What it would have used without them cannot be less than nothing.
            (traps_ns < cpu_ns).then(|| (traps_ns + own_ns as f64) / (cpu_ns - traps_ns))
        };
        let overhead = self.trap_ns.and_then(|trap| Some(Estimate::new(of(trap.estimate)?, of(trap.low)?, of(trap.high)?)));
        CommCost {
            trap_ns: self.trap_ns,
            armed: if elapsed_ns > 0 { (on_ns as f64 / elapsed_ns as f64).min(1.0) } else { 0.0 },
            budget: self.budget,
            overhead,
            own_s: Some(own_ns as f64 * 1e-9),
            probes: 0,
        }
    }
}

/// What is known of heaps.
pub(super) fn with_heap(evidence: CommEvidence, heaps: Option<&Heaps>) -> CommEvidence {
    let Some(heaps) = heaps else { return evidence };
    let seen = heaps.evidence();
    CommEvidence { allocations: seen.allocated, lost_allocations: heaps.lost() + seen.lost_returns + seen.lost_calls, ..evidence }
}

/// What probes cost is told by how often they were hit.
pub(super) fn with_probes(cost: CommCost, heaps: Option<&Heaps>) -> CommCost {
    CommCost { probes: heaps.map_or(0, Heaps::hits), ..cost }
}

/// What weakens what is said of heaps.
pub(super) fn warnings_of_heap(heaps: &Heaps, is_joined: bool) -> Vec<Warning> {
    let mut all = Vec::new();
    if heaps.lost() > 0 {
        let message = format!(
            "{} records of the allocator were lost: objects that were allocated before are said with 'perhaps', others may be unknown",
            heaps.lost()
        );
        all.push(other(message, "fewer other programs on this machine, or a real-time priority for perftax (chrt -f 1)"));
    }
    if !heaps.is_whole() {
        let message =
            "this kernel may take probes off threads when others end: objects that they allocate then are not known".into();
        all.push(other(message, "Linux 6.12 or later"));
    }
    if is_joined {
        let message = "objects that were allocated before perftax came are not known".into();
        all.push(other(message, "start the program under perftax: perftax comm --heap … -- COMMAND"));
    }
    all
}

fn other(message: String, remedy: &str) -> Warning {
    Warning::Other { message, remedy: remedy.into() }
}

fn threads(accounts: &Accounts) -> Vec<CommThread> {
    let thread = |(number, seen): (usize, &super::accounts::ThreadSeen)| CommThread {
        number: number as u32,
        process: Some(seen.process),
        tid: Some(seen.tid),
        name: seen.name.clone(),
        core: seen.cores.iter().max_by_key(|(core, times)| (**times, std::cmp::Reverse(**core))).map(|(core, _)| *core),
    };
    accounts.threads.iter().enumerate().map(thread).collect()
}

fn pairs(accounts: &Accounts, estimator: &Estimator, key: impl Fn(&Kept) -> (u32, u32)) -> Vec<CommPair> {
    let mut by_pair: BTreeMap<(u32, u32), Vec<(&Kept, &u64)>> = BTreeMap::new();
    accounts.transfers.iter().for_each(|one| by_pair.entry(key(one.0)).or_default().push(one));
    let mut pairs: Vec<CommPair> =
        by_pair.into_iter().map(|((from, to), of_pair)| CommPair { from, to, share: estimator.share(of_pair) }).collect();
    pairs.sort_by(|a, b| b.share.total.estimate.total_cmp(&a.share.total.estimate).then((a.from, a.to).cmp(&(b.from, b.to))));
    pairs
}

fn sites(seen: &LineSeen, pid: u32, images: &Images, naming: &mut dyn Naming) -> Vec<CommSite> {
    let mut sites: Vec<_> = seen.sites.iter().collect();
    sites.sort_by_key(|(key, (_, times))| (std::cmp::Reverse(*times), **key));
    sites.truncate(MAX_SITES);
    let site = |(key, (threads, times)): (&(u64, bool, Bytes), &(Vec<u32>, u64))| {
        let (ip, is_store, touched) = *key;
        let (offset, bytes) = touched.extent().unwrap_or_default();
        let (function, source) = naming.code(images, pid, ip);
        let mut threads = threads.clone();
        threads.sort_unstable();
        CommSite { ip, function, source, is_store, offset: offset as u32, bytes: bytes as u32, threads, seen: *times }
    };
    sites.into_iter().map(site).collect()
}
