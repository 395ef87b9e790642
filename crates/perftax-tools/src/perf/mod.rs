//! perf's subcommands.

mod counting;
pub mod options;
mod recording;
mod tracing;

pub use counting::Counting;
pub use recording::{Chain, Mode, Rate, Recording, of_tasks_or_cpus};
pub(crate) use recording::{of_c2c, of_mem};
pub use tracing::Tracing;

use crate::grammar::{Given, Read};
use crate::{Error, Whom};

/// Whom a line watches by the options that all of perf's subcommands share; those that name tasks win (perf's target__validate).
pub(crate) fn whom(read: &Read<'_>) -> Whom {
    if let Some(processes) = read.value("pid") {
        Whom::Processes(processes.into())
    } else if let Some(threads) = read.value("tid") {
        Whom::Threads(threads.into())
    } else if read.has("all-cpus") || read.value("cpu").is_some() {
        Whom::Cpus(read.value("cpu").map(Into::into))
    } else {
        Whom::Command(read.rest.iter().map(|word| (*word).to_owned()).collect())
    }
}

/// The events of a comma list in perf's syntax: commas inside of braces and slashes part none.
pub(crate) fn events(list: &str) -> Vec<String> {
    let (mut events, mut event) = (Vec::new(), String::new());
    let (mut is_in_terms, mut depth) = (false, 0u32);
    for letter in list.chars() {
        match letter {
            '/' => is_in_terms = !is_in_terms,
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if !is_in_terms && depth == 0 => {
                events.push(std::mem::take(&mut event));
                continue;
            }
            _ => {}
        }
        event.push(letter);
    }
    events.push(event);
    events.retain(|event| !event.trim().is_empty());
    events
}

/// Options of a line among those that have no price, as they are written, and what of them has none.
pub(crate) fn unpriced(read: &Read<'_>, known: &[(&str, &str)]) -> Vec<(String, String)> {
    let without = |option: &Given<'_>| {
        let (_, what) = known.iter().find(|(name, _)| *name == option.name && !option.is_denied)?;
        Some((option.written.to_owned(), (*what).to_owned()))
    };
    read.options.iter().filter_map(without).collect()
}

/// A number that an option's value must be.
pub(crate) fn number<T: std::str::FromStr>(tool: &'static str, option: &str, value: &str, needed: &str) -> Result<T, Error> {
    let error = || Error::Value { tool, option: option.into(), value: value.into(), needed: needed.into() };
    value.trim().parse().map_err(|_| error())
}

#[cfg(test)]
mod tests {
    use super::events;

    #[test]
    fn lists_part_at_commas_between_events() {
        assert_eq!(
            events("cycles:u,cpu/event=1,umask=2/p,{a,b}:S,faults"),
            ["cycles:u", "cpu/event=1,umask=2/p", "{a,b}:S", "faults"]
        );
        assert!(events("").is_empty() && events(",").is_empty());
    }
}
