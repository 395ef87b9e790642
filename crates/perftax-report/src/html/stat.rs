//! The page of counts.

use perftax_doc::Stat;

use super::page::{Grid, Panel, Part};
use crate::columns;
use crate::{shell, units};

pub(super) fn part(doc: &Stat) -> Part {
    let mut part = Part::of(&doc.origin, format!("What {} did, counted", shell::join(&doc.program)));
    for count in &doc.counts {
        part.fact(&count.event, columns::number(count.count), units::plural(&doc.runs.to_string(), "run", "runs"));
    }
    if let Some(comparison) = &doc.comparison {
        let verdict = if comparison.holds { "holds" } else { "does not hold" };
        part.fact("baseline", verdict, comparison.baseline.clone());
        let table = Grid::of(&columns::differences().each_ref(), comparison.counts.iter());
        part.panel(Panel::new("Events, before and now", "The baseline's counts, and these.").table(table));
        if let Some(functions) = &comparison.functions {
            let table = Grid::of(&columns::function_differences().each_ref(), functions.iter());
            let caption = "Functions whose instructions differ, by how much, most first.";
            part.panel(Panel::new("Functions, before and now", caption).table(table));
        }
    }
    let table = Grid::of(&columns::stat_counts().each_ref(), doc.counts.iter());
    part.panel(Panel::new("Events", "The least and the most are those of all runs.").table(table));
    if let Some(functions) = &doc.functions {
        let all = functions.iter().map(|function| function.instructions).sum();
        let table = Grid::of(&columns::functions().each_ref(), functions.iter().map(|function| (function, all)));
        part.panel(Panel::new("Instructions by function", "Of user mode, every one counted.").folded(table));
    }
    part
}
