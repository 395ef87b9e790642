//! Looks, windows, and the governor's word on how to go on.

mod accounting;
mod going_on;

use std::collections::BTreeSet;
use std::time::Duration;

use perftax_cost::governor::{Decision, Governor, Tariff, Witness};
use perftax_doc::steps::Setting;
use perftax_doc::{Estimate, Mechanism};
use perftax_perfdata::writing::{EventDescription, Features, Writer};
use perftax_pmu::event::Event;
use perftax_pmu::guard::take_interrupt_as_end;
use perftax_pmu::process::has_ended;
use perftax_pmu::record::{Encoder, Header};
use perftax_pmu::sampler::{Payload, Sampling, Wakeup, attribute_bytes};
use perftax_pmu::sys::{EndWait, Exit, monotonic_ns, own_cpu_ns};
use perftax_pmu::{Error, Result};
use perftax_target::{Program, Watch, on_all_threads};

use crate::kernel_code::kernel_code;
use crate::known::known;
use crate::machine::{Busy, MachineLook};
use crate::place::Place;
use crate::rates::Rates;
use crate::recording::{Attendant, Outcome, Recording, Totals, unwritable};
use crate::sink::{Passed, Sink};
use crate::switches::Switches;
use crate::whom::Whom;
use crate::work::Work;

/// From one look at how often the program switches, and at the whole machine, to the next, ns: at most, and at least, as once events were opened and nobody knows.
const LONGEST_MACHINE_LOOK_NS: u64 = 500_000_000;
const SHORTEST_MACHINE_LOOK_NS: u64 = 10_000_000;
/// So many switches pass until then where they come ten times as often as of late.
const SWITCHES_OF_LOOK: f64 = 100.0;
const JUMP: f64 = 10.0;
/// A look takes at most one part in so many of the time.
const SPARING: u64 = 50;
/// From one look at the rings to the next.
const SHORTEST_LOOK: Duration = Duration::from_millis(1);
const LONGEST_LOOK: Duration = Duration::from_secs(1);
/// The first, when nobody knows how much comes.
const FIRST_LOOK: Duration = Duration::from_millis(20);
/// What is shorter is no window yet, ns.
const SHORTEST_WINDOW_NS: u64 = 2_000_000;

/// A recording that runs.
pub struct Session<'a> {
    attendant: &'a mut dyn Attendant,
    /// What each file says behind its records, but for what is only known then.
    features: Features,
    event: EventDescription,
    recording: Recording,
    place: Place,
    /// When the events went over from threads to CPUs, since the beginning.
    went_over_s: Option<f64>,
    payload: Payload,
    samplings: Vec<Sampling>,
    encoder: Encoder,
    pid: u32,
    end_wait: EndWait,
    /// None while sampling rests.
    rates: Option<Rates>,
    sink: Sink,
    governor: Governor,
    machine: MachineLook,
    switches: Switches,
    machine_look_ns: u64,
    /// When the next one is due.
    machine_look_due_ns: u64,
    window_ns: u64,
    own_cpu_ns: u64,
    /// Our own CPU time of which nobody knows yet whether the program waited for it.
    unjudged_ns: f64,
    /// What opening events again took, and what was switched until they were closed: to be entered yet, ns.
    owed_ns: u64,
    owed_switches: Estimate,
    /// CPU time of the program that is to be entered yet, ns.
    owed_program_ns: u64,
    began_own_cpu_ns: u64,
    /// What the program's own clock said last while sampling rested, ns.
    rested_ns: Option<u64>,
    /// While sampling rests: what it was asked for last.
    clock_ns: Option<u64>,
    passed: Passed,
    lost: u64,
    counted: u64,
    /// Periods that were over by now, and samples that came of them: the rest was dropped.
    periods_over: f64,
    /// How long rings have room for, as full as they were.
    longest_look: Duration,
    /// When they were last emptied.
    drained_ns: u64,
    /// Pieces of work, where they are counted, and whether sampling pauses to be judged by them.
    work: Option<Work>,
    witness: Option<Witness>,
    is_paused: bool,
    /// What a control group had used by the last look, ns.
    group_used_ns: Option<u64>,
    /// Bytes of files that are complete.
    written_bytes: u64,
    is_over: bool,
    /// What ended it before its time.
    broken: Option<Error>,
    knows_kernel: bool,
    /// Records of where the kernel's code lies, once it was asked for.
    kernel_code: Vec<u8>,
}

