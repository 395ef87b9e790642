//! Results that a command wrote with --json, and saved machine profiles.

use std::path::Path;

use anyhow::Result;
use perftax_report::Document;

/// The documents of a file: several of a machine profile. `wanted` says what may be in it.
pub fn read(file: &Path, wanted: &str) -> Result<Vec<Document>> {
    let bytes = std::fs::read(file).map_err(perftax_pmu::Error::file(file))?;
    let text = String::from_utf8(bytes).map_err(|_| unfit(format!("{} (not text)", file.display()), wanted))?;
    let documents = Document::read(&text).map_err(|error| unfit(format!("{} ({error})", file.display()), wanted))?;
    if documents.is_empty() {
        return Err(unfit(format!("{} (a machine profile without calibrations)", file.display()), "a result in it"));
    }
    Ok(documents)
}

/// A file that cannot be used: a mistake of usage.
pub fn unfit(value: String, needed: &str) -> anyhow::Error {
    perftax_pmu::Error::Argument { argument: "FILE", value, needed: needed.into() }.into()
}
