//! `perftax matrix` in the emulated machine, whose time is instructions: counting, interrupts, PEBS and branch records over 1 to 8 events on
//! four counters. Needs the machine and perftax built (`make build machine`); `make test` sees to that.

use crate::common;

use perftax_doc::{Matrix, MatrixCell, MatrixMode, MatrixPair, Mechanism};
use perftax_vm::Generation;

/// The modes that an Intel core has.
const MODES: [MatrixMode; 4] = [MatrixMode::Counting, MatrixMode::Sampling, MatrixMode::Pebs, MatrixMode::Lbr];

/// Runs a grid over a program of a million small steps on Skylake.
fn grid(arguments: &str) -> Matrix {
    grid_on(Generation::Skylake, arguments)
}

fn grid_on(generation: Generation, arguments: &str) -> Matrix {
    let folder = common::compiled("turns.c");
    // Ahead of everything else, and for as long as it takes: a real-time task is stopped for 50 ms in each second otherwise.
    let script =
        format!("echo -1 >/proc/sys/kernel/sched_rt_runtime_us; chrt -f 1 perftax matrix {arguments} --json - -- ./turns\n");
    std::fs::write(folder.path().join("script"), script).unwrap();
    let perftax = common::perftax();
    let (output, errors, _) = common::boot_with(&["sh", "script"].map(String::from), &perftax, |guest| {
        guest.with = vec!["chrt".into()];
        guest.share = Some(folder.path().into());
        guest.processor.generation = generation;
        guest.processor.assist_ns = common::module::ASSIST_NS;
    });
    serde_json::from_str(&output).unwrap_or_else(|error| panic!("{error}: {output}{errors}"))
}

fn cell(matrix: &Matrix, mode: MatrixMode, events: u32) -> &MatrixCell {
    let cell = matrix.cells.iter().find(|cell| (cell.key.mode, cell.key.events) == (mode, events));
    cell.unwrap_or_else(|| panic!("no {mode} of {events}: {:#?}", matrix.impossible))
}

/// (monitored − unmonitored)/unmonitored of the shortest runs, %: the kernel's own work now and then makes a run longer, never shorter.
fn overhead(cell: &MatrixCell) -> f64 {
    let least = |of: fn(&MatrixPair) -> f64| cell.observations.iter().map(of).fold(f64::INFINITY, f64::min);
    100.0 * (least(|pair| pair.on.elapsed_s[0]) / least(|pair| pair.off.elapsed_s[0]) - 1.0)
}

#[test]
fn overhead_jumps_where_the_counters_run_out() {
    let matrix = grid("-g retired --events 1,2,4,8 --divide 10 --instances 1 --min-pairs 3 --max-pairs 3");
    assert_eq!((matrix.counters, matrix.cells.len()), (Some(4), 17), "{:#?}", matrix.impossible);
    assert!(matrix.excluded().next().is_none(), "{:#?}", matrix.excluded().collect::<Vec<_>>());
    assert!(matrix.controls.len() == 1 && matrix.controls[0].control.passed, "{:#?}", matrix.controls);
    let of = |mode| [1, 2, 4, 8].map(|n| overhead(cell(&matrix, mode, n)));
    let told: Vec<_> = MODES.map(|mode| (mode, of(mode))).to_vec();
    for mode in MODES {
        let [one, two, four, eight] = of(mode);
        // Nothing is free, and nothing is paid for doing it: a harness that favours an arm shows here.
        assert!(one > -0.1 && one < 1.0 && two < 2.0, "{mode}: {told:?}");
        for n in [1, 2, 4] {
            assert!(cell(&matrix, mode, n).running() > 0.99, "{mode} {n}: {:#?}", cell(&matrix, mode, n).watched);
        }
        // Eight take turns on four: half of the time each, as far as a few turns allow.
        let watched = &cell(&matrix, mode, 8).watched;
        let share = watched.iter().map(|event| event.running).sum::<f64>() / 8.0;
        assert!((0.4..0.7).contains(&share) && cell(&matrix, mode, 8).is_multiplexed(), "{mode}: {watched:#?}");
        let jump = matrix.jumps().into_iter().find(|jump| jump.after.key.mode == mode).unwrap();
        assert_eq!((jump.before.key.events, jump.after.key.events), (4, 8));
        // The kernel's own work makes single cells a tenth of a point more expensive or cheaper, as the programs lie in memory: the step is held against all that
        // come before it.
        let before = (one + two + four) / 3.0;
        assert!(eight > four + 0.05 && eight - before > 0.15, "{mode}: {told:?}");
    }
    // Branch records cost more than samples by interrupts, and those more than PEBS, which takes fewer of them: over all numbers of events, for
    // the kernel's own work makes single cells a tenth of a point more expensive or cheaper.
    let [_, sampling, pebs, lbr] = MODES.map(|mode| of(mode).iter().sum::<f64>());
    assert!(lbr > sampling && sampling > pebs, "{told:?}");
    // Every sample that is due arrives, by each mechanism.
    for (mode, events) in MODES.into_iter().skip(1).flat_map(|mode| [1, 2, 4].map(|n| (mode, n))) {
        let cell = cell(&matrix, mode, events);
        let missing = cell.expected_samples - cell.samples as f64;
        let runs = f64::from(cell.pairs * events);
        assert!(cell.samples > 0 && cell.lost + cell.throttled == 0, "{mode} {events}: {cell:#?}");
        // Each event of a run ends within a period; one in a hundred more may come while an interrupt holds the counters.
        assert!(
            (-1.0..=runs + 0.01 * cell.expected_samples).contains(&missing),
            "{mode} {events}: {missing} of {}",
            cell.expected_samples
        );
    }
    // Branch records are the bulk of the data.
    let a_sample = |mode| cell(&matrix, mode, 1).bytes_per_sample().unwrap();
    assert!(a_sample(MatrixMode::Lbr) > 5.0 * a_sample(MatrixMode::Sampling), "{}", a_sample(MatrixMode::Lbr));
}

