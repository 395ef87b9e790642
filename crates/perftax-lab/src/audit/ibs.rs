//! AMD's instruction-based sampling: rows of the experiments that ask about samples.
//!
//! IBS has no filter for modes, and before Linux 6.2 it samples whole CPUs: the CPU is watched that the work runs on, and of the samples those
//! of this thread in user mode are kept. Its counter starts again before the kernel's handler returns (perf_ibs_handle_irq,
//! arch/x86/events/amd/ibs.c): the handler's last operations are counted, so that more samples come than operations over period.

use perftax_doc::AuditRow;
use perftax_doc::steps::{Emulation, Experiment as InMachine, Operation};
use perftax_pmu::event::{Event, Vendor, parse_one};
use perftax_pmu::record::{CpuMode, Sample};
use perftax_pmu::sampler::{LiveSampler, Payload, Sampler, Sampling, Wakeup};
use perftax_pmu::sys::Target;
use perftax_pmu::{Error, Result};

use super::case::{How, Ibs, Side, Subject, Watched};
use super::measurement::{Measurement, drained};
use super::threads::on_each;
use super::{Setting, Unit};
use crate::stimulus::{KnownLoop, Loop, Stimulus};

/// Where there is no IBS.
const AUDITED: Emulation = Emulation {
    processor: Some("zen2"),
    cpus: None,
    has_caches: false,
    has_random_starts: false,
    kernel_parameter: None,
    experiment: Some(InMachine::Audit),
};
/// Turns of the loop: some hundred samples at the longest period.
const TURNS: u64 = 400_000;
/// Periods, multiples of 16 as the kernel asks for (perf_ibs_init): the first tells what the handler adds, the others are held against it.
pub(super) const OP_PERIODS: [u64; 3] = [10_000, 20_000, 40_000];
/// See [`OP_PERIODS`].
const FETCH_PERIODS: [u64; 3] = [1_600, 3_200, 6_400];
/// The study's interval, a multiple of 16, and turns for a hundred samples and more of it.
const SIGNALLED_PERIOD: u64 = 100_000;
const SIGNALLED_TURNS: u64 = 1_500_000;
/// Pages of the ring.
const RING_PAGES: usize = 1024;
/// The largest error where what the handler adds is taken off: a clock's interrupt adds its own, and an operation in the middle of an instruction
/// takes the others along.
const ALLOWED: f64 = 0.015;
/// The largest error without that: the study's IBS rows reach from -25 to +9 % (figures 3 and 6).
const ALLOWED_PLAIN: f64 = 0.25;

/// What came of one run.
#[derive(Clone, Copy, Debug, Default)]
pub struct IbsTaking {
    /// Samples of this thread in user mode.
    pub user: u64,
    /// Samples of this thread in kernel mode.
    pub kernel: u64,
    /// Of both, those whose address is the other mode's: the kernel's addresses are the upper half (x86-64).
    pub misplaced: u64,
    /// Samples that the kernel could not write.
    pub lost: u64,
    /// Times that it throttled.
    pub throttled: u64,
}

impl Ibs {
    /// What rows are of that sample it at a period.
    fn every(self, period: u64) -> Watched {
        Watched::from(Subject::Ibs(self)).every(period)
    }

    /// The event.
    ///
    /// # Errors
    /// Where the machine has no IBS.
    pub fn event(self, setting: &Setting) -> Result<Event> {
        let (pmu, text) = match self {
            Self::Op => ("ibs_op", "ibs_op/cnt_ctl=1/"),
            Self::Fetch => ("ibs_fetch", "ibs_fetch//"),
        };
        if setting.catalog.pmu(pmu).is_none() {
            let why = match setting.catalog.vendor() {
                Vendor::Amd => {
                    format!("the kernel exposes no {pmu} PMU ({} is missing)", setting.catalog.devices().join(pmu).display())
                }
                _ => "instruction-based sampling is AMD's".into(),
            };
            return Err(Error::Unsupported {
                what: format!("sample by {}", self.name()),
                why,
                remedy: format!("{} has it emulated", Operation::Emulate(AUDITED)),
            });
        }
        parse_one(text, setting.catalog)
    }

