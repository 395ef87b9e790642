//! The names that an unknown one may have been meant to be.

use crate::error::Error;

use super::catalog::Catalog;
use super::listing;

/// Most names that an error suggests.
const MAX: usize = 5;

/// Below this likeness a name is no help.
const MIN_LIKENESS: f64 = 0.72;

/// Where nothing is alike: share of letter pairs in common below which a name is no help, and how many to show then.
const MIN_PAIRS: f64 = 0.5;
const MAX_BY_PAIRS: usize = 3;

/// The error for a name that nothing has, with the nearest that exist.
pub(super) fn unknown(name: &str, catalog: &Catalog) -> Error {
    Error::UnknownEvent { name: name.into(), nearest: near(name, catalog) }
}

/// The names nearest to `name` among everything that can be listed, best first, at most five.
pub fn near(name: &str, catalog: &Catalog) -> Vec<String> {
    let looks_like_a_vendors = name.contains('.') || name.chars().any(|c| c.is_ascii_uppercase());
    among(name, listing::names(catalog, looks_like_a_vendors))
}

/// The names nearest to `name` among `names`, best first, at most five.
pub fn among(name: &str, names: impl IntoIterator<Item = String>) -> Vec<String> {
    let wanted = normal(name);
    let names: Vec<(String, String)> = names.into_iter().map(|name| (normal(&name), name)).collect();
    let alike = best(&names, MAX, MIN_LIKENESS, |candidate| likeness(&wanted, candidate));
    if !alike.is_empty() {
        return alike;
    }
    best(&names, MAX_BY_PAIRS, MIN_PAIRS, |candidate| strsim::sorensen_dice(&wanted, candidate))
}

fn best(names: &[(String, String)], most: usize, least: f64, score: impl Fn(&str) -> f64) -> Vec<String> {
    let scored = names.iter().map(|(normal, name)| (score(normal), name));
    let mut scored: Vec<(f64, &String)> = scored.filter(|(score, _)| *score >= least).collect();
    scored.sort_by(|(a, x), (b, y)| b.total_cmp(a).then_with(|| x.len().cmp(&y.len())).then_with(|| x.cmp(y)));
    scored.dedup_by(|(_, x), (_, y)| x == y);
    scored.into_iter().take(most).map(|(_, name)| name.clone()).collect()
}

/// Case and the choice between `-`, `_` and `.` are not what tells names apart.
fn normal(name: &str) -> String {
    name.chars().map(|c| if c == '_' || c == '.' { '-' } else { c.to_ascii_lowercase() }).collect()
}

/// 0 to 1. The part behind the system or PMU counts by itself too: people leave the system out.
fn likeness(wanted: &str, candidate: &str) -> f64 {
    let tail = candidate.rsplit([':', '/']).find(|part| !part.is_empty()).unwrap_or(candidate);
    let whole = alike(wanted, candidate);
    let part = if tail.len() == candidate.len() { 0.0 } else { alike(wanted, tail) * 0.98 };
    whole.max(part)
}

/// Spelling distance, lifted for a name that holds the other whole.
fn alike(a: &str, b: &str) -> f64 {
    let spelling = strsim::normalized_damerau_levenshtein(a, b);
    let shorter = a.len().min(b.len());
    let holds = shorter >= 4 && (a.contains(b) || b.contains(a));
    if holds { spelling.max(0.75 + 0.2 * shorter as f64 / a.len().max(b.len()) as f64) } else { spelling }
}
