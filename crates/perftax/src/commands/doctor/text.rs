//! doctor's answers, for people: aligned columns, values first, meaning dimmed, commands unbroken.

use std::fmt::Write;

use perftax_doc::Mechanism;
use perftax_pmu::machine::{Fact, Group, Machine, MechanismStatus, RightStatus};
use perftax_pmu::oracle::{Killer, Rate, SAMPLE_FIELDS, Verdict};
use perftax_report::{csv, wrapped};

use super::needs::{Ability, Able, in_a_line};
use super::question::{Answer, OfCore};

/// Columns of a line, and where value and meaning begin.
const WIDTH: usize = 110;
const VALUE_AT: usize = 29;
const MEANING_AT: usize = 58;
/// Where the answer to a right begins.
const RIGHT_AT: usize = 44;
/// Where the source of a capability begins.
const SOURCE_AT: usize = 80;

const BOLD: &str = "\x1b[1m";
const DIM: &str = "\x1b[2m";
const GREEN: &str = "\x1b[32m";
const RED: &str = "\x1b[31m";
const CYAN: &str = "\x1b[36m";
const RESET: &str = "\x1b[0m";

/// The whole machine: facts, mechanisms, the vendor's capabilities.
pub fn machine(
    machine: &Machine,
    rights: &[RightStatus],
    facts: &[Fact],
    mechanisms: &[MechanismStatus],
    is_visible: bool,
) -> String {
    let mut out = wrap(&in_a_line(rights), WIDTH).join("\n") + "\n";
    heading(&mut out, "what you may do");
    for status in rights {
        let (sign, colour) = match status.held {
            Some(true) => ("yes", GREEN),
            Some(false) => ("no", RED),
            None => ("unknown", RED),
        };
        let name = format!("{}{colour}{sign}{RESET}", pad(status.right.to_do(), RIGHT_AT - 2));
        line(&mut out, &name, "", RIGHT_AT + 5, &status.why_not);
        command(&mut out, &status.remedy);
    }
    for group in Group::ALL {
        heading(&mut out, &group.to_string());
        for fact in facts.iter().filter(|fact| fact.group == group) {
            row(&mut out, &fact.name, &fact.value, &fact.meaning, &fact.fix);
        }
    }
    heading(&mut out, "mechanisms");
    for status in mechanisms {
        let (sign, colour) = if status.available { ("yes", GREEN) } else { ("no", RED) };
        let why = if status.available { uses(status.mechanism) } else { &status.why_not };
        line(&mut out, status.mechanism.name(), &format!("{colour}{sign}{RESET}"), VALUE_AT + 5, why);
        command(&mut out, &status.remedy);
    }
    capabilities(&mut out, machine, is_visible);
    out
}

/// What a command can do here, and what it lacks.
pub fn ability(ability: &Ability) -> String {
    let mut out = String::new();
    let (verdict, colour) = match ability.able {
        Able::Works => ("works", GREEN),
        Able::WorksWithLess => ("works with less, which it says", GREEN),
        Able::Refused => ("refuses", RED),
    };
    heading(&mut out, &format!("perftax {} as you are here: {colour}{verdict}{RESET}", ability.command));
    for lack in &ability.lacks {
        line(&mut out, &format!("cannot {}", lack.status.right.to_do()), "", MEANING_AT, lack.less);
        line(&mut out, "", "", VALUE_AT, &format!("{DIM}{}", lack.status.why_not));
        command(&mut out, &lack.status.remedy);
    }
    out
}

/// What a mechanism is good for.
fn uses(mechanism: Mechanism) -> &'static str {
    match mechanism {
        Mechanism::Pebs => "precise events; perftax doctor -e EVENT says whether in multi-record mode",
        Mechanism::IbsOp => "tagged operations: addresses, latencies, sources",
        Mechanism::IbsFetch => "tagged instruction fetches",
        Mechanism::Spe => "tagged operations, written to memory without interrupts",
        Mechanism::Pmi => "any event of the core's counters, with skid",
        Mechanism::CpuClock => "time-driven samples anywhere; at least 10 µs apart",
        Mechanism::Software => "page faults, context switches, migrations",
        Mechanism::Breakpoint => "each access to an address, or execution of it",
        Mechanism::Tracepoint => "each pass of a place that the kernel marked",
        Mechanism::PebsDirect => "what PEBS costs without perf (calibrate), by our kernel module",
        Mechanism::Uprobe => "each pass of an instruction of a program; a trap even while disabled",
    }
}

