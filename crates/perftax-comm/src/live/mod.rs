//! `perftax comm`: which threads share which cache lines, by debug registers on them. The lines are those that the user names, or, where
//! memory accesses can be sampled, those that samples name (`sampled`).
//!
//! ```text
//! located     places (`place`) in a program that is held where it begins or runs already, by its `variables`; `attach`: all threads of that one
//! plan        places → pieces that a register can watch, and turns where there are more than registers
//! watcher     breakpoint events of all threads, one ring a CPU
//! skeleton    what all watching goes through, on its `terms`: the program's start, the loop around it, its `ending` (`own_time`, `price`)
//! session     of named places: takes turns (`slices`), keeps to the `budget`; `trap`: what its records hold
//!   └ intake  records → accesses (`image`, `decode`: which instruction it was), put in order of time
//!      └ accounts     accesses → threads, lines, transfers
//! estimate    transfers seen → transfers there were; `report` makes the document (`names` of addresses, `warnings` that all may have)
//! ```
//!
//! `crate::document` turns transfers into their document, whoever saw them; perftax-symbols says what lies at an address: both serve simulations, too.
//! `recorded` takes lines from a recording by perf c2c. `heap` says which object was allocated there, and by whom.

mod accounts;
mod attach;
mod budget;
mod decode;
mod ending;
mod estimate;
mod heap;
mod image;
mod intake;
mod located;
mod names;
mod own_time;
mod place;
mod plan;
mod price;
mod recorded;
mod report;
mod sampled;
mod session;
mod skeleton;
mod slices;
mod terms;
mod trap;
mod variables;
mod warnings;
mod watcher;

pub use ending::Ending;
pub use perftax_target::Subject;
pub use place::{At, Place, PlaceName};
pub use recorded::{RecordedLines, recorded_lines};
pub use report::Watched;
pub use sampled::{Found, MemoryEvents, Sampling, sample};
pub use session::{Watching, watch};
pub use terms::Terms;
pub use trap::trap_payload;
