//! `perftax record`: sampling that stays within its budget, written as an ordinary recording.

mod attending;
mod document;
mod files;
mod metrics;

use std::ffi::OsString;
use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result};
use perftax_cost::governor::{Pricing, Tariff};
use perftax_cost::period::Rule;
use perftax_cost::prediction::{USER_STACK_BYTES, Watched};
use perftax_doc::{Estimate, PayloadTerm};
use perftax_pmu::Error;
use perftax_pmu::event::Event;
use perftax_pmu::guard::online_cpus;
use perftax_pmu::machine::Right;
use perftax_pmu::sampler::{Payload, ring_pages_within_rights};
use perftax_record::{Callers, Clock, Place, Recorder, Recording, Stdio, Subject, Whom, record};
use perftax_report::units;
use perftax_tools::Chain;

use crate::commands::plan::budget_share;
use crate::commands::publish::Publish;
use crate::endpoint::{self, Endpoint};
use crate::failure::{Outcome, code_of_end};
use crate::host::Host;
use crate::output::{Output, check_file, is_special, is_stdout};
use crate::wait::Wait;
use crate::{measured, progress, size, target};
use attending::{Attending, Signals};
use files::{Files, SEGMENTS, SwitchAt};

/// Record samples of a program within a budget of its CPU time
///
/// Writes an ordinary recording (perf report, perf script, perf annotate and perftax bill read it). The rate follows what the program does: the upper end of
/// what sampling costs stays within the budget over every second and longer, and each sample carries the weight that it stands for. The program keeps stdin,
/// stdout and its exit code.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  perftax record --budget 1% -o perf.data -- make -j4
  perftax record -g -p 4711 --for 60s
  perftax record -a --budget 0.5% --keep 1G --metrics 9105 -o /var/lib/perftax/perf.data
  perf report -i perf.data")]
