//! Messages: marks in, what each thread did for which message out.
//!
//! A program marks its messages' boundaries (`perftax-tag`); [`rings`] reads the marks, [`clock`] puts them on the kernel's clock, and
//! [`message`] makes messages of them: when each began and ended, and which thread worked on it when.

pub mod account;
pub mod blame;
pub mod cause;
pub mod clock;
pub mod kernel;
pub mod mark;
pub mod message;
pub mod record;
pub mod rings;
pub mod store;

pub use account::account;
pub use blame::{Blame, blame, foremost, usual};
pub use cause::{Cause, Shares};
pub use clock::Anchors;
pub use kernel::{Activity, Interruption, KernelEvent, What, activities};
pub use mark::{Kind, Mark};
pub use message::{Message, Messages, Span, Trouble};
pub use record::{Recorded, Recording, record};
pub use rings::{MarkFolder, MarkRing};
pub use store::{SampleRow, Trace};
