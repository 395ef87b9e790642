//! `perftax plan`: settings for a budget.

mod like;
mod watched;

use anyhow::Result;
use perftax_cost::left_out;
use perftax_cost::period::Rule;
use perftax_cost::planning::{Choice, Outcome as Planned, PlanRequest};
use perftax_cost::prediction::OWN_TERM;
use perftax_cost::tasks::TASK_TERM;
use perftax_doc::{Estimate, LeftOut, Mechanism};
use perftax_doc::{Plan, PredictionRow, Reason, Work, WorkloadProfile};
use perftax_lab::prediction::PredictionInput;
use perftax_pmu::Error;
use perftax_pmu::guard::online_cpus;
use perftax_pmu::machine::Right;
use perftax_report::units;

use crate::asked::{CostChoice, CostQuery};
use crate::failure::Outcome;
use crate::host::Host;
use crate::measured::{PayloadChoice, WatchedChoice, resolve};
use crate::output::Output;
use crate::program::Program;
use crate::wait::Wait;
use like::Asked;

/// Choose the settings that keep sampling within a budget
///
/// The program runs a few times unmonitored, the cost of a sample is taken from this machine's profile (or measured, at most
/// a minute). The upper end of the predicted interval stays within the budget. Exit code 4 when no period fits.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  perftax plan --budget 1% -- bzip2 -kf big
  perftax plan --budget 5% --resolve 2% -- ./server --bench
  perftax plan --budget 1% --like 'perf record --call-graph dwarf -a' -- ./server --bench
  perftax plan --budget 1% --machine skylake --count-of 3e10 -e instructions:upp -- ./server
  perftax plan --budget 1% --machine skylake --counts-from sim -- ./server")]
