//! Tools that have no calibrated price: they are tried out on known work, and what they hook into is counted in the program.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::PathBuf;

use anyhow::Result;
use perftax_cost::tool::{Delays, Placed, TrialPrices, term};
use perftax_doc::{Estimate, Origin, ToolPrediction, ToolTrial, TrialStage, Unpriced, Warning, WorkloadProfile};
use perftax_lab::tool::{Trying, known_function, try_out};
use perftax_lab::workload::find_program;
use perftax_pmu::Error;
use perftax_pmu::event::Event;
use perftax_pmu::guard::allowed_cpus;
use perftax_report::units::estimate_ns;
use perftax_tools::{Bpftrace, Hook, Instead, Tool, ToolLine};

use super::{calls, tool};
use crate::host::{Host, kernel_says};
use crate::program::Program;
use crate::progress::{Progress, announce};

/// What a tool has a program pay for.
#[derive(Clone, Debug, PartialEq)]
enum Driver {
    /// Each system call.
    Calls,
    /// Each page fault.
    Faults,
    /// Each context switch.
    Switches,
    /// Each task that comes and goes.
    Tasks,
    /// So many samples a second of CPU time.
    Samples {
        /// Samples a second.
        hz: f64,
    },
    /// Each call of a function of a program.
    Hits {
        /// The program or library.
        file: String,
        /// The function.
        function: String,
    },
}

/// Samples a second that a tool is tried out with where its own are fewer: they would not be seen in a tenth of a second. As many as a calibration takes, and no
/// more than the kernel does.
const TRIED_HZ: f64 = 19_997.0;

/// What it would cost.
pub(super) fn predicted(here: &Host, program: &Program, line: &ToolLine, mut origin: Origin) -> Result<ToolPrediction> {
    let mut unpriced = Vec::new();
    let drivers = drivers(&line.tool, &mut unpriced);
    let stand_in = stand_in(line)?;
    let tried_line = stand_in.as_ref().unwrap_or(line);
    if let Some(other) = &stand_in {
        origin.warnings.push(Warning::Other {
            message: format!(
                "{} is priced as bpftrace, which does the same at each sample: both stacks, counted in a map",
                line.name()
            ),
            remedy: format!(
                "perftax predict --tool {} says it of that one",
                perftax_report::shell::quote(&other.words.join(" "))
            ),
        });
    }
    let samples = drivers.iter().find_map(|driver| match driver {
        Driver::Samples { hz } => Some(hz.max(tried_hz())),
        _ => None,
    });
    // Whether system calls may be counted decides how: all of them, and those that take a path or a buffer.
    let mut counted = if drivers.contains(&Driver::Calls) { calls::countable(here) } else { Vec::new() };
    let probed = drivers.iter().find_map(|driver| match driver {
        Driver::Hits { file, function } => Some(hits(here, file, function)),
        _ => None,
    });
    let probed = probed.transpose()?;
    counted.extend(probed.iter().map(|(event, _)| event.clone()));
    let instead = Instead { hz: samples, function: probed.as_ref().map(|(_, code)| known_function(code)).transpose()? };
    // One tracer stops everybody in turn: each event hands control over to it and back.
    let delays = if matches!(line.tool, Tool::Strace(_)) { Delays::All } else { Delays::ItsTask };
    let trial = tried_out(here, tried_line, instead, delays, &mut origin)?;
    let workload = program.survey(here, counted, &mut origin)?;
    let mut document = tool::blank(line, workload, origin);
    let prices = TrialPrices::of(&trial);
    document.around_s = prices.around_s();
    let mut add = |what: &str, counted: Option<Estimate>, each_ns: Option<Estimate>, document: &mut ToolPrediction| match (
        counted, each_ns,
    ) {
        (Some(count), _) if count.high <= 0.0 => {}
        (Some(count), Some(each_ns)) => document.terms.push(term(what, &count, &each_ns, delays, &document.workload)),
        (None, _) => unpriced.push(Unpriced { what: what.into(), why: "how many the program has nobody may count here".into() }),
        (_, None) => unpriced.push(Unpriced { what: what.into(), why: "they were not tried out".into() }),
    };
    for driver in drivers {
        let (what, each_ns) = match &driver {
            Driver::Calls => {
                match calls::of(program, &mut document) {
                    Some(calls) => {
                        for (what, count, stage) in calls::kinds(&calls) {
                            add(what, Some(count), prices.unit_ns(stage), &mut document);
                        }
                        document.terms.extend(calls::own_term(&calls, &prices, &document.workload, delays));
                    }
                    None => add("system calls", None, None, &mut document),
                }
                continue;
            }
            Driver::Faults => ("page faults", prices.fault_ns()),
            Driver::Switches => ("context switches", prices.switch_ns()),
            Driver::Tasks => ("tasks that come and go", prices.task_ns()),
            Driver::Samples { hz } => {
                let of_samples = count(&driver, &document.workload);
                if let Some(own_ns) = prices.own_ns(1e9 / hz, document.workload.code_pages()) {
                    add("what caches lose to samples", of_samples, Some(own_ns), &mut document);
                }
                ("samples", prices.sample_ns())
            }
            Driver::Hits { function, .. } => (function.as_str(), prices.unit_ns(TrialStage::Probed)),
        };
        let counted = match &probed {
            Some((event, _)) if matches!(driver, Driver::Hits { .. }) => document.workload.counts.get(&event.name).copied(),
            _ => count(&driver, &document.workload),
        };
        add(what, counted, each_ns, &mut document);
    }
    document.origin.warnings.extend(prices.placed().and_then(|placed| placement(line, &placed)));
    document.unpriced = unpriced;
    document.trial = Some(trial);
    Ok(document)
}

