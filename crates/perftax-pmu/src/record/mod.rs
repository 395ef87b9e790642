//! The records of perf's ring buffer, decoded where they lie: no copy, no `unsafe`, no panic, whatever the bytes are.
//!
//! A drain loop needs [`Header`] and [`Tally`] only. [`decode`] gives the whole [`Record`], by the [`Layout`] that the event's
//! attribute fixed. [`stream()`] walks records that lie one after the other. Hardware's own payloads: [`ibs`], [`pebs`], [`spe`].
//!
//! Source of all layouts: `include/uapi/linux/perf_event.h` and `kernel/events/core.c` of Linux 6.18 (record 22: 6.19).

mod aux;
mod bits;
mod branch;
mod callchain;
mod counts;
mod cursor;
mod data_source;
mod decode;
mod deferred;
mod encode;
mod fixed;
mod header;
pub mod ibs;
mod kernel_text;
mod layout;
mod loss;
mod mapping;
pub mod pebs;
mod place;
mod registers;
mod sample;
mod sample_id;
pub mod spe;
mod stream;
mod tally;
mod task;
mod transaction;
mod weight;
mod words;

pub use aux::{Aux, AuxFlags, AuxOutputHardwareId, ItraceStart};
pub use branch::{Branch, BranchFlags, BranchStack};
pub use callchain::{Callchain, Context, Frame};
pub use counts::{Count, Counts};
pub use data_source::{Blocked, DataSource, DataTlb, Hops, Level, LevelFlags, Lock, Operation, Snoop};
pub use decode::{Record, decode, identifier};
pub use deferred::{CallchainDeferred, Read};
pub use encode::{Encoder, MappedCode};
pub use fixed::{FixedPlaces, Offsets};
pub use header::{CpuMode, Header, kind_name};
pub use kernel_text::{BpfEvent, Ksymbol, TextPoke};
pub use layout::{Layout, Payload};
pub use loss::{Lost, LostSamples, Throttle};
pub use mapping::{MappedFile, Mmap, Mmap2};
pub use place::{Cgroup, NamespaceLink, Namespaces};
pub use registers::{RegisterAbi, Registers};
pub use sample::{Sample, UserStack};
pub use sample_id::{SampleId, Task};
pub use stream::{RawRecord, Stream, stream};
pub use tally::Tally;
pub use task::{Comm, Lifetime, Switch};
pub use transaction::Transaction;
pub use weight::Weight;
pub use words::Words;