pub struct Args {
    /// Take at most this share of the program's CPU time, whatever it does
    #[arg(long, value_name = "SHARE", default_value = "1%", value_parser = budget_share)]
    budget: f64,
    /// The event to sample: the best that works here without it
    #[arg(short, long, value_name = "EVENT")]
    event: Option<String>,
    /// The shortest period to sample at, however much the budget leaves
    #[arg(short = 'c', long = "count", value_name = "R", value_parser = clap::value_parser!(u64).range(1..=1 << 48))]
    period: Option<u64>,
    /// The same as samples a second of CPU time
    #[arg(short = 'F', long = "freq", value_name = "HZ", conflicts_with = "period", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    frequency: Option<u64>,
    /// Record callers, by frame pointers: --call-graph fp
    #[arg(short = 'g', conflicts_with = "call_graph")]
    frame_pointers: bool,
    /// Record callers by frame pointers (fp), or by the tables that compilers leave for exceptions, from a copy of the top of the stack (dwarf, or dwarf,BYTES; usual: 8192). They are found
    /// while it runs: what is written are callers, not copies
    #[arg(long, value_name = "fp|dwarf[,BYTES]", value_parser = call_graph)]
    call_graph: Option<Callers>,
    /// Pages of each CPU's ring; a power of two (usual: 128, 512 with copies of stacks, or as many as may be locked)
    #[arg(short = 'm', long, value_name = "PAGES")]
    mmap_pages: Option<usize>,
    /// The recording. One that is there already is kept as FILE.old. - is standard output, into a pipe; the program's output goes to stderr then
    #[arg(short, long, value_name = "FILE", default_value = "perf.data")]
    output: PathBuf,
    /// Record a process that runs already, and what it will start, until it ends, ^C or --for
    #[arg(short, long, value_name = "PID", conflicts_with = "command")]
    pid: Option<u32>,
    /// Record one thread of a process, by its number, and nothing that it creates, until it ends, ^C or --for
    #[arg(short = 't', long, value_name = "TID", conflicts_with_all = ["command", "pid", "all_cpus", "cgroup", "on"])]
    tid: Option<u32>,
    /// Record everything that runs on the CPUs, until ^C or --for, or for as long as a command runs. Needs the right to watch CPUs
    #[arg(short = 'a', long, conflicts_with = "pid")]
    all_cpus: bool,
    /// The CPUs to record on: with -a those alone, else of the program what it does there
    #[arg(short = 'C', long = "cpu", value_name = "LIST", value_parser = cpu_list)]
    cpus: Option<CpuList>,
    /// Record a control group and those below it, whoever joins it, by its path below /sys/fs/cgroup
    #[arg(long, value_name = "PATH", conflicts_with_all = ["pid", "all_cpus"])]
    cgroup: Option<PathBuf>,
    /// Where the events are open: on the program's threads, or on CPUs, whoever runs there, of which the program's samples are kept. Without it they begin on threads, and go over to
    /// CPUs (where those may be watched) once context switches and new threads take more than half of the budget
    #[arg(long, value_name = "threads|cpus", conflicts_with_all = ["all_cpus", "cgroup"])]
    on: Option<On>,
    /// Take samples' times from this clock (clock_gettime(2)), which programs can read, instead of perf's own
    #[arg(short = 'k', long, value_name = "CLOCK", value_parser = clock_id)]
    clockid: Option<Clock>,
    /// Record for so long, as 90, 60s, 5m or 2h; a command goes on by itself
    #[arg(long = "for", value_name = "TIME", value_parser = duration)]
    at_most: Option<Duration>,
    /// Go on in another file at a size (100M), after a time (10m), or when SIGUSR2 or SIGHUP comes: FILE.<date>-<time>-<number>, each complete by itself
    #[arg(long, value_name = "SIZE|TIME|signal", num_args = 0..=1, require_equals = true, default_missing_value = "signal", value_parser = switch_at)]
    switch_output: Option<SwitchAt>,
    /// Keep the newest files alone, of so many bytes all together (K, M, G); without --switch-output each has an eighth of it
    #[arg(long, value_name = "SIZE", value_parser = keep)]
    keep: Option<u64>,
    /// Answer at this address how it goes, as OpenMetrics (HTTP): a port alone is of this machine
    #[arg(long, value_name = "ADDRESS", value_parser = endpoint::address)]
    metrics: Option<SocketAddr>,
    /// An event that counts the program's pieces of work (a tracepoint, a probe, …): sampling pauses for a look in eight, at random, and what it costs is measured by the CPU time
    /// for a piece of work
    #[arg(long, value_name = "EVENT")]
    work: Option<String>,
    /// Price with this machine profile (or the --json of calibrate) instead of this machine's own
    #[arg(long, value_name = "FILE")]
    profile: Option<PathBuf>,
    #[command(flatten)]
    wait: Wait,
    /// Write what it cost as JSON to FILE
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    json: Option<PathBuf>,
    /// Write how it went, a row a stretch of time, as separated values to stdout
    #[arg(short = 'x', long = "field-separator", value_name = "SEP", help_heading = "Output")]
    separator: Option<String>,
    /// Write what it cost as one offline HTML page to FILE
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    html: Option<PathBuf>,
    #[command(flatten)]
    publish: Publish,
    /// The program, after --
    #[arg(last = true, required_unless_present_any = ["pid", "tid", "all_cpus", "cgroup"], value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Pages of each CPU's ring: 512 KiB, as perf has them.
const RING_PAGES: usize = 128;
/// Periods to choose from: each is an event that every thread inherits.
const RATES: u32 = 2;

/// Where a program's events are open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum On {
    Threads,
    Cpus,
}

/// As perf has it.
fn call_graph(text: &str) -> Result<Callers, String> {
    // No record has more than 64 KiB, and a sample carries more than its stack.
    const MAX_STACK_BYTES: u32 = 65_528 - 512;
    match Chain::parse(text) {
        Ok(Chain::FramePointers) if text == "fp" => Ok(Callers::FramePointers),
        Ok(Chain::StackCopy(stack_bytes)) if stack_bytes <= MAX_STACK_BYTES => Ok(Callers::Tables { stack_bytes }),
        Ok(Chain::StackCopy(_)) => Err(format!("needs at most {MAX_STACK_BYTES} bytes behind dwarf")),
        Ok(Chain::BranchRecords) => {
            Err("lbr is perf record's alone; --call-graph dwarf finds callers without frame pointers, too".into())
        }
        _ => Err(format!("needs fp, dwarf, or dwarf,BYTES (at most {MAX_STACK_BYTES})")),
    }
}

/// By perf's names, short and long.
fn clock_id(text: &str) -> Result<Clock, String> {
    Ok(match text.trim_start_matches("CLOCK_").to_ascii_lowercase().as_str() {
        "monotonic" | "mono" => Clock::Monotonic,
        "monotonic_raw" | "raw" => Clock::MonotonicRaw,
        "realtime" | "real" => Clock::Realtime,
        "boottime" | "boot" => Clock::Boottime,
        "tai" => Clock::Tai,
        _ => return Err("needs mono, raw, real, boot or tai (as monotonic, monotonic_raw, … and CLOCK_…)".into()),
    })
}

/// CPUs by number.
#[derive(Clone, Debug)]
struct CpuList(Vec<u32>);