    /// Periods that are tried.
    fn periods(self) -> [u64; 3] {
        match self {
            Self::Op => OP_PERIODS,
            Self::Fetch => FETCH_PERIODS,
        }
    }

    /// Does the work once on a CPU, and looks at each of this thread's samples.
    ///
    /// # Errors
    /// Where the event cannot be opened, or a record cannot be read.
    pub fn sample(
        self,
        setting: &Setting,
        cpu: u32,
        work: &mut dyn Stimulus,
        period: u64,
        each: impl FnMut(&Sample),
    ) -> Result<IbsTaking> {
        self.sample_by(setting, cpu, work, period, Wakeup::Bytes((RING_PAGES * rustix::param::page_size() / 2) as u32), each)
    }

    /// As [`Ibs::sample`]; where every sample is a wakeup, each is a signal to this thread.
    fn sample_by(
        self,
        setting: &Setting,
        cpu: u32,
        work: &mut dyn Stimulus,
        period: u64,
        wakeup: Wakeup,
        mut each: impl FnMut(&Sample),
    ) -> Result<IbsTaking> {
        let event = self.event(setting)?;
        let fault = setting.fault;
        let period = fault.map_or(period, |fault| fault.period(period) / 16 * 16);
        let payload = Payload::BASIC.with_address().with_data_source().with_interrupt_register(DI);
        let sampling = Sampling { wakeup, ..Sampling::every(period, 0).carrying(payload) };
        let own = rustix::thread::gettid().as_raw_nonzero().get();
        work.prepare()?;
        let mut sampler = LiveSampler::open(&[(event, sampling)], &[Target::Cpu(cpu)], RING_PAGES)?;
        if wakeup == Wakeup::EverySample {
            sampler.events().iter().try_for_each(|event| event.deliver_signal(libc::SIGURG))?;
        }
        sampler.enable()?;
        work.run();
        sampler.disable()?;
        let mut taking = IbsTaking::default();
        let is_ours = |sample: &Sample| sample.task.as_ref().is_some_and(|task| task.tid == own as u32);
        let delivered = drained(&mut sampler, fault, is_ours, |sample| {
            let is_user = sample.cpu_mode == CpuMode::User;
            taking.misplaced += u64::from(sample.ip.is_some_and(|ip| is_user == (ip >> 63 == 1)));
            if is_user {
                taking.user += 1;
                each(sample);
            } else {
                taking.kernel += 1;
            }
        })?;
        (taking.lost, taking.throttled) = (delivered.lost.max(sampler.lost()?), delivered.throttled);
        Ok(taking)
    }

    /// Operations, or fetches, of a loop's turns in user mode, as the core's own counter has them where it counts such.
    fn events(self, setting: &Setting) -> Result<u64> {
        match self {
            Self::Fetch => Ok(TURNS),
            Self::Op => operations(setting, &mut four_loads(TURNS)?),
        }
    }

    /// Operations (or fetches) of the handler's that each sample counts: of the period and the one that is tagged those that are not the
    /// program's.
    fn handlers(self, setting: &Setting, cpu: u32, events: u64) -> Result<f64> {
        let period = self.periods()[0];
        let taking = self.sample(&setting.without_fault(), cpu, &mut four_loads(TURNS)?, period, |_| ())?;
        Ok((period + 1) as f64 - events as f64 / taking.user.max(1) as f64)
    }

    /// Samples at each period: against events over period, as the study has them, and with what the handler adds taken off.
    ///
    /// # Errors
    /// As [`Ibs::sample`].
    pub fn intervals(self, setting: &Setting, cpu: u32) -> Result<Vec<AuditRow>> {
        let events = self.events(setting)?;
        let handler = self.handlers(setting, cpu, events)?;
        let mut rows = Vec::new();
        for period in self.periods() {
            let runs = self.runs(setting, cpu, period, setting.runs)?;
            let plain = events as f64 / period as f64;
            let right = events as f64 / ((period + 1) as f64 - handler);
            let case = self.every(period);
            let told = format!(
                "{:+.1} %: the counter runs again before the handler returns, and counts {handler:.0} of its",
                100.0 * (right / plain - 1.0)
            );
            rows.push(row(case, plain, &runs, ALLOWED_PLAIN).remarking(told));
            if period != self.periods()[0] {
                rows.push(row(case.how(How::HandlerTakenOff), right, &runs, ALLOWED));
            }
        }
        if self == Self::Op {
            rows.push(self.signalled(setting, cpu, events as f64 / TURNS as f64)?);
        }
        Ok(rows)
    }