impl<'a> Session<'a> {
    /// Opens everything, with nothing on.
    pub fn open(recording: &Recording, program: &Program, features: Features, attendant: &'a mut dyn Attendant) -> Result<Self> {
        let payload = recording.payload.with_cpu();
        let place = recording.place;
        let written = sampling(recording, place, 1, recording.callers.written(payload).with_period(), false);
        let payload = if tells_its_period(recording.event.mechanism) { payload.with_period() } else { payload.with_place() };
        let payload = recording.callers.carried(payload);
        let tariff = recording.pricing.tariff().ok_or_else(|| no_period(recording))?;
        let samplings = samplings(recording, place, &tariff, payload, program.is_ours());
        let pid = program.pid();
        let rates = open(recording, place, &samplings, &|| program.threads())?;
        let work = recording.work.as_ref().map(|event| open_work(recording, event, program)).transpose()?;
        // Of other events nobody knows before how many there are in a second.
        let frequency = if tariff.is_clock { (1_000_000_000 / tariff.periods[0]).max(1) } else { 1 };
        let event = EventDescription {
            name: recording.event.name.clone(),
            attribute: attribute_bytes(&recording.event, &written, Some(frequency)),
            ids: Vec::new(),
        };
        let layout = *rates.layout();
        let encoder = Encoder::new(&written.payload.layout());
        let writer = Writer::create(attendant.open()?, std::slice::from_ref(&event), &features).map_err(unwritable)?;
        let mut sink = Sink::new(writer, &layout);
        weigh(&mut sink, &rates, &samplings)?;
        let own_cpu_ns = own_cpu_ns();
        Ok(Self {
            attendant,
            features,
            event,
            governor: Governor::new(tariff, recording.pricing.budget, recording.cpus.len()),
            recording: recording.clone(),
            place,
            went_over_s: None,
            payload,
            samplings,
            encoder,
            pid,
            end_wait: EndWait::new(pid),
            rates: Some(rates),
            sink,
            machine: MachineLook::default(),
            switches: Switches::default(),
            machine_look_ns: 0,
            machine_look_due_ns: 0,
            window_ns: monotonic_ns(),
            own_cpu_ns,
            unjudged_ns: 0.0,
            owed_ns: 0,
            owed_switches: Estimate::exact(0.0),
            owed_program_ns: 0,
            began_own_cpu_ns: own_cpu_ns,
            rested_ns: Some(0),
            clock_ns: None,
            passed: Passed::default(),
            lost: 0,
            counted: 0,
            periods_over: 0.0,
            longest_look: FIRST_LOOK,
            drained_ns: monotonic_ns(),
            group_used_ns: None,
            witness: work.is_some().then(|| Witness::new(monotonic_ns())),
            work,
            is_paused: false,
            written_bytes: 0,
            is_over: false,
            broken: None,
            knows_kernel: recording.event.modifiers.exclude_kernel,
            kernel_code: Vec::new(),
        })
    }

    /// Begins, but for what begins with the exec of a program of ours.
    pub fn begin(&mut self) -> Result<()> {
        if let (Some(rates), Decision::Sample(rate)) = (&mut self.rates, self.governor.decision()) {
            rates.turn(rate)?;
        }
        // From here on the kernel tells what changes.
        self.learn_anew();
        let now_ns = monotonic_ns();
        (self.window_ns, self.machine_look_ns) = (now_ns, now_ns);
        self.machine_look_due_ns = now_ns + SHORTEST_MACHINE_LOOK_NS;
        self.machine.look(&self.recording.own_cpus);
        self.machine.worked_ns(&self.recording.cpus);
        self.group_used_ns = self.recording.whom.used_ns();
        self.own_cpu_ns = own_cpu_ns();
        Ok(())
    }

