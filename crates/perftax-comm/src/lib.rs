//! Which threads share which cache lines: the transfers between their caches, exactly where every access is seen, and estimated where
//! samples and debug registers see a few of them. No I/O, no clocks, no kernel, but in `live`, which looks at a program that runs.

mod access;
mod advice;
mod anonymous;
mod board;
mod census;
mod detective;
pub mod document;
mod estimate;
mod evidence;
mod exact;
mod follow;
mod line;
#[cfg(feature = "live")]
pub mod live;
mod pieces;
mod registers;
pub mod run;
mod simulated;

pub use access::{Access, Kind, Thread};
pub use advice::{LEAST_TRANSFERS, Touched, advice};
pub use anonymous::{Anonymous, AnonymousOf};
pub use board::{Board, Use, WORD_BYTES, WORDS, Words};
pub use census::{Census, Counts, LineCensus, Site};
pub use detective::{Aim, Detective, Settings, Trap, trapped};
pub use estimate::{LineTransfers, Shares, Transfers, estimate};
pub use evidence::{Evidence, Fetches, Fetching};
pub use exact::{Exact, Transfer};
pub use follow::{End, Fetch, Follow, Patience};
pub use line::{Bytes, LINE_BYTES, Line, lines_of};
pub use simulated::{Found, Simulated};
