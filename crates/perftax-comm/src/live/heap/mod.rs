//! Objects of the heap, by name of who allocated them: `perftax comm --heap`.
//!
//! ```text
//! allocator   malloc, free and their like, in what a process has mapped
//! probes      the kernel's, on them; their records
//!   └ unwind  copies of stacks → callers
//! feed        records of all processes → calls, returns, frees in order of time, to each process's own
//!   └ objects     heap of one process: what lay at an address at a time
//! lines       what lay in the lines that were touched, each time that they were; `named` by who allocated it
//! awaited     objects that are to be watched once they are there
//! told        what a document says of all that
//! ```

mod allocator;
mod awaited;
mod feed;
mod lines;
mod named;
mod objects;
mod probes;
mod told;

pub use awaited::{Awaited, code_of};
pub use feed::Heaps;
pub use named::named;
pub use probes::Probes;

use perftax_pmu::Result;
use perftax_pmu::event::Catalog;

use perftax_pmu::process::maps;

/// Probes for what a process has mapped now; none where it is gone.
///
/// # Errors
/// Where it has no allocator that can be told, or the kernel refuses.
pub fn probes_of(pid: u32, cpus: &[u32], catalog: &Catalog) -> Result<Option<Probes>> {
    let maps = maps(pid)?;
    if maps.is_empty() {
        return Ok(None);
    }
    Probes::define(allocator::functions(pid, &maps)?, cpus, catalog).map(Some)
}
