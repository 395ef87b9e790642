//! Counts of a program that is the same each time: of several runs, and beside a baseline. Pure.

use std::collections::{BTreeMap, BTreeSet};

use perftax_doc::{Stat, StatComparison, StatCount, StatDifference, StatFixed, StatFunction, StatFunctionDifference};

/// Counts of several runs as one: the first run's, with the least and the most of all.
pub fn merged_counts(runs: &[Vec<StatCount>]) -> Vec<StatCount> {
    let Some(first) = runs.first() else { return Vec::new() };
    let merge = |(at, count): (usize, &StatCount)| {
        let all: Vec<f64> = runs.iter().filter_map(|run| run.get(at)?.count).collect();
        let is_whole = all.len() == runs.len();
        let end = |of: fn(f64, f64) -> f64| all.iter().copied().reduce(of).filter(|_| is_whole);
        StatCount { least: end(f64::min), most: end(f64::max), ..count.clone() }
    };
    first.iter().enumerate().map(merge).collect()
}

/// Functions of several runs as one list, likewise; one that a run did not execute has no instructions there.
pub fn merged_functions(runs: &[Vec<StatFunction>]) -> Vec<StatFunction> {
    let mut all: BTreeMap<(&str, &str), Vec<u64>> = BTreeMap::new();
    for (run, functions) in runs.iter().enumerate() {
        for function in functions {
            let of = all.entry((&function.function, &function.file)).or_insert_with(|| vec![0; runs.len()]);
            of[run] += function.instructions;
        }
    }
    let merge = |((function, file), instructions): ((&str, &str), Vec<u64>)| StatFunction {
        function: function.into(),
        file: file.into(),
        instructions: instructions[0],
        least: instructions.iter().copied().min().unwrap_or(0),
        most: instructions.iter().copied().max().unwrap_or(0),
    };
    let mut merged: Vec<StatFunction> = all.into_iter().map(merge).collect();
    merged.sort_by(|a, b| b.instructions.cmp(&a.instructions).then_with(|| (&a.function, &a.file).cmp(&(&b.function, &b.file))));
    merged
}

/// Whether each run counted the same.
pub fn is_repeatable(counts: &[StatCount]) -> bool {
    counts.iter().all(|count| count.least == count.most)
}

/// What keeps two results from being compared, each with what it was and what it is; nothing where they can be.
pub fn incomparable(before: &Stat, now: &Stat) -> Vec<String> {
    let mut why = Vec::new();
    let StatFixed { kind, emulator, processor, processors, kernel, seed, environment } = &before.fixed;
    let mut is = |what: &str, before: &str, now: &str| {
        if before != now {
            why.push(format!("{what} was {before}, and is {now}"));
        }
    };
    let command = |stat: &Stat| {
        let name = stat.program.first().map(|program| program.rsplit('/').next().unwrap_or(program).to_owned());
        name.into_iter().chain(stat.program.iter().skip(1).cloned()).collect::<Vec<_>>().join(" ")
    };
    is("what executes the program", kind, &now.fixed.kind);
    is("the command", &command(before), &command(now));
    is("the emulator", emulator, &now.fixed.emulator);
    is("the processor", processor, &now.fixed.processor);
    is("the number of processors", &processors.to_string(), &now.fixed.processors.to_string());
    is("the kernel", kernel, &now.fixed.kernel);
    is("the seed", &seed.to_string(), &now.fixed.seed.to_string());
    is("the environment", &environment.join(" "), &now.fixed.environment.join(" "));
    let has = |stat: &Stat| stat.counts.iter().filter(|count| count.count.is_some()).map(|count| count.event.clone()).collect();
    let (events, here): (BTreeSet<String>, BTreeSet<String>) = (has(before), has(now));
    if events.is_disjoint(&here) {
        let list = |events: BTreeSet<String>| events.into_iter().collect::<Vec<_>>().join(",");
        is("what was counted", &list(events), &list(here));
    }
    why
}

