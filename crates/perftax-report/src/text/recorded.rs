//! `perftax record` on a terminal.

use owo_colors::OwoColorize;
use perftax_doc::{EventsOn, Expense, ExpenseOn, Recorded, Witnessed};

use crate::printable::printable;
use crate::sheet::{Sheet, event};
use crate::table::Table;
use crate::{shell, units};

/// What a recording cost, and what it is good for.
pub fn recorded(doc: &Recorded) -> String {
    let mut sheet = Sheet::about(&doc.origin);
    let program: Vec<String> = doc.program.iter().map(|word| printable(word)).collect();
    sheet.row(
        "program",
        &format!(
            "{}: {} of CPU time in {}",
            shell::join(&program),
            units::time_s(doc.program_cpu_s),
            units::time_s(doc.elapsed_s)
        ),
    );
    let (share, budget) = (share(doc), budget(doc));
    sheet.row("cost", &format!("{} ({budget})", share.bold()));
    if let Some(witness) = &doc.witness {
        sheet.row("by work", &witnessed(witness));
    }
    let lost = if doc.lost == 0 { "none lost".into() } else { format!("{} lost", units::count(doc.lost)) };
    let throttled = if doc.throttled == 0 { String::new() } else { format!(", throttled {} times", units::count(doc.throttled)) };
    let resolves = match doc.samples {
        0 => String::new(),
        _ => format!("; they resolve any function that takes ≥ {} of the CPU time", units::share(doc.resolves_share)),
    };
    sheet.row(
        "samples",
        &format!("{} of {}, {lost}{throttled}{resolves}", units::count(doc.samples).bold(), event(&doc.event, doc.mechanism)),
    );
    if doc.unwritten > 0 {
        sheet.row("", &format!("{} more could not be written", units::count(doc.unwritten)).red().bold().to_string());
    }
    if doc.dropped_segments > 0 {
        let text = super::plural(&units::count(doc.dropped_segments), "older segment was", "older segments were");
        sheet.row("", &format!("{text} removed for room"));
    }
    sheet.row("rates", &rates(doc));
    if let Some(place) = on_cpus(doc) {
        sheet.row("", &place);
    }
    if let Some(missing) = doc.represented.map(|represented| 1.0 - represented).filter(|missing| *missing > MISSING) {
        let text = format!(
            "{} of the CPU time is in no sample's weight: of threads that ended before a period was over, or of another mode",
            units::share(missing)
        );
        sheet.row("", &text);
    }
    sheet.table(&expenses(doc));
    sheet.warnings(&doc.origin.warnings);
    if doc.samples > 0 {
        sheet.row("read", &format!("perf report -i {}", shell::join(&[printable(&doc.recording)])));
    }
    sheet.finish()
}

/// From this share on it is said that samples do not stand for all.
const MISSING: f64 = 0.02;

/// What it cost.
pub(crate) fn share(doc: &Recorded) -> String {
    match &doc.spent_share {
        Some(share) => format!("{} of the program's CPU time", units::estimate_share(share)),
        None if doc.program_cpu_s > 0.0 => {
            format!("unknown: it may be all of the {} that the program was on a CPU", units::time_s(doc.program_cpu_s))
        }
        None => "unknown: the program used no CPU time".into(),
    }
}

/// The budget, and whether it was kept at every scale of time.
pub(crate) fn budget(doc: &Recorded) -> String {
    let scale = match doc.most_overdrawn_s {
        over if over <= 0.0 => "within it over every second and longer".to_string(),
        over if over <= doc.burst_s => {
            let (over, burst) = (units::time_s(over), units::time_s(doc.burst_s));
            format!("within it over every second and longer but for {over} of the burst of {burst}")
        }
        over => format!("overdrawn by {} at worst, over a second or longer", units::time_s(over)),
    };
    format!("budget {}; {scale}", units::share(doc.budget))
}

