//! The machines that come with perftax, inside the binary.

use super::Published;

macro_rules! embedded {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../../machines/", $name, ".toml")))),*]
    };
}

/// Name and text, sorted by name.
const SHIPPED: &[(&str, &str)] = embedded!["broadwell", "cascade-lake", "haswell", "ivy-bridge", "skylake", "zen2", "zen3"];

/// The names of the shipped machines, sorted.
pub fn shipped_names() -> Vec<&'static str> {
    SHIPPED.iter().map(|(name, _)| *name).collect()
}

/// The shipped machines, sorted by name.
pub fn shipped() -> Vec<Published> {
    SHIPPED.iter().filter_map(|(name, text)| Published::parse(text, name).ok()).collect()
}

pub(super) fn text(name: &str) -> Option<&'static str> {
    SHIPPED.iter().find(|(shipped, _)| *shipped == name).map(|(_, text)| *text)
}
