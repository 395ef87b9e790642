//! One cache.

use super::policy::{Policy, State};
use super::{LINE_BITS, LINE_BYTES};

/// A line number and, in its lowest bit, whether it was written.
type Tag = u32;
const DIRTY: Tag = 1;
/// No line has this number: [`LINE_BITS`] leave room above.
const NOTHING: Tag = Tag::MAX & !DIRTY;
const _: () = assert!(LINE_BITS < 31);

/// A line that had to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Evicted {
    /// The line.
    pub line: u32,
    /// Whether it must be written back.
    pub dirty: bool,
}

/// A set-associative, write-back, write-allocate cache.
#[derive(Clone, Debug)]
pub struct SetAssociative {
    tags: Vec<Tag>,
    ways: usize,
    sets: u32,
    /// `sets - 1` where that selects a set by bits.
    mask: Option<u32>,
    /// The lines of each set stand in the order of their use.
    ordered: bool,
    state: State,
}

impl SetAssociative {
    /// Of so many bytes (at least one set) and ways.
    pub fn new(bytes: u64, ways: usize, policy: Policy, seed: u32) -> Self {
        let sets = (bytes / LINE_BYTES / ways as u64).max(1) as u32;
        Self {
            tags: vec![NOTHING; sets as usize * ways],
            ways,
            sets,
            mask: sets.is_power_of_two().then(|| sets - 1),
            ordered: policy == Policy::Lru,
            state: State::new(policy, sets as usize, ways, seed),
        }
    }

    /// Lines that fit.
    pub fn lines(&self) -> usize {
        self.tags.len()
    }

    fn set(&self, line: u32) -> usize {
        match self.mask {
            Some(mask) => (line & mask) as usize,
            None => (line % self.sets) as usize,
        }
    }

    fn find(&self, set: usize, line: u32) -> Option<usize> {
        position(&self.tags[set * self.ways..][..self.ways], line << 1)
    }

    /// Whether it holds the line; nothing changes.
    pub fn holds(&self, line: u32) -> bool {
        self.find(self.set(line), line).is_some()
    }

    /// Uses a line, and returns whether it was there.
    #[inline]
    pub fn touch(&mut self, line: u32, write: bool) -> bool {
        let set = self.set(line);
        let (wanted, dirty) = (line << 1, Tag::from(write));
        if self.ordered && self.ways == 8 {
            let tags = &mut self.tags[set * 8..][..8];
            // The usual first-level cache, where nearly all accesses end: its size is known to the compiler.
            return <&mut [Tag; 8]>::try_from(tags).is_ok_and(|tags| touch_ordered(tags, wanted, dirty));
        }
        self.touch_any(set, wanted, dirty)
    }

    /// Uses a line of a cache under LRU, and returns how many others of its set were used since.
    #[inline]
    pub fn touch_ordered(&mut self, line: u32) -> Option<usize> {
        debug_assert!(self.ordered);
        let set = self.set(line);
        let tags = &mut self.tags[set * self.ways..][..self.ways];
        let wanted = line << 1;
        let depth = if tags[0] & !DIRTY == wanted { 0 } else { position(tags, wanted)? };
        let tag = tags[depth];
        put_first(&mut tags[..=depth], tag);
        Some(depth)
    }

    fn touch_any(&mut self, set: usize, wanted: Tag, dirty: Tag) -> bool {
        let tags = &mut self.tags[set * self.ways..][..self.ways];
        let Some(way) = position(tags, wanted) else { return false };
        let tag = tags[way] | dirty;
        if self.ordered {
            put_first(&mut tags[..=way], tag);
        } else {
            tags[way] = tag;
            self.state.used(set, way, self.ways);
        }
        true
    }

    /// Fills a line that is not there, and returns the one that had to go.
    pub fn fill(&mut self, line: u32, dirty: bool) -> Option<Evicted> {
        let set = self.set(line);
        let tag = line << 1 | Tag::from(dirty);
        let tags = &mut self.tags[set * self.ways..][..self.ways];
        let gone = if self.ordered {
            // What was invalidated left its hole at the end.
            put_first(tags, tag)
        } else {
            let empty = tags.iter().position(|&tag| tag == NOTHING);
            let way = empty.unwrap_or_else(|| self.state.victim(set, self.ways));
            self.state.filled(set, way, self.ways);
            std::mem::replace(&mut tags[way], tag)
        };
        (gone != NOTHING).then_some(Evicted { line: gone >> 1, dirty: gone & DIRTY != 0 })
    }

