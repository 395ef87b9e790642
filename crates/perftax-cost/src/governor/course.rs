//! How it went over time, in as few pieces as fit.

use perftax_doc::Stretch;

/// The most that are kept.
const MOST: usize = 512;
/// The shortest, s.
const SHORTEST_S: f64 = 0.1;

/// Stretches of about the same length, twice as long whenever there would be too many: of an hour as many as of a minute.
#[derive(Clone, Debug)]
pub(super) struct Course {
    stretches: Vec<Stretch>,
    length_s: f64,
}

impl Course {
    pub(super) fn new() -> Self {
        Self { stretches: Vec::new(), length_s: SHORTEST_S }
    }

    /// Adds what follows.
    pub(super) fn add(&mut self, next: Stretch) {
        match self.stretches.last_mut() {
            Some(last) if last.elapsed_s + next.elapsed_s <= self.length_s * 1.5 => merge(last, &next),
            _ => self.stretches.push(next),
        }
        if self.stretches.len() > MOST {
            self.length_s *= 2.0;
            let mut merged: Vec<Stretch> = Vec::with_capacity(MOST);
            for stretch in std::mem::take(&mut self.stretches) {
                match merged.last_mut() {
                    Some(last) if last.elapsed_s + stretch.elapsed_s <= self.length_s * 1.5 => merge(last, &stretch),
                    _ => merged.push(stretch),
                }
            }
            self.stretches = merged;
        }
    }

    pub(super) fn stretches(&self) -> &[Stretch] {
        &self.stretches
    }
}

fn merge(into: &mut Stretch, next: &Stretch) {
    into.elapsed_s += next.elapsed_s;
    into.program_cpu_s += next.program_cpu_s;
    into.spent_high_s += next.spent_high_s;
    into.samples += next.samples;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_hour_is_kept_in_as_little_as_a_minute_and_nothing_is_lost() {
        let mut course = Course::new();
        for i in 0..36_000 {
            course.add(Stretch {
                from_s: f64::from(i) * 0.1,
                elapsed_s: 0.1,
                program_cpu_s: 0.05,
                spent_high_s: 1e-4,
                samples: 3,
            });
        }
        let all = course.stretches();
        assert!((MOST / 4..=MOST).contains(&all.len()), "{}", all.len());
        assert_eq!(all.iter().map(|stretch| stretch.samples).sum::<u64>(), 108_000);
        assert!((all.iter().map(|stretch| stretch.elapsed_s).sum::<f64>() - 3600.0).abs() < 1e-6);
        assert!(all.windows(2).all(|pair| (pair[1].from_s - pair[0].from_s - pair[0].elapsed_s).abs() < 1e-6));
    }
}
