//! A tool around known work, and the same work without it, in turns.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use perftax_doc::{ToolTrial, TrialPlacement, TrialRun, TrialStage};
use perftax_pmu::guard::{allowed_cpus, check_interrupted};
use perftax_pmu::sys::{Ended, Exit, Stdio};
use perftax_pmu::{Error, Result};
use perftax_tools::{Instead, ToolLine};

use super::battery::{self, Amounts, Paths};
use crate::run::Command;
use crate::stimulus::{EMULATED, STEPPED, Spin, WideCode, is_emulated};

/// Rounds: six are the fewest whose median has an interval of 95 %.
const ROUNDS: u32 = 9;
/// Rounds of each placement beside the scheduler's own.
const PLACED_ROUNDS: u32 = 6;
/// Computing, in a run.
const COMPUTING: Duration = Duration::from_millis(120);
/// The same where it is sampled.
const SAMPLED: Duration = Duration::from_millis(200);
/// What else there is to do in a run: under a tool that stops a program at each system call a few tenths of a second.
const AMOUNTS: [(TrialStage, u64); 7] = [
    (TrialStage::Calls, 1500),
    (TrialStage::Paths, 1500),
    (TrialStage::Reads, 1500),
    (TrialStage::Faults, 2000),
    (TrialStage::Switches, 1200),
    (TrialStage::Tasks, 60),
    (TrialStage::SpreadCalls, 4000),
];
/// Calls of a function that a probe sits on: ten microseconds each where the kernel traps twice in a guest.
const PROBED: u64 = 6000;
/// What a run may take before it is given up: tools that compile programs take seconds to begin.
const DEADLINE: Duration = Duration::from_secs(60);

/// What is tried out, and how.
pub struct Trying<'a> {
    /// The tool's line.
    pub line: &'a ToolLine,
    /// What it is tried out with instead of its own: a function is one of [`known_function`]'s.
    pub instead: Instead,
    /// Whether tool and work are tried out on one CPU and on two besides: of a tool that hands control to and fro at each event.
    pub is_placed: bool,
    /// Told of each round.
    pub between: &'a mut dyn FnMut(u32, u32),
}

/// File and name of a function of the known work, for a tool's probe to sit on: one whose first instruction the kernel treats as it does that code.
///
/// # Errors
/// Where this program's file is not known.
pub fn known_function(code: &[u8]) -> Result<(String, String)> {
    let program = std::env::current_exe().map_err(|source| Error::System { call: "this program's file".into(), source })?;
    let name = if is_emulated(code) { EMULATED } else { STEPPED };
    Ok((program.to_string_lossy().into_owned(), name.into()))
}

/// Tries a tool out: [`ROUNDS`] rounds, in each a run with it and one without, in random order; and some more of each placement where that is asked for and there
/// are two CPUs.
///
/// # Errors
/// Where the tool cannot be executed, fails, or takes longer than [`DEADLINE`].
pub fn try_out(trying: Trying<'_>) -> Result<ToolTrial> {
    let folder = tempfile::tempdir().map_err(|source| Error::System { call: "a temporary folder".into(), source })?;
    let program = std::env::current_exe().map_err(|source| Error::System { call: "this program's file".into(), source })?;
    let took = folder.path().join("took.json");
    Paths::of(folder.path()).create()?;
    let mut amounts: Amounts = AMOUNTS.into_iter().collect();
    let samples = trying.instead.hz.is_some();
    let computing = if samples { SAMPLED } else { COMPUTING };
    amounts.insert(TrialStage::Computing, Spin::lasting(computing).operations());
    amounts.insert(TrialStage::CachedWork, if samples { battery::cached_lasting(SAMPLED) } else { 0 });
    amounts.insert(TrialStage::WideCode, if samples { WideCode::lasting(SAMPLED).calls() } else { 0 });
    amounts.insert(TrialStage::Probed, if trying.instead.function.is_some() { PROBED } else { 0 });
    let lines = |cpu: Option<u32>| {
        let work = battery::words(&program, &took, cpu, &amounts);
        let line = trying.line.around(&work, &folder.path().to_string_lossy(), &trying.instead);
        line.map(|line| (work, line)).ok_or_else(|| Error::Unsupported {
            what: "try the tool out".into(),
            why: "it does not start a command".into(),
            remedy: "give a line that does".into(),
        })
    };
    let (work, line) = lines(None)?;
    let placements = trying.placements(&allowed_cpus()?);
    let rounds = placements.iter().map(|placed| placed.rounds).sum();
    let mut random = fastrand::Rng::with_seed(0x70_01);
    let mut runs = Vec::new();
    for placed in &placements {
        let (work, line) = lines(placed.work)?;
        for round in 0..placed.rounds {
            (trying.between)(runs.len() as u32 / 2, rounds);
            let first = random.bool();
            for with_tool in [first, !first] {
                check_interrupted()?;
                std::fs::remove_file(&took).ok();
                let line = if with_tool { &line } else { &work };
                let exit = run(line, folder.path(), placed.tool)?;
                let stages_ns = read(&took, line)?;
                runs.push(TrialRun { round, with_tool, placement: placed.placement, elapsed_s: exit.elapsed_s, stages_ns });
            }
        }
    }
    let words = line.into_iter().filter(|word| !work.contains(word)).collect();
    Ok(ToolTrial { line: words, hz: trying.instead.hz, wide_code_pages: Some(WideCode::effective_pages()), done: amounts, runs })
}