    /// Marks a line as written without using it; whether it was there.
    pub fn write_back(&mut self, line: u32) -> bool {
        let set = self.set(line);
        let found = self.find(set, line);
        if let Some(way) = found {
            self.tags[set * self.ways + way] |= DIRTY;
        }
        found.is_some()
    }

    /// Takes a line out; whether it was dirty, where it was there.
    pub fn invalidate(&mut self, line: u32) -> Option<bool> {
        let set = self.set(line);
        let way = self.find(set, line)?;
        let tags = &mut self.tags[set * self.ways..][..self.ways];
        let tag = std::mem::replace(&mut tags[way], NOTHING);
        if self.ordered {
            tags[way..].rotate_left(1);
        }
        Some(tag & DIRTY != 0)
    }

    /// The lines that it holds, in no order.
    pub fn held(&self) -> impl Iterator<Item = u32> {
        self.tags.iter().filter(|&&tag| tag != NOTHING).map(|tag| tag >> 1)
    }
}

/// Finds a line and moves it to the front.
#[inline]
fn touch_ordered(tags: &mut [Tag; 8], wanted: Tag, dirty: Tag) -> bool {
    if tags[0] & !DIRTY == wanted {
        tags[0] |= dirty;
        return true;
    }
    let Some(found) = position(tags, wanted) else { return false };
    let tag = tags[found] | dirty;
    put_first(&mut tags[..=found], tag);
    true
}

/// Where a line stands. Looks at all places, without a branch for each, so that the compiler compares several at once.
#[inline]
fn position(tags: &[Tag], wanted: Tag) -> Option<usize> {
    let mut found = u32::MAX;
    for (way, tag) in (0..).zip(tags) {
        found = if tag & !DIRTY == wanted { way } else { found };
    }
    (found != u32::MAX).then_some(found as usize)
}

/// Moves all back by one, the last one out, and puts a tag in front. A loop, since sets are shorter than a call of memmove.
#[inline]
fn put_first(tags: &mut [Tag], tag: Tag) -> Tag {
    tags.iter_mut().fold(tag, |moved, place| std::mem::replace(place, moved))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_goes_first() {
        let mut cache = SetAssociative::new(4 * 64, 4, Policy::Lru, 1);
        for line in 1..=4 {
            assert_eq!(cache.fill(line, line == 2), None);
        }
        assert!(cache.touch(1, false) && cache.touch(2, false));
        assert_eq!(cache.fill(5, false), Some(Evicted { line: 3, dirty: false }));
        assert_eq!(cache.fill(6, false), Some(Evicted { line: 4, dirty: false }));
        assert_eq!(cache.fill(7, false), Some(Evicted { line: 1, dirty: false }));
        assert_eq!(cache.fill(8, false), Some(Evicted { line: 2, dirty: true }));
    }

    /// Lines in cyclic order, a quarter more than fit: nothing stays under LRU, something under the others.
    #[test]
    fn policies_differ_on_a_cycle() {
        let hits = |policy| {
            let mut cache = SetAssociative::new(64 * 64, 16, policy, 7);
            let mut hits = 0;
            for turn in 0..50 {
                for line in 0..80 {
                    let hit = cache.touch(line, false);
                    if !hit {
                        cache.fill(line, false);
                    }
                    hits += u32::from(hit && turn > 0);
                }
            }
            f64::from(hits) / f64::from(49 * 80)
        };
        assert_eq!(hits(Policy::Lru), 0.0);
        // m = 1 - exp(-1.25 m) for random replacement in a large set: 37 % misses.
        let random = hits(Policy::Random);
        assert!((0.55..0.72).contains(&random), "{random}");
        assert_eq!(hits(Policy::Srrip), 0.0, "static prediction gives way to a cycle as LRU does");
        assert!(hits(Policy::TreePlru) > 0.0);
    }

    #[test]
    fn a_hole_is_filled_before_anything_goes() {
        for policy in [Policy::Lru, Policy::TreePlru, Policy::Random, Policy::Srrip, Policy::Drrip] {
            let mut cache = SetAssociative::new(4 * 64, 4, policy, 3);
            (1..=4).for_each(|line| assert_eq!(cache.fill(line, false), None));
            assert_eq!(cache.invalidate(3), Some(false));
            assert_eq!(cache.fill(9, true), None, "{policy:?}");
            assert!(cache.holds(1) && cache.holds(2) && cache.holds(4) && cache.holds(9));
            assert_eq!(cache.invalidate(9), Some(true));
        }
    }
}
