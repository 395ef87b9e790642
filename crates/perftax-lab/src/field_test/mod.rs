//! What a field test concludes, and how its file comes to name nobody. Pure: documents in, claims and texts out.

mod anonymous;
mod claims;

pub use anonymous::{Private, texts};
pub use claims::claims;
