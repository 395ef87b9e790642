//! Event modifiers: the letters after the colon.

use crate::error::Result;

use super::scan::syntax;

/// Event modifiers, after the colon (perf-list(1)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Modifiers {
    /// Leave user mode out.
    pub exclude_user: bool,
    /// Leave the kernel out.
    pub exclude_kernel: bool,
    /// Leave the hypervisor out.
    pub exclude_hv: bool,
    /// Leave the host out (count in guests).
    pub exclude_host: bool,
    /// Leave guests out.
    pub exclude_guest: bool,
    /// 0 to 3: number of `p`; with `P`, the machine's highest level where sysfs tells it.
    pub precise: u8,
    /// `P`: the highest precise level that the machine has.
    pub precise_max: bool,
    /// `D`: pinned.
    pub pinned: bool,
    /// `e`: exclusive.
    pub exclusive: bool,
}

/// What the letters said, before defaults: which privilege levels and which worlds were asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Asked {
    user: bool,
    kernel: bool,
    hypervisor: bool,
    guest: bool,
    host: bool,
    pub(super) precise: u8,
    pub(super) precise_max: bool,
    pinned: bool,
    exclusive: bool,
    /// Guests are left out, unless `G` or `H` decides: perf does so for events without modifiers and with `u` or `p`.
    without_guests: bool,
}

/// Every letter that perf takes.
pub(super) const MODIFIER_LETTERS: &str = "ukhGHIpPSDeWbRX";

/// Letters that perf knows and perftax does not, with the reason.
const REFUSED: &[(char, &str)] = &[
    ('I', "leaves the idle task out of a whole-machine count; perftax watches programs, which are never the idle task"),
    (
        'S',
        "reads the other counters of a group into each sample; perftax opens each event by itself, so there is no group to read",
    ),
    ('W', "lets perf break up a group that does not fit the counters; perftax opens each event by itself"),
    ('b', "counts through BPF programs (perf stat --bpf-counters); perftax opens events itself"),
    ('R', "asks perf not to regroup events; perftax never regroups"),
    ('X', "asks perf not to regroup events; perftax never regroups"),
];

impl Asked {
    /// Reads the letters from `letters`, which stand at `at` in the whole `text`, on top of what is already asked for.
    ///
    /// # Errors
    /// `EventSyntax` for an unknown letter, one that perftax cannot honour, or more than three `p`.
    pub(super) fn read(mut self, text: &str, at: usize, letters: &str) -> Result<Self> {
        self.without_guests |= self == Self::default() && letters.is_empty();
        for (offset, letter) in letters.char_indices() {
            let here = at + offset;
            match letter {
                'u' => (self.user, self.without_guests) = (true, true),
                'k' => self.kernel = true,
                'h' => self.hypervisor = true,
                'G' => self.guest = true,
                'H' => self.host = true,
                'p' if self.precise == 3 => {
                    return Err(syntax(text, here, "at most three p (perf_event_attr.precise_ip is 0 to 3)"));
                }
                'p' => (self.precise, self.without_guests) = (self.precise + 1, true),
                'P' => self.precise_max = true,
                'D' => self.pinned = true,
                'e' => self.exclusive = true,
                other => return Err(refuse(text, here, other)),
            }
        }
        Ok(self)
    }

    /// Whether a precise level was asked for at all.
    pub(super) fn wants_precise(self) -> bool {
        self.precise > 0 || self.precise_max
    }

    /// The attribute bits, the same that perf sets: naming one privilege level leaves the others out.
    /// `guests_by_default` is for PMUs that refuse every exclusion (AMD IBS before Linux 6.14).
    pub(super) fn resolve(self, guests_by_default: bool) -> Modifiers {
        let levels = self.user || self.kernel || self.hypervisor;
        let worlds = self.guest || self.host;
        Modifiers {
            exclude_user: levels && !self.user,
            exclude_kernel: levels && !self.kernel,
            exclude_hv: levels && !self.hypervisor,
            exclude_host: worlds && !self.host,
            exclude_guest: if worlds { !self.guest } else { self.without_guests && !guests_by_default },
            precise: self.precise,
            precise_max: self.precise_max,
            pinned: self.pinned,
            exclusive: self.exclusive,
        }
    }
}

fn refuse(text: &str, at: usize, letter: char) -> crate::Error {
    match REFUSED.iter().find(|(known, _)| *known == letter) {
        Some((_, why)) => syntax(text, at, &format!("modifier {letter} {why}")),
        None => syntax(
            text,
            at,
            &format!("'{letter}' is not a modifier: u k h (levels), G H (guest, host), p pp ppp P (precise), D e"),
        ),
    }
}
