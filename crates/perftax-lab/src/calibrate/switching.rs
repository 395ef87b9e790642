//! What a context switch costs while an event is open, by how the event is attached.
//!
//! Two threads on one CPU pass a byte to and fro through pipes: every pass is one switch. Each block makes its partner thread
//! anew, because *inherited* events must be open before the partner exists; contexts that are clones of each other are
//! swapped by the kernel instead of being scheduled out and in (kernel/events/core.c, `context_equiv`), which needs a thread
//! with no other event of its own.

use std::os::fd::OwnedFd;

use perftax_cost::tasks::{SWITCH_INHERITED_TERM, SWITCH_SEPARATE_RARE_TERM, SWITCH_SEPARATE_TERM};
use perftax_doc::observation::Block;
use perftax_pmu::event::Event;
use perftax_pmu::guard::pin_this_thread;
use perftax_pmu::sampler::{Delivered, LiveSampler, Sampler, Sampling};
use perftax_pmu::sys::{Target, monotonic_ns, thread_cpu_ns};
use perftax_pmu::{Error, Result};

use super::beside::{Took, failed};
use crate::run::Attach;
use crate::system::steal_ns;

/// Switches with nothing open.
pub const SWITCH_OFF: &str = "switch-off";
/// Arms with the event open at its usual period, by attach mode.
pub const SWITCH_ARMS: [(&str, Attach); 3] =
    [(SWITCH_INHERITED_TERM, Attach::Inherited), (SWITCH_SEPARATE_TERM, Attach::Separate), ("switch-per-cpu", Attach::PerCpu)];

/// The arm of a timer that is due long after the next tick of the kernel's: stopping and starting it does not reach the hardware.
pub const SWITCH_RARE: &str = SWITCH_SEPARATE_RARE_TERM;
/// The arm of one attach mode at a period of its own.
pub fn switch_arm_at(attach: Attach, period: u64) -> String {
    format!("switch-{}@{period}", attach.name())
}

/// Passes of the byte in one block: about 2 ms.
const ROUND_TRIPS: u64 = 300;
/// Passes before the timed part, so that both threads are awake and warm.
const WARM_UP: u64 = 20;
/// Where no period is asked for, time-driven sources tick seldom, so that switches and not samples are what is timed: about 1 kHz, a prime.
pub(super) const PERIOD_NS: u64 = 1_000_003;
/// The period of [`SWITCH_RARE`]: longer than any kernel's tick (10 ms at most).
pub(super) const RARE_PERIOD_NS: u64 = 100_000_007;
/// Room for a sample at every system call of both threads: 32,768 basic samples.
const RING_PAGES: usize = 256;

/// One block.
pub(super) fn switches(cpu: u32, event: &Event, monitoring: Option<(Attach, u64)>) -> Result<Block> {
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
    Ok(Took { period, times: 2 * ROUND_TRIPS, wall_ns, cpu_ns, steal_ns, delivered }.block())
}

fn pipe() -> Result<(OwnedFd, OwnedFd)> {
    rustix::pipe::pipe().map_err(|e| Error::System { call: "pipe".into(), source: e.into() })
}
