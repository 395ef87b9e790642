//! The frame of every page: parts (one a document) of panels (plot, caption, table).

use askama::Template;
use perftax_doc::Origin;

use super::figure::Figure;
use crate::columns;
use crate::printable::printable;
use crate::sheet::machine;
use crate::{shell, units};

/// One document on a page.
#[derive(Debug, Default)]
pub(super) struct Part {
    pub(super) kind: String,
    pub(super) title: String,
    /// The result in one sentence.
    pub(super) lead: String,
    /// `good`, `bad` or nothing: the colour of the lead.
    pub(super) tone: &'static str,
    pub(super) origin: Vec<(String, String)>,
    pub(super) facts: Vec<Fact>,
    /// Each warning with its remedy.
    pub(super) warnings: Vec<(String, String)>,
    /// What to do next: a title and a command.
    pub(super) next: Option<(String, String)>,
    pub(super) panels: Vec<Panel>,
}

/// One number that matters.
#[derive(Debug)]
pub(super) struct Fact {
    name: String,
    value: String,
    note: String,
}

/// A plot with its caption, and the table of its numbers.
#[derive(Debug, Default)]
pub(super) struct Panel {
    title: String,
    caption: String,
    figure: Option<Drawn>,
    /// Elements of a page's own, as they are: whatever comes from a document is escaped in them.
    body: Option<String>,
    table: Option<Grid>,
    folded: bool,
}

#[derive(Debug)]
struct Drawn {
    id: String,
    height: u32,
    json: String,
}

/// A table of a page.
#[derive(Debug, Default)]
pub(super) struct Grid {
    columns: Vec<Column>,
    rows: Vec<Vec<String>>,
    note: String,
}

#[derive(Debug)]
struct Column {
    name: String,
    numeric: bool,
}

impl Part {
    /// A part with the machine, kernel, date, command and warnings of its document.
    pub(super) fn of(origin: &Origin, title: impl Into<String>) -> Self {
        let optional = |name: &str, value: &str| (!value.is_empty()).then(|| (name.to_string(), printable(value)));
        let facts = [
            Some(("machine".to_string(), machine(origin))),
            // Most names of machines begin with it.
            optional("CPU", &origin.machine.cpu).filter(|_| !origin.machine.name.contains(&origin.machine.cpu)),
            optional("microcode", &origin.machine.microcode),
            optional("hypervisor", &origin.machine.virtualisation),
            // A simulation has no date: it is the same whenever it is made.
            (origin.taken_at_s > 0.0).then(|| ("taken".to_string(), units::date(origin.taken_at_s))),
            Some(("perftax".to_string(), printable(&origin.perftax))),
            optional("command", &shell::join(&origin.command)),
            optional("mitigations", &origin.machine.mitigations),
        ];
        Self {
            kind: printable(&origin.kind),
            title: title.into(),
            origin: facts.into_iter().flatten().collect(),
            warnings: origin.warnings.iter().map(|w| (printable(&w.to_string()), printable(&w.remedy()))).collect(),
            ..Self::default()
        }
    }

    pub(super) fn fact(&mut self, name: &str, value: impl Into<String>, note: impl Into<String>) {
        self.facts.push(Fact { name: name.into(), value: value.into(), note: note.into() });
    }

    pub(super) fn panel(&mut self, panel: Panel) {
        self.panels.push(panel);
    }
}

impl Panel {
    /// A panel with a caption: one sentence on what to look for.
    pub(super) fn new(title: &str, caption: &str) -> Self {
        Self { title: title.into(), caption: caption.into(), ..Self::default() }
    }

    pub(super) fn figure(mut self, figure: Figure) -> Self {
        let height = figure.height;
        self.figure = Some(Drawn { id: String::new(), height, json: figure.json() });
        self
    }

    pub(super) fn body(mut self, html: String) -> Self {
        self.body = Some(html);
        self
    }

    pub(super) fn table(mut self, table: Grid) -> Self {
        self.table = Some(table.limited());
        self
    }

    /// A table that is only there to look things up: closed at first.
    pub(super) fn folded(mut self, table: Grid) -> Self {
        self.folded = true;
        self.table(table)
    }
}

/// Rows that a page carries at most: more makes it slow to open, and `--json` has them all.
const MAX_ROWS: usize = 2000;

impl Grid {
    /// A table with these columns; a name that starts with `#` is one of numbers.
    pub(super) fn new(columns: &[&str]) -> Self {
        let column = |name: &&str| Column { name: name.trim_start_matches('#').into(), numeric: name.starts_with('#') };
        Self { columns: columns.iter().map(column).collect(), ..Self::default() }
    }

