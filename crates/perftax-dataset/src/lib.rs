//! The data set of a fleet: what many hosts published, as Parquet files in a folder or an object store.
//!
//! [`rows`] has the tables by type, and [`schema`] says which columns each has; [`table`] makes a file of rows and reads one. A [`Publication`] lists the files
//! that count; [`publish`] writes the files first and the publication last, so that an interrupted one is never seen. [`mod@compact`] makes few large
//! files of many small ones, and [`mod@check`] says which are there and whole.

pub mod check;
pub mod compact;
mod date;
mod digest;
mod entry;
mod error;
pub mod histogram;
mod orphans;
pub mod place;
pub mod publication;
pub mod publish;
#[cfg(feature = "object-store")]
mod remote;
pub mod rows;
pub mod schema;
pub mod table;

pub use check::{Checked, check};
pub use compact::{Compacted, compact};
pub use date::{day, days_of};
pub use digest::{hex, sha256};
pub use error::{Error, Result};
pub use histogram::Histogram;
pub use place::Place;
pub use publication::{Listed, Publication, Publications};
pub use publish::{Outcome, Publisher};
pub use rows::{Row, Text};
pub use schema::{Column, Kind, Table, VERSION};
