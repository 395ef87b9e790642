//! Samplers: sources of perf records, live or replayed, behind one trait.

mod attributes;
mod direct;
mod group;
mod live;
mod opening;
mod probe;
mod reader;
mod ring_pages;
mod settings;
mod waiting;

pub use attributes::attribute_bytes;
pub use direct::{DirectSampler, KernelWork, Pages};
pub use group::{GroupCounts, GroupSampler};
pub use live::LiveSampler;
pub use opening::modify;
pub use probe::LiveProbe;
pub use reader::{CODE_PAGE_SHIFT, Delivered, EndedTask, ReaderThread};
pub use ring_pages::ring_pages_within_rights;
pub use settings::{Clock, Payload, Sampling, Wakeup};
pub use waiting::WaitingThread;

use crate::error::Result;
use crate::record::{Header, Layout};

/// A source of perf records. Live, replayed or simulated: what stands above cannot tell the difference.
pub trait Sampler {
    /// How its SAMPLE records are laid out.
    fn layout(&self) -> &Layout;

    /// Starts sampling.
    fn enable(&mut self) -> Result<()>;

    /// Stops sampling; records taken so far stay to be drained.
    fn disable(&mut self) -> Result<()>;

    /// Hands out every record that has arrived, in place. Returns the bytes consumed.
    fn drain(&mut self, each: &mut dyn FnMut(Header, &[u8])) -> Result<u64>;
}
