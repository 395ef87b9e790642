//! Running whole programs, monitored and not.

mod code;
mod command;
mod copying;
mod input;
mod leavings;
mod lifetime;
mod load;
mod monitor;
mod process;
mod ready;
mod reference_loop;
mod scratch;
mod survey;
mod tasks;
mod whole_machine;

pub use code::CodeClock;
pub use command::Command;
pub use copying::Size;
pub use input::{Input, MAX_KEPT_BYTES};
pub use leavings::{Leavings, Left};
pub use lifetime::Lifetime;
pub use load::Load;
pub(crate) use monitor::succeeded;
pub use monitor::{Attach, Monitor, Watched, run_once, usual_ring_pages};
pub use process::{check_process, survey_process};
pub use ready::{Pattern, Ready};
pub use reference_loop::ReferenceLoopThread;
pub use scratch::{Copy, Scratch, sweep};
pub use survey::{Survey, remarks, survey};
pub use tasks::{Look, Seen, look_at_tasks};
pub use whole_machine::survey_machine;

/// The arm without any monitoring.
pub const OFF: &str = "off";
/// The same once more: the A/A control.
pub const OFF_AGAIN: &str = "off2";
