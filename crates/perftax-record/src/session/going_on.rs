//! The governor has said how to go on: it is done.

use std::collections::BTreeSet;

use perftax_cost::governor::{Decision, Tariff};
use perftax_pmu::Result;
use perftax_pmu::process::{has_ended, running_threads};
use perftax_pmu::record::Header;
use perftax_pmu::sys::{monotonic_ns, process_tree};

use super::{FIRST_LOOK, SHORTEST_MACHINE_LOOK_NS, Session, everybody, open, samplings, weigh};
use crate::known::known;
use crate::place::Place;
use crate::rates::Rates;
use crate::whom::Whom;

impl Session<'_> {
    /// Has other periods to choose from: the new events are on before the old ones are gone.
    pub(super) fn change(&mut self, tariff: Tariff) -> Result<()> {
        self.samplings = samplings(&self.recording, self.place, &tariff, self.payload, false);
        self.governor.change(tariff);
        let Some(before) = self.rates.take() else { return Ok(()) };
        // Two sets of rings may be more than this user may lock: then what the program does in between is missed.
        if let Some(rates) = self.opened_at(0)? {
            // What the old ones hold is of those that are known by now.
            self.close(before)?;
            self.take_up(rates);
            return Ok(());
        }
        self.close(before)?;
        if !self.open_again(0)? {
            self.governor.rest();
        }
        Ok(())
    }

    /// Whether the events are to go over to CPUs: threads and context switches take what samples should have.
    pub(super) fn goes_over(&self) -> bool {
        self.place == Place::Threads && self.recording.on_cpus.is_some() && self.governor.is_crowded_out()
    }

    /// Has the events on CPUs from now on.
    pub(super) fn go_over(&mut self) -> Result<()> {
        let events = self.governor.events();
        let on_cpus = self.recording.on_cpus.take();
        let Some((tariff, pricing)) = on_cpus.and_then(|pricing| Some((pricing.for_events(events, 0.0)?, pricing))) else {
            return self.go_on(self.governor.decision());
        };
        self.recording.pricing = pricing;
        if let Some(before) = self.rates.take() {
            // Whose records are in its rings is known only while nothing is chosen.
            self.close(before)?;
        }
        self.place = Place::Cpus;
        self.went_over_s = Some(self.governor.ledger().elapsed_ns as f64 * 1e-9);
        self.rested_ns = self.clock_ns;
        self.governor.forget_besides();
        self.samplings = samplings(&self.recording, self.place, &tariff, self.payload, false);
        self.governor.change(tariff);
        if !self.open_again(0)? {
            self.governor.rest();
        }
        Ok(())
    }

    /// Switches off what is sampled no more, and takes what is left of it.
    pub(super) fn close(&mut self, mut rates: Rates) -> Result<()> {
        rates.off()?;
        let sink = &mut self.sink;
        rates.drain(&mut |header: Header, body: &[u8]| sink.take(header, body))?;
        // What they counted since they were last read.
        for rate in 0..rates.count() {
            let progress = rates.read(rate)?;
            self.lost += progress.lost;
            // Of others a clock beside tells.
            if self.recording.whom.is_program() && self.place == Place::Threads {
                self.owed_program_ns += progress.running_ns;
                self.counted += if self.governor.tariff().is_clock { progress.running_ns } else { progress.counted };
            }
        }
        self.finish_round();
        Ok(())
    }

    pub(super) fn go_on(&mut self, decision: Decision) -> Result<()> {
        match (decision, &mut self.rates) {
            (Decision::Sample(rate), Some(rates)) => rates.turn(rate),
            (Decision::Rest, Some(_)) => {
                self.owed_switches = self.switched(monotonic_ns());
                if let Some(rates) = self.rates.take() {
                    self.close(rates)?;
                }
                self.rested_ns = self.clock_ns;
                Ok(())
            }
            (Decision::Sample(rate), None) => {
                if !self.open_again(rate)? {
                    self.governor.rest();
                    return Ok(());
                }
                // Nobody paid for those while nothing was open, nor knows how many come from here on.
                let now_ns = monotonic_ns();
                self.switched(now_ns);
                self.machine_look_due_ns = now_ns + SHORTEST_MACHINE_LOOK_NS;
                Ok(())
            }
            (Decision::Rest, None) => Ok(()),
        }
    }

    /// The program's processes: those that descend from it, and those that did when they were told of and still run.
    fn processes(&self) -> BTreeSet<u32> {
        match self.recording.whom {
            Whom::Program => {
                let known: BTreeSet<u32> = self.sink.alive.iter().map(|task| task.pid).collect();
                process_tree(self.pid).into_iter().chain(known.into_iter().filter(|pid| !has_ended(*pid))).collect()
            }
            Whom::Thread(_) => [self.pid].into(),
            Whom::Cpus | Whom::Group(_) => BTreeSet::new(),
        }
    }

    /// Nothing was told for a while, or never yet: who there is, and what each has mapped.
    pub(super) fn learn_anew(&mut self) {
        let processes = match self.recording.whom {
            Whom::Program | Whom::Thread(_) => self.processes(),
            Whom::Cpus | Whom::Group(_) => everybody().collect(),
        };
        self.sink.forget(self.chooses().then_some(&processes));
        for pid in processes {
            self.sink.know(&known(&self.encoder, pid));
        }
    }

    /// Opens the events again after a rest: on all that the program consists of by now.
    pub(super) fn open_again(&mut self, rate: usize) -> Result<bool> {
        // It may have ended, or its threads come and go too fast.
        let Some(rates) = self.opened_at(rate)? else { return Ok(false) };
        self.take_up(rates);
        Ok(true)
    }

    /// Opens the events, with this rate on; none where they cannot be opened.
    fn opened_at(&mut self, rate: usize) -> Result<Option<Rates>> {
        self.samplings.iter_mut().for_each(|sampling| sampling.enable_on_exec = false);
        let threads = || self.processes().iter().flat_map(|pid| running_threads(*pid)).collect::<Vec<_>>();
        let Ok(mut rates) = open(&self.recording, self.place, &self.samplings, &threads) else {
            // Of those that are no descendants a number may be a stranger's by now, who may not be watched.
            let descendants = process_tree(self.pid);
            self.sink.alive.retain(|task| descendants.contains(&task.pid));
            return Ok(None);
        };
        weigh(&mut self.sink, &rates, &self.samplings)?;
        rates.turn(rate)?;
        Ok(Some(rates))
    }

    /// Goes on with events that were opened again, and are on.
    fn take_up(&mut self, mut rates: Rates) {
        // From here on the kernel tells what changes.
        self.learn_anew();
        let took_ns = rates.took_ns();
        let now_ns = monotonic_ns();
        self.machine_look_due_ns = now_ns + SHORTEST_MACHINE_LOOK_NS;
        // As full as rings were before says nothing.
        (self.drained_ns, self.longest_look) = (now_ns, FIRST_LOOK);
        self.owed_ns += took_ns;
        self.governor.reopened(took_ns as f64);
        self.rates = Some(rates);
    }
}
