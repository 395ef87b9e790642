//! A grid with a cell of each kind: narrow, wide, multiplexed, excluded, lost, impossible, not measured.

use perftax_doc::{
    Control, Matrix, MatrixCell, MatrixControl, MatrixEvent, MatrixImpossible, MatrixKey, MatrixMode, MatrixPilot,
    MatrixPlacement, MatrixPlan, MatrixSet, MatrixSetEvent,
};
use perftax_doc::{Estimate, Mechanism};

use super::origin;

fn key(workload: &str, mode: MatrixMode, instances: u32, divisor: u64, events: u32) -> MatrixKey {
    let set = if mode == MatrixMode::Off { "" } else { "core" };
    MatrixKey { workload: workload.into(), mode, set: set.into(), instances, divisor, events }
}

fn cell(key: MatrixKey, overhead: f64, half_width: f64) -> MatrixCell {
    let time = if key.workload == "perl" { 2.31 } else { 1.2 };
    let watched = (0..key.events).map(|at| MatrixEvent {
        event: ["cycles", "instructions", "branches", "branch-misses"][at as usize % 4].into(),
        mechanism: if key.mode == MatrixMode::Pebs { Mechanism::Pebs } else { Mechanism::Pmi },
        period: key.mode.samples().then(|| 2_000_003 / key.divisor.max(1)),
        counted: 2.1e9,
        running: if key.events > 4 { 0.52 } else { 1.0 },
    });
    let samples = if key.mode.samples() { 1050 * u64::from(key.events) * key.divisor * 9 } else { 0 };
    let bytes = if key.mode == MatrixMode::Lbr { 808.0 } else { 40.0 };
    MatrixCell {
        pairs: 9,
        discarded: 1,
        unmonitored_s: Some(Estimate::new(time, time * 0.99, time * 1.01)),
        monitored_s: Some(Estimate::new(time * (1.0 + overhead), time * (0.99 + overhead), time * (1.01 + overhead))),
        overhead: Some(Estimate::new(overhead, overhead - half_width, overhead + half_width)),
        reached: half_width <= 0.02,
        variation: Some(0.021),
        excluded: None,
        watched: watched.collect(),
        expected_samples: samples as f64 + 4.0,
        samples,
        lost: 0,
        throttled: 0,
        record_bytes: samples as f64 / 9.0 * bytes,
        reader_s: 0.002,
        observations: Vec::new(),
        key,
    }
}

/// Two programs, three modes, four numbers of events; some of it not to be had.
pub fn matrix() -> Matrix {
    let mut cells = Vec::new();
    for (workload, worse) in [("bzip2", 1.0), ("perl", 1.7)] {
        for instances in [1, 4] {
            cells.push(cell(key(workload, MatrixMode::Off, instances, 0, 0), 0.0011 * worse, 0.006));
            for events in [1, 4, 8] {
                let turns = if events > 4 { 0.011 } else { 0.0 };
                cells.push(cell(
                    key(workload, MatrixMode::Counting, instances, 0, events),
                    0.0006 * f64::from(events) + turns,
                    0.004,
                ));
                for divisor in [1, 10] {
                    let load = worse * 0.0011 * f64::from(events) * divisor as f64 + 3.0 * turns;
                    cells.push(cell(key(workload, MatrixMode::Sampling, instances, divisor, events), load, 0.004 + load / 6.0));
                    cells.push(cell(key(workload, MatrixMode::Lbr, instances, divisor, events), 2.4 * load, 0.006 + load / 3.0));
                }
            }
        }
    }
    cells.sort_by(|a, b| a.key.cmp(&b.key));
    let (varied, full) = (key("perl", MatrixMode::Sampling, 4, 1, 4), key("perl", MatrixMode::Lbr, 1, 10, 8));
    for cell in &mut cells {
        if cell.key == varied {
            (cell.variation, cell.excluded) = (Some(0.134), Some("its runs vary by 13.4 %, more than 10 %".into()));
        } else if cell.key == full {
            (cell.lost, cell.throttled) = (1_204, 3);
        }
    }
    let left = key("bzip2", MatrixMode::Lbr, 4, 10, 8);
    cells.retain(|cell| cell.key != left);
    let unmeasured = vec![left];
    let control = |workload: &str, instances| MatrixControl {
        workload: workload.into(),
        instances,
        control: Control {
            difference: Estimate { confidence: 0.9975, ..Estimate::new(0.0011, -0.008, 0.010) },
            passed: true,
            detects: 0.009,
        },
    };
    let event = |event: &str, period| MatrixSetEvent {
        event: event.into(),
        code: None,
        period,
        precise: Some(format!("{event}:p")),
        ibs: None,
    };
    let pilot = |workload: &str, elapsed_s: f64| MatrixPilot {
        workload: workload.into(),
        command: vec![workload.into()],
        instances: 1,
        elapsed_s: vec![elapsed_s, 1.01 * elapsed_s, 0.98 * elapsed_s],
    };
    Matrix {
        origin: origin("matrix", &["perftax", "matrix", "-w", "bzip2", "-w", "perl", "--events", "1,4,8", "--divide", "1,10"]),
        monitors: "each".into(),
        one_group: false,
        placement: MatrixPlacement { cpus: vec![0, 2, 1, 3], cores: 2, smt: "on".into() },
        counters: Some(4),
        sets: vec![MatrixSet {
            name: "core".into(),
            description: "generic events of a core".into(),
            source: "the kernel's generic names".into(),
            events: vec![event("cycles", 2_000_003), event("instructions", 2_000_003), event("branches", 400_009)],
        }],
        plan: MatrixPlan {
            precision: 0.02,
            variation_limit: 0.1,
            least_pairs: 6,
            most_pairs: 60,
            time_limit_s: 1200.0,
            cells: 64,
            foreseen_s: 1490.0,
            foreseen_half_width: 0.023,
            pilots: vec![pilot("bzip2", 1.2), pilot("perl", 2.31)],
        },
        cells,
        impossible: [1, 10]
            .map(|divisor| MatrixImpossible {
                mode: MatrixMode::Pebs,
                set: "core".into(),
                events: 8,
                divisor,
                cells: 4,
                why: "set core has 3 events with a form for PEBS".into(),
            })
            .to_vec(),
        skipped: Vec::new(),
        unmeasured,
        controls: [("bzip2", 1), ("bzip2", 4), ("perl", 1), ("perl", 4)].map(|(workload, n)| control(workload, n)).to_vec(),
    }
}

/// The same grid on another machine, where everything costs half and one cell is missing.
pub fn other_matrix() -> Matrix {
    let mut other = matrix();
    other.origin.machine.name = "Xeon E5-2695 v2, 12 cores".into();
    other.origin.kernel = "3.11.0".into();
    other.cells.retain(|cell| !(cell.key.mode == MatrixMode::Lbr && cell.key.events == 4));
    for cell in &mut other.cells {
        cell.overhead = cell.overhead.map(|overhead| overhead.scaled(0.5));
    }
    other
}
