//! Columns of `perftax sim stat` and `vm stat`: of events, of functions, and of what differs from a baseline.

use perftax_doc::{StatCount, StatDifference, StatFunction, StatFunctionDifference};

use super::Column;
use crate::units;

/// One row an event.
pub(crate) fn counts<'a>() -> [Column<&'a StatCount>; 5] {
    [
        Column::name("event", |of: &&StatCount| of.event.clone()).under(&["event"], |of| vec![of.event.clone()]),
        Column::number("count", |of: &&StatCount| number(of.count))
            .under(&["count", "unit"], |of| vec![plain(of.count), of.unit.clone()]),
        Column::number("least", |of: &&StatCount| number(of.least)).under(&["least"], |of| vec![plain(of.least)]),
        Column::number("most", |of: &&StatCount| number(of.most)).under(&["most"], |of| vec![plain(of.most)]),
        Column::field(&["running"], |of| vec![of.running.to_string()]),
    ]
}

/// One row a function.
pub(crate) fn functions<'a>() -> [Column<(&'a StatFunction, u64)>; 4] {
    [
        Column::number("instructions", |(of, _): &(&StatFunction, u64)| match of.most - of.least {
            0 => units::count(of.instructions),
            _ => format!("{} to {}", units::count(of.least), units::count(of.most)),
        }),
        Column::number("share", |(of, all)| units::share(of.instructions as f64 / (*all).max(1) as f64)),
        Column::name("function", |(of, _)| named(&of.function)),
        Column::name("file", |(of, _)| of.file.clone()),
    ]
}

/// One row an event that a baseline has, too.
pub(crate) fn differences<'a>() -> [Column<&'a StatDifference>; 5] {
    [
        Column::name("event", |of: &&StatDifference| of.event.clone()),
        Column::number("before", |of| number(Some(of.before))),
        Column::number("now", |of| number(Some(of.now))),
        Column::number("change", |of| signed(of.now - of.before)),
        Column::number("of it", |of| if of.before == 0.0 { String::new() } else { units::share(of.now / of.before - 1.0) }),
    ]
}

/// One row a function that differs.
pub(crate) fn function_differences<'a>() -> [Column<&'a StatFunctionDifference>; 5] {
    [
        Column::number("change", |of: &&StatFunctionDifference| signed(of.change() as f64)).main(),
        Column::number("before", |of| units::count(of.before)),
        Column::number("now", |of| units::count(of.now)),
        Column::name("function", |of| {
            let varies = if of.varies { ", which varies by itself" } else { "" };
            format!("{}{varies}", named(&of.function))
        }),
        Column::name("file", |of| of.file.clone()),
    ]
}

/// A count, which perf may have scaled or measured in a unit of time.
pub(crate) fn number(count: Option<f64>) -> String {
    match count {
        None => "not counted".into(),
        Some(count) if count.fract() == 0.0 && count >= 0.0 => units::count(count as u64),
        Some(count) => format!("{count:.3}"),
    }
}

pub(crate) fn signed(change: f64) -> String {
    let sign = if change > 0.0 {
        "+"
    } else if change < 0.0 {
        "-"
    } else {
        ""
    };
    format!("{sign}{}", number(Some(change.abs())))
}

/// With all digits, or nothing.
fn plain(count: Option<f64>) -> String {
    count.map_or(String::new(), |count| count.to_string())
}

fn named(function: &str) -> String {
    if function.is_empty() { "(of no known function)".into() } else { function.into() }
}
