//! A page of text: labelled, wrapped, at most [`WIDTH`] columns wide.

use itertools::Itertools as _;
use owo_colors::OwoColorize;
use perftax_doc::Origin;
use perftax_doc::{Mechanism, Warning};

use crate::printable::printable;
use crate::shell;
use crate::table::{Table, visible_width};
use crate::wrapping::{filled, wrapped};

/// Columns that text never exceeds, apart from single words that are longer.
pub(crate) const WIDTH: usize = 110;

/// Width of the label column, its gap included.
const LABEL: usize = 10;

/// Text in the making.
#[derive(Debug, Default)]
pub(crate) struct Sheet {
    out: String,
}

impl Sheet {
    /// A page that starts with the machine.
    pub(crate) fn about(origin: &Origin) -> Self {
        let mut sheet = Self::default();
        sheet.row("machine", &machine(origin));
        sheet
    }

    /// A labelled line; wrapped lines stand below the text, not below the label.
    pub(crate) fn row(&mut self, label: &str, text: &str) {
        let lines = wrapped(text, WIDTH - LABEL);
        for (i, line) in lines.iter().enumerate() {
            self.labelled(if i == 0 { label } else { "" }, line);
        }
    }

    /// A command to paste, continued with backslashes where it is long.
    pub(crate) fn command<S: AsRef<str>>(&mut self, label: &str, command: &[S]) {
        if command.is_empty() {
            return;
        }
        let quoted: Vec<String> = command.iter().map(|a| shell::quote(&printable(a.as_ref()))).collect();
        let lines = filled(&quoted, WIDTH - LABEL - 4);
        for (i, line) in lines.iter().enumerate() {
            let more = if i + 1 < lines.len() { " \\" } else { "" };
            let indent = if i == 0 { "" } else { "  " };
            let line = format!("{indent}{line}{more}");
            self.labelled(if i == 0 { label } else { "" }, &line.bold().to_string());
        }
    }

    /// A recording: its file, the machine and the perf that it is of, and what was recorded.
    pub(crate) fn recording(&mut self, name: &str, recorded_on: &str, recorded_by: &str, command: &[String]) {
        let on = if recorded_on.is_empty() { "an unnamed machine" } else { recorded_on };
        let by = if recorded_by.is_empty() { String::new() } else { format!(", perf {}", printable(recorded_by)) };
        self.row("recording", &format!("{}, from {}{by}", printable(name), printable(on)));
        self.command("command", command);
    }

    /// A table below an empty line; none where it has no rows.
    pub(crate) fn table(&mut self, table: &Table) {
        if table.is_empty() {
            return;
        }
        self.blank();
        for line in table.lines(2, WIDTH) {
            self.line(&line);
        }
        self.blank();
    }

    /// Columns of words, each wrapped in its width, below an empty line; an empty line between rows.
    pub(crate) fn columns<const N: usize>(&mut self, titles: [&str; N], widths: [usize; N], rows: &[[String; N]]) {
        self.blank();
        for line in side_by_side(titles, widths) {
            self.line(&format!("  {}", line.dimmed()));
        }
        for (at, row) in rows.iter().enumerate() {
            if at > 0 {
                self.blank();
            }
            for line in side_by_side(row.each_ref().map(String::as_str), widths) {
                self.line(&format!("  {line}"));
            }
        }
        self.blank();
    }

    /// One line as it is.
    pub(crate) fn line(&mut self, line: &str) {
        self.out.push_str(line);
        self.out.push('\n');
    }

    /// An empty line, unless there is one already.
    pub(crate) fn blank(&mut self) {
        if !self.out.is_empty() && !self.out.ends_with("\n\n") {
            self.out.push('\n');
        }
    }

    /// Each warning with its remedy.
    pub(crate) fn warnings(&mut self, warnings: &[Warning]) {
        for warning in warnings {
            let text = wrapped(&printable(&warning.to_string()), WIDTH - LABEL);
            for (i, line) in text.iter().enumerate() {
                let label = if i == 0 { "warning" } else { "" };
                self.line(&format!("{}{line}", format!("{label:LABEL$}").yellow()));
            }
            let remedy = printable(&warning.remedy());
            if !remedy.is_empty() {
                for (i, line) in wrapped(&remedy, WIDTH - LABEL - 3).iter().enumerate() {
                    self.line(&format!("{:LABEL$}{}{line}", "", if i == 0 { "→ " } else { "  " }));
                }
            }
        }
    }

    /// The finished text.
    pub(crate) fn finish(self) -> String {
        format!("{}\n", self.out.trim_end())
    }

    fn labelled(&mut self, label: &str, text: &str) {
        let label = format!("{label:LABEL$}");
        let line = format!("{}{text}", label.cyan());
        self.line(&line);
    }
}

/// The event, and the mechanism where its name does not say it already.
pub(crate) fn event(event: &str, mechanism: Mechanism) -> String {
    if event == mechanism.name() { event.into() } else { format!("{} by {mechanism}", printable(event)) }
}

/// The machine in one line.
pub(crate) fn machine(origin: &Origin) -> String {
    let name = if origin.machine.name.is_empty() { &origin.machine.cpu } else { &origin.machine.name };
    let name = if name.is_empty() { "unnamed machine" } else { name };
    // A modelled machine runs no kernel.
    printable(&if origin.kernel.is_empty() { name.into() } else { format!("{name}, Linux {}", origin.kernel) })
}

/// The lines of cells that stand side by side, each wrapped in its width.
fn side_by_side<const N: usize>(cells: [&str; N], widths: [usize; N]) -> Vec<String> {
    let cells: Vec<(Vec<String>, usize)> = cells.iter().zip(widths).map(|(cell, width)| (wrapped(cell, width), width)).collect();
    let highest = cells.iter().map(|(lines, _)| lines.len()).max().unwrap_or(0);
    let line = |at: usize| {
        let mut padded = cells.iter().map(|(lines, width)| {
            let line = lines.get(at).map_or("", String::as_str);
            format!("{line}{}", " ".repeat(width.saturating_sub(visible_width(line))))
        });
        padded.join("  ").trim_end().to_string()
    };
    (0..highest).map(line).collect()
}