    /// At the study's interval, with a signal to each sample as there: what delivering it takes is counted, too.
    fn signalled(self, setting: &Setting, cpu: u32, events_a_turn: f64) -> Result<AuditRow> {
        let mut work = four_loads(SIGNALLED_TURNS)?;
        let one = |_| self.sample_by(setting, cpu, &mut work, SIGNALLED_PERIOD, Wakeup::EverySample, |_| ());
        let runs: Vec<IbsTaking> = (0..setting.runs).map(one).collect::<Result<_>>()?;
        let events = events_a_turn * SIGNALLED_TURNS as f64;
        let samples = runs.iter().map(|run| run.user).sum::<u64>() as f64 / runs.len().max(1) as f64;
        let delivery = (SIGNALLED_PERIOD + 1) as f64 - events / samples.max(1.0);
        let told = format!(
            "{delivery:.0} operations to a sample are the kernel's: of its handler, and of the signal's delivery and return"
        );
        let case = self.every(SIGNALLED_PERIOD).how(How::WithSignal);
        Ok(row(case, events / SIGNALLED_PERIOD as f64, &runs, ALLOWED_PLAIN).remarking(told))
    }

    /// Several runs at one period.
    ///
    /// # Errors
    /// As [`Ibs::sample`].
    fn runs(self, setting: &Setting, cpu: u32, period: u64, count: usize) -> Result<Vec<IbsTaking>> {
        let mut work = four_loads(TURNS)?;
        (0..count).map(|_| self.sample(setting, cpu, &mut work, period, |_| ())).collect()
    }

    /// Runs of the same against their median.
    ///
    /// # Errors
    /// As [`Ibs::sample`].
    pub fn stability(self, setting: &Setting, cpu: u32, times: usize) -> Result<Vec<AuditRow>> {
        let period = self.periods()[0];
        let runs = self.runs(setting, cpu, period, times)?;
        let mut samples: Vec<f64> = runs.iter().map(|run| run.user as f64).collect();
        let median = perftax_doc::median(&mut samples);
        Ok(vec![row(self.every(period).how(How::Runs(times)), median, &runs, ALLOWED)])
    }

    /// The same work on all CPUs at once, each watched by its own event, against one alone.
    ///
    /// # Errors
    /// As [`Ibs::sample`].
    pub fn threads(self, setting: &Setting) -> Result<Vec<AuditRow>> {
        let period = self.periods()[0];
        let at_once = |cpus: &[u32]| on_each(cpus, |cpu| self.sample(setting, cpu, &mut four_loads(TURNS)?, period, |_| ()));
        let alone = at_once(&setting.cpus[..1])?;
        let mut runs = Vec::new();
        for _ in 0..setting.runs {
            runs.extend(at_once(setting.cpus)?);
        }
        let expected = alone.first().map_or(0, |run| run.user) as f64;
        Ok(vec![row(self.every(period).how(How::AgainstOneAlone(setting.cpus.len())), expected, &runs, ALLOWED)])
    }

    /// The instruction of each sample in the loop, and its address.
    ///
    /// # Errors
    /// As [`Ibs::sample`].
    pub fn places(self, setting: &Setting, cpu: u32) -> Result<Vec<AuditRow>> {
        let period = self.periods()[0];
        let mut work = four_loads(TURNS)?;
        let (sites, instructions) = (work.load_sites(), work.instructions());
        let (begin, end) = (instructions[0], instructions[instructions.len() - 1]);
        let (mut within, mut at, mut loads, mut addressed) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for _ in 0..setting.runs {
            let (mut in_loop, mut on_one, mut of_loads, mut right) = (0u64, 0u64, 0u64, 0u64);
            self.sample(setting, cpu, &mut work, period, |sample| {
                let ip = sample.ip.unwrap_or(0);
                in_loop += u64::from((begin..=end + 3).contains(&ip));
                on_one += u64::from(instructions.contains(&ip));
                if let Some((_, datum)) = sites.iter().find(|(instruction, _)| *instruction == ip) {
                    of_loads += 1;
                    right += u64::from(sample.address == Some(*datum));
                }
            })?;
            within.push(in_loop as f64);
            at.push(on_one as f64);
            loads.push(of_loads as f64);
            addressed.push(right as f64);
        }
        let share = |part: &[f64], whole: &[f64]| -> Vec<f64> {
            part.iter().zip(whole).map(|(part, whole)| 100.0 * part / whole.max(1.0)).collect()
        };
        let case = |how| self.every(period).how(how);
        let mut rows = vec![AuditRow::of(case(How::Instruction), Unit::ShareOfSamples.text(), 100.0, &share(&at, &within), 0.0)];
        if self == Self::Op {
            rows.push(AuditRow::of(case(How::Address), Unit::ShareOfSamples.text(), 100.0, &share(&addressed, &loads), 0.0));
        }
        Ok(rows)
    }

