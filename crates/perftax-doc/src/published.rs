//! `perftax trace publish`, `perftax dataset`: what became of a data set.

use serde::{Deserialize, Serialize};

use crate::Origin;

/// What was published.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct TracePublish {
    /// Where it comes from.
    #[serde(flatten)]
    pub origin: Origin,
    /// The data set.
    pub dataset: String,
    /// Each trace.
    pub traces: Vec<PublishedTrace>,
}

/// A trace that was published.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PublishedTrace {
    /// Its folder.
    pub folder: String,
    /// The publication.
    pub id: String,
    /// It was there before: nothing was written.
    pub was_there: bool,
    /// The service.
    pub service: String,
    /// Messages that ended.
    pub messages: u64,
    /// Those that are kept whole.
    pub whole: u64,
    /// Files, rows and bytes that were written.
    pub files: u64,
    /// Their rows.
    pub rows: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// `perftax dataset add`: results that were added to a data set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DatasetAdd {
    /// Where it comes from.
    #[serde(flatten)]
    pub origin: Origin,
    /// The data set.
    pub dataset: String,
    /// Each result.
    pub results: Vec<AddedResult>,
}

/// A result that was added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AddedResult {
    /// Its file, or the name of a machine whose costs were published.
    pub from: String,
    /// The command that it is of, such as `calibrate`.
    pub kind: String,
    /// The host that it is of.
    pub host: String,
    /// The publication that counts it: its own, or a compaction's.
    pub id: String,
    /// It was there before: nothing was written.
    pub was_there: bool,
    /// Files that were written.
    pub files: u64,
    /// Their rows.
    pub rows: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Whether a data set is whole.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DatasetCheck {
    /// Where it comes from.
    #[serde(flatten)]
    pub origin: Origin,
    /// The data set.
    pub dataset: String,
    /// Publications that count.
    pub publications: u64,
    /// Those that a compaction took up, and are still there.
    pub replaced: u64,
    /// Files that count and are as they were written, their rows and bytes.
    pub files: u64,
    /// Their rows.
    pub rows: u64,
    /// Their bytes.
    pub bytes: u64,
    /// What counts and cannot be read.
    pub corrupt: Vec<CorruptFile>,
    /// Files that no publication lists.
    pub unlisted: u64,
    /// Their bytes.
    pub unlisted_bytes: u64,
    /// Those of them that were removed.
    pub removed: u64,
}

/// A file that counts and cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CorruptFile {
    /// Which.
    pub path: String,
    /// Why.
    pub why: String,
}

/// What a compaction did.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DatasetCompact {
    /// Where it comes from.
    #[serde(flatten)]
    pub origin: Origin,
    /// The data set.
    pub dataset: String,
    /// Publications that it took up.
    pub publications: u64,
    /// Their files.
    pub files_before: u64,
    /// Their bytes.
    pub bytes_before: u64,
    /// The files that are there instead.
    pub files_after: u64,
    /// Their bytes.
    pub bytes_after: u64,
    /// Files that are corrupt: their publications were left as they are.
    pub corrupt: Vec<CorruptFile>,
}