/// Compares with a baseline of the same kind, see [`incomparable`]: every run has to be within the tolerance, a fraction of the baseline's count.
pub fn compare(before: &Stat, now: &Stat, baseline: &str, tolerance: f64) -> StatComparison {
    let mut counts = Vec::new();
    for was in &before.counts {
        let Some(is) = now.counts.iter().find(|is| is.event == was.event) else { continue };
        let (Some(before), Some(least), Some(most)) = (was.count, is.least, is.most) else { continue };
        let now = if (before - least).abs() > (most - before).abs() { least } else { most };
        counts.push(StatDifference { event: was.event.clone(), before, now, holds: (now - before).abs() <= tolerance * before });
    }
    let program = |stat: &Stat| stat.files.first().map(|file| file.sha256.clone());
    let others = other_libraries(before, now);
    StatComparison {
        baseline: baseline.into(),
        tolerance,
        holds: counts.iter().all(|count| count.holds),
        is_same_program: program(before).is_some() && program(before) == program(now),
        other_libraries: others,
        counts,
        functions: before.functions.as_ref().zip(now.functions.as_ref()).map(|(before, now)| by_function(before, now)),
    }
}

/// Libraries that only one of both has, or has in this form, by name.
fn other_libraries(before: &Stat, now: &Stat) -> Vec<String> {
    let libraries = |stat: &Stat| -> BTreeSet<[String; 2]> {
        stat.files.iter().skip(1).map(|file| [file.name.clone(), file.sha256.clone()]).collect()
    };
    let (were, are) = (libraries(before), libraries(now));
    // Files are known by the run that tells functions.
    if before.files.is_empty() || now.files.is_empty() {
        return Vec::new();
    }
    let names: BTreeSet<String> = were.symmetric_difference(&are).map(|[name, _]| name.clone()).collect();
    names.into_iter().collect()
}

/// Functions that differ, by how much, most first.
fn by_function(before: &[StatFunction], now: &[StatFunction]) -> Vec<StatFunctionDifference> {
    let mut both: BTreeMap<(&str, &str), [Option<&StatFunction>; 2]> = BTreeMap::new();
    for (side, functions) in [before, now].into_iter().enumerate() {
        for function in functions {
            both.entry((&function.function, &function.file)).or_default()[side] = Some(function);
        }
    }
    let instructions = |side: Option<&StatFunction>| side.map_or(0, |function| function.instructions);
    let varies = |side: Option<&StatFunction>| side.is_some_and(|function| function.least != function.most);
    let all = both.into_iter().map(|((function, file), [before, now])| StatFunctionDifference {
        function: function.into(),
        file: file.into(),
        before: instructions(before),
        now: instructions(now),
        varies: varies(before) || varies(now),
    });
    let mut different: Vec<StatFunctionDifference> = all.filter(|it| it.before != it.now).collect();
    different.sort_by_key(|it| (std::cmp::Reverse(it.change().unsigned_abs()), it.function.clone(), it.file.clone()));
    different
}

#[cfg(test)]
mod tests {
    use perftax_doc::{MachineId, Origin, SCHEMA, StatFile};

    use super::*;

    fn function(name: &str, instructions: u64) -> StatFunction {
        StatFunction { function: name.into(), file: "prog".into(), instructions, least: instructions, most: instructions }
    }

    fn count(event: &str, count: f64) -> StatCount {
        let (least, most) = (Some(count), Some(count));
        StatCount { event: event.into(), count: Some(count), unit: String::new(), least, most, running: 1.0, enabled_ns: None }
    }

    fn stat(instructions: f64, functions: Vec<StatFunction>) -> Stat {
        let origin = Origin {
            schema: SCHEMA,
            kind: "stat".into(),
            perftax: "1".into(),
            machine: MachineId::default(),
            kernel: String::new(),
            taken_at_s: 0.0,
            command: Vec::new(),
            warnings: Vec::new(),
        };
        let fixed = StatFixed {
            kind: "sim".into(),
            emulator: "QEMU 7.2".into(),
            processor: "max".into(),
            processors: 1,
            kernel: "6.1.0".into(),
            seed: 1,
            environment: vec!["HOME=/".into()],
        };
        let file = |name: &str, sum: &str| StatFile { name: name.into(), sha256: sum.into(), build_id: None };
        Stat {
            origin,
            program: vec!["/a/prog".into(), "file".into()],
            exit_code: 0,
            fixed,
            runs: 1,
            counts: vec![count("instructions:u", instructions)],
            functions: Some(functions),
            files: vec![file("prog", "1"), file("libc.so.6", "2")],
            comparison: None,
            written_to: None,
        }
    }