    /// Takes what the rings hold.
    fn drain(&mut self) -> Result<()> {
        let Some(rates) = &mut self.rates else { return Ok(()) };
        if !self.knows_kernel {
            // A hundred thousand lines are read for it, so not before the program runs.
            self.knows_kernel = true;
            self.kernel_code = kernel_code(&self.encoder);
            self.sink.know(&self.kernel_code);
        }
        let sink = &mut self.sink;
        let used = rates.drain(&mut |header: Header, body: &[u8]| sink.take(header, body))?;
        let now_ns = monotonic_ns();
        let since = Duration::from_nanos(now_ns - std::mem::replace(&mut self.drained_ns, now_ns));
        let fastest = self.fastest_fill();
        self.longest_look = longest_look(since, self.longest_look, used, fastest);
        self.finish_round();
        Ok(())
    }

    /// Writes what came in a look at all rings.
    fn finish_round(&mut self) {
        let attendant = &mut self.attendant;
        self.sink.finish_round(&mut || attendant.make_room());
    }

    /// Goes on in another file, where it is time; the one before is complete. Where no other can be made it goes on in this one.
    fn switch(&mut self) -> Result<()> {
        let (bytes, age) = self.sink.extent();
        if !self.attendant.is_full(bytes, age) {
            return Ok(());
        }
        let Ok(to) = self.attendant.open() else { return Ok(()) };
        let Ok(next) = Writer::create(to, std::slice::from_ref(&self.event), &self.features) else {
            self.attendant.abandon();
            return Ok(());
        };
        let features = self.features();
        let (file, written) = self.sink.switch(next).finish(&features);
        self.sink.failure = self.sink.failure.take().or(written.err());
        self.written_bytes += bytes;
        self.attendant.close(file)?;
        // Each file can be read by itself.
        let pids: BTreeSet<u32> = self.sink.alive.iter().map(|task| task.pid).collect();
        self.sink.know(&self.kernel_code);
        pids.into_iter().for_each(|pid| self.sink.know(&known(&self.encoder, pid)));
        // While nothing is sampled nobody else writes it.
        self.finish_round();
        Ok(())
    }

    fn features(&mut self) -> Features {
        Features { build_ids: self.sink.build_ids.all(), sample_times_ns: self.sink.times_ns, ..self.features.clone() }
    }

    /// How long the window is to last yet.
    fn left_of_window(&self) -> Duration {
        let elapsed = Duration::from_nanos(monotonic_ns() - self.window_ns);
        self.governor.next_look().saturating_sub(elapsed)
    }

    fn look_once(&mut self) -> Result<()> {
        self.drain()?;
        self.count_in_between();
        self.switch()?;
        let elapsed_ns = monotonic_ns() - self.window_ns;
        if elapsed_ns < SHORTEST_WINDOW_NS || self.left_of_window() > SHORTEST_LOOK && !self.owes_much() {
            return Ok(());
        }
        self.account()
    }

    /// The last look: nothing is on any more.
    pub fn end(&mut self, program: &mut Program) -> Result<()> {
        if self.rates.is_none() || self.chooses() {
            self.clock_ns = program.cpu_ns().or(self.clock_ns);
        }
        if self.is_over {
            return Ok(());
        }
        // First, so that nothing comes behind what is accounted for.
        if let Some(rates) = &mut self.rates {
            rates.off()?;
        }
        self.drain()?;
        // Of a run that was too short for anybody to know better, all of it is the program's.
        self.machine.busy = self.machine.busy.or(Some(Busy { most: 1.0, about: 0.5 }));
        self.is_over = true;
        self.account()
    }

    /// Writes what is said behind the records.
    pub fn finish(mut self, exit: Exit) -> Result<Outcome> {
        let (features, totals) = (self.features(), self.totals());
        let Self { attendant, governor, .. } = self;
        let failure = self.sink.failure.take();
        let (file, written) = self.sink.into_writer().finish(&features);
        let failure = failure.or(written.err());
        attendant.close(file)?;
        if let Some(broken) = self.broken {
            return Err(broken);
        }
        Ok(Outcome { exit, governor, totals, failure, witness: self.witness })
    }

