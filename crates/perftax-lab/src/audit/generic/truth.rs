//! What generic events of the core's PMU are held against.

use perftax_pmu::event::{Retired, Vendor};

use super::super::Setting;
use crate::stimulus::{Loop, Ratio, Turn};

/// What an event is held against.
pub struct Truth {
    /// The event, as perf names it.
    pub name: &'static str,
    /// The loop.
    pub of: Loop,
    /// What that is.
    pub what: &'static str,
    /// Turns beside the first one.
    pub turns: u64,
    /// What they must make.
    pub expected: f64,
    /// The largest error that passes.
    pub allowed: f64,
    /// The event by the vendor's own number, which tells a wrong table from a wrong counter.
    pub own: Option<Retired>,
}

/// Turns, beside the first one, whose counts must be exact.
pub const TURNS: u64 = 40_000;
/// Turns of the coin: more than any predictor remembers of one branch (TAGE's tables hold some ten thousand entries).
const TOSSES: u64 = 200_000;
/// A real core's counts are off by interrupts (as in the other experiments), by less than this.
pub const ON_HARDWARE: f64 = 0.01;
/// Standard deviations of the coin that pass.
const SIGMAS: f64 = 4.0;
/// By how much a real core's mispredictions of a coin may be off half of the tosses: its loop's branch is mispredicted now and then, too.
const COIN_ON_HARDWARE: f64 = 0.1;
/// Of the branches that always go the same way, the share that may be mispredicted.
const PREDICTABLE: f64 = 0.01;
/// Multiplications of a turn of the chain.
const MULTIPLICATIONS: f64 = 20.0;
/// Cycles of a 64-bit multiplication whose factors are what the one before gave: Intel from Nehalem on, AMD from Zen 2 on
/// (Fog's instruction tables, IMUL r64,r64).
const MULTIPLICATION_CYCLES: f64 = 3.0;
/// By how much cycles of the chain may be off: the first Zen's multiplications take four.
const CHAIN_ON_HARDWARE: [(Vendor, f64); 2] = [(Vendor::Intel, 0.05), (Vendor::Amd, 0.35)];
/// Misses of the chase of 128 KB, one a load in theory: caches of 32 to 48 KB with replacement that is not quite least recently used.
const CHASE_ON_HARDWARE: f64 = 0.1;

/// An event, how many of it a turn makes, and the same by the vendor's own number.
type Known = (&'static str, fn(&Turn) -> u64, Retired);

impl Truth {
    /// One that a turn of a loop makes so many of.
    fn of_turn(
        name: &'static str,
        of: Loop,
        what: &'static str,
        count: fn(&Turn) -> u64,
        exact: bool,
        own: Option<Retired>,
    ) -> Self {
        let expected = (count(&of.turn()) * TURNS) as f64;
        Self { name, of, what, turns: TURNS, expected, allowed: if exact { 0.0 } else { ON_HARDWARE }, own }
    }

    /// All of them for a machine.
    pub fn all(setting: &Setting) -> Vec<Self> {
        let exact = setting.is_exact;
        let on_hardware = |allowed: f64| if exact { 0.0 } else { allowed };
        let mut all = Vec::new();
        let counted: [Known; 4] = [
            ("instructions", |turn| turn.instructions, Retired::Instructions),
            ("branches", |turn| turn.branches, Retired::Branches),
            ("L1-dcache-loads", |turn| turn.loads, Retired::Loads),
            ("L1-dcache-stores", |turn| turn.stores, Retired::Stores),
        ];
        for (name, count, own) in counted {
            all.push(Self::of_turn(name, Loop::Mix, "the mix", count, exact, Some(own)));
            all.push(Self::of_turn(name, Loop::FourLoads, "four loads", count, exact, Some(own)));
        }
        let of_mix: [Known; 3] = [
            ("branch-loads", |turn| turn.branches, Retired::Branches),
            ("dTLB-loads", |turn| turn.loads, Retired::Loads),
            ("dTLB-stores", |turn| turn.stores, Retired::Stores),
        ];
        for (name, count, own) in of_mix {
            all.push(Self::of_turn(name, Loop::Mix, "the mix", count, exact, Some(own)));
        }
        for name in ["branch-misses", "branch-load-misses"] {
            let tosses = TOSSES as f64;
            let chance = SIGMAS / tosses.sqrt();
            let allowed = if exact { chance } else { COIN_ON_HARDWARE };
            let coin = Self { name, of: Loop::Coin, what: "a coin", turns: TOSSES, expected: tosses / 2.0, allowed, own: None };
            // Where nothing is expected, what is allowed is a number of events.
            let allowed = PREDICTABLE * (Loop::Mix.turn().branches * TURNS) as f64;
            let mix = Self { name, of: Loop::Mix, what: "the mix", turns: TURNS, expected: 0.0, allowed, own: None };
            all.extend([coin, mix]);
        }
        let cycles = match setting.catalog.vendor() {
            // The emulated core takes a cycle for each instruction.
            _ if exact => Some((Loop::Multiply.turn().instructions as f64, 0.0)),
            vendor => {
                let allowed = CHAIN_ON_HARDWARE.into_iter().find(|(known, _)| *known == vendor);
                allowed.map(|(_, allowed)| (MULTIPLICATION_CYCLES * MULTIPLICATIONS, allowed))
            }
        };
        all.extend(cycles.map(|(a_turn, allowed)| Self {
            name: "cycles",
            of: Loop::Multiply,
            what: "a chain of multiplications",
            turns: TURNS,
            expected: a_turn * TURNS as f64,
            allowed,
            own: None,
        }));
        all.push(Self {
            name: "L1-dcache-load-misses",
            of: Loop::Chase(Ratio::Of20),
            what: "a chase of 1000 lines",
            turns: TURNS,
            expected: TURNS as f64,
            allowed: on_hardware(CHASE_ON_HARDWARE),
            own: None,
        });
        all
    }

    /// The row's name.
    pub fn case(&self) -> String {
        format!("{}:u, {}", self.name, self.what)
    }
}