/// `0,2-4`.
fn cpu_list(text: &str) -> Result<CpuList, String> {
    let number = |text: &str| text.trim().parse::<u32>().ok().filter(|cpu| *cpu < 1 << 16);
    let part = |part: &str| match part.split_once('-') {
        Some((from, to)) => Some((number(from)?, number(to)?)).filter(|(from, to)| from <= to),
        None => number(part).map(|cpu| (cpu, cpu)),
    };
    let parts: Option<Vec<(u32, u32)>> = text.split(',').map(part).collect();
    let mut cpus: Vec<u32> = parts.ok_or("needs CPUs such as 0,2-4")?.into_iter().flat_map(|(from, to)| from..=to).collect();
    cpus.sort_unstable();
    cpus.dedup();
    Ok(CpuList(cpus))
}

/// As perf has it: capital letters are bytes, small ones time.
fn switch_at(text: &str) -> Result<SwitchAt, String> {
    match text {
        "signal" => Ok(SwitchAt::Signal),
        _ if text.ends_with(['B', 'K', 'M', 'G']) => size::size(text, 1 << 40).map(SwitchAt::Bytes),
        _ if text.ends_with(['s', 'm', 'h']) => duration(text).map(SwitchAt::Age),
        _ => Err("needs a size (100M), a time (10m) or signal".into()),
    }
}

fn keep(text: &str) -> Result<u64, String> {
    size::size(text, 1 << 50)
}

