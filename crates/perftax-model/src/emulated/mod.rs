//! What an emulated machine and the model of its PMU tell each other, whoever made the processor.
//!
//! Whoever executes the instructions keeps a [`Budget`]: so many events of each [`Class`] may pass before the PMU must be told of an
//! instruction that has [`Retired`]. Between two such moments an event costs one subtraction there and nothing here.

mod branch;
mod budget;
mod class;
mod counted;
mod held;
mod plan;
mod retired;
mod settings;
mod skid;
mod unmodelled;

pub use branch::{Branch, Kind};
pub use budget::{Budget, CLASSES, Granularity, KERNEL, USER};
pub use class::Class;
pub use counted::{Condition, Counted, Masks};
pub use held::Held;
pub use plan::{CLOSE, Plan};
pub use retired::{CLEAN, MODIFIED, Retired};
pub use settings::{Actions, Arm, Settings, Tally, Without};
pub use skid::Skid;
pub use unmodelled::Unmodelled;