/// Whether a mechanism gives exact addresses.
pub fn is_precise(mechanism: Mechanism) -> bool {
    matches!(mechanism, Mechanism::Pebs | Mechanism::IbsOp | Mechanism::IbsFetch | Mechanism::Spe)
}

fn capabilities(out: &mut String, machine: &Machine, is_visible: bool) {
    let rows = machine.cpu.vendor.capabilities();
    if rows.is_empty() {
        return;
    }
    let name = machine.cpu.vendor.mechanism_name();
    heading(out, &format!("what {name} can do"));
    let intro = if is_visible {
        "after the PES study (TPDS'23, table I)"
    } else {
        "by the book, after the PES study (TPDS'23, table I): this machine shows none of it"
    };
    let _ = writeln!(out, "  {DIM}{intro}{RESET}");
    for row in &rows {
        for (index, part) in wrap(&row.value, SOURCE_AT - VALUE_AT - 1).iter().enumerate() {
            let feature = if index == 0 { row.feature } else { "" };
            let text = format!("{}{part}", pad(&format!("  {feature}"), VALUE_AT));
            let source = if index == 0 { format!("{DIM}{}{RESET}", row.source) } else { String::new() };
            let _ = writeln!(out, "{}", format!("{}{source}", pad(&text, SOURCE_AT)).trim_end());
        }
    }
}

fn heading(out: &mut String, text: &str) {
    let gap = if out.is_empty() { "" } else { "\n" };
    let _ = writeln!(out, "{gap}{BOLD}{text}{RESET}");
}

/// Name, value, meaning; then the command. A value too long for its column takes the line for itself.
fn row(out: &mut String, name: &str, value: &str, meaning: &str, fix: &str) {
    if value.chars().count() < MEANING_AT - VALUE_AT {
        line(out, name, value, MEANING_AT, &format!("{DIM}{meaning}"));
    } else {
        line(out, name, "", VALUE_AT, value);
        line(out, "", "", VALUE_AT, &format!("{DIM}{meaning}"));
    }
    command(out, fix);
}

/// Two short columns and a text that wraps in its own.
fn line(out: &mut String, name: &str, value: &str, text_at: usize, text: &str) {
    let style = if text.starts_with(DIM) { DIM } else { "" };
    let text = text.trim_start_matches(DIM);
    let mut head = format!("  {name}");
    if text_at > VALUE_AT {
        head = format!("{}{value}", pad(&head, VALUE_AT));
    }
    for (index, part) in wrap(text, WIDTH - text_at).iter().enumerate() {
        let before = if index == 0 { pad(&head, text_at) } else { " ".repeat(text_at) };
        let _ = writeln!(out, "{before}{style}{part}{}", if style.is_empty() { "" } else { RESET });
    }
}

/// A command to paste, never broken: under the values, or further left where it is long.
fn command(out: &mut String, text: &str) {
    for text in text.lines().map(str::trim) {
        let indent = if VALUE_AT + 2 + text.chars().count() <= WIDTH { VALUE_AT } else { 4 };
        let sign = if is_command(text) { "$" } else { "→" };
        let _ = writeln!(out, "{:indent$}{CYAN}{sign} {text}{RESET}", "");
    }
}

/// Whether a remedy is a command to paste, and not advice in words.
fn is_command(text: &str) -> bool {
    ["sudo ", "echo ", "dmesg ", "perftax "].iter().any(|start| text.starts_with(start))
}

/// Padded to a column, colour codes not counted; at least one space.
fn pad(text: &str, column: usize) -> String {
    let plain = anstream::adapter::strip_str(text).to_string().chars().count();
    format!("{text}{}", " ".repeat(column.saturating_sub(plain).max(1)))
}

