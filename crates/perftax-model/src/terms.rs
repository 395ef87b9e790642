//! Where the time goes: the terms of the cost model, as the model machine spends them.

use std::ops::AddAssign;

use serde::{Deserialize, Serialize};

/// Time that sampling took, by cause.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Terms {
    /// Hardware writing records, s.
    pub assist: f64,
    /// Taking interrupts, s.
    pub pmi: f64,
    /// Emptying the buffer, s.
    pub drain: f64,
    /// Misses that the program had because records took its place in the caches, s.
    pub pollution: f64,
}

impl Terms {
    /// All of it, s.
    pub fn total_s(&self) -> f64 {
        self.assist + self.pmi + self.drain + self.pollution
    }
}

impl AddAssign<&Terms> for Terms {
    fn add_assign(&mut self, other: &Terms) {
        self.assist += other.assist;
        self.pmi += other.pmi;
        self.drain += other.drain;
        self.pollution += other.pollution;
    }
}