    fn totals(&self) -> Totals {
        Totals {
            // LOST records are written only when there is room again; the counters know of all (Linux 6.0 on).
            lost: self.lost.max(self.passed.lost),
            throttled: self.passed.throttled,
            counted: self.counted,
            weight: self.passed.weight,
            recorder_cpu_s: own_cpu_ns().saturating_sub(self.began_own_cpu_ns) as f64 * 1e-9,
            place: self.place,
            went_over_s: self.went_over_s,
            of_others: self.sink.of_others,
            cut: self.sink.cut(),
            unwritten: self.sink.unwritten,
            bytes: self.written_bytes + self.sink.extent().0,
        }
    }

    /// How soon a ring can be full: of a clock it is known how many samples come at most, on a CPU.
    fn fastest_fill(&self) -> Option<Duration> {
        let (tariff, sample_bytes) = (self.governor.tariff(), self.sink.largest_sample_bytes);
        if !tariff.is_clock || sample_bytes == 0 {
            return None;
        }
        let samples = (self.recording.ring_pages * rustix::param::page_size()) as u64 / u64::from(sample_bytes);
        Some(Duration::from_nanos(samples * tariff.periods[0]))
    }

    /// Whether a program's samples are chosen from those of whole CPUs.
    fn chooses(&self) -> bool {
        self.recording.whom.is_program() && self.place == Place::Cpus
    }

    /// Whether the CPU time of a program is what its samples stand for: a clock of CPUs goes on while it does not run.
    fn is_timed_by_samples(&self) -> bool {
        let tariff = self.governor.tariff();
        tariff.is_clock && tariff.filtered_ns.is_none()
    }
}

impl Watch for Session<'_> {
    fn stop(&mut self) -> Result<()> {
        self.is_over = true;
        take_interrupt_as_end();
        if let Some(rates) = &mut self.rates {
            rates.off()?;
        }
        self.drain()?;
        self.account()
    }

    fn is_stopped(&self) -> bool {
        self.is_over
    }

    fn is_done(&self) -> bool {
        matches!(self.recording.whom, Whom::Thread(tid) if has_ended(tid))
    }

    fn ask(&mut self, program: &mut Program) {
        let coarsest = self.governor.tariff().periods.len() - 1;
        // Where it may come to a rest, what the program had used by then is to be known.
        let is_beside = self.chooses() && !self.is_timed_by_samples();
        if self.rates.is_none() || is_beside || self.governor.decision() == Decision::Sample(coarsest) {
            self.clock_ns = program.cpu_ns().or(self.clock_ns);
        }
    }

    fn look(&mut self) -> Result<()> {
        if self.is_over {
            return Ok(());
        }
        // Whatever becomes of us, the program goes on, and what was recorded stands.
        if let Err(failure) = self.look_once() {
            self.broken = Some(failure);
            self.is_over = true;
            self.rates = None;
        }
        Ok(())
    }

    fn wait(&mut self) -> Result<()> {
        let mut look = if self.is_over { Duration::from_millis(100) } else { self.left_of_window() };
        if self.rates.is_some() && !self.is_over {
            look = look.min(self.longest_look).min(self.until_switches_are_counted().unwrap_or(LONGEST_LOOK));
        }
        self.end_wait.at_most(look.max(SHORTEST_LOOK));
        Ok(())
    }
}

/// The next look comes when rings are a quarter full, if as much comes as since the last one; where it was much less, somewhat later than it could have come this time. They are never to
/// be more than half full, where it is known how long that takes at least.
fn longest_look(since: Duration, before: Duration, used: f64, fastest: Option<Duration>) -> Duration {
    const WANTED: f64 = 0.25;
    const LATER: f64 = 1.5;
    // Others look, too: this one may have come early.
    let later = since.max(before).mul_f64(LATER);
    let look = since.max(SHORTEST_LOOK).mul_f64(WANTED / used.max(1e-6)).min(later);
    look.min(fastest.map_or(LONGEST_LOOK, |fastest| fastest / 2)).clamp(SHORTEST_LOOK, LONGEST_LOOK)
}

