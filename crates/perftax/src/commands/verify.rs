//! `perftax verify`: did the prediction hold?

use std::ffi::OsString;
use std::time::Duration;

use anyhow::{Result, bail};
use perftax_cost::verification::{summarise, summarise_without_pollution};
use perftax_doc::Warning;
use perftax_doc::{Calibration, Origin, StopReason, Verification, WorkloadControl};
use perftax_lab::calibrate::conclude;
use perftax_lab::run::{Attach, Command};
use perftax_lab::verify::{Experiment, Finished, Grid, Request, Subject};
use perftax_lab::workload::{Workload, default_cache_dir};
use perftax_pmu::Error;
use perftax_pmu::event::Event;
use perftax_pmu::guard::check_interrupted;
use perftax_pmu::machine::Right;
use perftax_pmu::sampler::Payload;
use perftax_pmu::sys::{Ring, Stdio};

use super::calibrate::check_period;
use crate::calibration::commonest;
use crate::failure::Outcome;
use crate::folder::{self, FolderChoice};
use crate::host::{Host, NO_YARDSTICK};
use crate::input::InputChoice;
use crate::output::Output;
use crate::progress::{Progress, announce};
use crate::wait::Wait;

/// Run programs with and without sampling: did the prediction hold
///
/// Rounds of two unmonitored runs and one monitored run a period, in random order, with the cost of a sample measured again
/// inside every round. What an interruption makes each program lose in caches and TLBs is probed at two overheads that no cell
/// has. E = (measured − expected)/expected, with intervals; exit code 4 when the prediction did not hold.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  perftax verify -- bzip2 -kf big
  perftax verify -w bzip2 -w perl --overheads 5,20     shipped workloads
  perftax verify -e page-faults -c 1,3 -- ls -R /usr")]