    /// Four loads in turn: on a machine whose counts are exact, whether each sample is at the instruction that arithmetic foretells from the
    /// one before; on a real one, which starts each count at random, whether the four get the same share.
    ///
    /// # Errors
    /// As [`Ibs::sample`].
    pub fn bias(self, setting: &Setting, cpu: u32) -> Result<Vec<AuditRow>> {
        let period = self.periods()[0];
        let mut work = four_loads(TURNS)?;
        let instructions = work.instructions();
        let (mut foretold, mut foremost, mut last) = (Vec::new(), Vec::new(), [0u64; LOADS]);
        for _ in 0..setting.runs {
            let mut places = Vec::new();
            self.sample(setting, cpu, &mut work, period, |sample| {
                let at = instructions.iter().position(|instruction| sample.ip == Some(*instruction));
                let left = sample.interrupt_registers.as_ref().and_then(|registers| registers.get(DI));
                places.extend(at.zip(left).map(|(at, left)| Place::of(at, left)));
            })?;
            let of_load = |load: usize| places.iter().filter(|place| place.at == load).count() as u64;
            last = std::array::from_fn(of_load);
            let all: u64 = last.iter().sum();
            foremost.push(100.0 * last.iter().max().copied().unwrap_or(0) as f64 / all.max(1) as f64);
            foretold.push(100.0 * share_foretold(&places));
        }
        let case = self.every(period).how(How::FourLoads);
        if setting.is_exact {
            let told = format!(
                "the four get {last:?} samples. A count that starts at 0 goes through the loop in fixed steps, whichever instructions those meet \
                 ({} starts it at random, as the hardware does); what arithmetic does not foretell would be bias",
                Operation::Emulate(Emulation { has_random_starts: true, ..Emulation::default() })
            );
            return Ok(vec![AuditRow::of(case, Unit::Foretold.text(), 100.0, &foretold, ALLOWED_FORETOLD).remarking(told)]);
        }
        let told = format!("the four get {last:?} samples; each count starts at random");
        Ok(vec![AuditRow::of(case, Unit::ShareOfLoadsSamples.text(), 25.0, &foremost, ALLOWED_BIAS).remarking(told)])
    }
}

/// Operations that a piece of work retires in user mode, by the core's own counter (PPR family 17h, PMCx0C1).
pub(super) fn operations(setting: &Setting, work: &mut dyn Stimulus) -> Result<u64> {
    let pmu = setting.catalog.core_pmu().map_or("cpu", |pmu| pmu.name.as_str());
    let event = parse_one(&format!("{pmu}/event=0xc1/u"), setting.catalog)?;
    Ok(Measurement::of(&setting.without_fault(), work, &event, None)?.counted)
}

/// The loop that all rows but the mode's are about.
fn four_loads(turns: u64) -> Result<KnownLoop> {
    KnownLoop::new(Loop::FourLoads, turns)
}

/// Loads of the loop.
const LOADS: usize = 4;
/// Operations of the loop's instructions on the emulated machine (docs/guide/vm.md): two a load, one each of the last two.
const OPERATIONS: [u64; 6] = [2, 2, 2, 2, 1, 1];
/// The register that counts turns down (arch/x86/include/uapi/asm/perf_regs.h).
const DI: u32 = 5;
/// Samples that arithmetic need not foretell: a clock's interrupt between two brings the next one nearer.
const ALLOWED_FORETOLD: f64 = 0.05;
/// How far the foremost load's share may be from a quarter, as a share of it: it is the largest of four counts of some hundred.
const ALLOWED_BIAS: f64 = 0.25;