/// Words in lines of at most `width` characters; a longer word stands alone.
fn wrap(text: &str, width: usize) -> Vec<String> {
    wrapped(&text.split_whitespace().collect::<Vec<_>>().join(" "), width)
}

/// The oracle's answer: for each kind of core where the event names none.
pub fn answer(answer: &Answer) -> String {
    let mut out = String::new();
    for core in &answer.cores {
        of_core(&mut out, answer, core);
    }
    out
}

fn of_core(out: &mut String, answer: &Answer, core: &OfCore) {
    let (pebs, attr, cpu) = (&core.large_pebs, &core.attr, &core.cpu);
    let (verdict, colour, meaning) = match pebs.verdict {
        Verdict::MultiRecord => ("multi-record PEBS", GREEN, "many records to an interrupt"),
        Verdict::SingleRecord => ("single-record PEBS", RED, "an interrupt for each record"),
        Verdict::NotPebs => ("not PEBS", RED, "no records by hardware"),
        Verdict::Unknown => ("unknown", RED, "the CPU does not say enough"),
    };
    let whose = if answer.is_hypothetical { "by the book, not this machine" } else { "this machine" };
    heading(out, &format!("{} on {} ({whose})", attr.event, cpu.name));
    line(out, "verdict", &format!("{colour}{verdict}{RESET}"), MEANING_AT, &format!("{DIM}{meaning}"));
    if let Some(bytes) = pebs.record_bytes {
        row(out, "PEBS record", &format!("{bytes} bytes"), &format!("{}, {}", cpu.pebs.in_words(), cpu.format_source), "");
    }
    if let Some(records) = pebs.records_per_pmi {
        let meaning = if records > 1 {
            "then the interrupt comes; each context switch drains the buffer earlier"
        } else {
            "each sample pays for an interrupt"
        };
        row(out, "records per interrupt", &records.to_string(), meaning, "");
    }
    let rate = match attr.rate {
        Rate::Period(period) => format!("-c {period}"),
        Rate::Frequency(hz) => format!("-F {hz}"),
    };
    let default = if answer.is_default_rate { " (perf record's default, since neither -c nor -F was given)" } else { "" };
    let fields: Vec<_> = SAMPLE_FIELDS
        .iter()
        .filter(|f| attr.sample_type & f.bit != 0)
        .map(|f| f.name.trim_start_matches("PERF_SAMPLE_"))
        .collect();
    let asked = format!("precise_ip {}, {rate}{default}, sample_type {}", attr.precise, fields.join("|"));
    line(out, "asked", "", VALUE_AT, &asked);
    if !pebs.killed_by.is_empty() {
        heading(out, if pebs.verdict == Verdict::Unknown { "not known" } else { "killed by" });
        for killer in &pebs.killed_by {
            line(out, &killer.what, "", VALUE_AT, &killer.why);
            if !killer.fix.is_empty() {
                let _ = writeln!(out, "{:VALUE_AT$}{CYAN}{}{RESET}", "", killer.fix);
            }
        }
    } else if pebs.verdict == Verdict::MultiRecord {
        out.push('\n');
        let note = "Any other PEBS event on the same CPU that is not multi-record takes this one back to single records.";
        let _ = writeln!(out, "  {DIM}{note}{RESET}");
    }
}

/// Facts as separated values.
pub fn separated_facts(facts: &[Fact], separator: &str) -> String {
    let row = |fact: &Fact| [&fact.group.to_string(), &fact.name, &fact.value, &fact.meaning, &fact.fix].map(String::from);
    csv::table(separator, ["group", "name", "value", "meaning", "fix"], facts.iter().map(row))
}

/// What killed large PEBS, as separated values.
pub fn separated_killers(answer: &Answer, separator: &str) -> String {
    let of_core = |core: &OfCore| {
        let event = &core.attr.event;
        let row = |killer: &Killer| [event, &killer.what, &killer.why, &killer.fix, &core.cpu.pmu].map(String::from);
        core.large_pebs.killed_by.iter().map(row).collect::<Vec<_>>()
    };
    csv::table(separator, ["event", "what", "why", "fix", "pmu"], answer.cores.iter().flat_map(of_core))
}