pub struct Args {
    /// The event, in perf's syntax; the best mechanism's default otherwise
    #[arg(short, long, value_name = "EVENT")]
    event: Option<String>,
    /// A shipped workload by name, or a workload description (.toml); may be repeated
    #[arg(short, long, value_name = "NAME", conflicts_with = "command")]
    workload: Vec<String>,
    /// Sampling periods, in events (nanoseconds for clocks)
    #[arg(short = 'c', long = "count", value_name = "R,…", value_delimiter = ',')]
    periods: Vec<u64>,
    /// Overheads that periods are chosen for, in per cent (time-driven events)
    #[arg(long, value_name = "PERCENT,…", value_delimiter = ',', default_values_t = [2.0, 5.0, 10.0, 20.0, 50.0], conflicts_with = "periods")]
    overheads: Vec<f64>,
    /// Ring of a monitored run, in pages; one that holds all samples needs no reader beside the program (usual: 512)
    #[arg(short = 'm', long, value_name = "PAGES")]
    mmap_pages: Option<usize>,
    /// Samples without times: where records hold none (Intel before Skylake), each needs an interrupt otherwise
    #[arg(long)]
    no_timestamp: bool,
    /// Go on until E is known this well, in per cent of the elapsed time
    #[arg(long, value_name = "PERCENT", default_value_t = 2.0)]
    half_width: f64,
    /// Rounds at least
    #[arg(long, alias = "least-rounds", value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u32).range(3..=10_000))]
    min_rounds: u32,
    /// Rounds at most
    #[arg(long, alias = "most-rounds", value_name = "N", default_value_t = 60, value_parser = clap::value_parser!(u32).range(3..=10_000))]
    max_rounds: u32,
    /// End after this many seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 1800)]
    time: u64,
    /// How events are attached: inherited, separate (switching is then part of the prediction), per-cpu
    #[arg(long, value_name = "MODE", default_value = "inherited", value_parser = ["inherited", "separate", "per-cpu"])]
    attach: String,
    /// Add the cost of context switches to what is expected
    #[arg(long)]
    switches: bool,
    /// Cells per core: for programs that keep several cores busy (default for workloads that say so)
    #[arg(long)]
    per_core: bool,
    /// Let single-threaded programs run on any CPU instead of one of their own
    #[arg(long)]
    no_pin: bool,
    /// Overheads at which every program's own pollution term is probed, in per cent (with --overheads)
    #[arg(long, value_name = "PERCENT,…", value_delimiter = ',', default_values_t = [8.0, 40.0])]
    probe: Vec<f64>,
    /// Predict from the calibrated cost alone, without probing what the program itself adds to it
    #[arg(long, conflicts_with = "probe")]
    no_probe: bool,
    /// Run no yardstick beside the programs (it takes the machine's own variation out; without CAP_SYS_NICE there is none)
    #[arg(long)]
    no_yardstick: bool,
    /// Seed of the random order
    #[arg(long, value_name = "N", default_value_t = 1)]
    seed: u64,
    /// Slow one unmonitored arm by this share, to show that the control catches it
    #[arg(long, value_name = "SHARE", default_value_t = 0.0, hide = true)]
    plant_bias: f64,
    #[command(flatten)]
    wait: Wait,
    #[command(flatten)]
    input: InputChoice,
    #[command(flatten)]
    folder: FolderChoice,
    #[command(flatten)]
    output: Output,
    /// The command, after --
    #[arg(last = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Runs the command.
pub fn run(args: &Args) -> Result<Outcome> {
    args.output.check_writable()?;
    let here = Host::read_waiting(args.wait)?;
    let mut origin = here.origin("verify");
    let request = args.request(&here, &mut origin)?;
    let guard = here.throttle_guard(&mut origin)?;
    let finished = measure(&request, &here)?;
    drop(guard);
    origin.warnings.extend(request.subjects.iter().filter_map(|subject| folder::warning(&subject.command)));
    let document = conclude_document(origin, &request, finished)?;
    args.output.emit(&document)?;
    Ok(if document.held { Outcome::Done } else { Outcome::Negative })
}

fn measure(request: &Request, here: &Host) -> Result<Finished> {
    let mut experiment = Experiment::start(request, here.task_clock()?, &here.event("dummy:u")?)?;
    announce(&format!(
        "{} programs × {} periods: rounds of {} runs each in random order, at least {} and at most {} rounds or {} s",
        request.subjects.len(),
        experiment.periods().len(),
        experiment.runs(),
        request.least_rounds,
        request.most_rounds,
        request.time_limit.as_secs()
    ));
    let bar = Progress::new("verifying", request.time_limit.as_secs());
    experiment.run(|step| {
        let width = step.widest.map_or(String::new(), |w| format!(" ±{:.1} %", w * 100.0));
        bar.at(step.elapsed.as_secs(), format!("{} round {}{width}", step.subject, step.rounds));
        if let Some(foreseen) = &step.foreseen {
            announce(&format!(
                "{}: ±{:.1} % needs about {} rounds ({:.0} s); the A/A control will then detect a bias of {:.1} %",
                step.subject,
                request.half_width * 100.0,
                foreseen.rounds,
                foreseen.duration.as_secs_f64(),
                foreseen.detects * 100.0
            ));
        }
        check_interrupted()
    })?;
    Ok(experiment.finish())
}

/// Share of cells whose interval must cover 0 for the prediction to hold (DESIGN's acceptance: 85 %).
const COVERAGE_NEEDED: f64 = 0.85;
/// Median |E| up to which it holds, a fraction.
const MEDIAN_ERROR_ALLOWED: f64 = 0.02;

fn conclude_document(mut origin: Origin, request: &Request, finished: Finished) -> Result<Verification> {
    if finished.cells.is_empty() {
        let of_blocks = finished.blocks.iter().filter_map(|block| block.spoiled.clone());
        let spoiled = |what: &str, spoiled: usize, of: usize, reason: String| Error::Spoiled {
            why: format!("no cell has two usable rounds: {spoiled} of {of} {what} were spoiled, most often: {reason}"),
            remedy: "quieten the machine, lengthen the program, or give it more time with --time".into(),
        };
        let runs =
            ("runs", finished.left_out.len(), finished.made, commonest(finished.left_out.iter().map(|run| run.why.clone())));
        let blocks = ("blocks of the calibration", of_blocks.clone().count(), finished.blocks.len(), commonest(of_blocks));
        // Of either kind a round needs some: what was spoiled more is the reason.
        let share = |spoiled: usize, of: usize| spoiled as f64 / of.max(1) as f64;
        let (what, number, of, reason) = if share(blocks.1, blocks.2) > share(runs.1, runs.2) { blocks } else { runs };
        if let Some(reason) = reason {
            return Err(spoiled(what, number, of, reason).into());
        }
        bail!(
            "no cell has two usable rounds: the time was too short, or samples are as dear as their period\n  \
             give it more time with --time, or a longer period with -c"
        );
    }
    let refused: Vec<&(String, perftax_doc::Control)> = finished.controls.iter().filter(|(_, c)| !c.passed).collect();
    for (workload, control) in &refused {
        origin.warnings.push(Warning::Other {
            message: format!(
                "{workload}: its two unmonitored arms differ by {:+.2} % [{:+.2}, {:+.2}] ({:.1} %): its cells are refused",
                control.difference.estimate * 100.0,
                control.difference.low * 100.0,
                control.difference.high * 100.0,
                control.difference.confidence * 100.0
            ),
            remedy: "quieten the machine and verify again".into(),
        });
    }
    let usable: Vec<_> =
        finished.cells.iter().filter(|cell| !refused.iter().any(|(workload, _)| *workload == cell.workload)).cloned().collect();
    if usable.is_empty() {
        let (workload, control) = refused[0];
        bail!(
            "the A/A control failed: two unmonitored arms of {workload} differ by {:+.2} % [{:+.2}, {:+.2}] ({:.1} %), \
             so the verification is refused\n  something slows one arm and not the other: quieten the machine and verify again",
            control.difference.estimate * 100.0,
            control.difference.low * 100.0,
            control.difference.high * 100.0,
            control.difference.confidence * 100.0
        );
    }
    if finished.missing > 0 {
        origin.warnings.push(Warning::Other {
            message: format!(
                "{} cells could not be computed: too few usable rounds, or samples as dear as their period",
                finished.missing
            ),
            remedy: "give it more time (--time), or leave out the largest --overheads".into(),
        });
    }
    if finished.unreachable > 0 {
        origin.warnings.push(Warning::Other {
            message: format!(
                "{} of the overheads asked for are left out: a sample is too cheap here to cost so much",
                finished.unreachable
            ),
            remedy: "choose smaller --overheads and --probe".into(),
        });
    }
    if let Some(reason) = commonest(finished.left_out.iter().map(|run| run.why.clone())) {
        let (spoiled, of) = (finished.left_out.len() as u64, finished.made as u64);
        origin.warnings.push(Warning::SpoiledRounds { spoiled, of, reason });
    }
    let wide = usable.iter().map(|c| c.error.half_width()).fold(0.0, f64::max);
    if wide > request.half_width {
        origin.warnings.push(Warning::PrecisionNotReached { wanted: request.half_width, reached: wide });
    }
    let summary = summarise(&usable);
    let calibration = calibration_of(&origin, request, &finished);
    Ok(Verification {
        origin,
        mechanism: request.mechanism(),
        event: request.event.name.clone(),
        median_abs_error: summary.median_abs_error,
        coverage: summary.coverage,
        regression: summary.regression,
        without_pollution: summarise_without_pollution(&usable),
        controls: finished
            .controls
            .iter()
            .map(|(workload, control)| WorkloadControl { workload: workload.clone(), control: *control })
            .collect(),
        yardsticks: finished.fits,
        left_out: finished.left_out,
        runs_made: finished.made as u64,
        held: refused.is_empty()
            && finished.missing == 0
            && summary.coverage >= COVERAGE_NEEDED
            && summary.median_abs_error <= MEDIAN_ERROR_ALLOWED,
        cells: finished.cells,
        calibrations: calibration.into_iter().collect(),
    })
}

fn calibration_of(origin: &Origin, request: &Request, finished: &Finished) -> Option<Calibration> {
    let conclusion = conclude(&finished.blocks, request.mechanism(), &[])?;
    Some(Calibration {
        origin: Origin { kind: "calibrate".into(), warnings: Vec::new(), ..origin.clone() },
        mechanism: request.mechanism(),
        event: request.event.name.clone(),
        alpha_ns: conclusion.alpha_ns,
        floor_ns: conclusion.floor_ns,
        samples: conclusion.samples,
        expected_samples: conclusion.expected_samples,
        lost: conclusion.lost,
        throttled: conclusion.throttled,
        terms: conclusion.terms,
        linearity: conclusion.linearity,
        control: conclusion.control,
        witness: None,
        direct: conclusion.direct,
        drift: conclusion.drift,
        sessions: conclusion.sessions,
        elapsed_s: 0.0,
        stopped: StopReason::TimeLimit,
        blocks: finished.blocks.clone(),
    })
}

impl Args {
    fn request(&self, here: &Host, origin: &mut Origin) -> Result<Request> {
        let (event, mechanism) = here.choose(self.event.as_deref(), None)?;
        let event = match event {
            Some(event) => event,
            None => {
                let needed = format!("an event: {mechanism} has none of its own");
                return Err(Error::Argument { argument: "-e", value: "missing".into(), needed }.into());
            }
        };
        let argument = |argument, value: String, needed: &str| Error::Argument { argument, value, needed: needed.into() };
        for &period in &self.periods {
            check_period(Some(period), event.mechanism)?;
        }
        for (name, shares) in [("--overheads", &self.overheads), ("--probe", &self.probe)] {
            if let Some(bad) = shares.iter().find(|o| !(**o > 0.0 && **o <= 100.0)) {
                return Err(argument(name, format!("{bad} %"), "above 0 and at most 100 %").into());
            }
        }
        if !(self.half_width > 0.0 && self.half_width < 100.0) {
            return Err(argument("--half-width", format!("{} %", self.half_width), "between 0 and 100 %").into());
        }
        if self.periods.is_empty() && !event.mechanism.is_time_driven() {
            return Err(argument("-c", "missing".into(), "periods, for an event-driven source").into());
        }
        let grid = if self.periods.is_empty() {
            Grid::Overheads(self.overheads.iter().map(|percent| percent / 100.0).collect())
        } else {
            Grid::Periods(self.periods.clone())
        };
        self.mmap_pages.map(Ring::check_pages).transpose()?;
        let cpu = here.measuring_cpu();
        let subjects = self.subjects(here, cpu, &event)?;
        Ok(Request {
            event,
            subjects,
            grid,
            half_width: self.half_width / 100.0,
            least_rounds: self.min_rounds,
            most_rounds: self.max_rounds.max(self.min_rounds),
            time_limit: Duration::from_secs(self.time),
            cpu,
            seed: self.seed,
            yardsticks: !self.no_yardstick && here.may(Right::RealTime, NO_YARDSTICK, origin),
            probes: if self.no_probe { Vec::new() } else { self.probe.iter().map(|percent| percent / 100.0).collect() },
            payload: if self.no_timestamp { Payload::BASIC.without_time() } else { Payload::BASIC },
            ring_pages: self.mmap_pages,
            planted_bias: self.plant_bias,
        })
    }

    fn subjects(&self, here: &Host, cpu: u32, event: &Event) -> Result<Vec<Subject>> {
        let mut commands = Vec::new();
        for name in &self.workload {
            commands.push(Command::from_workload(&Workload::load(name)?.prepare(&default_cache_dir())?));
        }
        if commands.is_empty() {
            if self.command.is_empty() {
                let needed = "a command after --, or workloads with -w".into();
                return Err(Error::Argument { argument: "COMMAND", value: "missing".into(), needed }.into());
            }
            let command = Command::from_argv(self.command.clone(), Stdio::Discard).reading(self.input.input()?);
            commands.push(self.folder.place(command, std::slice::from_ref(event), 1)?);
        }
        let attach = match self.attach.as_str() {
            "separate" => Attach::Separate,
            "per-cpu" => Attach::PerCpu,
            _ => Attach::Inherited,
        };
        let subjects = commands.into_iter().map(|command| {
            let per_core = self.per_core || (command.threads > 1 && !self.switches);
            let cpus = if per_core || self.no_pin { here.cpus.clone() } else { vec![cpu] };
            Subject { command: command.on_cpus(cpus.clone()), attach, per_core, cpus, switching: self.switches }
        });
        Ok(subjects.collect())
    }
}