/// Runs the command.
pub fn run(args: &Args) -> Result<Outcome> {
    let output = Output { json: args.json.clone(), separator: args.separator.clone(), html: args.html.clone(), output: None };
    output.check_writable()?;
    args.publish.check()?;
    check_file(&args.output)?;
    if let Some(pages) = args.mmap_pages.filter(|pages| !pages.is_power_of_two() || !(1..=1 << 18).contains(pages)) {
        let needed = "a power of two from 1 to 262144".into();
        return Err(Error::Argument { argument: "-m", value: pages.to_string(), needed }.into());
    }
    let is_stream = is_stdout(&args.output) || is_special(&args.output);
    if is_stream && (args.keep.is_some() || args.switch_output.is_some()) {
        let needed = "a file with --keep and --switch-output, which is followed by others".into();
        return Err(Error::Argument { argument: "-o", value: args.output.display().to_string(), needed }.into());
    }
    let on_stdout = |path: &Option<PathBuf>| path.as_deref().is_some_and(is_stdout);
    if is_stdout(&args.output) && (args.separator.is_some() || on_stdout(&args.json) || on_stdout(&args.html)) {
        let needed = "one of the recording, --json -, -x and --html - on standard output; the others in files".into();
        return Err(Error::Argument { argument: "-o", value: "-".into(), needed }.into());
    }
    if is_stdout(&args.output) && std::io::stdout().is_terminal() {
        let needed = "a file, or standard output into a pipe".into();
        return Err(Error::Argument { argument: "-o", value: "-".into(), needed }.into());
    }
    // Before anything is measured for it.
    let process = match (args.tid, args.pid) {
        (Some(tid), _) => Some(process_of("-t", tid)?),
        (None, Some(pid)) => process_of("-p", pid).map(|_| Some(pid))?,
        (None, None) => None,
    };
    let here = Host::read_waiting(args.wait)?;
    let (event, mechanism) = here.choose(args.event.as_deref(), None)?;
    let event = event.with_context(|| format!("{mechanism} names no event"))?;
    let mut origin = here.origin("record");
    if args.event.is_none() && event.modifiers.exclude_kernel {
        here.may(Right::OwnKernelMode, "samples are of the program's own mode alone", &mut origin);
    }
    let callers = match args.call_graph {
        Some(callers) => callers,
        None if args.frame_pointers => Callers::FramePointers,
        None => Callers::Nobody,
    };
    if matches!(callers, Callers::Tables { .. }) && std::env::consts::ARCH != "x86_64" {
        let what = format!("unwind stacks of {}", std::env::consts::ARCH);
        let why = "callers are found by tables on x86-64 alone".into();
        return Err(Error::Unsupported { what, why, remedy: "--call-graph fp, of programs with frame pointers".into() }.into());
    }
    let carried: &[PayloadTerm] = match callers {
        Callers::Nobody => &[],
        Callers::FramePointers => &[PayloadTerm::Callchain],
        // The kernel's callers come as a chain.
        Callers::Tables { .. } => &[PayloadTerm::Callchain, PayloadTerm::UserStack],
    };
    let mut priced = measured::price(&here, Some(&event), mechanism, carried, args.profile.as_ref(), &mut origin)?;
    if let (Callers::Tables { stack_bytes }, Some(term)) = (callers, priced.cost.terms.get_mut(PayloadTerm::UserStack.name()))
        && stack_bytes > USER_STACK_BYTES
    {
        // A longer copy than the calibrated one costs as much more at most.
        *term = Estimate { high: term.high * f64::from(stack_bytes) / f64::from(USER_STACK_BYTES), ..*term };
    }
    // Wherever its threads go, whatever CPUs we are held to.
    let online = online_cpus()?;
    let cpus = args.cpus.clone().map_or(online.clone(), |list| list.0);
    if let Some(missing) = cpus.iter().find(|cpu| !online.contains(cpu)) {
        let needed = format!("CPUs that are online: {}", online.iter().map(u32::to_string).collect::<Vec<_>>().join(","));
        return Err(Error::Argument { argument: "-C", value: missing.to_string(), needed }.into());
    }
    let whom = match &args.cgroup {
        Some(path) => Whom::group("--cgroup", path)?,
        None if args.all_cpus => Whom::Cpus,
        None => args.tid.map_or(Whom::Program, Whom::Thread),
    };
    let right = here.right(Right::WholeCpus);
    let may_watch_cpus = right.held == Some(true);
    let to_watch_cpus = (!may_watch_cpus).then(|| right.remedy.clone());
    if (!whom.is_of_threads() || args.on == Some(On::Cpus)) && !may_watch_cpus {
        let asked = match args.on {
            Some(_) => "--on cpus",
            None if args.all_cpus => "-a",
            None => "--cgroup",
        };
        let what = format!("watch whole CPUs ({asked})");
        return Err(Error::Unsupported { what, why: right.why_not, remedy: right.remedy }.into());
    }
    let is_clock = mechanism.is_time_driven();
    let by_frequency = args.frequency.map(|frequency| 1_000_000_000 / frequency);
    if let Some(frequency) = args.frequency.filter(|_| !is_clock) {
        let needed = format!("a clock: how often {} comes nobody knows before; -c bounds it", event.name);
        return Err(Error::Argument { argument: "-F", value: frequency.to_string(), needed }.into());
    }
    let on_threads = whom.is_of_threads() && args.on != Some(On::Cpus);
    let pricing = Pricing {
        cost: priced.cost,
        mechanism,
        payload: carried.iter().map(|term| term.name().to_string()).collect(),
        left_out: event.left_out(),
        watched: if on_threads { Watched::Program { events: RATES, cpus: cpus.len() as u32 } } else { Watched::Cpus },
        rule: Rule::of(mechanism, None),
        budget: args.budget,
        shortest: by_frequency.or(args.period),
        rates: RATES,
    };
    // Of a clock others on the CPUs lose no more than the program does: other events may come to them far more often.
    let may_go_over = matches!(whom, Whom::Program) && on_threads && args.on.is_none() && may_watch_cpus && is_clock;
    let tariff = pricing
        .tariff()
        .with_context(|| format!("no period of {} fits a budget of {}", event.name, units::share(args.budget)))?;
    for less in &origin.warnings {
        progress::announce(&format!("{less}\n  {}", less.remedy()));
    }
    progress::announce(&promise(args.budget, &event, &tariff));
    let signals = Signals::notice();
    let endpoint = args.metrics.map(Endpoint::listen).transpose()?;
    // Copies of stacks take room.
    let pages = if matches!(callers, Callers::Tables { .. }) { 4 * RING_PAGES } else { RING_PAGES };
    let recording = Recording {
        subject: match (process, &args.command[..]) {
            (Some(pid), _) => Subject::process(pid),
            // Until somebody says that it is enough.
            (None, []) => Subject::process(std::process::id()),
            (None, command) => Subject::Command(command.to_vec()),
        },
        whom,
        place: if on_threads { Place::Threads } else { Place::Cpus },
        on_cpus: may_go_over.then(|| Pricing { watched: Watched::Cpus, ..pricing.clone() }),
        event,
        payload: Payload::BASIC,
        callers,
        clock: args.clockid.unwrap_or_default(),
        pricing,
        output: if is_stdout(&args.output) { Stdio::ToErrors } else { Stdio::Inherit },
        ring_pages: args.mmap_pages.unwrap_or_else(|| ring_pages_within_rights(pages, cpus.len())),
        cpus,
        own_cpus: here.cpus.clone(),
        work: args.work.as_deref().map(|text| here.event(text)).transpose()?,
        at_most: args.at_most,
    };
    let recorder = Recorder {
        name: format!("perftax {}", env!("CARGO_PKG_VERSION")),
        command: origin.command.clone(),
        cpu: here.id.cpu.clone(),
        pmus: here.pmu_types(),
    };
    let subject = document::Subject { origin, recording: &recording, program: program(args), to_watch_cpus };
    let switch_at = args.switch_output.or(args.keep.map(|keep| SwitchAt::Bytes((keep / SEGMENTS).max(1))));
    let files = Files::new(&args.output, switch_at, args.keep);
    let mut attending = Attending { subject: &subject, files, endpoint, signals };
    let came = record(&recording, &recorder, &mut attending)?;
    let status = came.status();
    let ended = matches!(recording.subject, Subject::Command(_)).then_some(came.exit.ended);
    let document = subject.document(&status, ended, &attending.files);
    output.emit_beside_child(&document)?;
    args.publish.publish(&document)?;
    if let Some(failure) = status.failure.filter(|_| status.totals.unwritten > 0 || !attending.files.are_segments()) {
        let (path, unwritten) = (args.output.display(), status.totals.unwritten);
        anyhow::bail!("cannot write all of {path}: {failure}; {unwritten} samples are missing, all others are there");
    }
    Ok(match ended.map(code_of_end) {
        None | Some(0) => Outcome::Done,
        Some(code) => Outcome::Passed(code),
    })
}

