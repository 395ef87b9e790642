//! What is recorded of whose messages: the options that every recording of them has.

use std::time::Duration;

use anyhow::{Context, Result};
use perftax_doc::{Mechanism, Origin};
use perftax_pmu::Error;
use perftax_pmu::event::{Event, Rate};
use perftax_pmu::guard::{ThrottleGuard, online_cpus};
use perftax_pmu::machine::Right;
use perftax_pmu::sampler::ring_pages_within_rights;
use perftax_trace::Tag;
use perftax_trace::record::Recording;

use super::whose::{self, Whose};
use super::{execution, tagged};
use crate::host::Host;
use crate::progress;
use crate::wait::Wait;

/// What is recorded, and of whom.
#[derive(Debug, clap::Args)]
pub struct Watched {
    /// The event to sample (usual: cpu-clock, or cpu-clock:u for whom the kernel's mode is closed)
    #[arg(short, long, value_name = "EVENT")]
    pub event: Option<String>,
    /// Its period, in events (nanoseconds for clocks)
    #[arg(short = 'c', long = "count", value_name = "R", default_value_t = USUAL_PERIOD)]
    pub period: u64,
    /// Count this event by message, too (several times for several events): misses of caches or TLBs, mispredicted branches, page faults. Each so-many-th is sampled, with the
    /// address that it is about: cpu/event=0xd1,umask=0x20,name=l3-misses,period=101/upp
    #[arg(long, value_name = "EVENT")]
    pub also: Vec<String>,
    /// How many of those make a sample, where the event does not say so by period=
    #[arg(long, value_name = "R", requires = "also", default_value_t = USUAL_COUNTED_PERIOD)]
    pub also_period: u64,
    /// What tells messages apart: marks (perftax_tag.h), reg:r13 (perftax_tag_register.h), the program's own static probes,
    /// usdt:[/PATH/TO/BINARY:]PROVIDER:START[@N],DONE, where argument N of START is the address of the message's text, or any of its functions,
    /// func:[/PATH/TO/BINARY:]BEGIN[@N],END[@N], where argument N is the message's number or address; otel, for programs that publish
    /// OpenTelemetry's thread context; or socket[:PORT], for servers that answer one request at a time on a connection
    #[arg(long, value_name = "TAG", default_value = "marks")]
    pub tag: String,
    /// With --tag otel in a virtual machine: watch all the same. A hypervisor can lose the reason of a debug exception, and the program dies of that (SIGTRAP)
    #[arg(long)]
    pub trap_in_guest: bool,
    /// Leave out what the kernel does (switches, interrupts, system calls): it is left out anyhow without the right to watch CPUs
    #[arg(long)]
    pub no_kernel_noise: bool,
    /// Marks that a thread may be ahead of perftax; a power of two from 64 to 2^26 (with -p it is the program's own, 65536)
    #[arg(long, value_name = "N", default_value_t = 1 << 18)]
    pub ring_marks: u64,
    /// Pages of each CPU's ring for samples and what the kernel says; a power of two (usual: 1024, or as many as may be locked)
    #[arg(short = 'm', long, alias = "ring-pages", value_name = "PAGES")]
    pub mmap_pages: Option<usize>,
    #[command(flatten)]
    pub wait: Wait,
    #[command(flatten)]
    pub whose: Whose,
}

/// What is to be recorded here.
pub struct Prepared {
    pub here: Host,
    pub origin: Origin,
    pub mechanism: Mechanism,
    /// Keeps the kernel's limits up.
    pub guard: Option<ThrottleGuard>,
    /// What the program was started as.
    pub words: Vec<String>,
    pub recording: Recording,
}

/// Pages of each CPU's ring: 4 MiB.
const RING_PAGES: usize = 1024;
/// A prime near a millisecond, and not nearer: a clock that runs on while threads come and go would stay in step with ticks, and with programs that wake at every millisecond, for minutes.
const USUAL_PERIOD: u64 = 1_009_007;
/// Of events that are counted by message: a prime.
const USUAL_COUNTED_PERIOD: u64 = 1009;
/// Events that are counted by message, at most: processors count four to eight at a time.
const MAX_COUNTED: usize = 8;

