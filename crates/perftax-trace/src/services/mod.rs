//! Messages over services: what one message of a service, and those of others that it called, spent their time on.
//!
//! A service's trace knows its own clock alone. How long a call was away is by the caller's clock, how long of that it was there by the other one's: neither needs to know how far the
//! clocks are apart. What a message took is therefore shared out without them ([`charge`]); only *when* something was, seen from elsewhere, needs them ([`placement`]).

mod account;
mod blame;
mod charge;
mod gather;
mod placement;
mod request;
#[cfg(test)]
mod tests;

pub use account::{Account, OwnTime};
pub use blame::{BlamedService, ServiceBlame, UsualRequests, blame_services};
pub use charge::{Charge, Charges, charge};
pub use gather::{Gathered, gather};
pub use placement::{Placed, Placement, placement};
pub use request::{Call, Enclosed, Flaw, Part, Request, Requests, ServiceTrace};