/// On which CPUs tool and work run, and how often.
struct Placed {
    placement: TrialPlacement,
    rounds: u32,
    /// None: where the scheduler puts it.
    tool: Option<u32>,
    work: Option<u32>,
}

impl Trying<'_> {
    /// The scheduler's own, and where it is asked for and can be, both on one CPU and each on one of its own.
    fn placements(&self, cpus: &[u32]) -> Vec<Placed> {
        let mut placements = vec![Placed { placement: TrialPlacement::Free, rounds: ROUNDS, tool: None, work: None }];
        if let (true, [first, .., last]) = (self.is_placed, cpus) {
            for (placement, tool) in [(TrialPlacement::Together, last), (TrialPlacement::Apart, first)] {
                placements.push(Placed { placement, rounds: PLACED_ROUNDS, tool: Some(*tool), work: Some(*last) });
            }
        }
        placements
    }

    /// Rounds that it takes on these CPUs.
    pub fn rounds(&self, cpus: &[u32]) -> u32 {
        self.placements(cpus).iter().map(|placed| placed.rounds).sum()
    }
}

fn run(line: &[String], folder: &Path, cpu: Option<u32>) -> Result<Exit> {
    // What it says last it says as it ends: into a file, which is read then.
    let said = folder.join("said");
    let mut argv: Vec<OsString> = ["/bin/sh", "-c", "exec \"$@\" >\"$0\" 2>&1"].map(OsString::from).into();
    argv.push(said.clone().into());
    argv.extend(line.iter().map(OsString::from));
    let mut command = Command::from_argv(argv, Stdio::Discard);
    command.spec.directory = Some(folder.into());
    command.spec.cpus = cpu.map(|cpu| vec![cpu]);
    let (_, mut child) = command.spawn()?;
    child.release()?;
    let mut is_over = false;
    let exit = child.wait_asking(DEADLINE, |_, _| {
        is_over = true;
        Ok(None)
    })?;
    let failed = |how: String| Err(Error::CommandFailed { command: line.join(" "), how });
    let said = || last_line(&std::fs::read(&said).unwrap_or_default());
    match exit.ended {
        _ if is_over => failed(format!("did not end within {} s", DEADLINE.as_secs())),
        Ended::Code(0) => Ok(exit),
        // As shells have it.
        Ended::Code(127) => Err(Error::Exec { program: line[0].clone().into(), source: std::io::ErrorKind::NotFound.into() }),
        Ended::Code(code) => failed(format!("exited with code {code}: {}", said())),
        Ended::Signal(signal) => failed(format!("was killed by signal {signal}: {}", said())),
    }
}

fn last_line(said: &[u8]) -> String {
    let said = String::from_utf8_lossy(said);
    said.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing").trim().to_owned()
}

fn read(took: &Path, line: &[String]) -> Result<Amounts> {
    let text = std::fs::read(took).map_err(|_| Error::CommandFailed {
        command: line.join(" "),
        how: "ended without the work that it was to be tried out on being done".into(),
    })?;
    serde_json::from_slice(&text)
        .map_err(|error| Error::CommandFailed { command: line.join(" "), how: format!("left {}: {error}", took.display()) })
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    #[test]
    fn tool_and_work_share_a_cpu_and_do_not() {
        let line = ToolLine::parse("strace -f").unwrap();
        let of = |is_placed, cpus: &[u32]| {
            let instead = Instead::default();
            let trying = Trying { line: &line, instead, is_placed, between: &mut |_, _| {} };
            let placed = trying.placements(cpus);
            let is: Vec<(TrialPlacement, Option<u32>, Option<u32>)> =
                placed.iter().map(|placed| (placed.placement, placed.tool, placed.work)).collect();
            (is, trying.rounds(cpus))
        };
        let free = (TrialPlacement::Free, None, None);
        let [together, apart] =
            [(TrialPlacement::Together, 7), (TrialPlacement::Apart, 2)].map(|(p, tool)| (p, Some(tool), Some(7)));
        assert_eq!(of(true, &[2, 3, 7]), (vec![free, together, apart], 21));
        assert_eq!((of(false, &[2, 3, 7]), of(true, &[2])), ((vec![free], 9), (vec![free], 9)));
    }

    #[test]
    fn the_last_thing_said_is_told() {
        assert_eq!(last_line(b"one\ntwo\n\n"), "two");
        assert_eq!(last_line(b""), "it said nothing");
    }
}
