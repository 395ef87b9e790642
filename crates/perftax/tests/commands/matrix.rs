//! `perftax matrix` on this machine: its plan, a small grid killed and resumed, and several grids as one. What is looked at is the structure,
//! never a speed.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use perftax_doc::{Matrix, MatrixCell, MatrixMode};

use crate::common::{said, turn};

const WORK: [&str; 4] = ["--", "sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done"];

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_perftax"));
    command.arg("matrix").args(arguments).args(WORK);
    command
}

fn matrix(arguments: &[&str]) -> Output {
    let _turn = turn();
    command(arguments).output().unwrap()
}

/// The document on stdout; off may differ from off by chance, and then says so.
fn document(output: &Output) -> Matrix {
    let document: Matrix = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", said(output)));
    let is_refused = document.controls.iter().any(|control| !control.control.passed);
    assert_eq!(output.status.code(), Some(if is_refused { 4 } else { 0 }), "{}", said(output));
    document
}

/// Two sets of software events, counted and sampled: 26 cells.
const GRID: [&str; 16] = [
    "-g",
    "clock",
    "-g",
    "kernel",
    "--modes",
    "counting,sampling",
    "--events",
    "1,2",
    "--instances",
    "1,2",
    "--divide",
    "1,10",
    "--min-pairs",
    "2",
    "--max-pairs",
    "2",
];

fn kept(state: &Path) -> Vec<MatrixCell> {
    let text = std::fs::read_to_string(state).unwrap_or_default();
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let cell = |line: &str| serde_json::from_str::<serde_json::Value>(line).ok()?.get("Cell").cloned();
    whole.lines().filter_map(cell).map(|cell| serde_json::from_value(cell).unwrap()).collect()
}

/// Every elapsed time of a cell.
fn times(cell: &MatrixCell) -> Vec<f64> {
    cell.observations.iter().flat_map(|pair| [&pair.off, &pair.on]).flat_map(|run| run.elapsed_s.clone()).collect()
}

#[test]
fn a_grid_that_is_killed_goes_on_without_losing_a_cell() {
    let _turn = turn();
    let folder = tempfile::tempdir().unwrap();
    let state = folder.path().join("state");
    let arguments = [&GRID[..], &["--resume", state.to_str().unwrap(), "--json", "-"]].concat();
    let mut first = command(&arguments).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let began = Instant::now();
    while kept(&state).len() < 5 {
        assert!(began.elapsed() < Duration::from_secs(120) && first.try_wait().unwrap().is_none(), "no five cells came");
        std::thread::sleep(Duration::from_millis(20));
    }
    first.kill().unwrap();
    first.wait().unwrap();
    let before = kept(&state);
    assert!((5..26).contains(&before.len()), "{} cells", before.len());

    let second = command(&arguments).output().unwrap();
    let document = document(&second);
    assert!(said(&second).contains(&format!("{} cells are done already, {} are left", before.len(), 26 - before.len())));
    assert_eq!((document.cells.len(), document.plan.cells, document.unmeasured.len()), (26, 26, 0), "{}", said(&second));
    let of = |mode: MatrixMode| document.cells.iter().filter(|cell| cell.key.mode == mode).count();
    assert_eq!((of(MatrixMode::Off), of(MatrixMode::Counting), of(MatrixMode::Sampling)), (2, 8, 16));
    assert!(document.cells.is_sorted_by(|a, b| a.key < b.key), "each cell once, in the order of the grid");
    for cell in &before {
        let again = document.cells.iter().find(|again| again.key == cell.key).unwrap();
        let (again, kept) = (times(again), times(cell));
        let is_kept = again == kept;
        assert!(is_kept, "{} was measured again: {again:?} {kept:?}", cell.key);
    }
    // What was asked for was said beforehand, each cell says what it has.
    assert!(said(&second).contains("±2.00 points"), "{}", said(&second));
    for cell in document.cells.iter().filter(|cell| cell.excluded.is_none()) {
        assert!(cell.pairs == 2 && cell.overhead.is_some() && cell.watched.len() as u32 == cell.key.events, "{cell:?}");
        assert_eq!(cell.reached, cell.overhead.unwrap().half_width() <= 0.02, "{cell:?}");
    }

    // With everything done nothing is measured any more; another grid does not take it over.
    let third = command(&arguments).output().unwrap();
    assert!(said(&third).contains("26 cells are done already, 0 are left"), "{}", said(&third));
    let other = command(&["-g", "clock", "--resume", state.to_str().unwrap()]).output().unwrap();
    assert!(
        other.status.code() == Some(2) && said(&other).contains("--resume") && said(&other).contains("rm "),
        "{}",
        said(&other)
    );
}

