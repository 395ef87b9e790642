//! What an event counts that does not count what its name says: everything that two loops make, a turn.

use crate::stimulus::{Loop, Turn};

/// Loops that tell what they make apart: of no two quantities but those of one line do both make equally many.
pub const LOOPS: [Loop; 2] = [Loop::Mix, Loop::FourLoads];

/// Conditional branches of a turn of the mix, the one that is never taken among them, and of the four loads.
const CONDITIONAL: [u64; 2] = [2, 1];

/// Everything that the loops make, in words, and how many a turn of each.
fn quantities() -> Vec<(&'static str, [u64; 2])> {
    let of = |of: fn(&Turn) -> u64| LOOPS.map(|known| of(&known.turn()));
    vec![
        ("instructions", of(|turn| turn.instructions)),
        ("loads", of(|turn| turn.loads)),
        ("stores", of(|turn| turn.stores)),
        ("loads and stores", of(|turn| turn.loads + turn.stores)),
        ("branches", of(|turn| turn.branches)),
        ("taken branches", of(|turn| turn.taken)),
        ("conditional branches", CONDITIONAL),
        ("locked operations", of(|turn| turn.locked)),
        // All of these the mix makes one of a turn, and the four loads none.
        ("calls, returns or branches not taken", of(|turn| turn.branches - turn.taken)),
    ]
}

/// What counts as many a turn of both loops, give or take a share.
pub fn like(a_turn: [f64; 2], allowed: f64) -> Option<&'static str> {
    let fits = |made: u64, found: f64| (found - made as f64).abs() <= allowed * (made as f64).max(1.0);
    let all = quantities();
    let found = all.iter().find(|(_, made)| made.iter().zip(a_turn).all(|(made, found)| fits(*made, found)));
    found.map(|(name, _)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_quantities_look_alike() {
        let all = quantities();
        for (i, (name, made)) in all.iter().enumerate() {
            assert!(all[..i].iter().all(|(_, other)| other != made), "{name}: {made:?}");
            assert_eq!(like(made.map(|made| made as f64), 0.01), Some(*name));
        }
        assert_eq!(like([3.0, 1.0], 0.0), Some("taken branches"));
        assert_eq!(like([3.5, 1.0], 0.01), None);
        assert_eq!(like([0.0, 0.0], 0.01), None);
    }
}
