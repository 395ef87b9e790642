//! Messages: marks in, what each thread did for which message out.
//!
//! A program marks its messages' boundaries (`perftax-tag`); [`rings`] reads the marks, [`clock`] puts them on the kernel's clock,
//! [`mod@record`] takes samples and the kernel's tracepoints beside them, and [`store`] keeps all that. [`tracker`] makes messages of it, each
//! with where its time went; [`analysis`] asks a whole trace, and [`mod@blame`] says what the slow messages' extra time was spent on.

pub mod analysis;
pub mod blame;
pub mod budget;
pub mod cause;
pub mod clock;
pub mod contexts;
pub mod critical;
pub mod distribution;
pub mod events;
pub mod export;
mod guests;
pub mod keep;
pub mod kernel;
pub mod kinds;
pub mod label;
pub mod live;
pub mod lock;
pub mod mark;
pub mod mark_price;
pub mod marked;
pub mod message;
pub mod names;
pub mod noise;
pub mod occurrence;
pub mod passes;
pub mod picture;
pub mod price_check;
pub mod profile;
pub mod record;
pub mod register;
pub mod rest;
pub mod rings;
mod row;
mod said;
pub mod sockets;
mod spot;
pub mod store;
pub mod tag;
pub mod timeline;
pub mod tracker;

pub use analysis::{Answer, Latencies, Question, analyse, analyse_watching};
pub use blame::{Blame, Blamed, Brief, Detail, Foremost, Usual, blame};
pub use cause::{Cause, Shares};
pub use clock::Anchors;
pub use contexts::{Context, ContextRecord, ContextSight, Contexts};
pub use critical::{Step, critical_path};
pub use distribution::{Distribution, Population};
pub use events::{BlamedEvents, EventsOfMessage, blame_events};
pub use keep::KeepSlow;
pub use kernel::{Interruption, KernelEvent, What};
pub use kinds::Kinds;
pub use label::Labels;
pub use live::{Following, Live};
pub use lock::Lock;
pub use mark::{Kind, Mark, Saying, Statement, TraceIdentity};
pub use marked::{Hop, Marked, Relation};
pub use message::{Hit, Meanwhile, Message, Piece, Trouble, Waker, Waking};
pub use names::Names;
pub use noise::Noise;
pub use occurrence::{Around, Found, Occurrence};
pub use picture::{Dot, Picture};
pub use profile::{MeanTime, Profile};
pub use record::{Audience, Moment, Recorded, Recording, record, record_live};
pub use rings::{MarkFolder, MarkRing};
pub use row::{EventRow, Row};
pub use spot::Spot;
pub use store::{SampleRow, Store, StoreWriter, Symbols};
pub use tag::{Tag, TagFunctions, TagProbes, TagRegister};
pub use timeline::{Stretch, Timeline};
pub use tracker::{Activity, Counted, Record, Sampled, Tracker};