/// What it cost by the work that was done, beside what prices say.
pub(crate) fn witnessed(witness: &Witnessed) -> String {
    let Some(loss) = &witness.loss else {
        let (pieces, work) = (units::count(witness.pieces), printable(&witness.work));
        return format!("unknown: {pieces} {work} in too few slices, of which {} paused", units::count(witness.pauses));
    };
    let foreseen = super::known(witness.foreseen.as_ref(), units::estimate_share);
    let verdict = match witness.agrees {
        Some(true) => "they agree".to_string(),
        Some(false) => "they do not agree".red().bold().to_string(),
        None => "they cannot be compared".into(),
    };
    format!(
        "{} by {} {} and {} pauses; samples by prices {foreseen}: {verdict}",
        units::estimate_share(loss).bold(),
        units::count(witness.pieces),
        printable(&witness.work),
        units::count(witness.pauses)
    )
}

/// The rates, by the share of the program's CPU time that each had.
pub(crate) fn rates(doc: &Recorded) -> String {
    let all_s: f64 = doc.rates.iter().map(|rate| rate.program_cpu_s).sum();
    let of = |cpu_s: f64| if all_s > 0.0 { units::share(cpu_s / all_s) } else { units::share(0.0) };
    let said = doc.rates.iter().filter(|rate| rate.program_cpu_s > 0.0).map(|rate| match rate.period {
        Some(period) => {
            format!("every {} for {} of the time", units::period(doc.mechanism, period), of(rate.program_cpu_s))
        }
        None => format!("none for {}", of(rate.program_cpu_s)),
    });
    let said: Vec<String> = said.collect();
    if said.is_empty() { "the program used no CPU time".into() } else { said.join(", ") }
}

/// Where the events were, if on CPUs, and what that means for others.
pub(crate) fn on_cpus(doc: &Recorded) -> Option<String> {
    let of_others = units::count(doc.of_others);
    match (doc.events_on, doc.went_over_s) {
        (EventsOn::Threads, _) => None,
        (EventsOn::Cpus, None) => {
            Some(format!("on whole CPUs: {of_others} samples of other programs were taken, too, and dropped"))
        }
        (EventsOn::Cpus, Some(since_s)) => Some(format!(
            "on whole CPUs from {} on, as switches and new threads took the budget from samples; {of_others} samples of other programs were taken, too, and dropped",
            units::time_s(since_s)
        )),
    }
}

fn expenses(doc: &Recorded) -> Table {
    let mut table = Table::default().left("spent on").right("count").right("CPU time").right("of the budget");
    // What the budget allowed.
    let allowed_s = doc.budget * (doc.program_cpu_s - doc.spent_s.estimate);
    for expense in &doc.expenses {
        let share =
            expense.cost_s.filter(|_| allowed_s > 0.0).map_or(String::new(), |cost_s| units::share(cost_s.high / allowed_s));
        table.row(vec![name(expense.on).into(), expense_count(expense), expense_cost(expense), share]);
    }
    table
}

pub(crate) fn expense_count(expense: &Expense) -> String {
    expense.count.map_or(String::new(), units::count)
}

pub(crate) fn expense_cost(expense: &Expense) -> String {
    super::known(expense.cost_s.as_ref(), units::estimate_s)
}

/// What it is called.
pub(crate) fn name(on: ExpenseOn) -> &'static str {
    match on {
        ExpenseOn::Samples => "samples",
        ExpenseOn::Counting => "events that were counted",
        ExpenseOn::Filtered => "interrupts whose sample was dropped",
        ExpenseOn::Switches => "context switches",
        ExpenseOn::Tasks => "threads, processes and programs started",
        ExpenseOn::Turns => "changing rates and reading counters",
        ExpenseOn::Recorder => "the recorder, while the program waited for a CPU",
    }
}

/// Several recordings: a row each.
pub(super) fn side_by_side(docs: &[(String, &Recorded)]) -> Vec<Table> {
    if docs.is_empty() {
        return Vec::new();
    }
    let mut table = Table::default()
        .left("")
        .left("program")
        .left("event")
        .right("budget")
        .right("cost")
        .right("samples")
        .right("resolves")
        .right("lost");
    for (label, doc) in docs {
        let program: Vec<String> = doc.program.iter().map(|word| printable(word)).collect();
        table.row(vec![
            label.clone(),
            shell::join(&program),
            printable(&doc.event),
            units::share(doc.budget),
            super::known(doc.spent_share.as_ref(), units::estimate_share),
            units::count(doc.samples),
            units::share(doc.resolves_share),
            units::count(doc.lost),
        ]);
    }
    vec![table]
}
