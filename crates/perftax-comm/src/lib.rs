//! Which threads share which cache lines: the transfers between their caches, exactly where every access is seen, and estimated where
//! samples and debug registers see a few of them. No I/O, no clocks, no kernel, but in `live`, which looks at a program that runs.

mod access;
mod access_table;
mod advice;
mod anonymous;
mod census;
pub mod document;
mod estimate;
mod evidence;
mod exact;
mod line;
mod line_watcher;
#[cfg(feature = "live")]
pub mod live;
mod pieces;
mod registers;
pub mod run;
mod simulated;
mod watch_episode;

pub use access::{Access, Kind, Thread};
pub use access_table::{AccessTable, Use, WORD_BYTES, WORDS, Words};
pub use advice::{MIN_TRANSFERS, Touched, advice};
pub use anonymous::{Anonymous, AnonymousOf};
pub use census::{Census, Counts, LineCensus, Site};
pub use estimate::{LineTransfers, Shares, Transfers, estimate};
pub use evidence::{Evidence, Fetches, Fetching};
pub use exact::{Exact, Transfer};
pub use line::{Bytes, LINE_BYTES, Line, lines_of};
pub use line_watcher::{Aim, LineWatcher, Settings, Trap, trapped};
pub use simulated::{Found, Simulated};
pub use watch_episode::{End, Fetch, IdleTimeout, WatchEpisode};