    /// These columns of some rows.
    pub(super) fn of<R>(columns: &[&columns::Column<R>], rows: impl Iterator<Item = R>) -> Self {
        let column = |column: &&columns::Column<R>| Column { name: column.on_a_page().into(), numeric: column.is_number };
        let mut grid = Self { columns: columns.iter().map(column).collect(), ..Self::default() };
        rows.for_each(|row| grid.row(columns.iter().map(|column| (column.cell)(&row)).collect()));
        grid
    }

    pub(super) fn column(&mut self, name: String) {
        self.columns.push(Column { name, numeric: true });
    }

    pub(super) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells.iter().map(|cell| printable(cell)).collect());
    }

    /// Keeps what a page can carry and says what was left out.
    fn limited(mut self) -> Self {
        if self.rows.len() > MAX_ROWS {
            self.note = format!("{} further rows are in the --json file.", self.rows.len() - MAX_ROWS);
            self.rows.truncate(MAX_ROWS);
        }
        self
    }

    fn numeric(&self, column: &usize) -> bool {
        self.columns.get(*column).is_some_and(|c| c.numeric)
    }
}

#[derive(Template)]
#[template(path = "page.html")]
struct Page<'a> {
    title: String,
    version: &'a str,
    parts: Vec<Part>,
    style: &'a str,
    more_style: &'a str,
    first: &'a str,
    plotly: &'a str,
    script: &'a str,
}

/// What a page has beside the frame.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Extra<'a> {
    pub(super) style: &'a str,
    /// A script that runs before the plots are drawn.
    pub(super) script: &'a str,
}

/// Characters of a fact of the head that fit into one of its columns; a longer one has a line of its own.
const COLUMN: usize = 80;

fn is_wide(fact: &(String, String)) -> bool {
    fact.1.chars().count() > COLUMN
}

/// A number keeps its unit and its interval beside it where a line is broken, and an interval is not broken.
fn tied(text: &str) -> String {
    let mut is_inside = false;
    let ends = |c: char| {
        is_inside = c == '[' || is_inside && c != ']';
        if c == ' ' && is_inside { '\u{a0}' } else { c }
    };
    let text: String = text.chars().map(ends).collect();
    text.replace(" %", "\u{a0}%").replace(" ±", "\u{a0}±").replace("± ", "±\u{a0}")
}

/// The finished page.
pub(super) fn render(parts: Vec<Part>) -> String {
    render_with(parts, Extra::default())
}

/// The finished page, with a style and a script of its own.
pub(super) fn render_with(mut parts: Vec<Part>, extra: Extra<'_>) -> String {
    let drawn = parts.iter_mut().flat_map(|part| &mut part.panels).filter_map(|panel| panel.figure.as_mut());
    let mut plots = 0;
    for figure in drawn {
        plots += 1;
        figure.id = format!("plot-{plots}");
    }
    // Some 4 MB, for pages that have plots.
    let bundle = if plots == 0 { String::new() } else { plotly::Plot::offline_js_sources() };
    let page = Page {
        title: parts.first().map_or("perftax".into(), |part| format!("{} · perftax {}", part.title, part.kind)),
        version: env!("CARGO_PKG_VERSION"),
        parts,
        style: include_str!("../../templates/style.css"),
        more_style: extra.style,
        first: extra.script,
        plotly: first_script(&bundle),
        script: include_str!("../../templates/plots.js"),
    };
    // Writing into a string cannot fail, and the template calls nothing else that can.
    page.render().unwrap_or_else(|error| format!("<!DOCTYPE html><title>perftax</title><p>This page failed: {error}</p>"))
}

/// The body of the first script of the bundle, which is plotly.js; the second would be a formula renderer that no plot uses.
fn first_script(bundle: &str) -> &str {
    let body = bundle.find("<script").and_then(|start| bundle[start..].find('>').map(|end| &bundle[start + end + 1..]));
    body.and_then(|body| body.find("</script>").map(|end| &body[..end])).unwrap_or_default()
}

/// With a capital letter, and an end.
pub(super) fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    let end = if text.ends_with('?') { "" } else { "." };
    format!("{first}{}{end}", letters.as_str())
}

#[cfg(test)]
mod tests {
    use super::tied;

    #[test]
    fn a_number_is_not_torn_from_its_unit_or_interval() {
        assert_eq!(tied("costs 0.36 % [0.24, 0.61], at most"), "costs 0.36\u{a0}% [0.24,\u{a0}0.61], at most");
        assert_eq!(tied("14.0 µs ± 2.3 here"), "14.0 µs\u{a0}±\u{a0}2.3 here");
    }
}
