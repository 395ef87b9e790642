//! What messages executed, in words: more work, or slower work.

use itertools::Itertools as _;
use perftax_doc::{BlamedExecution, Estimate, ExecutionSight, LongerExecution, MessageExecution, SlowMessage};

use crate::units;

/// The cause's name.
const ON_CPU: &str = "on CPU";
const MORE: &str = "more work";
const SLOWER: &str = "slower work";
const NEITHER: &str = "neither";

/// How it was counted: `read 24,000 times in marks of 4 threads (18.3 ns each), 812 times where threads left their CPUs`.
pub fn counted(sight: &ExecutionSight) -> String {
    let each = sight.reading_ns.as_ref().map_or_else(String::new, |ns| format!(" ({} each)", units::estimate_ns(ns)));
    let in_marks = format!(
        "{} times in marks of {}{each}",
        units::count(sight.readings_in_marks),
        units::plural(&units::count(sight.threads as u64), "thread", "threads")
    );
    let of_cpus = format!("{} times of CPUs, where threads left them and at probes", units::count(sight.readings_of_cpus));
    let read = [(sight.threads > 0).then_some(in_marks), (sight.readings_of_cpus > 0).then_some(of_cpus)];
    match read.into_iter().flatten().join(", ") {
        none if none.is_empty() => "never read".into(),
        read => format!("instructions and cycles in user mode, read {read}"),
    }
}

/// Whether slow messages had more work to do: `on CPU 40.1 µs ± 1.2 longer: more work 31.0 µs ± 0.9 (…), slower work 8.1 µs ± 0.4 (…), neither 1.0 µs ± 0.1`.
pub fn blamed(of: &BlamedExecution) -> String {
    let (instructions, cycles) = (&of.extra_instructions, &of.extra_cycles);
    let each = (of.usual_cycles + cycles.estimate) / (of.usual_instructions + instructions.estimate).max(1.0);
    let work =
        format!("{} instructions, usually {}", sum(of.usual_instructions, instructions), units::about(of.usual_instructions));
    let pace = format!(
        "{} cycles for each, usually {}",
        units::about(each),
        units::about(of.usual_cycles / of.usual_instructions.max(1.0))
    );
    let unknown = (of.unknown > 0)
        .then(|| format!("; of {} it is not known", units::plural(&units::count(of.unknown), "slow message", "slow messages")));
    format!(
        "on CPU {} longer than others on average: {MORE} {} ({work}), {SLOWER} {} ({pace}), {NEITHER} {}{}",
        units::estimate_ns(&of.extra_on_cpu_ns),
        units::estimate_ns(&of.more_work_ns),
        units::estimate_ns(&of.slower_work_ns),
        units::estimate_ns(&of.rest_ns),
        unknown.unwrap_or_default()
    )
}

/// The mean of slow ones.
fn sum(usual: f64, extra: &Estimate) -> String {
    units::about(usual + extra.estimate)
}

/// What one message executed: `43,120 instructions in 51,200 cycles, 1.19 for each; against others' mean (12,000, 1.02 for each) more work 31.0 µs, slower work 8.0 µs, neither 1.0 µs`.
pub fn of_message(of: &MessageExecution) -> String {
    let between = |between: Option<(u64, u64)>| {
        between.map_or_else(String::new, |(low, high)| format!(" ({} to {})", units::count(low), units::count(high)))
    };
    let against = of.against_usual.as_ref().map(|usual| {
        let each = usual.usual_cycles / usual.usual_instructions.max(1.0);
        let parts = [(MORE, usual.more_work_ns), (SLOWER, usual.slower_work_ns), (NEITHER, usual.rest_ns)];
        let parts = parts.into_iter().map(|(what, ns)| format!("{what} {}", units::time_ns(ns))).join(", ");
        format!("; against others' mean ({}, {} for each) {parts}", units::about(usual.usual_instructions), units::about(each))
    });
    format!(
        "{} instructions{} in {} cycles{}, {} for each{}",
        units::count(of.instructions),
        between(of.instructions_between),
        units::count(of.cycles),
        between(of.cycles_between),
        units::about(of.cycles as f64 / of.instructions.max(1) as f64),
        against.unwrap_or_default()
    )
}

