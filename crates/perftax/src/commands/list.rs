//! `perftax list`: the events of this machine.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use anyhow::Result;
use comfy_table::{ContentArrangement, Table, presets};
use perftax_doc::Origin;
use perftax_pmu::event::{self, Catalog, EventKind, Filter, ListedEvent};
use perftax_pmu::machine::Machine;
use perftax_report::{csv, wrapped};
use serde::Serialize;

use crate::failure::Outcome;
use crate::origin;
use crate::output::Output;

/// Rows of one kind beyond which the text shows counts, unless --all asks for them.
const MAX_ROWS: usize = 60;

/// Width of the text where it does not go to a terminal, in columns.
const DEFAULT_COLUMNS: u16 = 110;

const BOLD: &str = "\x1b[1m";
const DIM: &str = "\x1b[2m";
const RESET: &str = "\x1b[0m";

/// List the events of this machine
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  perftax list              counts by kind, generic and software events
  perftax list fault        every event whose name or meaning holds 'fault'
  perftax list sched:       the tracepoints of one system, with what they record
  perftax list skx::uops    the vendor's names for a CPU, this one or another (libpfm4)")]
pub struct Args {
    /// Only events whose name or meaning holds this, in any case of letters
    substring: Option<String>,
    /// Show every row, however many
    #[arg(short, long)]
    all: bool,
    #[command(flatten)]
    output: Output,
}

#[derive(Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Listing<'a> {
    #[serde(flatten)]
    origin: Origin,
    substring: Option<&'a str>,
    events: &'a [ListedEvent],
}

/// Runs the command.
pub fn run(args: &Args) -> Result<Outcome> {
    if let Some(path) = &args.output.html {
        let (value, needed) = (path.display().to_string(), "to be left out: a list has no page (use --json or -x)".into());
        return Err(perftax_pmu::Error::Argument { argument: "--html", value, needed }.into());
    }
    args.output.check_writable()?;
    let catalog = Catalog::of_this_machine();
    let substring = args.substring.as_deref().map(str::trim).filter(|text| !text.is_empty());
    let events = event::list(&catalog, &Filter { substring: substring.map(String::from) });
    if args.output.json.is_some() {
        let machine = Machine::here();
        let origin = origin::here("list", machine.id(), machine.kernel.clone());
        args.output.write_json(&Listing { origin, substring, events: &events })?;
    }
    if let (Some(name), true) = (substring, events.is_empty()) {
        return Err(perftax_pmu::Error::UnknownEvent { name: name.into(), nearest: event::near(name, &catalog) }.into());
    }
    let text = match &args.output.separator {
        Some(separator) => separated(&events, separator),
        None => Page { catalog: &catalog, columns: columns(), is_summary: substring.is_none() && !args.all, all: args.all }
            .text(&events),
    };
    args.output.write_text(&text)?;
    Ok(Outcome::Done)
}

fn columns() -> u16 {
    terminal_size::terminal_size().map_or(DEFAULT_COLUMNS, |(terminal_size::Width(columns), _)| columns.max(60))
}

/// The text for people.
struct Page<'a> {
    catalog: &'a Catalog,
    columns: u16,
    is_summary: bool,
    all: bool,
}

