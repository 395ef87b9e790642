//! How large a buffer: interrupts against pollution.

use serde::{Deserialize, Serialize};

use crate::machine::MachineError;
use crate::pollution::CacheProfile;
use crate::run::{Request, Sampling};

/// What one size of the buffer costs, beside what every record costs anyway.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct BufferCost {
    /// The size.
    pub buffer_bytes: u64,
    /// Interrupts, s.
    pub pmi_s: f64,
    /// Misses of the program, s.
    pub pollution_s: f64,
}

impl BufferCost {
    /// Both, s.
    pub fn total_s(&self) -> f64 {
        self.pmi_s + self.pollution_s
    }
}

/// The sizes from 4 KiB to 16 MiB, and the best of them for one program on one machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct BufferAdvice {
    /// The cheapest.
    pub best_bytes: u64,
    /// The smallest and largest size that cost at most `tolerance` more than the best: how flat the optimum is.
    pub flat_bytes: (u64, u64),
    /// A share of the elapsed time.
    pub tolerance: f64,
    /// All sizes.
    pub curve: Vec<BufferCost>,
}

/// Sizes that differ by less than this share of the elapsed time are alike: programs vary more from run to run.
const TOLERANCE: f64 = 0.005;

impl BufferAdvice {
    /// For so many samples in a program of so many seconds.
    ///
    /// # Errors
    /// Where the machine cannot do what is asked. `None` for mechanisms without a buffer.
    pub fn of(request: &Request, profile: &CacheProfile, samples: u64, elapsed_s: f64) -> Result<Option<Self>, MachineError> {
        let mut curve = Vec::new();
        for buffer_bytes in (12..=24).map(|bits| 1u64 << bits) {
            let sampling = request.sampling.map(|s| Sampling { buffer_bytes: Some(buffer_bytes), ..s });
            let request = Request { sampling, ..request.clone() };
            let streams = request.streams(samples);
            let (Some(core), false) = (request.core(0)?, streams.is_empty()) else { return Ok(None) };
            curve.push(BufferCost {
                buffer_bytes,
                pmi_s: core.interrupts_s(samples),
                pollution_s: profile.pollution_s(&request.machine, &streams),
            });
        }
        let best = curve.iter().min_by(|a, b| a.total_s().total_cmp(&b.total_s()));
        let Some(best) = best.copied() else { return Ok(None) };
        let flat = || curve.iter().filter(|cost| cost.total_s() <= best.total_s() + TOLERANCE * elapsed_s);
        let ends = (flat().next().unwrap_or(&best).buffer_bytes, flat().next_back().unwrap_or(&best).buffer_bytes);
        Ok(Some(Self { best_bytes: best.buffer_bytes, flat_bytes: ends, tolerance: TOLERANCE, curve }))
    }
}
