//! A window is over: what it cost.

use std::time::Duration;

use perftax_cost::governor::{Decision, Window};
use perftax_doc::Estimate;
use perftax_pmu::Result;
use perftax_pmu::record::Task;
use perftax_pmu::sys::{monotonic_ns, own_cpu_ns};

use super::{JUMP, LONGEST_MACHINE_LOOK_NS, SHORTEST_MACHINE_LOOK_NS, SPARING, SWITCHES_OF_LOOK, Session};
use crate::place::Place;
use crate::recording::Status;
use crate::whom::Whom;
use crate::work::Work;

/// Build ids that are read in a window at most, some 0.1 ms each.
const BUILD_IDS_A_WINDOW: usize = 8;

impl Session<'_> {
    /// A window is over: what it cost, and how to go on.
    pub(super) fn account(&mut self) -> Result<()> {
        let now_ns = monotonic_ns();
        let passed = self.sink.passed();
        let mut window = Window {
            elapsed_ns: now_ns - std::mem::replace(&mut self.window_ns, now_ns),
            samples: passed.samples,
            created: passed.created,
            executed: passed.executed,
            ..Window::default()
        };
        let beside_ns = self.used_beside(passed.weight);
        let worked = self.work.as_mut().map(Work::since).transpose()?;
        // A program's work is counted on its threads, with the time that those run.
        let by_threads = self.recording.whom.is_program();
        let worked = worked.map(|(pieces, cpu_ns)| (pieces, beside_ns.filter(|_| !by_threads).unwrap_or(cpu_ns)));
        if let Some((_, cpu_ns)) = worked.filter(|_| self.is_paused) {
            (window.is_paused, window.program_ns) = (true, cpu_ns);
        } else if let (Some(rates), Decision::Sample(rate)) = (&mut self.rates, self.governor.decision()) {
            let progress = rates.read(rate)?;
            let took_ns = rates.took_ns() + std::mem::take(&mut self.owed_ns);
            let used_ns = beside_ns.unwrap_or(progress.running_ns);
            window.program_ns = used_ns + std::mem::take(&mut self.owed_program_ns);
            window.turns_ns = turns(took_ns, &window);
            window.samples += progress.lost;
            window.counted = progress.counted;
            self.lost += progress.lost;
            if self.chooses() {
                // Of what the CPUs counted nobody knows whose it was.
                window.counted = passed.weight;
            }
            self.counted += if self.governor.tariff().is_clock { used_ns } else { window.counted };
            window.filtered = self.filtered(rate, window.program_ns, window.samples);
        } else if let Some(used_ns) = beside_ns.or_else(|| self.used_by_clock()) {
            window.program_ns = used_ns;
        }
        window.switches = std::mem::replace(&mut self.owed_switches, Estimate::exact(0.0));
        if self.rates.is_some() && (now_ns >= self.machine_look_due_ns || self.machine.busy.is_none()) {
            window.switches = window.switches.plus_dependent(&self.switched(now_ns));
        }
        self.sink.build_ids.read(BUILD_IDS_A_WINDOW);
        let used_ns = own_cpu_ns();
        self.unjudged_ns += (used_ns - std::mem::replace(&mut self.own_cpu_ns, used_ns)) as f64;
        if let Some(busy) = self.machine.busy {
            // Only who wants a CPU waits for one.
            let wants = (2.0 * window.program_ns as f64 / window.elapsed_ns.max(1) as f64).min(1.0);
            let taken_ns = self.unjudged_ns * wants;
            window.recorder_ns = Estimate::new(taken_ns * busy.about, 0.0, taken_ns * busy.most);
            self.unjudged_ns = 0.0;
        }
        self.passed.weight += passed.weight;
        self.passed.lost += passed.lost;
        self.passed.throttled += passed.throttled;
        let decision = self.governor.end(&window);
        let totals = self.totals();
        self.attendant.look(&Status {
            governor: &self.governor,
            totals,
            failure: self.sink.failure.as_ref(),
            witness: self.witness.as_ref(),
        });
        if self.is_over {
            return Ok(());
        }
        if self.pauses(worked)? {
            return Ok(());
        }
        if self.goes_over() {
            return self.go_over();
        }
        if decision != Decision::Rest
            && self.rates.is_some()
            && let Some((events, besides)) = self.governor.unsuited()
            && let Some(tariff) = self.recording.pricing.for_events(events, besides)
            && tariff.periods != self.governor.tariff().periods
        {
            return self.change(tariff);
        }
        self.go_on(decision)
    }

    /// CPU time since this was last asked of those who are told by other clocks than their events', ns: those of CPUs go on while they idle.
    fn used_beside(&mut self, weight: u64) -> Option<u64> {
        match self.recording.whom {
            Whom::Program if self.place == Place::Threads || self.rates.is_none() => None,
            Whom::Program if self.is_timed_by_samples() => Some(weight),
            Whom::Program => self.used_by_clock(),
            Whom::Cpus => Some(self.machine.worked_ns(&self.recording.cpus)),
            Whom::Group(_) | Whom::Thread(_) => {
                let used_ns = self.recording.whom.used_ns();
                let before_ns = std::mem::replace(&mut self.group_used_ns, used_ns);
                used_ns.zip(before_ns).map(|(now, before)| now.saturating_sub(before))
            }
        }
    }

    /// The same of a program, by its own clock.
    fn used_by_clock(&mut self) -> Option<u64> {
        let clock_ns = self.clock_ns?;
        Some(clock_ns.saturating_sub(self.rested_ns.replace(clock_ns).unwrap_or(clock_ns)))
    }

    /// Whether sampling pauses until the next look, to be judged by the work that is done meanwhile.
    fn pauses(&mut self, worked: Option<(u64, u64)>) -> Result<bool> {
        let (Some((pieces, cpu_ns)), Some(witness)) = (worked, &mut self.witness) else { return Ok(false) };
        let is_on = !self.is_paused && self.rates.is_some();
        let is_next = witness.slice(is_on, cpu_ns, pieces) && self.rates.is_some();
        // Of everybody that would take longer than the pause.
        if self.is_paused && self.recording.whom.is_of_threads() {
            // What it mapped and started meanwhile nobody told; from here on the kernel does.
            if let (Some(rates), Decision::Sample(rate)) = (&mut self.rates, self.governor.decision()) {
                rates.turn(rate)?;
            }
            self.learn_anew();
        }
        self.is_paused = is_next;
        if is_next && let Some(rates) = &mut self.rates {
            rates.off()?;
        }
        Ok(is_next)
    }

    /// Between looks at all the rest, which read counters on the program's CPUs: its context switches, where each has a price.
    pub(super) fn count_in_between(&mut self) {
        if self.until_switches_are_counted().is_some_and(|left| left.is_zero()) {
            let more = self.switched(monotonic_ns());
            self.owed_switches = self.owed_switches.plus_dependent(&more);
        }
    }

    /// How long until they are to be counted again; none where nothing is paid for them.
    pub(super) fn until_switches_are_counted(&self) -> Option<Duration> {
        let is_paid = self.rates.is_some() && self.place == Place::Threads && self.recording.whom.is_of_threads();
        let is_known = self.governor.tariff().switch_ns.is_some() && self.machine.busy.is_some();
        (is_paid && is_known).then(|| Duration::from_nanos(self.machine_look_due_ns.saturating_sub(monotonic_ns())))
    }

    /// Whether switches that are to be entered yet took a good part of what may be saved up.
    pub(super) fn owes_much(&self) -> bool {
        let high_ns = self.governor.tariff().switch_ns.map_or(0.0, |price| price.high * self.owed_switches.high);
        high_ns * 1e-9 > self.governor.burst_s() / 4.0
    }

    /// Context switches of the program since this was last asked.
    pub(super) fn switched(&mut self, now_ns: u64) -> Estimate {
        let elapsed_ns = now_ns.saturating_sub(std::mem::replace(&mut self.machine_look_ns, now_ns));
        let switches = self.count_switches();
        let soon_ns = SWITCHES_OF_LOOK / JUMP * elapsed_ns as f64 / switches.estimate.max(1.0);
        let took_ns = monotonic_ns().saturating_sub(now_ns);
        self.machine_look_due_ns =
            now_ns + (soon_ns as u64).clamp(SHORTEST_MACHINE_LOOK_NS, LONGEST_MACHINE_LOOK_NS).max(SPARING * took_ns);
        switches
    }

    fn count_switches(&mut self) -> Estimate {
        let of_machine = self.machine.look(&self.recording.own_cpus).unwrap_or(0);
        match self.recording.whom {
            Whom::Program if self.place == Place::Threads => {}
            // Events of CPUs stay where they are.
            Whom::Program | Whom::Cpus => return Estimate::exact(0.0),
            Whom::Thread(tid) => {
                let thread = [Task { pid: self.pid, tid }].into_iter().collect();
                self.sink.came_and_went = 0;
                return self.switches.look(&thread, 0, of_machine);
            }
            Whom::Group(_) => return Estimate::new(of_machine as f64 / 2.0, 0.0, of_machine as f64),
        }
        self.switches.look(&self.sink.alive, std::mem::take(&mut self.sink.came_and_went), of_machine)
    }

    /// Interrupts whose samples the event's filter dropped: of a clock, as many as periods were over and gave none.
    fn filtered(&mut self, rate: usize, running_ns: u64, samples: u64) -> u64 {
        let tariff = self.governor.tariff();
        if !tariff.is_clock || tariff.filtered_ns.is_none() {
            return 0;
        }
        self.periods_over += running_ns as f64 / tariff.periods[rate] as f64 - samples as f64;
        let dropped = self.periods_over.max(0.0).floor();
        self.periods_over -= dropped;
        dropped as u64
    }
}

/// What switching and reading took the program, which took us so long: its CPUs answer while we wait for them, where it runs.
fn turns(took_ns: u64, window: &Window) -> Estimate {
    let runs = window.program_ns as f64 / window.elapsed_ns.max(1) as f64;
    let took_ns = took_ns as f64;
    Estimate::new(took_ns / 2.0 * runs.min(1.0), 0.0, took_ns * (2.0 * runs).min(1.0))
}