impl Page<'_> {
    fn text(&self, events: &[ListedEvent]) -> String {
        let mut text = String::new();
        for kind in EventKind::ALL {
            let of_kind: Vec<&ListedEvent> = events.iter().filter(|event| event.kind == kind).collect();
            if of_kind.is_empty() {
                continue;
            }
            let reasons = reasons(&of_kind);
            let here = of_kind.iter().filter(|event| event.available).count();
            let count = match here {
                0 => format!("{}, none here", of_kind.len()),
                n if n == of_kind.len() => format!("{n}, all here"),
                n => format!("{}, {n} here", of_kind.len()),
            };
            let _ = writeln!(text, "{BOLD}{}{RESET} {DIM}({count}){RESET}", title(kind));
            let is_long = of_kind.len() > MAX_ROWS && !self.all;
            match kind {
                EventKind::Tracepoint if is_long => text.push_str(&self.systems(&of_kind)),
                EventKind::Cache if self.is_summary => text.push_str(&self.names(&of_kind)),
                EventKind::Symbolic if self.is_summary => text.push_str(&self.hint(&of_kind)),
                _ if is_long => {
                    text.push_str(&self.rows(&of_kind[..MAX_ROWS], &reasons));
                    let rest = of_kind.len() - MAX_ROWS;
                    let _ = writeln!(text, "  … and {rest} more: a longer substring narrows, --all shows them");
                }
                _ => text.push_str(&self.rows(&of_kind, &reasons)),
            }
            for (number, reason) in reasons.iter().enumerate() {
                let mark = if reasons.len() > 1 { format!("no{}", superscript(number)) } else { "no".into() };
                text.push_str(&self.wrapped(&format!("{mark}: {reason}"), "  "));
            }
            text.push('\n');
        }
        if self.is_summary {
            text.push_str(&self.tail());
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
        text
    }

    fn rows(&self, events: &[&ListedEvent], reasons: &[&str]) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Dynamic).set_width(self.columns);
        for event in events {
            let names: Vec<&str> = std::iter::once(&event.name).chain(&event.synonyms).map(String::as_str).collect();
            table.add_row([names.join(", "), event.mechanism.to_string(), here(event, reasons), event.meaning.clone()]);
        }
        indent(&table.to_string())
    }

    /// Tracepoints by system, with counts.
    fn systems(&self, events: &[&ListedEvent]) -> String {
        let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
        for event in events {
            *counts.entry(event.name.split(':').next().unwrap_or_default()).or_default() += 1;
        }
        let systems: Vec<String> = counts.iter().map(|(system, count)| format!("{system}:{count}")).collect();
        let spaced = systems.iter().map(|entry| entry.replacen(':', "\u{a0}", 1)).collect::<Vec<_>>().join(", ");
        let mut text = self.wrapped(&spaced, "  ").replace('\u{a0}', " ");
        text.push_str(match self.is_summary {
            true => "  perftax list sched:   shows those of a system, and what they record\n",
            false => "  a longer substring narrows, --all shows every one\n",
        });
        text
    }

    fn names(&self, events: &[&ListedEvent]) -> String {
        self.wrapped(&events.iter().map(|event| event.name.as_str()).collect::<Vec<_>>().join(", "), "  ")
    }

    fn hint(&self, events: &[&ListedEvent]) -> String {
        let prefix = events.first().and_then(|event| event.name.split("::").next()).unwrap_or_default();
        format!("  perftax list {prefix}::   shows this CPU's; any other CPU's prefix (skx::, amd64_fam19h_zen4::) its own\n")
    }

    /// What cannot be listed, and what would list more.
    fn tail(&self) -> String {
        let mut text = format!("{BOLD}Also{RESET}\n");
        let forms = [
            ("r1c2, cpu/event=0xc2,umask=1/", "raw codes of the CPU"),
            ("mem:0xADDRESS/8:rw", "a breakpoint in a debug register"),
            ("uprobe:PATH:FUNCTION", "a probe in a program; uretprobe: for its return"),
            (":u :k :p :pp :ppp", "behind any event: user or kernel only, precise"),
        ];
        for (form, meaning) in forms {
            let _ = writeln!(text, "  {form:<32} {meaning}");
        }
        if self.catalog.tracefs().is_none() {
            text.push_str("  No tracepoints: tracefs is not mounted (sudo mount -t tracefs tracefs /sys/kernel/tracing)\n");
        }
        if self.catalog.libpfm().is_err() {
            text.push_str("  No vendor's names: libpfm is not installed (sudo apt-get install libpfm4)\n");
        }
        text
    }

    fn wrapped(&self, text: &str, margin: &str) -> String {
        let width = usize::from(self.columns).saturating_sub(margin.len());
        wrapped(text, width).iter().map(|line| format!("{margin}{line}\n")).collect()
    }
}

fn title(kind: EventKind) -> &'static str {
    match kind {
        EventKind::Hardware => "Hardware events",
        EventKind::Cache => "Hardware cache events",
        EventKind::Software => "Software events",
        EventKind::Pmu => "Events of PMUs",
        EventKind::Symbolic => "Vendor's names",
        EventKind::Tracepoint => "Tracepoints",
    }
}

fn here(event: &ListedEvent, reasons: &[&str]) -> String {
    match &event.why_not {
        None => "yes".into(),
        Some(why) if reasons.len() > 1 => {
            format!("no{}", reasons.iter().position(|reason| reason == why).map_or('*', superscript))
        }
        Some(_) => "no".into(),
    }
}

/// Why events of a kind are not available here, each reason once.
fn reasons<'a>(events: &[&'a ListedEvent]) -> Vec<&'a str> {
    let mut found: Vec<&str> = Vec::new();
    for why in events.iter().filter_map(|event| event.why_not.as_deref()) {
        if !found.contains(&why) {
            found.push(why);
        }
    }
    found
}

fn superscript(index: usize) -> char {
    ['¹', '²', '³', '⁴', '⁵', '⁶', '⁷', '⁸', '⁹'].get(index).copied().unwrap_or('*')
}

fn indent(table: &str) -> String {
    table.lines().map(|line| format!(" {}\n", line.trim_end())).collect()
}

fn separated(events: &[ListedEvent], separator: &str) -> String {
    let row = |event: &ListedEvent| {
        let (synonyms, kind) = (event.synonyms.join(" "), event.kind.name());
        let available = if event.available { "yes" } else { "no" };
        let why_not = event.why_not.as_deref().unwrap_or_default();
        let cells: [&str; 7] = [&event.name, &synonyms, kind, event.mechanism.name(), available, why_not, &event.meaning];
        cells.map(String::from)
    };
    let names = ["event", "synonyms", "kind", "mechanism", "available", "why_not", "meaning"];
    csv::table(separator, names, events.iter().map(row))
}
