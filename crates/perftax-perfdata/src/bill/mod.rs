//! What the sampling of a recording cost: its counts, times the prices of a machine profile.

mod billing;
mod dropped;
mod payload;
mod price;
mod remarks;
mod switches;
mod tasks;

pub use billing::bill;
pub use price::{Price, price_of};
pub use remarks::calibrate;