impl Watched {
    /// Looks at the machine, and says what is to be recorded; whoever records may change that.
    ///
    /// # Errors
    /// Where an option cannot be had.
    pub fn prepare(&self, kind: &str, counts: bool) -> Result<Prepared> {
        let tag = Tag::parse(&self.tag)?;
        if let Some(pages) = self.mmap_pages.filter(|pages| !pages.is_power_of_two() || !(8..=1 << 18).contains(pages)) {
            let needed = "a power of two from 8 to 262144".into();
            return Err(Error::Argument { argument: "-m", value: pages.to_string(), needed }.into());
        }
        if !self.ring_marks.is_power_of_two() || !(64..=1 << 26).contains(&self.ring_marks) {
            let needed = "a power of two from 64 to 67108864".into();
            return Err(Error::Argument { argument: "--ring-marks", value: self.ring_marks.to_string(), needed }.into());
        }
        let here = Host::read_waiting(self.wait)?;
        tagged::check_traps(&tag, here.is_guest(), self.trap_in_guest)?;
        let usual = self.event.is_none().then_some(Mechanism::CpuClock);
        let (event, mechanism) = here.choose(self.event.as_deref(), usual)?;
        let event = event.with_context(|| format!("{mechanism} names no event"))?;
        crate::commands::calibrate::check_period(Some(self.period), mechanism)?;
        let counted = counted(&here, &self.also, self.also_period)?;
        let mut origin = here.origin(kind);
        if self.event.is_none() && event.modifiers.exclude_kernel {
            here.may(Right::OwnKernelMode, "samples are of the program's own mode alone", &mut origin);
        }
        let kernel_noise = !self.no_kernel_noise && here.may_see_noise(&mut origin);
        // Wherever its threads go, whatever CPUs we are held to.
        let cpus = online_cpus()?;
        // Whoever samples below the kernel's limits leaves them alone, and may do so beside others.
        let may_be_throttled =
            is_throttled(mechanism, self.period) || counted.iter().any(|(event, period)| is_throttled(event.mechanism, *period));
        let guard = if may_be_throttled { Some(here.throttle_guard(&mut origin)?) } else { None };
        for less in &origin.warnings {
            progress::announce(&format!("{less}\n  {}", less.remedy()));
        }
        let are_counted = |precisely: bool| counted.iter().any(|(event, _)| (event.mechanism == Mechanism::Pebs) == precisely);
        // Of rings: of the program's own events, of what the kernel does, of system calls, of precise events, of probes, of what is counted.
        let has_calls = kernel_noise || matches!(tag, Tag::Sockets(_));
        let counters = counts.then(|| execution::counters(&here, &tag, kernel_noise)).transpose()?;
        let has_readings = counters.is_some() && kernel_noise && !tag.is_probed();
        let is_precise = mechanism == Mechanism::Pebs;
        let is_otel = tag == Tag::Otel;
        let sets = [
            true,
            kernel_noise,
            has_calls,
            is_otel,
            is_precise,
            tag.is_probed(),
            are_counted(true),
            are_counted(false),
            has_readings,
            // Pages of threads' own counters take of the same.
            counters.is_some() && tag == Tag::Marks,
        ];
        let sets = sets.into_iter().filter(|is_one| *is_one).count();
        // A process that ends takes its words with it.
        let subject = self.whose.subject()?;
        let words = whose::words(&subject);
        let recording = Recording {
            subject,
            at_most: self.whose.time.map(seconds).transpose()?,
            budget: None,
            rests_above: None,
            is_live: false,
            checks_price: true,
            names_inlined: false,
            event,
            period: self.period,
            counted,
            counters,
            kernel_noise,
            ring_marks: self.ring_marks,
            tag,
            ring_pages: self.mmap_pages.unwrap_or_else(|| ring_pages_within_rights(RING_PAGES, sets * cpus.len())),
            cpus,
        };
        Ok(Prepared { here, origin, mechanism, guard, words, recording })
    }
}

/// What is counted by message: each event with its period.
fn counted(here: &Host, texts: &[String], usual: u64) -> Result<Vec<(Event, u64)>> {
    let wrong = |value: &str, needed: String| Error::Argument { argument: "--also", value: value.into(), needed };
    if texts.len() > MAX_COUNTED {
        return Err(wrong(&texts.join(" "), format!("{MAX_COUNTED} events at most")).into());
    }
    let one = |text: &String| {
        let mut event = here.event(text)?;
        let period = match event.rate.take() {
            Some(Rate::Period(period)) => period,
            Some(Rate::Frequency(_)) => {
                return Err(wrong(text, "period= rather than freq=: what is counted has one period".into()).into());
            }
            None => usual,
        };
        if event.mechanism.is_time_driven() {
            return Err(wrong(text, "an event that something makes: of time -e says where it went".into()).into());
        }
        crate::commands::calibrate::check_period(Some(period), event.mechanism)?;
        here.check_usable(&event)?;
        Ok((event, period))
    };
    texts.iter().map(one).collect()
}

/// Whether the kernel may throttle such sampling. It does so by tick: half of its limit is safe.
fn is_throttled(mechanism: Mechanism, period: u64) -> bool {
    let limit = std::fs::read_to_string("/proc/sys/kernel/perf_event_max_sample_rate");
    let limit: u64 = limit.ok().and_then(|text| text.trim().parse().ok()).unwrap_or(0);
    mechanism != Mechanism::CpuClock || 2_000_000_000 / period.max(1) > limit
}

fn seconds(seconds: f64) -> Result<Duration> {
    Duration::try_from_secs_f64(seconds).map_err(|_| {
        Error::Argument { argument: "--time", value: seconds.to_string(), needed: "seconds, 0 or more".into() }.into()
    })
}
