//! Running whole programs, monitored and not.

mod command;
mod monitor;
mod survey;
mod yardstick;

pub use command::Command;
pub use monitor::{Attach, Monitor, Watched, run_once};
pub use survey::{Survey, survey};
pub use yardstick::YardstickThread;
