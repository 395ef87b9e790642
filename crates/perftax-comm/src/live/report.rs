//! The document of what was watched.

use std::collections::BTreeMap;

use crate::document::{self, UnnamedLine, core_of, site};
use perftax_doc::Warning;
use perftax_doc::steps::Setting;
use perftax_doc::{Comm, CommLine, CommPair, CommPlace, CommSite, CommThread, CommWay, Origin};

use super::accounts::{Accounts, Kept, LineSeen, SiteKey};
use super::ending::Ending;
use super::estimate::Estimator;
use super::names::ProcessNames;
use super::place::Place;
use super::plan::Plan;
use super::warnings::{throttled, unwatched, warning};

/// CPUs busy with traps while registers are on, above which that is said.
const SLOWED: f64 = 0.05;

/// What was seen.
pub struct Watched {
    /// What was watched.
    pub places: Vec<Place>,
    /// Places of a file where the program had nothing mapped when watching began.
    pub absent: usize,
    /// What was to be watched, and did not come: objects of the heap.
    pub unmet: Vec<String>,
    /// Its turns.
    pub plan: Plan,
    /// Registers that were used of each thread.
    pub registers: usize,
    /// Threads, lines, transfers, slices.
    pub accounts: Accounts,
    /// Everything was watched all the time.
    pub is_exact: bool,
    /// How it ended, and what came.
    pub ending: Ending,
}

impl Watched {
    /// The document.
    pub fn document(&self, mut origin: Origin, program: Vec<String>) -> Comm {
        origin.warnings.extend(self.warnings());
        origin.warnings.extend(self.slowed());
        origin.warnings.extend(self.ending.warnings_of_heaps());
        let (accounts, ending) = (&self.accounts, &self.ending);
        let estimator = Estimator::new(accounts, ending.elapsed_ns, self.plan.turns.len(), self.is_exact);
        let places = self.places.iter().map(|p| CommPlace { address: p.address, bytes: p.bytes, name: p.name.clone() });
        if !estimator.is_resampled() && !accounts.transfers.is_empty() {
            origin.warnings.push(warning(
                "places were on too few times to say how slices differ: intervals are those of what comes by chance".into(),
                format!("a longer run, fewer places, or a larger {}", Setting::Budget),
            ));
        }
        Comm {
            origin,
            program,
            way: CommWay::Watched { places: places.collect(), watchpoints: self.registers as u32 },
            elapsed_s: ending.elapsed_ns as f64 * 1e-9,
            threads: threads(accounts),
            total: estimator.share(&accounts.transfers),
            pairs: pairs(accounts, &estimator, |kept| kept.threads),
            core_pairs: pairs(accounts, &estimator, |kept| kept.cores).into_iter().filter(|pair| pair.from != pair.to).collect(),
            lines: self.lines(&estimator),
            evidence: ending.with_heaps(ending.records),
            cost: Some(ending.cost(self.on_ns())),
        }
    }

