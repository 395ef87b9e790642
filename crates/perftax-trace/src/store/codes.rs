//! Numbers for what the tables hold.

use crate::kernel::{Interruption, What};
use crate::mark::Kind;

pub fn of_kind(kind: Kind) -> u64 {
    match kind {
        Kind::Begin => 1,
        Kind::End => 2,
        Kind::Switch => 3,
        Kind::Wake => 4,
    }
}

pub fn kind(code: u64) -> Option<Kind> {
    Some(match code {
        1 => Kind::Begin,
        2 => Kind::End,
        3 => Kind::Switch,
        4 => Kind::Wake,
        _ => return None,
    })
}

pub fn of_what(what: What) -> (u64, u64) {
    let of = |interruption| match interruption {
        Interruption::Irq => 0,
        Interruption::Softirq => 1,
        Interruption::Vector => 2,
    };
    match what {
        What::Switch { is_runnable, next } => (1 + u64::from(is_runnable), next.into()),
        What::Wakeup { tid } => (3, tid.into()),
        What::Enter(interruption, which) => (4 + of(interruption), which.into()),
        What::Exit(interruption, which) => (7 + of(interruption), which.into()),
        What::SyscallEnter(number) => (10, number.into()),
        What::SyscallExit(number) => (11, number.into()),
        What::FaultEnter => (12, 0),
        What::FaultExit => (13, 0),
        What::Ran(ns) => (14, ns),
        What::Migrate { tid, to } => (15, u64::from(tid) | to.map_or(0, |cpu| (u64::from(cpu) + 1) << 32)),
        What::TlbFlush(reason) => (16, reason.into()),
        What::Nmi(ns) => (17, ns),
        What::Paused => (18, 0),
        What::Resumed => (19, 0),
        What::Blind => (20, 0),
    }
}

pub fn what(what: u64, other: u64) -> Option<What> {
    let interruption = |n| [Interruption::Irq, Interruption::Softirq, Interruption::Vector][n as usize];
    let number = other as u32;
    Some(match what {
        1 | 2 => What::Switch { is_runnable: what == 2, next: number },
        3 => What::Wakeup { tid: number },
        4..=6 => What::Enter(interruption(what - 4), number),
        7..=9 => What::Exit(interruption(what - 7), number),
        10 => What::SyscallEnter(number),
        11 => What::SyscallExit(number),
        12 => What::FaultEnter,
        13 => What::FaultExit,
        14 => What::Ran(other),
        15 => What::Migrate { tid: number, to: (other >> 32).checked_sub(1).map(|cpu| cpu as u32) },
        16 => What::TlbFlush(number),
        17 => What::Nmi(other),
        18 => What::Paused,
        19 => What::Resumed,
        20 => What::Blind,
        _ => return None,
    })
}