/// What of it is worth a word beside a slow message: of one that was longer on the CPU, and executed its own code there.
pub fn beside(slow: &SlowMessage) -> Option<String> {
    let executed = slow.executed.as_ref().filter(|_| slow.cause == ON_CPU)?;
    worth_a_word(executed, slow.beyond_ns)
}

/// What of it is worth a word beside a slow message that was on the CPU for `beyond_ns` more than usual: what most of that is.
fn worth_a_word(of: &MessageExecution, beyond_ns: u64) -> Option<String> {
    let usual = of.against_usual.as_ref()?;
    let LongerExecution { more_work_ns, slower_work_ns, .. } = *usual;
    let is_most = |ns: f64| ns > 0.5 * beyond_ns as f64;
    let each = |cycles: f64, instructions: f64| units::about(cycles / instructions.max(1.0));
    match (is_most(more_work_ns), is_most(slower_work_ns)) {
        (true, _) => {
            let usual = units::about(usual.usual_instructions);
            Some(format!("{MORE}: {} instructions, usually {usual}", units::count(of.instructions)))
        }
        (_, true) => {
            let usual = each(usual.usual_cycles, usual.usual_instructions);
            Some(format!("{SLOWER}: {} cycles an instruction, usually {usual}", each(of.cycles as f64, of.instructions as f64)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(instructions: u64, cycles: u64, more_work_ns: f64, slower_work_ns: f64) -> MessageExecution {
        let against_usual = LongerExecution {
            usual_instructions: 12_000.0,
            usual_cycles: 12_000.0,
            more_work_ns,
            slower_work_ns,
            rest_ns: 100.0,
        };
        MessageExecution {
            instructions,
            cycles,
            instructions_between: None,
            cycles_between: None,
            against_usual: Some(against_usual),
        }
    }

    #[test]
    fn more_work_is_told_from_slower_work() {
        let (more, slower) = (message(43_120, 43_120, 31_000.0, 0.0), message(12_000, 43_200, 0.0, 31_200.0));
        assert_eq!(worth_a_word(&more, 31_100).as_deref(), Some("more work: 43,120 instructions, usually 12,000"));
        assert_eq!(worth_a_word(&slower, 31_100).as_deref(), Some("slower work: 3.60 cycles an instruction, usually 1"));
        assert_eq!(worth_a_word(&slower, 80_000), None, "most of it is something else");
        assert_eq!(
            of_message(&more),
            "43,120 instructions in 43,120 cycles, 1 for each; against others' mean (12,000, 1 for each) more work 31 µs, slower work 0 ns, neither 100 ns"
        );
        let shared = MessageExecution { instructions_between: Some((0, 90)), cycles_between: None, against_usual: None, ..more };
        assert_eq!(of_message(&shared), "43,120 instructions (0 to 90) in 43,120 cycles, 1 for each");
    }

    #[test]
    fn what_is_blamed_adds_up_in_words() {
        let exact = Estimate::exact;
        let blamed_of = |unknown| BlamedExecution {
            messages: 50,
            unknown,
            usual_instructions: 1000.0,
            usual_cycles: 1000.0,
            usual_on_cpu_ns: 500.0,
            extra_instructions: exact(3000.0),
            extra_cycles: exact(5000.0),
            extra_on_cpu_ns: exact(2600.0),
            more_work_ns: exact(1500.0),
            slower_work_ns: exact(1000.0),
            rest_ns: exact(100.0),
        };
        let text = blamed(&blamed_of(0));
        assert!(text.contains("more work 1.50 µs") && text.contains("4,000 instructions, usually 1,000"), "{text}");
        assert!(text.contains("1.50 cycles for each, usually 1)") && !text.contains("not known"), "{text}");
        assert!(blamed(&blamed_of(1)).ends_with("of 1 slow message it is not known"));
        let sight = ExecutionSight { readings_in_marks: 24_000, threads: 4, ..ExecutionSight::default() };
        assert_eq!(counted(&sight), "instructions and cycles in user mode, read 24,000 times in marks of 4 threads");
        assert_eq!(counted(&ExecutionSight::default()), "never read");
    }
}