    fn lines(&self, estimator: &Estimator) -> Vec<CommLine> {
        let mut names = ProcessNames::new(&self.ending.images, self.ending.heaps.as_ref(), &self.places);
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
            let pairs =
                between.into_iter().map(|((from, to), of_pair)| (from, to, estimator.share(of_pair).total.estimate)).collect();
            let pid = seen.processes.first().copied().unwrap_or(self.ending.pid);
            let unnamed = UnnamedLine {
                line: *line,
                from: self.first_watched(line.address()),
                share,
                pairs,
                touched: seen.touched.clone(),
                sites: sites(seen),
                rest: None,
            };
            lines.push(unnamed.named(&mut names.in_process(pid)));
        }
        lines.sort_by(|a, b| b.share.total.estimate.total_cmp(&a.share.total.estimate).then(a.address.cmp(&b.address)));
        lines
    }

    /// The first byte of a line that was watched.
    fn first_watched(&self, line: u64) -> u64 {
        let piece = self.plan.pieces.iter().find(|piece| piece.line().address() == line);
        piece.map_or(line, |piece| piece.address)
    }

    /// Time for which registers were on, ns.
    fn on_ns(&self) -> u64 {
        self.accounts.slices.iter().map(|slice| slice.to_ns - slice.from_ns).sum()
    }

    /// Where what is seen in slices is that of a program that traps slow down, and so stands for too little of what it does without.
    fn slowed(&self) -> Option<Warning> {
        let Ending { records, price, .. } = &self.ending;
        let in_traps = records.traps as f64 * price.trap_ns?.estimate / self.on_ns().max(1) as f64;
        (!self.is_exact && in_traps > SLOWED).then(|| {
            warning(
                format!(
                    "while registers were on, {in_traps:.2} CPUs were busy with traps: transfers are those of a program that is slowed down so, \
                     and at its own speed there are more"
                ),
                format!(
                    "compare lines and pairs with each other; watched all the time (no {}, four places) a program that does a fixed amount \
                     of work has all of its transfers counted",
                    Setting::Budget
                ),
            )
        })
    }

    /// What weakens the result.
    fn warnings(&self) -> Vec<Warning> {
        let mut all = Vec::new();
        let Ending { records: evidence, late, is_joined, .. } = &self.ending;
        if evidence.lost_traps > 0 {
            all.push(warning(
                format!("{} traps were lost: the transfers around them are missing", evidence.lost_traps),
                format!("{} with a larger power of two, or {}", Setting::RingPages, Setting::Budget),
            ));
        }
        all.extend(throttled(evidence.throttled, Setting::Budget.name()));
        all.extend(unwatched(evidence.unwatched_threads));
        if evidence.undecoded > 0 {
            let message = format!(
                "of {} of {} traps it is not known which instruction it was: they count as reads",
                evidence.undecoded, evidence.traps
            );
            all.push(warning(message, "a program with its symbols (no strip)"));
        }
        if *late > 0 {
            let message = format!("{late} records came late, and count as of when they came");
            all.push(warning(message, "fewer other programs on this machine, or a real-time priority for perftax (chrt -f 1)"));
        }
        if !self.accounts.left.is_empty() {
            let message =
                format!("{} processes executed another program, and were not watched from then on", self.accounts.left.len());
            all.push(warning(message, "watch that program itself"));
        }
        let is_split = self.plan.turns.iter().enumerate().any(|(number, turn)| {
            let line = |piece: &usize| self.plan.pieces[*piece].line();
            turn.iter().any(|piece| self.plan.turns[..number].iter().flatten().any(|other| line(other) == line(piece)))
        });
        if is_split {
            all.push(warning(
                "a line has more watched bytes than registers: its parts are watched two by two, which finds a transfer also where a third part \
                 has caused it already, so that its transfers are rather too many"
                    .into(),
                "watch fewer bytes of a line: SYMBOL+OFFSET/BYTES",
            ));
        }
        if self.absent > 0 {
            all.push(warning(
                format!(
                    "places of {} that are not watched: {} (the program had nothing mapped there when watching began)",
                    Setting::LinesFrom,
                    self.absent
                ),
                if *is_joined {
                    "take lines from this very process: what it had there is unmapped, or they are another's, or the kernel's"
                        .to_string()
                } else {
                    format!(
                        "take lines from a process that runs ({}): in another run stacks, libraries and the heap lie elsewhere",
                        Setting::Process
                    )
                },
            ));
        }
        for unmet in &self.unmet {
            let remedy = "a longer run; a function that allocates (itself, or by what it calls) and is not inlined; a lower #N";
            all.push(warning(format!("{unmet} was never there: no such object was allocated"), remedy));
        }
        if self.accounts.slices.is_empty() {
            all.push(warning(
                "nothing was watched: the budget was never enough for a slice".into(),
                format!("a longer run, or a larger {}", Setting::Budget),
            ));
        } else if self.accounts.accesses == 0 {
            all.push(warning(
                "nobody touched what was watched while it was".into(),
                "another place; a longer run; accesses by the kernel (read(2) into a buffer) are not seen",
            ));
        }
        all
    }
}

fn threads(accounts: &Accounts) -> Vec<CommThread> {
    let thread = |(number, seen): (usize, &super::accounts::ThreadSeen)| CommThread {
        number: number as u32,
        process: Some(seen.process),
        tid: Some(seen.tid),
        name: seen.name.clone(),
        core: core_of(&seen.cores),
    };
    accounts.threads.iter().enumerate().map(thread).collect()
}

fn pairs(accounts: &Accounts, estimator: &Estimator, key: impl Fn(&Kept) -> (u32, u32)) -> Vec<CommPair> {
    let mut by_pair: BTreeMap<(u32, u32), Vec<(&Kept, &u64)>> = BTreeMap::new();
    accounts.transfers.iter().for_each(|one| by_pair.entry(key(one.0)).or_default().push(one));
    document::pairs(by_pair.into_iter().map(|(pair, of_pair)| (pair, estimator.share(of_pair))))
}

/// Instructions without their names, those seen most often first.
fn sites(seen: &LineSeen) -> Vec<CommSite> {
    let mut sites: Vec<_> = seen.sites.iter().collect();
    sites.sort_by_key(|(key, (_, times))| (std::cmp::Reverse(*times), **key));
    let unnamed = |((ip, is_store, touched), (threads, times)): (&SiteKey, &(Vec<u32>, u64))| {
        site(*ip, *is_store, *touched, threads.clone(), *times)
    };
    sites.into_iter().map(unnamed).collect()
}
