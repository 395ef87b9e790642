//! Tables, plots and pages of perftax: a document in, a `String` out, no I/O.
//!
//! - [`text`]: what people read on a terminal, with ANSI colour that the writer strips where there is none.
//! - [`csv`]: the main table of a document as separated values.
//! - `html` (cargo feature): one offline page with plots.
//! - [`openmetrics`]: what a scraper of metrics reads.
//! - `samples` (cargo feature `parquet`): single samples as a Parquet file.
//! - [`Document`]: which document a JSON text holds, for commands that read documents back.

mod columns;
pub mod csv;
mod document;
#[cfg(feature = "html")]
pub mod html;
pub mod openmetrics;
mod printable;
mod rendering;
#[cfg(feature = "parquet")]
pub mod samples;
mod several;
mod sheet;
pub mod shell;
mod spelled;
mod table;
pub mod text;
mod trace_events;
pub mod trace_execution;
pub mod units;
mod waker;
mod wrapping;

pub use document::{Document, ReadError};
pub use rendering::Render;
pub use several::Several;
pub use spelled::{SPELLING, speak};
pub use wrapping::wrapped;
