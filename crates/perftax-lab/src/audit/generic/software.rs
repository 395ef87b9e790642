//! Generic events of the kernel's own (`PERF_TYPE_SOFTWARE`).

use std::time::Duration;

use perftax_doc::AuditRow;
use perftax_pmu::Result;
use perftax_pmu::event::parse_one;
use perftax_pmu::machine::{KnownFault, Probe};
use perftax_pmu::sampler::LiveProbe;
use perftax_pmu::sys::{monotonic_ns, thread_cpu_ns};

use super::super::{Measurement, Setting, Unit, or_impossible};
use crate::stimulus::{Migrations, PageFaults, Sleeps, Spin, Stimulus};

/// Pages that are touched.
const PAGES: usize = 5000;
/// Times that a thread sleeps, or moves.
const TIMES: u64 = 200;
/// Of the switches, the share that may be preemptions after the event was switched on and before the thread asked how many there were,
/// or the same at the end.
const BETWEEN_LOOKS: f64 = 0.02;
/// CPU time of the work that clocks are held against.
const SPELL: Duration = Duration::from_millis(20);
/// By how much a clock may differ from the thread's CPU time: interrupts are no time of the thread's, but these clocks go on in them
/// (update_rq_clock_task against perf_clock), and all are read a few microseconds apart.
const CLOCK: f64 = 0.025;
/// Time that a run may take longer than its CPU time, a share: else somebody else ran, and which clocks go on then depends on who.
const LEFT_ALONE: f64 = 0.02;
/// Runs in which somebody else had the CPU, until it is given up.
const MAX_DISTURBED: usize = 200;

pub(super) fn rows(setting: &Setting) -> Result<Vec<AuditRow>> {
    let of = |case: &str, row: Result<AuditRow>| or_impossible(case, row.map(|row| vec![row]));
    let mut rows = Vec::new();
    for (name, expected) in [("page-faults", PAGES), ("minor-faults", PAGES), ("major-faults", 0), ("dummy", 0)] {
        // No page of these waits for a disk.
        let case = format!("{name}:u, {PAGES} pages touched");
        rows.extend(of(&case, faults(setting, name, &case, expected))?);
    }
    let case = format!("context-switches, {TIMES} sleeps");
    rows.extend(of(&case, switches(setting, &case))?);
    let case = format!("cpu-migrations, {TIMES} moves");
    rows.extend(match setting.cpus {
        [.., other, last] => of(&case, migrations(setting, &case, (*last, *other)))?,
        _ => vec![AuditRow::impossible(case, "cannot be had here: there is one CPU alone to run on")],
    });
    for (name, may_be_0) in [("task-clock", false), ("cpu-clock", true)] {
        let case = format!("{name}, the thread's CPU time");
        let known = KnownFault::COUNTED_CLOCK_IS_0;
        let is_known = may_be_0 && LiveProbe::new(setting.catalog).counts_the_clock() == Some(false);
        let said = |row: AuditRow| {
            if is_known { row.remarking_first(format!("{}: {}", known.name, known.sources.join("; "))) } else { row }
        };
        rows.extend(of(&case, clock(setting, name, &case))?.into_iter().map(said));
    }
    rows.push(AuditRow::without_truth(
        "alignment-faults, emulation-faults",
        "on x86 the kernel mends and emulates nothing that it would count",
    ));
    rows.push(AuditRow::without_truth("bpf-output", "only a BPF program writes it"));
    rows.push(AuditRow::without_truth("cgroup-switches", "it needs control groups, which the audit does not create"));
    Ok(rows)
}

fn faults(setting: &Setting, name: &str, case: &str, expected: usize) -> Result<AuditRow> {
    let event = parse_one(&format!("{name}:u"), setting.catalog)?;
    let runs = Measurement::runs(setting, &mut PageFaults::new(PAGES)?, &event, None)?;
    let counted: Vec<f64> = runs.iter().map(|run| run.counted as f64).collect();
    Ok(Measurement::marked(AuditRow::of(case, Unit::Events.text(), expected as f64, &counted, 0.0), &runs))
}

/// Switches by preemption are others' doing; the kernel tells how many there were by another way (getrusage(2)), and they are taken off.
fn switches(setting: &Setting, case: &str) -> Result<AuditRow> {
    let event = parse_one("context-switches", setting.catalog)?;
    let mut work = Sleeps::new(TIMES);
    let mut counted = Vec::new();
    let mut runs = Vec::new();
    for _ in 0..setting.runs {
        let run = Measurement::of(setting, &mut work, &event, None)?;
        counted.push(run.counted as f64 - work.preempted() as f64);
        runs.push(run);
    }
    let expected = work.truth().unwrap_or(TIMES) as f64;
    Ok(Measurement::marked(AuditRow::of(case, Unit::Events.text(), expected, &counted, BETWEEN_LOOKS), &runs))
}

fn migrations(setting: &Setting, case: &str, between: (u32, u32)) -> Result<AuditRow> {
    let event = parse_one("cpu-migrations", setting.catalog)?;
    let mut work = Migrations::new(TIMES, between);
    let runs = Measurement::runs(setting, &mut work, &event, None)?;
    let counted: Vec<f64> = runs.iter().map(|run| run.counted as f64).collect();
    let expected = work.truth().unwrap_or(TIMES) as f64;
    Ok(Measurement::marked(AuditRow::of(case, Unit::Events.text(), expected, &counted, 0.0), &runs))
}

/// Work that notes the thread's own CPU time, and the time that passed.
struct Timed {
    spin: Spin,
    cpu_ns: u64,
    passed_ns: u64,
}

impl Timed {
    /// Whether nothing took the CPU away: the kernel's clocks go on while a hypervisor steals, the thread's own does not.
    fn was_left_alone(&self) -> bool {
        self.passed_ns.saturating_sub(self.cpu_ns) as f64 <= LEFT_ALONE * self.cpu_ns as f64
    }
}

impl Stimulus for Timed {
    fn run(&mut self) {
        let (cpu, passed) = (thread_cpu_ns(), monotonic_ns());
        self.spin.run();
        (self.cpu_ns, self.passed_ns) = (thread_cpu_ns() - cpu, monotonic_ns() - passed);
    }

    fn run_noting(&mut self, ticks: &mut Vec<u32>) {
        self.spin.run_noting(ticks);
    }

    fn truth(&self) -> Option<u64> {
        None
    }
}

fn clock(setting: &Setting, name: &str, case: &str) -> Result<AuditRow> {
    let event = parse_one(name, setting.catalog)?;
    let mut work = Timed { spin: Spin::lasting(SPELL), cpu_ns: 0, passed_ns: 0 };
    let (mut shares, mut runs, mut disturbed) = (Vec::new(), Vec::new(), 0);
    while runs.len() < setting.runs && disturbed < MAX_DISTURBED {
        let run = Measurement::of(setting, &mut work, &event, None)?;
        if !work.was_left_alone() {
            disturbed += 1;
            continue;
        }
        shares.push(100.0 * run.counted as f64 / work.cpu_ns.max(1) as f64);
        runs.push(run);
    }
    if runs.len() < setting.runs {
        let why = format!("too noisy to tell: in {disturbed} runs somebody else had the CPU; a quieter machine");
        return Ok(AuditRow::impossible(case, why));
    }
    Ok(Measurement::marked(AuditRow::of(case, Unit::ShareOfCpuTime.text(), 100.0, &shares, CLOCK), &runs))
}