/// Samples a second for a trial.
fn tried_hz() -> f64 {
    let most = kernel_says("perf_event_max_sample_rate").parse().unwrap_or(f64::MAX);
    TRIED_HZ.min(most)
}

/// The tool around known work, while nothing else of perftax's measures here.
pub(super) fn tried_out(
    here: &Host,
    line: &ToolLine,
    instead: Instead,
    delays: Delays,
    origin: &mut Origin,
) -> Result<ToolTrial> {
    let is_placed = delays == Delays::All;
    let _alone = here.throttle_guard(origin)?;
    let takes = if is_placed || instead.hz.is_some() { "half a minute" } else { "some ten seconds" };
    announce(&format!("trying {} out on known work, with it and without in turns: {takes}", line.name()));
    let mut trying = Trying { line, instead, is_placed, between: &mut |_, _| {} };
    let bar = Progress::new("trying it out", u64::from(trying.rounds(&allowed_cpus()?)));
    let mut between = |round: u32, of: u32| bar.at(u64::from(round), format!("round {} of {of}", round + 1));
    trying.between = &mut between;
    Ok(try_out(trying)?)
}

/// What to know of a tracer's price where it depends on whether tracer and program share a CPU; none where that makes no difference that is seen.
fn placement(line: &ToolLine, placed: &Placed) -> Option<Warning> {
    let Placed { together_ns, apart_ns } = placed;
    (together_ns.high < apart_ns.low || apart_ns.high < together_ns.low).then(|| Warning::Other {
        message: format!(
            "a system call costs {} where {} and the program share a CPU, {} where they do not, and the scheduler decides: intervals reach over both",
            estimate_ns(together_ns),
            line.name(),
            estimate_ns(apart_ns)
        ),
        remedy: format!("taskset -c 0 {} … has both on one CPU, and every thread of the program with them", line.name()),
    })
}

fn count(driver: &Driver, workload: &WorkloadProfile) -> Option<Estimate> {
    match driver {
        Driver::Calls | Driver::Hits { .. } => None,
        Driver::Faults => Some(workload.faults),
        Driver::Switches => Some(workload.switches),
        Driver::Tasks => workload.tasks.as_ref().map(|tasks| Estimate::exact(tasks.created() as f64)),
        Driver::Samples { hz } => Some(workload.cpu_s.scaled(*hz)),
    }
}

