//! `perftax matrix` in the emulated machine, whose time is instructions: counting, interrupts, PEBS and branch records over 1 to 8 events on
//! four counters. Needs the machine and perftax built (`make build machine`); `make test` sees to that.

use crate::common;

use perftax_doc::{Matrix, MatrixCell, MatrixMode, MatrixPair};
use perftax_vm::Generation;

/// Runs a grid over a program of a million small steps.
fn grid(arguments: &str) -> Matrix {
    let folder = common::compiled("turns.c");
    // Ahead of everything else, and for as long as it takes: a real-time task is stopped for 50 ms in each second otherwise.
    let script =
        format!("echo -1 >/proc/sys/kernel/sched_rt_runtime_us; chrt -f 1 perftax matrix {arguments} --json - -- ./turns\n");
    std::fs::write(folder.path().join("script"), script).unwrap();
    let perftax = common::perftax();
    let (output, errors, _) = common::boot_with(&["sh", "script"].map(String::from), &perftax, |guest| {
        guest.with = vec!["chrt".into()];
        guest.share = Some(folder.path().into());
        guest.processor.generation = Generation::Skylake;
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
    let told: Vec<_> = MatrixMode::WATCHING.map(|mode| (mode, of(mode))).to_vec();
    for mode in MatrixMode::WATCHING {
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
    let [_, sampling, pebs, lbr] = MatrixMode::WATCHING.map(|mode| of(mode).iter().sum::<f64>());
    assert!(lbr > sampling && sampling > pebs, "{told:?}");
    // Every sample that is due arrives, by each mechanism.
    for (mode, events) in MatrixMode::WATCHING.into_iter().skip(1).flat_map(|mode| [1, 2, 4].map(|n| (mode, n))) {
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