/// Where a sample was taken.
#[derive(Clone, Copy, Debug)]
struct Place {
    /// Which instruction of the turn.
    at: usize,
    /// The loop's operations up to and with the first and the last one of that instruction.
    first: u64,
    last: u64,
}

impl Place {
    /// Of an instruction, right after which so many turns were left: the fifth instruction takes its turn off.
    fn of(at: usize, left: u64) -> Self {
        let turn = TURNS.saturating_sub(left) - u64::from(at >= LOADS).min(TURNS.saturating_sub(left));
        let first = turn * OPERATIONS.iter().sum::<u64>() + OPERATIONS[..at].iter().sum::<u64>() + 1;
        Self { at, first, last: first + OPERATIONS[at] - 1 }
    }
}

/// The share of the samples whose operation is as far behind the one before as most are: from the end of an instruction to the operation that
/// is tagged it is always the period, less what the handler adds.
fn share_foretold(places: &[Place]) -> f64 {
    let ranges: Vec<(u64, u64)> = places
        .windows(2)
        .map(|pair| (pair[1].first.saturating_sub(pair[0].last), pair[1].last.saturating_sub(pair[0].last)))
        .collect();
    let fits = |distance: u64| ranges.iter().filter(|(least, most)| (*least..=*most).contains(&distance)).count();
    let most = ranges.iter().flat_map(|(least, most)| [*least, *most]).map(fits).max().unwrap_or(0);
    most as f64 / ranges.len().max(1) as f64
}

/// Samples in user mode against those that must come.
pub(super) fn row(case: Watched, expected: f64, runs: &[IbsTaking], allowed: f64) -> AuditRow {
    let samples: Vec<f64> = runs.iter().map(|run| run.user as f64).collect();
    let (lost, throttled) = losses(runs);
    // A sample and a half more or less is nothing.
    let allowed = if expected > 0.0 && allowed > 0.0 { allowed.max(1.5 / expected) } else { allowed };
    AuditRow::of(case, Unit::Samples.text(), expected, &samples, allowed).losing(lost, throttled)
}

/// What was lost in several runs, and how often the kernel throttled.
fn losses(runs: &[IbsTaking]) -> (u64, u64) {
    (runs.iter().map(|run| run.lost).sum(), runs.iter().map(|run| run.throttled).sum())
}

/// What the kernel does for this thread: none of its samples may say user mode, and so many must say kernel mode at least. Between the switches
/// this thread executes some hundred operations of its own, of which one may be sampled, and rightly in user mode: what is asked is that no
/// sample says one mode at an address of the other.
///
/// # Errors
/// As [`Ibs::sample`].
pub fn mode(setting: &Setting, cpu: u32, work: &mut dyn Stimulus, operations_least: u64) -> Result<Vec<AuditRow>> {
    let period = OP_PERIODS[0];
    let runs: Vec<IbsTaking> =
        (0..setting.runs).map(|_| Ibs::Op.sample(setting, cpu, work, period, |_| ())).collect::<Result<_>>()?;
    let kernel: Vec<f64> = runs.iter().map(|run| run.kernel as f64).collect();
    let least = (operations_least / period) as f64;
    let reached: Vec<f64> = kernel.iter().map(|found| f64::from(u8::from(*found >= least))).collect();
    let misplaced: Vec<f64> = runs.iter().map(|run| run.misplaced as f64).collect();
    let (lost, throttled) = losses(&runs);
    let case = |side| Ibs::Op.every(period).how(How::OfTheKernelsIn(side));
    let told = format!("{kernel:?} samples, of which its work alone must bring {least:.0} at least");
    Ok(vec![
        AuditRow::of(case(Side::Program), Unit::Samples.text(), 0.0, &misplaced, 0.0).losing(lost, throttled),
        AuditRow::of(case(Side::Kernel), Unit::Enough.text(), 1.0, &reached, 0.0).remarking(told),
    ])
}