/// What has a program pay, and what of it has no price.
fn drivers(tool: &Tool, unpriced: &mut Vec<Unpriced>) -> Vec<Driver> {
    let mut drivers: Vec<Driver> = Vec::new();
    let mut add = |driver: Driver| {
        if !drivers.contains(&driver) {
            drivers.push(driver);
        }
    };
    let mut without = |what: &str, why: &str| unpriced.push(Unpriced { what: what.into(), why: why.into() });
    match tool {
        Tool::Record(_) => {}
        Tool::Stat(counting) => {
            add(Driver::Switches);
            if counting.inherits {
                add(Driver::Tasks);
            }
            // perf's default events have the kernel's own among them.
            if counting.events.is_empty() {
                add(Driver::Faults);
            }
            for event in &counting.events {
                match of_event(event) {
                    Known::Drives(driver) => add(driver),
                    Known::Nothing => {}
                    Known::Unknown => without(event, "what counting it costs each time was not tried out"),
                }
            }
        }
        Tool::Trace(tracing) => {
            if tracing.calls {
                add(Driver::Calls);
            }
            if tracing.faults {
                add(Driver::Faults);
            }
            add(Driver::Switches);
            if tracing.inherits {
                add(Driver::Tasks);
            }
            for event in tracing.wanted.iter().filter(|name| name.contains(':')) {
                match of_event(event) {
                    Known::Drives(driver) => add(driver),
                    _ => without(event, "what tracing it costs each time was not tried out"),
                }
            }
        }
        Tool::Strace(strace) => {
            add(Driver::Calls);
            if strace.follows {
                add(Driver::Tasks);
            } else {
                without(
                    "threads and processes that it does not follow",
                    "without -f they run on unhindered: their calls are priced, too",
                );
            }
        }
        Tool::Bpftrace(bpftrace) => {
            for probe in &bpftrace.probes {
                let known = match &probe.hook {
                    Hook::Own => Known::Nothing,
                    Hook::Profile { hz } => Known::Drives(Driver::Samples { hz: *hz }),
                    Hook::Event { name, period } => match (of_event(name), period) {
                        (Known::Drives(driver), Some(1)) => Known::Drives(driver),
                        _ => Known::Unknown,
                    },
                    Hook::Tracepoint(name) => of_event(name),
                    Hook::Function { file, function, .. } => match not_counted(bpftrace, function) {
                        Some(why) => {
                            without(&probe.text, why);
                            Known::Nothing
                        }
                        None => Known::Drives(Driver::Hits { file: file.clone(), function: function.clone() }),
                    },
                    Hook::Other => Known::Unknown,
                };
                match known {
                    Known::Drives(driver) => add(driver),
                    Known::Nothing => {}
                    Known::Unknown => without(&probe.text, "how often the program comes by there was not counted"),
                }
            }
        }
        Tool::Profiler(profiler) => add(Driver::Samples { hz: profiler.hz }),
    }
    drivers
}

/// Why calls of a function of a program are not counted, where they are not.
fn not_counted(bpftrace: &Bpftrace, function: &str) -> Option<&'static str> {
    if bpftrace.functions().len() > 1 {
        Some("several functions are probed, and a trial tells what all of them cost: give a line for each")
    } else if bpftrace.file.is_some() {
        Some("the script stands in a file: give it with -e")
    } else if function.is_empty() || function.contains(['*', '?', '"', ':']) || function.starts_with(|c: char| c.is_ascii_digit())
    {
        Some("calls are counted of a function by its symbol alone, not by a pattern or an address")
    } else {
        None
    }
}

/// The event that counts calls of a function, and the code that it begins with.
fn hits(here: &Host, file: &str, function: &str) -> Result<(Event, Vec<u8>)> {
    let path = if file.contains('/') { Some(file.into()) } else { find_program(file) };
    let path: PathBuf = path.ok_or_else(|| Error::Argument {
        argument: "--tool",
        value: file.into(),
        needed: "a program's or a library's path: it is in no folder of PATH".into(),
    })?;
    let event = here.event(&format!("uprobe:{}:{function}", path.display()))?;
    here.check_usable(&event)?;
    let target = event.uprobe.as_ref().map(|target| (target.path.clone(), target.offset));
    let (path, offset) = target.unwrap_or_default();
    let mut code = vec![0; 2];
    let read = File::open(&path).and_then(|file| file.read_exact_at(&mut code, offset));
    read.map_err(Error::file(&path))?;
    Ok((event, code))
}

