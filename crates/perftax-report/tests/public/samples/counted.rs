//! Samples of exact counts: by themselves, and beside a baseline that they differ from.

use perftax_doc::{
    MachineId, Origin, SCHEMA, Stat, StatComparison, StatCount, StatDifference, StatFile, StatFixed, StatFunction,
    StatFunctionDifference, Warning,
};

fn count(event: &str, all: [f64; 3]) -> StatCount {
    let [count, least, most] = all.map(Some);
    StatCount { event: event.into(), count, unit: String::new(), least, most, running: 1.0, enabled_ns: None }
}

fn function(function: &str, file: &str, all: [u64; 3]) -> StatFunction {
    let [instructions, least, most] = all;
    StatFunction { function: function.into(), file: file.into(), instructions, least, most }
}

/// Two runs that differ.
pub fn stat() -> Stat {
    Stat {
        origin: Origin {
            schema: SCHEMA,
            kind: "stat".into(),
            perftax: "0.1.0".into(),
            machine: MachineId { name: "QEMU 7.2.22 (user mode), everything that varies fixed".into(), ..MachineId::default() },
            kernel: String::new(),
            taken_at_s: 0.0,
            command: ["perftax", "sim", "stat", "-r", "2", "--", "./words", "text"].map(String::from).into(),
            warnings: vec![Warning::Other { message: "runs differ".into(), remedy: "give a --tolerance".into() }],
        },
        program: ["./words", "text"].map(String::from).into(),
        exit_code: 0,
        fixed: StatFixed {
            kind: "sim".into(),
            emulator: "QEMU 7.2.22".into(),
            processor: "max".into(),
            processors: 1,
            kernel: "6.1.0".into(),
            seed: 1,
            environment: vec!["LC_ALL=C".into()],
        },
        runs: 2,
        counts: vec![
            count("instructions:u", [2_807_194.0, 2_807_190.0, 2_807_194.0]),
            StatCount { unit: "msec".into(), ..count("task-clock", [1.25; 3]) },
            StatCount { count: None, least: None, most: None, running: 0.0, ..count("slots", [0.0; 3]) },
        ],
        functions: Some(vec![
            function("hash", "words", [2_000_000; 3]),
            function("", "libc.so.6", [807_190, 807_186, 807_190]),
            function("main", "words", [4; 3]),
        ]),
        files: vec![StatFile { name: "words".into(), sha256: "9f86d08188".into(), build_id: None }],
        comparison: None,
        written_to: None,
    }
}

/// The same beside a baseline.
pub fn compared_stat() -> Stat {
    let of = |function: &str, before, now, varies| StatFunctionDifference {
        function: function.into(),
        file: "words".into(),
        before,
        now,
        varies,
    };
    let comparison = StatComparison {
        baseline: "words.baseline.json".into(),
        tolerance: 0.0,
        holds: false,
        is_same_program: false,
        other_libraries: vec!["libc.so.6".into()],
        counts: vec![StatDifference { event: "instructions:u".into(), before: 2_804_242.0, now: 2_807_194.0, holds: false }],
        functions: Some(vec![of("hash", 1_997_048, 2_000_000, false), of("main", 4, 0, false), of("grow", 0, 2, true)]),
    };
    Stat { comparison: Some(comparison), ..stat() }
}