    #[test]
    fn one_instruction_is_a_difference_and_its_function_is_named() {
        let before = stat(1000.0, vec![function("main", 600), function("hash", 400)]);
        let mut now = stat(1001.0, vec![function("main", 600), function("hash", 401)]);
        now.program[0] = "/somewhere/else/prog".into();
        now.files[0].sha256 = "3".into();
        assert_eq!(incomparable(&before, &now), Vec::<String>::new());
        let exactly = compare(&before, &now, "file", 0.0);
        assert!(!exactly.holds && !exactly.is_same_program && exactly.other_libraries.is_empty(), "{exactly:?}");
        let functions = exactly.functions.unwrap_or_default();
        assert_eq!(functions.len(), 1);
        assert_eq!((functions[0].function.as_str(), functions[0].change()), ("hash", 1));
        assert!(compare(&before, &now, "file", 0.001).holds && !compare(&before, &now, "file", 0.0009).holds);
        assert!(compare(&before, &before, "file", 0.0).holds);
    }

    #[test]
    fn functions_that_came_or_went_are_there_the_largest_change_first() {
        let before = stat(1.0, vec![function("gone", 7), function("same", 3)]);
        let now = stat(1.0, vec![function("new", 9), function("same", 3)]);
        let functions = compare(&before, &now, "file", 0.0).functions.unwrap_or_default();
        let all: Vec<_> = functions.iter().map(|it| (it.function.as_str(), it.before, it.now)).collect();
        assert_eq!(all, [("new", 0, 9), ("gone", 7, 0)]);
    }

    #[test]
    fn every_run_has_to_hold_and_what_varies_is_marked() {
        let runs = [vec![count("instructions:u", 1000.0)], vec![count("instructions:u", 1004.0)]];
        let merged = merged_counts(&runs);
        assert_eq!((merged[0].count, merged[0].least, merged[0].most), (Some(1000.0), Some(1000.0), Some(1004.0)));
        assert!(!is_repeatable(&merged) && is_repeatable(&merged_counts(&runs[..1])));
        let functions = merged_functions(&[vec![function("f", 5), function("g", 1)], vec![function("f", 9)]]);
        assert_eq!((functions[0].least, functions[0].most, functions[1].least), (5, 9, 0));
        let before = stat(1000.0, functions);
        let now = Stat { counts: merged, ..stat(1000.0, vec![function("f", 6)]) };
        let compared = compare(&before, &now, "file", 0.003);
        assert!(!compared.holds && compared.counts[0].now == 1004.0);
        assert!(compared.functions.unwrap_or_default().iter().all(|it| it.varies));
        let unknown = StatCount { count: None, least: None, most: None, ..count("x", 0.0) };
        assert_eq!(merged_counts(&[vec![unknown.clone()], vec![unknown]])[0].least, None);
    }

    #[test]
    fn other_machines_are_refused_by_what_differs() {
        let before = stat(1.0, Vec::new());
        let mut now = before.clone();
        now.fixed.emulator = "QEMU 8".into();
        now.fixed.environment.push("A=1".into());
        now.program[1] = "another".into();
        let why = incomparable(&before, &now).join("; ");
        assert!(why.contains("the emulator was QEMU 7.2, and is QEMU 8"), "{why}");
        assert!(why.contains("the command was prog file, and is prog another") && why.contains("HOME=/ A=1"), "{why}");
        let mut other = before.clone();
        other.counts[0].event = "branches:u".into();
        assert!(incomparable(&before, &other).join("").contains("what was counted"));
        let mut library = before.clone();
        library.files[1].sha256 = "9".into();
        assert_eq!(compare(&before, &library, "file", 0.0).other_libraries, ["libc.so.6"]);
    }
}
