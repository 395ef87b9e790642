//! `perftax predict`: what sampling would cost a program.

mod calls;
mod sampler;
mod tool;
mod tried;

use anyhow::Result;
use perftax_cost::period::{Rule, event_defaults, time_defaults};
use perftax_cost::prediction::row;
use perftax_doc::Mechanism;
use perftax_doc::Prediction;
use perftax_lab::prediction::PredictionInput;
use perftax_pmu::Error;

use super::calibrate::check_period;
use crate::asked::{CostChoice, CostQuery};
use crate::failure::Outcome;
use crate::host::Host;
use crate::measured::{PayloadChoice, WatchedChoice, resolve};
use crate::output::Output;
use crate::program::Program;
use crate::wait::Wait;

/// Predict what sampling would cost a program, over periods
///
/// The program runs a few times unmonitored, and once sampled, to see how much code it goes through. With --machine, the cost of a sample is that of a published
/// or saved machine, and the event need not exist here as long as its count can be had.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  perftax predict -- bzip2 -kf big
  perftax predict -F 99,999 --load 'wrk …' --ready 8080 -- ./server
  perftax predict -e page-faults -c 1,11,101 -- ls -R /usr
  perftax predict --machine broadwell -e UOPS_RETIRED.ALL --count-of 2e10 -- ./server
  perftax predict --machine skylake --counts-from sim -- bzip2 -kc big
  perftax predict --tool 'perf record -F 999 -g' -- bzip2 -kf big
  perftax predict --tool 'strace -f -e trace=file' -p 4711
  perftax predict --tool 'perf record -F 99 -g -a' -a --for 10s")]
pub struct Args {
    /// The event, in perf's syntax; the best mechanism's default otherwise
    #[arg(short, long, value_name = "EVENT")]
    event: Option<String>,
    /// Sampling periods, in events (nanoseconds for clocks); a range of defaults otherwise
    #[arg(short = 'c', long = "count", value_name = "R,…", value_delimiter = ',')]
    periods: Vec<u64>,
    /// Samples a second of CPU time, as perf record's -F: of clocks the period 1/HZ, of other events the period that gives so many in this program
    #[arg(short = 'F', long = "freq", value_name = "HZ,…", value_delimiter = ',', conflicts_with = "periods")]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    frequencies: Vec<u64>,
    /// What this tool would cost the program, by its own command line: perf record, stat, trace, mem record, c2c record; strace; bpftrace; bcc's profile,
    /// parca-agent, ebpf-profiler. Its command or process is the program where none is given. Tools without a calibrated price are tried out on known work
    #[arg(long, value_name = "LINE", conflicts_with_all = ["event", "periods", "frequencies", "with", "machine", "count_of", "counts_from"])]
    tool: Option<String>,
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
    if let Some(line) = &args.tool {
        return tool::run(args, line);
    }
    let here = Host::read_waiting(args.wait)?;
    let mut origin = here.origin("predict");
    let wanted = CostQuery { event: args.event.as_deref(), work: None, payload: &args.payload.with, cost: &args.cost };
    let known = resolve(&here, &wanted, &args.program, &mut origin)?;
    let rule = Rule::of(known.mechanism, None);
    let periods = if !args.frequencies.is_empty() {
        args.frequencies.iter().map(|hz| period_of(*hz, &known)).collect::<Result<Vec<u64>>>()?
    } else if args.periods.is_empty() {
        // What is predicted with, at the shortest period that would be taken for α alone.
        let (cost, alpha_ns) = (&known.priced.cost, known.priced.cost.alpha_ns);
        let own_ns = cost.own_ns(&alpha_ns, 4.0 * alpha_ns.estimate, known.workload.code_pages());
        let own_ns = own_ns.map_or(0.0, |own_ns| own_ns.high);
        defaults(known.mechanism, alpha_ns.estimate + own_ns, &rule)
    } else {
        args.periods.clone()
    };
    let setting = known.setting(&args.payload.with, args.watched.all_cpus);
    let mut rows = Vec::new();
    for &period in &periods {
        check_period(Some(period), known.mechanism)?;
        let predicted = row(&known.workload, &known.priced.cost, &setting, period);
        rows.push(predicted.map_err(|error| Error::Argument {
            argument: "-c",
            value: period.to_string(),
            needed: error.to_string(),
        })?);
    }
    rows.sort_by_key(|row| row.period);
    let document = Prediction {
        origin,
        mechanism: known.mechanism,
        event: known.event_name.clone(),
        alpha_ns: known.priced.cost.alpha_with_drift_ns(),
        cost_machine: known.priced.machine,
        workload: known.workload,
        rows,
    };
    args.output.emit(&document)?;
    Ok(Outcome::Done)
}

/// How often the event comes, a second of the program's CPU time; of clocks in nanoseconds.
fn rate(known: &PredictionInput) -> f64 {
    match known.mechanism.is_time_driven() {
        true => 1e9,
        false => {
            let cpu_s = known.workload.cpu_s.estimate;
            known.workload.counts.get(&known.event_name).map_or(0.0, |count| count.estimate / cpu_s)
        }
    }
}

/// The period that gives so many samples a second of the program's CPU time.
fn period_of(hz: u64, known: &PredictionInput) -> Result<u64> {
    let rate = rate(known);
    let period = (rate / hz as f64).round();
    if !period.is_finite() || period < 1.0 {
        let needed = format!("a rate below that of {} in this program, {rate:.0} a second of CPU time", known.event_name);
        return Err(Error::Argument { argument: "--freq", value: hz.to_string(), needed }.into());
    }
    Ok(period as u64)
}

fn defaults(mechanism: Mechanism, alpha_ns: f64, rule: &Rule) -> Vec<u64> {
    match mechanism {
        Mechanism::CpuClock => time_defaults(alpha_ns),
        // Sources of which a program has few events are sampled at every one, or nearly.
        Mechanism::Software | Mechanism::Breakpoint | Mechanism::Tracepoint | Mechanism::Uprobe => vec![1, 2, 5, 11, 101, 1009],
        _ => event_defaults(rule),
    }
}
