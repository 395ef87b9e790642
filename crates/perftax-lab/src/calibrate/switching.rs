//! What a context switch costs while an event is open, by how the event is attached.
//!
//! Two threads on one CPU pass a byte to and fro through pipes: every pass is one switch. Each block makes its partner thread
//! anew, because *inherited* events must be open before the partner exists; contexts that are clones of each other are
//! swapped by the kernel instead of being scheduled out and in (kernel/events/core.c, `context_equiv`), which needs a thread
//! with no other event of its own.

use std::os::fd::OwnedFd;

use perftax_cost::observation::Block;
use perftax_pmu::event::Event;
use perftax_pmu::guard::{check_interrupted, pin_this_thread};
use perftax_pmu::sampler::{Delivered, LiveSampler, Sampler, Sampling};
use perftax_pmu::sys::{Target, monotonic_ns, thread_cpu_ns};
use perftax_pmu::{Error, Result};

use super::arm::Skipped;
use super::spec::{Depth, Spec};
use crate::run::Attach;
use crate::system::steal_ns;

/// Switches with nothing open.
pub const SWITCH_OFF: &str = "switch-off";
/// Arms with the event open at its usual period, by attach mode.
pub const SWITCH_ARMS: [(&str, Attach); 3] =
    [("switch-inherited", Attach::Inherited), ("switch-separate", Attach::Separate), ("switch-per-cpu", Attach::PerCpu)];

/// The arm of one attach mode at a period of its own.
pub fn switch_arm_at(attach: Attach, period: u64) -> String {
    format!("switch-{}@{period}", attach.name())
}

/// Passes of the byte in one block: about 2 ms.
const ROUND_TRIPS: u64 = 300;
/// Passes before the timed part, so that both threads are awake and warm.
const WARM_UP: u64 = 20;
/// Where no period is asked for, time-driven sources tick seldom, so that switches and not samples are what is timed: about 1 kHz, a prime.
const PERIOD_NS: u64 = 1_000_003;
/// Room for a sample at every system call of both threads: 32,768 basic samples.
const RING_PAGES: usize = 256;

/// One condition under which switches are timed.
#[derive(Clone, Debug)]
struct Arm {
    name: String,
    /// How the event is attached and at which period it samples; none opens nothing.
    monitoring: Option<(Attach, u64)>,
}

/// Blocks of switches.
pub struct SwitchBench {
    cpu: u32,
    event: Event,
    rng: fastrand::Rng,
    arms: Vec<Arm>,
    skipped: Vec<Skipped>,
}

impl SwitchBench {
    /// For one event on one CPU.
    pub fn new(spec: &Spec, event: Event, seed: u64) -> Self {
        let mut arms = vec![Arm { name: SWITCH_OFF.into(), monitoring: None }];
        if let Depth::At { switching, .. } = &spec.depth {
            for &attachment in &switching.attachments {
                let at = |&period| Arm { name: switch_arm_at(attachment, period), monitoring: Some((attachment, period)) };
                arms.extend(switching.periods.iter().map(at));
            }
        } else {
            let period = if spec.mechanism.is_time_driven() { PERIOD_NS } else { spec.main_period() };
            arms.extend(SWITCH_ARMS.map(|(name, attachment)| Arm { name: name.into(), monitoring: Some((attachment, period)) }));
        }
        Self { cpu: spec.cpu, event, rng: fastrand::Rng::with_seed(seed ^ 0x5157), arms, skipped: Vec::new() }
    }

    /// Arms that could not be opened, each with the reason: watching a CPU takes more rights than watching oneself.
    pub fn skipped(&self) -> &[Skipped] {
        &self.skipped
    }

    /// One session: `rounds` passes over all arms in random order.
    pub fn session(&mut self, session: u32, rounds: u32) -> Result<Vec<Block>> {
        let mut blocks = Vec::new();
        for round in 0..rounds {
            self.rng.shuffle(&mut self.arms);
            for Arm { name, monitoring } in self.arms.clone() {
                check_interrupted()?;
                let (cpu, event) = (self.cpu, self.event.clone());
                // A fresh thread, so that its perf context holds nothing but what the arm opens.
                let measured = std::thread::spawn(move || switches(cpu, &event, monitoring)).join();
                let measured = measured.unwrap_or_else(|_| Err(failed("the switching thread", "panicked")));
                let mut block = match measured {
                    Err(error @ Error::Permission { .. }) if monitoring.is_some() => {
                        self.skipped.push(Skipped::by(&name, &error));
                        self.arms.retain(|kept| kept.name != name);
                        continue;
                    }
                    measured => measured?,
                };
                (block.session, block.round, block.arm) = (session, round, name);
                blocks.push(block);
            }
        }
        Ok(blocks)
    }
}

