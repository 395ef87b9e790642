//! Calibration: the cost of one sample, measured in this process on a pinned thread.
//!
//! Fixed work is timed in *arms* (nothing, counting, sampling, sampling with a payload …) in random order; one pass over all
//! arms is a round, adjacent rounds are a session, and sessions are spread in time because costs drift (docs/explain/methods.md).

mod arm;
mod bench;
mod beside;
mod campaign;
mod conclude;
mod cross_check;
mod document;
mod feedback;
mod floor;
mod source;
mod spec;
mod switching;
mod tasking;
mod worker;

pub use arm::{Arm, EACH, IDLE, OFF, OFF_AGAIN, ON, Skipped};
pub use bench::Bench;
pub use campaign::{Campaign, GRACE, Goal, Outcome, Progress};
pub use conclude::{Conclusion, conclude};
pub use cross_check::{CrossCheckSample, Handler, conclude as conclude_cross_check};
pub use document::document;
pub use floor::FloorSample;
pub use spec::{Buffers, Depth, Spec, Switching, baseline};
pub use switching::{SWITCH_ARMS, SWITCH_OFF, switch_arm_at};
pub use tasking::{EXEC_OFF, EXEC_ON, TASK_OFF, TASK_ON};
pub use worker::{SessionResult, Worker};