pub struct Args {
    /// Largest overhead, in per cent of the unmonitored elapsed time, and of the CPU time
    #[arg(long, value_name = "PERCENT", default_value = "1%", value_parser = percent)]
    budget: f64,
    /// Share of the CPU time that the samples must resolve, in per cent
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    resolve: Option<f64>,
    /// Messages (requests, packets) a second, each of which should get one sample at least
    #[arg(long, value_name = "MSG_RATE")]
    samples_per: Option<f64>,
    /// An event that comes once in each request, packet or line (perf's syntax; a tracepoint, a uprobe): the plan says what sampling makes of one
    #[arg(long, value_name = "EVENT", conflicts_with = "counts_from")]
    work: Option<String>,
    /// The event, in perf's syntax; the best mechanism's default otherwise
    #[arg(short, long, value_name = "EVENT")]
    event: Option<String>,
    /// A perf record line whose options are kept, and of which period and buffer alone are chosen; its command or process is the program where none is given
    #[arg(long, value_name = "LINE", conflicts_with_all = ["event", "with", "all_cpus", "machine", "counts_from"])]
    like: Option<String>,
    #[command(flatten)]
    cost: CostChoice,
    #[command(flatten)]
    watched: WatchedChoice,
    #[command(flatten)]
    payload: PayloadChoice,
    #[command(flatten)]
    program: Program,
    #[command(flatten)]
    wait: Wait,
    #[command(flatten)]
    output: Output,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<Outcome> {
    args.output.check_writable()?;
    args.check()?;
    let here = Host::read_waiting(args.wait)?;
    let mut origin = here.origin("plan");
    let asked = Asked::of(args, &here, &mut origin)?;
    let wanted =
        CostQuery { event: asked.event.as_deref(), work: args.work.as_deref(), payload: &asked.payload.with, cost: &args.cost };
    let is_elsewhere = args.cost.is_elsewhere();
    if asked.all_cpus && !is_elsewhere {
        let right = here.right(Right::WholeCpus);
        if right.held != Some(true) {
            return Err(
                Error::Unsupported { what: "watch whole CPUs (-a)".into(), why: right.why_not, remedy: right.remedy }.into()
            );
        }
    }
    let mut known = resolve(&here, &wanted, &asked.program, &mut origin)?;
    asked.size(&mut known.priced.cost, known.mechanism);
    let request = PlanRequest {
        budget: args.budget,
        workload: &known.workload,
        cost: &known.priced.cost,
        setting: known.setting(&asked.payload.with, asked.all_cpus),
        rule: Rule::of(known.mechanism, None),
        resolve: args.resolve,
        samples_per_second: args.samples_per,
    };
    let decided = watched::decide((!is_elsewhere).then_some(&here), &request).map_err(|error| Error::Argument {
        argument: "--budget",
        value: format!("{} %", args.budget * 100.0),
        needed: error.to_string(),
    })?;
    let mut reasons = vec![Reason { setting: "mechanism".into(), why: why_mechanism(&known, asked.event.is_some()) }];
    reasons.extend(why_left_out(&known));
    reasons.extend(decided.reason);
    let planned = decided.planned;
    let feasible = matches!(planned, Planned::Feasible(_));
    let choice = match planned {
        Planned::Feasible(choice) => Some(*choice),
        Planned::Infeasible { why, nearest } => {
            reasons.push(Reason { setting: "feasible".into(), why });
            nearest.map(|nearest| *nearest)
        }
    };
    let mut document = document(origin, &asked, known, feasible, choice, reasons, decided.whole_cpus);
    if decided.whole_cpus && asked.line.is_none() {
        watch_cpus(&mut document, &here)?;
    } else if decided.whole_cpus {
        document.whole_cpus = true;
    }
    args.output.emit(&document)?;
    Ok(if feasible { Outcome::Done } else { Outcome::Negative })
}

impl Args {
    fn check(&self) -> Result<()> {
        let argument = |argument, value: String, needed: &str| Error::Argument { argument, value, needed: needed.into() };
        if !(self.budget > 0.0 && self.budget < 1.0) {
            return Err(argument("--budget", format!("{} %", self.budget * 100.0), "above 0 % and below 100 %").into());
        }
        if self.resolve.is_some_and(|share| !(share > 0.0 && share < 1.0)) {
            return Err(
                argument("--resolve", format!("{} %", self.resolve.unwrap_or(0.0) * 100.0), "above 0 % and below 100 %").into()
            );
        }
        if self.samples_per.is_some_and(|rate| !(rate > 0.0 && rate.is_finite())) {
            return Err(argument("--samples-per", self.samples_per.unwrap_or(0.0).to_string(), "a positive rate").into());
        }
        Ok(())
    }
}

fn document(
    origin: perftax_doc::Origin,
    asked: &Asked,
    known: PredictionInput,
    feasible: bool,
    choice: Option<Choice>,
    mut reasons: Vec<Reason>,
    whole_cpus: bool,
) -> Plan {
    let alpha_ns = known.priced.cost.alpha_with_drift_ns();
    let nothing = Estimate::exact(0.0);
    let mut plan = Plan {
        origin,
        feasible,
        budget: asked.budget,
        event: known.event_name.clone(),
        mechanism: known.mechanism,
        period: 0,
        buffer_bytes: 0,
        alpha_ns,
        expected_overhead: nothing,
        expected_cpu_overhead: None,
        expected_busiest_overhead: None,
        whole_cpus: false,
        samples: 0.0,
        resolves_share: 1.0,
        stoker_samples: 0.0,
        stoker_period: 0,
        work: None,
        reasons: Vec::new(),
        perf_record: Vec::new(),
        workload: known.workload,
    };
    if let Some(choice) = choice {
        reasons.extend(why_own(known.mechanism, &choice.row));
        reasons.extend(why_idle(&plan.workload, &choice.row));
        reasons.extend(why_tasks(&plan.workload, &choice.row, whole_cpus));
        reasons.extend(choice.reasons);
        plan.period = choice.row.period;
        plan.buffer_bytes = choice.buffer_bytes;
        plan.expected_overhead = choice.row.overhead;
        plan.expected_cpu_overhead = choice.row.cpu_overhead;
        plan.expected_busiest_overhead = choice.row.busiest_overhead;
        plan.samples = choice.row.samples;
        let of_cpu = choice.row.cpu_overhead.unwrap_or(choice.row.overhead);
        plan.work = known.work.as_ref().and_then(|event| Work::of(&plan.workload, event, &of_cpu, choice.row.samples));
        plan.resolves_share = choice.resolves_share;
        plan.stoker_samples = choice.stoker_samples;
        plan.stoker_period = choice.stoker_period;
        if feasible {
            plan.perf_record = asked.like(&plan).unwrap_or_else(|| perf_record(&plan, &asked.payload));
        }
    }
    plan.reasons = reasons;
    plan
}

/// Has the command watch the CPUs: all, or those that this process may use.
fn watch_cpus(plan: &mut Plan, here: &Host) -> Result<()> {
    plan.whole_cpus = true;
    let options = if here.cpus == online_cpus()? {
        vec!["-a".to_string()]
    } else {
        vec!["-C".into(), here.cpus.iter().map(u32::to_string).collect::<Vec<_>>().join(",")]
    };
    // Behind `perf record`, where there is anything to record.
    if plan.feasible {
        // All that runs there, and no process.
        if let Some(at) = plan.workload.pid.and_then(|_| plan.perf_record.iter().position(|word| word == "-p")) {
            plan.perf_record.drain(at..at + 2);
        }
        plan.perf_record.splice(2..2, options);
    }
    Ok(())
}

/// The command to paste, with exactly the settings of the plan.
fn perf_record(plan: &Plan, payload: &PayloadChoice) -> Vec<String> {
    // perf_event_mlock_kb and rings count in pages.
    let pages = plan.buffer_bytes / 4096;
    let mut words: Vec<String> = ["perf", "record", "-e", &plan.event, "-c"].map(String::from).to_vec();
    words.push(plan.period.to_string());
    words.extend(["-m".into(), pages.to_string()]);
    words.extend(payload.perf_options());
    // perf has a tracepoint's samples carry their period, and then the kernel takes each event for one, whatever the period (perf_swevent_event).
    if plan.period > 1 && matches!(plan.mechanism, Mechanism::Tracepoint | Mechanism::Uprobe) {
        words.push("--no-period".into());
    }
    // Without a name it would go to standard output where that is a pipe.
    words.extend(["-o".into(), "perf.data".into()]);
    words.extend(whom(&plan.workload, true));
    words
}

/// The end of a line of perf's: the process, unless the line has it, for as long as a look took (so long the samples promised take); or the command.
fn whom(workload: &WorkloadProfile, names_process: bool) -> Vec<String> {
    let mut words = Vec::new();
    match workload.pid {
        Some(pid) => {
            if names_process {
                words.extend(["-p".into(), pid.to_string()]);
            }
            let seconds = (workload.elapsed_s.estimate * 1e3).round() / 1e3;
            words.extend(["--".into(), "sleep".into(), seconds.to_string()]);
        }
        None => {
            words.push("--".into());
            words.extend(workload.command.iter().cloned());
        }
    }
    words
}

fn why_mechanism(known: &PredictionInput, asked: bool) -> String {
    if asked {
        return format!("{} is sampled by {}", known.event_name, known.mechanism);
    }
    match known.mechanism {
        Mechanism::CpuClock => "the best that this machine lets you have: no PMU is to be had, so time drives the samples".into(),
        other => format!("{other} is the best that this machine lets you have"),
    }
}

/// What is not known of the program, and widens the interval.
fn why_own(mechanism: Mechanism, row: &PredictionRow) -> Option<Reason> {
    let why = match row.terms.get(OWN_TERM) {
        Some(own) => format!(
            "{} of the run is for what its own caches may lose to an interrupt, beyond what a sample costs; perftax verify measures it",
            units::estimate_share(own)
        ),
        None if mechanism.is_time_driven() => {
            "what its own caches lose to an interrupt is not in it: this calibration did not ask (perftax calibrate does)".into()
        }
        None => return None,
    };
    Some(Reason { setting: "program".into(), why })
}

/// A program is called idle that uses less of its time than this.
const IDLE: f64 = 0.5;

/// Of what the budget is, where a program waits for most of its time.
fn why_idle(workload: &WorkloadProfile, row: &PredictionRow) -> Option<Reason> {
    let used = workload.cpu_s.estimate / workload.elapsed_s.estimate;
    let cpu = row.cpu_overhead.filter(|_| used < IDLE)?;
    let why = format!(
        "the program waits for most of its time (it uses {} of it), so the budget is of its CPU time, of which sampling takes {}: what it does takes no longer \
         than that; of elapsed time it is {}",
        units::share(used),
        units::estimate_share(&cpu),
        units::estimate_share(&row.overhead)
    );
    Some(Reason { setting: "budget".into(), why })
}

/// What the coming and going of tasks costs, where it is something.
fn why_tasks(workload: &WorkloadProfile, row: &PredictionRow, whole_cpus: bool) -> Option<Reason> {
    let tasks = workload.tasks.as_ref().filter(|tasks| tasks.created() > 0)?;
    let cost = row.terms.get(TASK_TERM)?;
    let why = format!(
        "{} of the run is for {} each of {} threads and processes, and for telling of {} programs executed",
        units::estimate_share(cost),
        if whole_cpus { "telling of" } else { "copying the event for" },
        units::count(tasks.created()),
        units::count(tasks.execs.saturating_sub(1))
    );
    Some(Reason { setting: "tasks".into(), why })
}

/// What a filter costs that drops samples once they are taken.
fn why_left_out(known: &PredictionInput) -> Option<Reason> {
    let share = left_out::share(known.left_out, &known.workload);
    let mode = match known.left_out {
        LeftOut::Nothing => return None,
        LeftOut::KernelMode => "the kernel's",
        LeftOut::UserMode => "the program's own",
    };
    let each = known.left_out.term().and_then(|term| known.priced.cost.terms.get(term)).map_or_else(
        || "as much as with a sample (not calibrated: perftax calibrate)".into(),
        |term| format!("{} each", units::estimate_ns(term)),
    );
    let why = format!(
        "{} gives no samples of {mode} mode, where the program spends {} of its CPU time; the timer interrupts it there all the same, which costs {each}",
        known.event_name,
        units::estimate_share(&share)
    );
    Some(Reason { setting: "filter".into(), why })
}

/// A budget that watching a program can be kept to, of its CPU time.
pub(super) fn budget_share(text: &str) -> Result<f64, String> {
    let is_share = |share: &f64| (0.0001..=0.5).contains(share);
    percent(text).ok().filter(is_share).ok_or_else(|| "needs 0.01% to 50%".into())
}

/// `5%`, `5` and `0.5%` are per cent.
pub(super) fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim_end();
    let value: f64 = number.parse().map_err(|_| format!("'{text}' is not a percentage such as 1% or 0.5%"))?;
    if value.is_finite() { Ok(value / 100.0) } else { Err(format!("'{text}' is not a finite percentage")) }
}