/// What results call who is sampled.
fn program(args: &Args) -> Vec<String> {
    let beside: Vec<String> = match &args.cgroup {
        Some(path) => vec![format!("cgroup:{}", path.display())],
        None if args.all_cpus => vec!["everything".into()],
        None => Vec::new(),
    };
    // A process that ends takes its words with it.
    let thread = args.tid.map(|tid| format!("thread:{tid}"));
    beside.into_iter().chain(thread).chain(target::program(args.pid, &args.command)).collect()
}

/// The process that a thread is of.
fn process_of(argument: &'static str, tid: u32) -> Result<u32> {
    let status = std::fs::read_to_string(format!("/proc/{tid}/status")).unwrap_or_default();
    let found = status.lines().find_map(|line| line.strip_prefix("Tgid:")?.trim().parse().ok());
    let needed = format!("the number of a {} that runs", if argument == "-t" { "thread" } else { "process" });
    found.ok_or_else(|| Error::Argument { argument, value: tid.to_string(), needed }.into())
}

/// What is said before anything runs.
fn promise(budget: f64, event: &Event, tariff: &Tariff) -> String {
    let sample = format!(
        "at most {} of the program's CPU time: a sample of {} takes {}",
        units::share(budget),
        event.name,
        units::estimate_ns(&tariff.sample_ns[0])
    );
    match (tariff.is_clock, &tariff.periods[..]) {
        (true, [finest, .., coarsest]) => format!(
            "{sample}, so one every {} at most, every {} where other things take their part",
            units::period(event.mechanism, *finest),
            units::period(event.mechanism, *coarsest)
        ),
        _ => format!("{sample}; the period follows how often it comes"),
    }
}

/// `90`, `60s`, `5m`, `2h`.
fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = text.split_at(text.trim_end_matches(|c: char| c.is_ascii_alphabetic()).len());
    let factor = match unit {
        "" | "s" => 1.0,
        "ms" => 1e-3,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        _ => return Err(format!("unit {unit}: it is ms, s, m or h")),
    };
    let seconds = number.parse::<f64>().ok().map(|number| number * factor).filter(|seconds| *seconds > 0.0);
    seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).ok_or_else(|| "needs a time above 0, as 60s".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_units() {
        assert_eq!(duration("90"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("1.5m"), Ok(Duration::from_secs(90)));
        assert_eq!(duration("250ms"), Ok(Duration::from_millis(250)));
        for wrong in ["", "0", "-1", "s", "5d", "nan", "1e999"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn lists_and_switches_are_read_as_perf_reads_them() {
        assert_eq!(cpu_list("3,0-1,1").unwrap().0, [0, 1, 3]);
        for wrong in ["", "a", "2-1", "1,,2", "-1", "99999"] {
            assert!(cpu_list(wrong).is_err(), "{wrong}");
        }
        assert_eq!(switch_at("100M"), Ok(SwitchAt::Bytes(100 << 20)));
        assert_eq!(switch_at("5m"), Ok(SwitchAt::Age(Duration::from_secs(300))));
        assert_eq!(switch_at("signal"), Ok(SwitchAt::Signal));
        assert!(switch_at("5").is_err() && switch_at("5d").is_err() && switch_at("0M").is_err());
    }
}