fn why(matrix: &Matrix, mode: MatrixMode, events: u32) -> &str {
    let row = matrix.impossible.iter().find(|row| (row.mode, row.events) == (mode, events));
    row.map_or("", |row| row.why.as_str())
}

/// Four events in one group are on the four counters all the time; eight never would be, and are not measured.
#[test]
fn a_group_counts_as_a_whole_or_cannot_be_had() {
    let matrix = grid(
        "-g retired --one-group --modes counting,sampling,pebs --events 4,8 --divide 10 --instances 1 --min-pairs 2 --max-pairs 2",
    );
    assert!(matrix.one_group && matrix.cells.len() == 4, "{:#?}", matrix.impossible);
    for mode in [MatrixMode::Counting, MatrixMode::Sampling, MatrixMode::Pebs] {
        let four = cell(&matrix, mode, 4);
        assert!(four.excluded.is_none() && four.watched.len() == 4, "{mode}: {four:#?}");
        assert!(four.watched.iter().all(|event| event.running == 1.0 && event.counted > 0.0), "{mode}: {:#?}", four.watched);
        let missing = four.expected_samples - four.samples as f64;
        // Each event of a run ends within a period.
        assert!((-1.0..=8.0 + 0.01 * four.expected_samples).contains(&missing) && four.lost == 0, "{mode}: {missing}");
        let why = why(&matrix, mode, 8);
        let said = "cannot have all 8 events in one group: the kernel takes the first ";
        assert!(why.starts_with(said) && why.contains("all of a group need counters of one PMU at once"), "{mode}: {why}");
    }
}

/// The study's sets on a processor that has not all of their events, under a kernel that takes not all of them for PEBS.
#[test]
fn the_studys_events_are_had_as_far_as_they_go() {
    let grid = |more: &str| {
        let sets = "-g cern-counting -g cern-pebs --modes counting,pebs --events 1,16 --divide 1000 --instances 1";
        grid_on(Generation::Haswell, &format!("{sets} --min-pairs 2 --max-pairs 2 --dry-run {more}"))
    };
    let whole = grid("");
    assert_eq!(whole.sets[0].events.iter().filter(|event| event.code.is_some()).count(), 14, "{:#?}", whole.sets[0]);
    assert!(
        why(&whole, MatrixMode::Counting, 16).starts_with("arith.fpu_div_active is not on haswell: "),
        "{:#?}",
        whole.impossible
    );
    let of_pebs = |matrix: &Matrix, events: u32| {
        matrix.impossible.iter().any(|row| (row.mode, row.set.as_str(), row.events) == (MatrixMode::Pebs, "cern-pebs", events))
    };
    // Cycles without a micro-operation: not among those that Linux 6.1 has recorded by PEBS.
    assert!(of_pebs(&whole, 1) && whole.skipped.is_empty(), "{:#?}", whole.impossible);
    let rest = grid("--skip-missing");
    assert!(!of_pebs(&rest, 1) && of_pebs(&rest, 16), "{:#?}", rest.impossible);
    let skipped = |mode: MatrixMode| rest.skipped.iter().filter(|skipped| skipped.mode == mode).count();
    assert!(skipped(MatrixMode::Counting) == 2 && (1..8).contains(&skipped(MatrixMode::Pebs)), "{:#?}", rest.skipped);
}

/// Under Linux 6.1 IBS is had of whole CPUs alone; there each op that is due is sampled.
#[test]
fn ibs_is_a_mode_where_there_is_ibs() {
    let modes = "-g ibs --modes counting,ibs --events 1,2 --divide 100 --instances 1 --min-pairs 2 --max-pairs 2";
    let matrix = grid_on(Generation::Zen3, &format!("{modes} --monitors cpus"));
    let one = cell(&matrix, MatrixMode::Ibs, 1);
    let watched = &one.watched[0];
    assert_eq!((watched.event.as_str(), watched.mechanism, watched.period), ("ibs_op//", Mechanism::IbsOp, Some(20_000)));
    assert!(one.excluded.is_none() && watched.running > 0.99 && one.samples > 1000, "{one:#?}");
    // Two take turns: a processor has one such counter.
    let two = cell(&matrix, MatrixMode::Ibs, 2);
    assert!(two.is_multiplexed() && two.samples > 0, "{two:#?}");
    let whole = grid_on(Generation::Zen3, &format!("{modes} --dry-run"));
    assert!(why(&whole, MatrixMode::Ibs, 1).contains("before Linux 6.2 IBS samples whole CPUs alone"), "{:#?}", whole.impossible);
}
