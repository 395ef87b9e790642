//! Aligned columns for a terminal. Cells may carry ANSI colour: only what is visible counts.

use owo_colors::OwoColorize;

use crate::columns::Column;
use crate::printable::printable;
use crate::wrapping::wrapped;

/// Spaces between columns.
const GAP: &str = "  ";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Align {
    Left,
    Right,
}

/// A table: names to the left, numbers to the right.
#[derive(Debug, Default)]
pub(crate) struct Table {
    columns: Vec<(String, Align)>,
    rows: Vec<Vec<String>>,
    /// What stands in the last column goes on below, where it is too long for the line.
    goes_on: bool,
}

impl Table {
    /// These columns of some rows.
    pub(crate) fn of<R>(columns: &[&Column<R>], rows: impl Iterator<Item = R>) -> Self {
        let mut table = Self::headed(columns);
        for row in rows {
            let cell = |column: &&Column<R>| {
                let text = printable(&(column.cell)(&row));
                if column.is_main { text.bold().to_string() } else { text }
            };
            table.row(columns.iter().map(cell).collect());
        }
        table
    }

    /// These columns, without a row.
    pub(crate) fn headed<R>(columns: &[&Column<R>]) -> Self {
        let add = |table: Self, column: &&Column<R>| {
            if column.is_number { table.right(column.heading) } else { table.left(column.heading) }
        };
        columns.iter().fold(Self::default(), add)
    }

    /// Adds a column of names.
    pub(crate) fn left(mut self, title: &str) -> Self {
        self.columns.push((title.into(), Align::Left));
        self
    }

    /// Adds a column of numbers.
    pub(crate) fn right(mut self, title: &str) -> Self {
        self.columns.push((title.into(), Align::Right));
        self
    }

    /// Adds the last column, of remarks: a long one takes several lines.
    pub(crate) fn remarks(mut self, title: &str) -> Self {
        self.goes_on = true;
        self.left(title)
    }

    /// Whether it has no rows.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Adds a row. Cells of columns that do not exist are left out.
    pub(crate) fn row(&mut self, cells: Vec<String>) {
        self.rows.push(cells);
    }

    /// The lines of the table, each indented, with columns that are empty throughout left out.
    pub(crate) fn lines(&self, indent: usize, limit: usize) -> Vec<String> {
        let used: Vec<usize> =
            (0..self.columns.len()).filter(|&c| self.rows.iter().any(|row| row.get(c).is_some_and(|x| !x.is_empty()))).collect();
        let room = limit.saturating_sub(indent);
        let all: Vec<usize> = used.iter().map(|&c| self.width_of(c)).collect();
        let last = self.columns.len().saturating_sub(1);
        let place = if self.goes_on && used.last() == Some(&last) { Remarks::of(&all, room) } else { Remarks::None };
        let (used, all) =
            if place == Remarks::Below { (&used[..used.len() - 1], &all[..all.len() - 1]) } else { (&used[..], &all[..]) };
        let widths = shrunk(all.to_vec(), &used.iter().map(|&c| self.columns[c].1).collect::<Vec<_>>(), room);
        let head: Vec<String> = self.columns.iter().map(|(title, _)| title.clone()).collect();
        let line = |cells: &[String]| {
            let parts: Vec<String> = used
                .iter()
                .zip(&widths)
                .map(|(&c, &width)| pad(cells.get(c).map_or("", String::as_str), width, self.columns[c].1))
                .collect();
            parts.join(GAP).trim_end().to_string()
        };
        let pad_left = " ".repeat(indent);
        let row = |cells: &Vec<String>| {
            let remark = cells.get(last).map_or("", String::as_str);
            let before = &cells[..last.min(cells.len())];
            let (first, before, parts) = match (place, widths.last()) {
                (Remarks::Beside, Some(&width)) => {
                    let parts = wrapped(remark, width);
                    let first = line(&[before, &parts[..parts.len().min(1)]].concat());
                    (
                        first,
                        widths[..widths.len() - 1].iter().map(|width| width + GAP.len()).sum(),
                        parts.into_iter().skip(1).collect(),
                    )
                }
                (Remarks::Below, _) => (line(before), BELOW, wrapped(remark, room.saturating_sub(BELOW))),
                _ => (line(cells), 0, Vec::new()),
            };
            let more = parts.into_iter().map(|part: String| format!("{}{part}", " ".repeat(before)));
            std::iter::once(first).chain(more).collect::<Vec<_>>()
        };
        std::iter::once(line(&head).dimmed().to_string())
            .chain(self.rows.iter().flat_map(row))
            .map(|line| format!("{pad_left}{line}"))
            .collect()
    }