/// What is known of an event's cost.
enum Known {
    /// It is paid for each time.
    Drives(Driver),
    /// Merely counting it costs the program nothing but at switches.
    Nothing,
    /// It may cost something each time.
    Unknown,
}

/// By an event's name, in perf's syntax or bpftrace's.
fn of_event(text: &str) -> Known {
    let name = text.trim_matches(['{', '}']);
    let (system, event) = name.split_once(':').unwrap_or((name, ""));
    match (system, event) {
        ("raw_syscalls" | "syscalls", _) => Known::Drives(Driver::Calls),
        ("exceptions", event) if event.starts_with("page_fault") => Known::Drives(Driver::Faults),
        ("sched", "sched_switch") => Known::Drives(Driver::Switches),
        ("sched", event) if event.starts_with("sched_process") => Known::Drives(Driver::Tasks),
        ("page-faults" | "faults" | "minor-faults", _) => Known::Drives(Driver::Faults),
        ("context-switches" | "cs", _) => Known::Drives(Driver::Switches),
        ("probe" | "kprobes" | "uprobes" | "uprobe" | "mem", _) => Known::Unknown,
        // Modifiers have one letter each; a tracepoint's name is longer.
        (_, event) if event.len() > 4 => Known::Unknown,
        _ => Known::Nothing,
    }
}

/// What is tried out instead of a profiler that starts no command: bpftrace, with the same done at each sample.
fn stand_in(line: &ToolLine) -> Result<Option<ToolLine>> {
    let Tool::Profiler(profiler) = &line.tool else { return Ok(None) };
    let words = ["bpftrace", "-e"].map(String::from).into_iter();
    let script = format!("profile:hz:{} {{ @[pid, comm, kstack, ustack] = count(); }}", profiler.hz.round().max(1.0));
    let words: Vec<String> = words.chain([script]).collect();
    let line = ToolLine::of_words(&words).map_err(|error| Error::Argument {
        argument: "--tool",
        value: profiler.name.into(),
        needed: error.to_string(),
    })?;
    Ok(Some(line))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    fn of(line: &str) -> (Vec<Driver>, usize) {
        let mut unpriced = Vec::new();
        let drivers = drivers(&ToolLine::parse(line).unwrap().tool, &mut unpriced);
        (drivers, unpriced.len())
    }

    #[test]
    fn tools_are_paid_for_by_what_they_hook_into() {
        use Driver::{Calls, Faults, Samples, Switches, Tasks};
        assert_eq!(of("strace -f ls"), (vec![Calls, Tasks], 0));
        assert_eq!(of("perf trace -s ls"), (vec![Calls, Switches, Tasks], 0));
        assert_eq!(of("perf stat ls"), (vec![Switches, Tasks, Faults], 0));
        assert_eq!(of("perf stat -e cycles:u,instructions ls"), (vec![Switches, Tasks], 0));
        assert_eq!(of("perf stat -e raw_syscalls:sys_enter,kvm:kvm_exit -a"), (vec![Switches, Calls], 1));
        assert_eq!(
            of("bpftrace -e 'profile:hz:99 { @ = count(); } interval:s:1 { print(@); }'"),
            (vec![Samples { hz: 99.0 }], 0)
        );
        assert_eq!(
            of("bpftrace -e 'kprobe:vfs_read { @ = count(); } tracepoint:syscalls:sys_enter_read { @b = count(); }'"),
            (vec![Calls], 1)
        );
        let hits = Driver::Hits { file: "/a".into(), function: "f".into() };
        assert_eq!(of("bpftrace -e 'uprobe:/a:f { @ = count(); } uretprobe:/a:f { @r = count(); }'"), (vec![hits], 0));
        for without in ["uprobe:/a:f, uprobe:/a:g", "uprobe:/a:f*, uretprobe:/a:f*", "u:/a:0x1234, u:/a:0x1234"] {
            assert_eq!(of(&format!("bpftrace -e '{without} {{ @ = count(); }}'")), (vec![], 2), "{without}");
        }
        assert_eq!(of("parca-agent"), (vec![Samples { hz: 19.0 }], 0));
    }
}
