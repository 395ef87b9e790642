//! `perftax sim stat` and `vm stat` as separated values.

use perftax_doc::Stat;

use super::Rows;
use crate::columns;

/// One row an event.
pub fn stat(doc: &Stat, separator: &str) -> String {
    Rows::of(separator, &columns::stat_counts().each_ref(), doc.counts.iter())
}