#[test]
fn the_plan_comes_first_and_says_what_cannot_be_had() {
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("plan.txt");
    let plan = plan.to_str().unwrap();
    let grid = ["-g", "kernel", "--modes", "sampling,lbr", "--events", "1,20", "--instances", "1"];
    let output = matrix(&[&grid[..], &["--dry-run", "--json", "-", "-o", plan]].concat());
    let document = document(&output);
    assert_eq!((document.plan.cells, document.cells.len(), document.plan.pilots[0].elapsed_s.len()), (4, 0, 3));
    assert!(document.plan.foreseen_s > 0.0 && document.plan.foreseen_half_width >= document.plan.precision);
    let why = |mode: MatrixMode, events: u32| {
        document.impossible.iter().find(|row| (row.mode, row.events) == (mode, events)).map(|row| row.why.as_str())
    };
    assert_eq!(why(MatrixMode::Sampling, 20), Some("set kernel has 16 events"));
    assert!(why(MatrixMode::Lbr, 1).unwrap().contains("only events of a core's counters"), "{:?}", document.impossible);
    let text = std::fs::read_to_string(plan).unwrap();
    assert!(text.contains("4 cells, each in 6 to 60 pairs") && text.contains("not here"), "{text}");
    // Time that is out leaves cells unmeasured, and says which.
    let output =
        matrix(&["-g", "kernel", "--modes", "counting", "--events", "1", "--instances", "1", "--time", "0", "--json", "-"]);
    let document: Matrix = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((document.cells.len(), document.unmeasured.len()), (0, 2));
}

#[test]
fn what_is_not_there_ends_with_its_reason() {
    let refused = |arguments: &[&str], code: i32, words: &[&str]| {
        let output = matrix(arguments);
        let text = said(&output);
        assert!(output.status.code() == Some(code) && words.iter().all(|word| text.contains(word)), "{arguments:?}: {text}");
    };
    refused(&["-g", "clock", "--modes", "lbr"], 3, &["cannot measure any cell", "only events of a core's counters"]);
    refused(&["-g", "clocks"], 2, &["-g is clocks", "cern-pebs, clock, core, ibs, kernel, retired"]);
    refused(&["--precision", "0"], 2, &["--precision is 0", "percentage points"]);
    refused(&["--modes", "magic"], 2, &["unknown mode 'magic'", "counting, sampling, pebs, lbr, ibs"]);
    refused(&["--dry-run", "--html", "plan.html"], 2, &["--dry-run is given", "without --html"]);
    refused(&["-m", "3"], 2, &["power of two"]);
}

#[test]
fn grids_of_two_machines_become_one() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_string();
    for (name, events) in [("a.json", "1"), ("b.json", "1,2")] {
        let arguments = ["-g", "clock", "--modes", "sampling", "--events", events, "--instances", "1", "--divide", "1"];
        let output = matrix(&[&arguments[..], &["--min-pairs", "2", "--max-pairs", "2", "--json", &path(name)]].concat());
        assert!(matches!(output.status.code(), Some(0 | 4)), "{}", said(&output));
    }
    let mut report = Command::new(env!("CARGO_BIN_EXE_perftax"));
    let output =
        report.arg("report").args([path("a.json"), path("b.json")]).args(["--html", &path("both.html")]).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{}", said(&output));
    let row =
        |events: &str| text.lines().find(|line| line.contains("sampling clock") && line.contains(&format!("  1  {events:>6}")));
    assert!(row("2").is_some_and(|row| row.contains('—')) && row("1").is_some_and(|row| !row.contains('—')), "{text}");
    assert!(std::fs::read_to_string(path("both.html")).unwrap().contains("by machine"));
}

/// Software events as one group, counted and each with its own period into one ring; whoever watches.
#[test]
fn a_cell_may_be_one_group() {
    for monitors in ["each", "cpus"] {
        let grid =
            ["-g", "kernel", "--one-group", "--modes", "counting,sampling", "--events", "4", "--divide", "1", "--instances", "1"];
        let output = matrix(
            &[&grid[..], &["--monitors", monitors, "--min-pairs", "2", "--max-pairs", "2", "--json", "-", "-o", "/dev/stderr"]]
                .concat(),
        );
        let document = document(&output);
        assert!(document.one_group && document.cells.len() == 3, "{}", said(&output));
        assert!(said(&output).contains("the events of a cell in one group"), "{}", said(&output));
        for cell in document.cells.iter().filter(|cell| cell.key.mode != MatrixMode::Off) {
            assert!(cell.watched.len() == 4 && cell.watched.iter().all(|event| event.running == 1.0), "{cell:#?}");
            assert!(cell.watched.iter().any(|event| event.counted > 0.0), "{cell:#?}");
        }
    }
}
