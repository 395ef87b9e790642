//! The descriptions that come with perftax, inside the binary: an installed perftax finds them by name.

use super::Workload;

macro_rules! embedded {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../workloads/", $name, ".toml")))),*]
    };
}

/// Name and text, sorted by name.
const SHIPPED: &[(&str, &str)] = embedded![
    "bzip2", "chase", "ep-2", "gcc", "glpsol", "gnugo", "hmmer", "perl", "pipe", "sjeng", "spin", "x264", "x264-2", "xz-2"
];

/// The names of the shipped descriptions, sorted.
pub fn shipped_names() -> Vec<&'static str> {
    SHIPPED.iter().map(|(name, _)| *name).collect()
}

/// The shipped descriptions, sorted by name.
pub fn shipped() -> Vec<Workload> {
    SHIPPED.iter().filter_map(|(name, text)| Workload::parse(text, name).ok()).collect()
}

pub(super) fn text(name: &str) -> Option<&'static str> {
    SHIPPED.iter().find(|(shipped, _)| *shipped == name).map(|(_, text)| *text)
}
