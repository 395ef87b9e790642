//! A run in pieces of equally many samples: what was where in time, in bounded memory.

/// Pieces at most; there are half as many at least once there were so many samples.
pub const MAX_PIECES: usize = 64;

/// How far a run has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    samples: u64,
    per_piece: u64,
}

impl Default for Progress {
    fn default() -> Self {
        Self { samples: 0, per_piece: 1 }
    }
}

impl Progress {
    /// Samples so far.
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// The piece that a sample is in, by its number from 0 on.
    pub fn piece_of(&self, sample: u64) -> usize {
        (sample / self.per_piece) as usize
    }

    /// Pieces that have all their samples.
    pub fn whole(&self) -> usize {
        (self.samples / self.per_piece) as usize
    }

    /// The share of the samples that is in such pieces.
    pub fn whole_share(&self) -> f64 {
        (self.whole() as u64 * self.per_piece) as f64 / self.samples.max(1) as f64
    }

    /// One sample more: its piece, and whether every two pieces became one before.
    pub fn advance(&mut self) -> (usize, bool) {
        let is_full = self.piece_of(self.samples) == MAX_PIECES;
        if is_full {
            self.per_piece *= 2;
        }
        self.samples += 1;
        (self.piece_of(self.samples - 1), is_full)
    }
}

/// Samples by piece, in order; those without any are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spread(Vec<(u8, u32)>);

impl Spread {
    /// One more, in the last piece there is or a later one.
    pub fn add(&mut self, piece: usize) {
        let piece = piece as u8;
        match self.0.last_mut() {
            Some((last, samples)) if *last == piece => *samples += 1,
            _ => self.0.push((piece, 1)),
        }
    }

    /// Every two pieces become one.
    pub fn halve(&mut self) {
        self.0.iter_mut().for_each(|(piece, _)| *piece /= 2);
        self.0.dedup_by(|later, earlier| {
            let is_same = later.0 == earlier.0;
            if is_same {
                earlier.1 += later.1;
            }
            is_same
        });
    }

    /// All samples.
    pub fn total(&self) -> u64 {
        self.0.iter().map(|(_, samples)| u64::from(*samples)).sum()
    }

    /// Pieces with their samples, in order.
    pub fn iter(&self) -> impl Iterator<Item = (usize, f64)> {
        self.0.iter().map(|(piece, samples)| (usize::from(*piece), f64::from(*samples)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_grow_and_lose_nothing() {
        let (mut progress, mut every, mut third) = (Progress::default(), Spread::default(), Spread::default());
        for sample in 0..1000_u64 {
            let (piece, halved) = progress.advance();
            if halved {
                every.halve();
                third.halve();
            }
            every.add(piece);
            if sample % 3 == 0 {
                third.add(piece);
            }
        }
        assert_eq!((every.total(), third.total(), progress.samples()), (1000, 334, 1000));
        // Sixteen samples a piece: 62 whole ones, and eight samples.
        assert_eq!((progress.whole(), progress.piece_of(999), progress.whole_share()), (62, 62, 0.992));
        assert!(every.iter().take(62).all(|(_, samples)| samples == 16.0) && every.iter().count() == 63);
    }
}
