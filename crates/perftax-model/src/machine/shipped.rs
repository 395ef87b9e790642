//! The files under `machines/`, inside the program.

macro_rules! embedded {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../machines/", $name, ".toml")))),*]
    };
}

/// Name and text, sorted by name.
const SHIPPED: &[(&str, &str)] = embedded![
    "broadwell",
    "cascade-lake",
    "clearwater-forest",
    "haswell",
    "ivy-bridge",
    "sapphire-rapids",
    "skylake",
    "zen2",
    "zen3",
    "zen4",
    "zen5"
];

/// The names of the shipped machines, sorted.
pub fn shipped_names() -> Vec<&'static str> {
    SHIPPED.iter().map(|(name, _)| *name).collect()
}

/// The text of a shipped machine's file (TOML), by its name in small letters; its `[model]` is a [`super::Machine`].
pub fn shipped(name: &str) -> Option<&'static str> {
    SHIPPED.iter().find(|(shipped, _)| *shipped == name).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_holds_exactly_the_shipped_machines() {
        let mut files: Vec<_> = std::fs::read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/machines"))
            .unwrap()
            .map(|entry| entry.unwrap().path().file_stem().unwrap().to_owned())
            .collect();
        files.sort();
        assert_eq!(files, shipped_names());
    }
}