    fn width_of(&self, column: usize) -> usize {
        let cells = self.rows.iter().filter_map(|row| row.get(column)).map(|cell| visible_width(cell));
        cells.chain([visible_width(&self.columns[column].0)]).max().unwrap_or(0)
    }
}

/// How far in remarks stand that are below their row.
const BELOW: usize = 10;

/// Where the remarks of rows stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Remarks {
    None,
    /// In the last column, and on below.
    Beside,
    /// In lines of their own: what is left of the line would hold a word or two of them.
    Below,
}

impl Remarks {
    fn of(widths: &[usize], room: usize) -> Self {
        const MIN: usize = 36;
        let Some((&widest, others)) = widths.split_last() else { return Self::None };
        let left = room.saturating_sub(others.iter().map(|width| width + GAP.len()).sum());
        if left >= widest.min(MIN) { Self::Beside } else { Self::Below }
    }
}

/// Takes from the widest column of names what is too much for the line.
fn shrunk(mut widths: Vec<usize>, aligns: &[Align], limit: usize) -> Vec<usize> {
    const MIN: usize = 8;
    loop {
        let total = widths.iter().sum::<usize>() + GAP.len() * widths.len().saturating_sub(1);
        if total <= limit {
            return widths;
        }
        let widest = (0..widths.len()).filter(|&i| aligns[i] == Align::Left && widths[i] > MIN).max_by_key(|&i| widths[i]);
        match widest {
            Some(i) => widths[i] -= (total - limit).min(widths[i] - MIN),
            None => return widths,
        }
    }
}

fn pad(cell: &str, width: usize, align: Align) -> String {
    let cell = if visible_width(cell) > width { cut(cell, width) } else { cell.into() };
    let space = " ".repeat(width.saturating_sub(visible_width(&cell)));
    match align {
        Align::Left => cell + &space,
        Align::Right => space + &cell,
    }
}

/// The text cut to the width, with an ellipsis. Colour is lost.
fn cut(text: &str, width: usize) -> String {
    let mut out: String = Visible::of(text).take(width.saturating_sub(1)).collect();
    out.push('…');
    out
}

/// Characters that take a place on the terminal (escape sequences do not).
pub(crate) fn visible_width(text: &str) -> usize {
    Visible::of(text).count()
}

/// The characters of a text outside of its colour sequences (ESC `[` … `m`).
struct Visible<'a>(std::str::Chars<'a>);

impl<'a> Visible<'a> {
    fn of(text: &'a str) -> Self {
        Self(text.chars())
    }
}

impl Iterator for Visible<'_> {
    type Item = char;

    fn next(&mut self) -> Option<char> {
        loop {
            match self.0.next()? {
                '\u{1b}' => {
                    self.0.by_ref().find(|&c| c == 'm');
                }
                c => return Some(c),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colour_takes_no_place() {
        assert_eq!(visible_width(&"held".green().to_string()), 4);
        assert_eq!(visible_width("17.2 µs ± 0.7"), 13);
    }

    #[test]
    fn names_left_numbers_right_and_empty_columns_gone() {
        let mut table = Table::default().left("name").right("cost").right("lost");
        table.row(vec!["a".into(), "1".into(), String::new()]);
        table.row(vec!["long name".green().to_string(), "1000".into(), String::new()]);
        let lines: Vec<String> = table.lines(2, 110).iter().map(|line| Visible::of(line).collect()).collect();
        assert_eq!(lines, ["  name       cost", "  a             1", "  long name  1000"]);
    }

    #[test]
    fn a_long_remark_goes_on_below() {
        let mut table = Table::default().right("n").left("name").remarks("");
        table.row(vec!["1".into(), "a".into(), "some words more than there is room for in a line".into()]);
        table.row(vec!["12".into(), "b".into(), String::new()]);
        let lines =
            |limit: usize| -> Vec<String> { table.lines(1, limit).iter().map(|line| Visible::of(line).collect()).collect() };
        assert_eq!(
            lines(48),
            ["  n  name", "  1  a     some words more than there is room", "           for in a line", " 12  b"]
        );
        // Where there is room for a word or two alone, below its row.
        let below =
            ["  n  name", "  1  a", "           some words more than there", "           is room for in a line", " 12  b"];
        assert_eq!(lines(38), below);
    }

    #[test]
    fn a_name_that_is_too_long_is_cut() {
        let mut table = Table::default().left("name").right("cost");
        table.row(vec!["x".repeat(50), "12".into()]);
        assert!(table.lines(0, 30).iter().all(|line| visible_width(line) <= 30));
        assert!(table.lines(0, 30)[1].contains('…'));
    }
}
