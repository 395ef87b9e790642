//! A line's run in strata: what follows its stores may change while a program runs, and so may how often they are followed.

use crate::pieces::Spread;

/// Follows that a stratum has at least, where a line has so many.
const MIN_FOLLOWS: usize = 8;

/// Samples and follows of some pieces of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Stratum {
    pub samples: f64,
    pub follows: f64,
}

/// Consecutive pieces of the run taken together until they have enough follows for a mean of their own.
#[derive(Clone, Debug, Default)]
pub(super) struct Strata {
    all: Vec<Stratum>,
    /// Pieces with samples of the line: number, samples, stratum.
    pieces: Vec<(usize, f64, usize)>,
    /// The stratum of each follow, in their order.
    of_follows: Vec<usize>,
}

impl Strata {
    /// Of a line's samples, and the pieces that its follows began in, in order of time.
    pub fn of(spread: &Spread, follows: &[usize]) -> Self {
        let mut strata = Self { all: vec![Stratum::default()], ..Self::default() };
        let mut next = 0;
        for (piece, samples) in spread.iter() {
            let here = follows[next..].iter().take_while(|follow| **follow <= piece).count();
            let current = strata.all.len() - 1;
            strata.pieces.push((piece, samples, current));
            strata.of_follows.extend(std::iter::repeat_n(current, here));
            strata.all[current].samples += samples;
            strata.all[current].follows += here as f64;
            next += here;
            let is_enough = strata.all[current].follows >= MIN_FOLLOWS as f64;
            if is_enough && follows.len() - next >= MIN_FOLLOWS {
                strata.all.push(Stratum::default());
            }
        }
        // A follow begins with a sample of its line: none is left. Should samples not be known, follows count where they are.
        let last = strata.all.len() - 1;
        strata.all[last].follows += (follows.len() - next) as f64;
        strata.of_follows.resize(follows.len(), last);
        strata
    }

    pub fn len(&self) -> usize {
        self.all.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = Stratum> {
        self.all.iter().copied()
    }

    pub fn of_follow(&self, follow: usize) -> usize {
        self.of_follows[follow]
    }

    /// Pieces of the run, with samples of the line and the stratum that they are in.
    pub fn pieces(&self) -> impl Iterator<Item = (usize, f64, usize)> {
        self.pieces.iter().copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(pieces: &[(usize, u32)]) -> Spread {
        let mut spread = Spread::default();
        pieces.iter().for_each(|(piece, samples)| (0..*samples).for_each(|_| spread.add(*piece)));
        spread
    }

    #[test]
    fn each_has_follows_enough_and_all_samples_have_one() {
        // Followed at each sample first, then at every tenth.
        let spread = spread(&[(0, 10), (3, 10), (4, 100), (7, 100)]);
        let follows: Vec<usize> = [vec![0; 10], vec![3; 10], vec![4; 10], vec![7; 10]].concat();
        let strata = Strata::of(&spread, &follows);
        let all: Vec<_> = strata.iter().map(|s| (s.samples, s.follows)).collect();
        assert_eq!(all, [(10.0, 10.0), (10.0, 10.0), (100.0, 10.0), (100.0, 10.0)]);
        assert_eq!((strata.of_follow(0), strata.of_follow(39)), (0, 3));
        assert_eq!(strata.pieces().last(), Some((7, 100.0, 3)));
    }

    #[test]
    fn few_follows_have_one_mean() {
        let strata = Strata::of(&spread(&[(0, 5), (9, 5)]), &[0, 0, 0, 9]);
        assert_eq!((strata.len(), strata.iter().next()), (1, Some(Stratum { samples: 10.0, follows: 4.0 })));
    }
}