/// Whether samples of a mechanism can carry their period: where the kernel counts in software, it would take one at every event then.
fn tells_its_period(mechanism: Mechanism) -> bool {
    !matches!(mechanism, Mechanism::Software | Mechanism::Tracepoint | Mechanism::Uprobe | Mechanism::Breakpoint)
}

/// Has samples of these events weighed by their periods.
fn weigh(sink: &mut Sink, rates: &Rates, samplings: &[Sampling]) -> Result<()> {
    let period = |rate: usize| samplings[rate].period.unwrap_or(1);
    sink.weigh(rates.identities()?.into_iter().map(|(id, rate)| (id, period(rate))));
    Ok(())
}

fn no_period(recording: &Recording) -> Error {
    Error::Argument {
        argument: Setting::Budget.name(),
        value: format!("{} %", recording.pricing.budget * 100.0),
        needed: format!("as much as the longest period of {} costs", recording.event.name),
    }
}

fn samplings(recording: &Recording, place: Place, tariff: &Tariff, payload: Payload, is_ours: bool) -> Vec<Sampling> {
    let periods = tariff.periods.iter().enumerate();
    periods.map(|(rate, period)| sampling(recording, place, *period, payload, is_ours && rate == 0)).collect()
}

fn sampling(recording: &Recording, place: Place, period: u64, payload: Payload, enable_on_exec: bool) -> Sampling {
    let is_inherited = recording.whom.is_program() && place == Place::Threads;
    let of_cpus = recording.whom.is_of_cpus(place);
    Sampling {
        period: Some(period),
        payload,
        inherit: is_inherited,
        enable_on_exec: enable_on_exec && is_inherited,
        // Of others, idle CPUs have next to none, and IBS takes no such filter.
        without_idle: of_cpus && recording.event.mechanism.is_time_driven(),
        task_records: true,
        mapping_records: true,
        // Nobody waits for them: they are looked for when it is time.
        wakeup: Wakeup::Bytes(u32::MAX),
        clock: recording.clock,
        ..Sampling::COUNTING
    }
}

/// Opens the events of a program's threads: those that there are when it is done.
fn open(recording: &Recording, place: Place, samplings: &[Sampling], threads_now: &dyn Fn() -> Vec<i32>) -> Result<Rates> {
    let watch = |threads: &[i32]| {
        let targets = recording.whom.targets(place, threads, &recording.cpus);
        Rates::open(&recording.event, samplings, &targets, recording.ring_pages)
    };
    match place {
        Place::Threads if recording.whom.is_program() => on_all_threads(threads_now, watch),
        Place::Threads | Place::Cpus => watch(&[]),
    }
}

/// Every process that there is.
fn everybody() -> impl Iterator<Item = u32> {
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Opens the counters of a program's work: of those threads that there are.
fn open_work(recording: &Recording, event: &Event, program: &Program) -> Result<Work> {
    let is_program = recording.whom.is_program();
    let targets = recording.whom.targets(Place::Threads, &program.threads(), &recording.cpus);
    Work::open(event, &targets, is_program, is_program && program.is_ours())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_are_looked_at_before_they_are_full() {
        let ms = Duration::from_millis;
        // Half full after 100 ms: a quarter at 50.
        assert_eq!(longest_look(ms(100), ms(900), 0.5, None), ms(50));
        // Next to nothing came in 10 ms: that says little of the next second.
        assert_eq!(longest_look(ms(10), ms(10), 0.001, None), ms(15));
        assert_eq!(longest_look(ms(10), ms(100), 0.001, None), ms(150), "it came early");
        assert_eq!(longest_look(ms(900), ms(900), 0.0, None), LONGEST_LOOK);
        // Whatever came, a clock cannot fill it sooner than in 80 ms.
        assert_eq!(longest_look(ms(900), ms(900), 0.0, Some(ms(80))), ms(40));
        assert_eq!(longest_look(Duration::ZERO, ms(20), 1.0, None), SHORTEST_LOOK);
    }
}
