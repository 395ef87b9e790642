//! The CERN study's grid (openlab 2014): what counting and sampling cost, over modes × events × instances × periods × programs.
//!
//! [`Grid`] crosses them and says what this machine does not have, [`Instances`] runs copies of a program, [`Watch`] opens a mode's events
//! on them, and a [`Campaign`] makes pairs of both until each cell is known well enough.

mod campaign;
mod conclusion;
mod event_set;
mod experiment;
mod grid;
mod instances;
mod watch;

pub use campaign::{Campaign, Kept, Limits, Told};
pub use conclusion::conclude;
pub use event_set::EventSet;
pub use grid::{Cells, Grid, Planned};
pub use instances::{Instances, Ran};
pub use watch::{Monitors, Seen, Waiting, Watch, Watching};
