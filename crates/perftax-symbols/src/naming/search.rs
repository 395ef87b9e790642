//! Variables by their names, for watching them.

use std::path::PathBuf;

use super::short;
use super::space::Space;

/// Names that are shown where none fits.
const MAX_NEAR: usize = 5;
/// How alike a name must be to be shown: normalised Damerau-Levenshtein, as for events.
pub(crate) const MIN_ALIKE: f64 = 0.6;

/// A variable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Symbol {
    /// As the source has it.
    pub name: String,
    /// Its first byte's address in the process.
    pub address: u64,
    /// Bytes.
    pub bytes: u64,
    /// The file that it is of.
    pub path: PathBuf,
}

/// No variable of that name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotFound {
    /// Whether each thread has one of its own: it lies at no one address.
    pub is_thread_local: bool,
    /// Names that are alike, the nearest first.
    pub nearest: Vec<String>,
}

impl std::fmt::Display for NotFound {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (self.is_thread_local, self.nearest.as_slice()) {
            (true, _) => write!(f, "each thread has one of its own, at no address that all threads know"),
            (false, []) => write!(f, "no file that the program has loaded has a variable of that name, or one like it"),
            (false, near) => write!(f, "no variable has that name; nearest: {}", near.join(", ")),
        }
    }
}

impl std::error::Error for NotFound {}

pub(super) fn symbol(space: &mut Space, wanted: &str) -> Result<Vec<Symbol>, NotFound> {
    let loaded = space.loaded();
    let mut found = Vec::new();
    for (path, bias) in &loaded {
        let fitting =
            space.object(path).all_variables().iter().filter(|variable| wanted == variable.name || wanted == variable.linked);
        found.extend(fitting.map(|variable| Symbol {
            name: variable.name.clone(),
            address: variable.at.wrapping_add(*bias),
            bytes: variable.bytes,
            path: path.clone(),
        }));
    }
    if found.is_empty() { Err(not_found(space, &loaded, wanted)) } else { Ok(found) }
}

fn not_found(space: &mut Space, loaded: &[(PathBuf, u64)], wanted: &str) -> NotFound {
    let mut near: Vec<(f64, String)> = Vec::new();
    let mut is_thread_local = false;
    for (path, _) in loaded {
        let object = space.object(path);
        is_thread_local |= object.thread_local().iter().any(|name| name == wanted);
        let of_file = object.all_variables().iter().map(|variable| (alike(wanted, &variable.name), &variable.name));
        let of_file = of_file.filter(|(score, _)| *score >= MIN_ALIKE);
        near.extend(of_file.map(|(score, name)| (score, format!("{name} [{}]", short(path)))));
    }
    NotFound { is_thread_local, nearest: nearest(near) }
}

/// The names that are most alike, each once.
pub(crate) fn nearest(mut scored: Vec<(f64, String)>) -> Vec<String> {
    scored.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    scored.dedup_by(|a, b| a.1 == b.1);
    scored.into_iter().take(MAX_NEAR).map(|(_, name)| name).collect()
}

/// How alike the spelling is; a name without its path (`pool::pending`) is as good.
pub(crate) fn alike(wanted: &str, name: &str) -> f64 {
    let last = name.rsplit("::").next().unwrap_or(name);
    let [wanted, whole, last] = [wanted, name, last].map(str::to_lowercase);
    strsim::normalized_damerau_levenshtein(&wanted, &whole).max(strsim::normalized_damerau_levenshtein(&wanted, &last))
}