fn switches(cpu: u32, event: &Event, monitoring: Option<(Attach, u64)>) -> Result<Block> {
    pin_this_thread(cpu)?;
    let (attachment, period) = monitoring.unzip();
    let period = period.unwrap_or(0);
    let (to_partner, from_us) = pipe()?;
    let (to_us, from_partner) = pipe()?;
    let sampling = Sampling::every(period, RING_PAGES * rustix::param::page_size());
    let open = |sampling: Sampling, targets: &[Target]| LiveSampler::open(&[(event.clone(), sampling)], targets, RING_PAGES);
    let own = rustix::thread::gettid().as_raw_nonzero().get();
    let mut sampler = match attachment {
        Some(Attach::Inherited) => Some(open(Sampling { inherit: true, ..sampling }, &[Target::ThreadOnCpu(own, cpu)])?),
        Some(Attach::PerCpu) => Some(open(sampling, &[Target::Cpu(cpu)])?),
        Some(Attach::Separate) | None => None,
    };
    let (tell_tid, partner_tid) = std::sync::mpsc::channel();
    // The partner inherits the affinity, and the event where there is one.
    let partner = std::thread::spawn(move || {
        tell_tid.send(rustix::thread::gettid().as_raw_nonzero().get()).ok();
        let mut byte = [0u8];
        while rustix::io::read(&to_partner, &mut byte).is_ok_and(|n| n == 1) {
            if rustix::io::write(&from_partner, &byte).is_err() {
                break;
            }
        }
    });
    let partner_tid: i32 = partner_tid.recv().map_err(|_| failed("the partner thread", "did not start"))?;
    if attachment == Some(Attach::Separate) {
        sampler = Some(open(sampling, &[Target::ThreadOnCpu(own, cpu), Target::ThreadOnCpu(partner_tid, cpu)])?);
    }
    if let Some(sampler) = &mut sampler {
        sampler.enable()?;
    }
    let round_trips = |count: u64| -> Result<()> {
        let mut byte = [0u8];
        for _ in 0..count {
            let passed = rustix::io::write(&from_us, &byte).and_then(|_| rustix::io::read(&to_us, &mut byte));
            passed.map_err(|e| Error::System { call: "a pass through a pipe".into(), source: e.into() })?;
        }
        Ok(())
    };
    round_trips(WARM_UP)?;
    if let Some(sampler) = &mut sampler {
        sampler.drain(&mut |_, _| ())?;
    }
    let steal_before = steal_ns(Some(cpu))?;
    let (wall, cpu_time) = (monotonic_ns(), thread_cpu_ns());
    round_trips(ROUND_TRIPS)?;
    let (cpu_ns, wall_ns) = (thread_cpu_ns() - cpu_time, monotonic_ns() - wall);
    let steal_ns = steal_ns(Some(cpu))?.saturating_sub(steal_before);
    let mut delivered = Delivered::default();
    if let Some(sampler) = &mut sampler {
        sampler.disable()?;
        sampler.drain(&mut |header, body| delivered.count(0, header, body))?;
        delivered.lost = delivered.lost.max(sampler.lost()?);
    }
    drop(from_us);
    partner.join().map_err(|_| failed("the partner thread", "panicked"))?;
    Ok(Block {
        session: 0,
        round: 0,
        arm: String::new(),
        period,
        samples: delivered.samples(),
        expected: 2.0 * ROUND_TRIPS as f64,
        lost: delivered.lost,
        throttled: delivered.throttled,
        wall_ns,
        cpu_ns,
        involuntary_switches: 0,
        steal_ns,
        settling: None,
        spoiled: if delivered.lost > 0 {
            Some(format!("{} samples lost", delivered.lost))
        } else {
            (steal_ns > 0).then(|| "time stolen by the hypervisor".into())
        },
    })
}

fn pipe() -> Result<(OwnedFd, OwnedFd)> {
    rustix::pipe::pipe().map_err(|e| Error::System { call: "pipe".into(), source: e.into() })
}

fn failed(what: &str, how: &str) -> Error {
    Error::System { call: what.into(), source: std::io::Error::other(how.to_string()) }
}
