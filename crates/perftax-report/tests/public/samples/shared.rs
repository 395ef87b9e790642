//! Transfers between threads: every access in a simulation, estimates beside it, watched places, many threads.

use perftax_doc::{
    Comm, CommAdvice, CommCost, CommEvidence, CommExact, CommLine, CommPair, CommPlace, CommShare, CommSite, CommThread, CommWay,
};
use perftax_doc::{Estimate, Warning};

use super::{about, normal, origin};

/// Every access of a program of four threads, in a simulation.
pub fn comm_every() -> Comm {
    let share = |true_sharing: u64, false_sharing: u64| CommShare {
        total: Estimate::exact((true_sharing + false_sharing) as f64),
        true_sharing: Estimate::exact(true_sharing as f64),
        false_sharing: Estimate::exact(false_sharing as f64),
        evidence: true_sharing + false_sharing,
        exact: None,
    };
    let mut doc = of(4, CommWay::Every, share);
    doc.elapsed_s = 0.0;
    (doc.cost, doc.evidence) = (None, CommEvidence { samples: 40_120_331, accesses: 40_120_331, ..CommEvidence::default() });
    doc
}

/// The same program by samples and debug registers, the truth beside; one pair is outside of its interval, and a few things were lost.
pub fn comm() -> Comm {
    let mut rng = fastrand::Rng::with_seed(12);
    let share = |true_sharing: u64, false_sharing: u64| {
        let mut estimate = |exact: u64| {
            let half = (1.96 * (exact as f64 * 90.0).sqrt()).max(200.0);
            about((exact as f64 + 0.5 * half * normal(&mut rng)).max(0.0).round(), half.round())
        };
        let (true_estimate, false_estimate) = (estimate(true_sharing), estimate(false_sharing));
        CommShare {
            total: true_estimate.plus(&false_estimate),
            true_sharing: true_estimate,
            false_sharing: false_estimate,
            evidence: (true_sharing + false_sharing) / 90,
            exact: Some(CommExact {
                true_sharing,
                false_sharing,
                by_stores: false_sharing / 3,
                by_later_loads: true_sharing / 5,
            }),
        }
    };
    let events = ["mem-loads", "mem-stores"].map(String::from).to_vec();
    let mut doc = of(4, CommWay::Sampled { events, period: 10_007, loads_period: None, watchpoints: 4 }, share);
    if let Some(exact) = doc.pairs[5].share.exact.as_mut() {
        exact.true_sharing += 4_000;
    }
    doc.evidence.undecoded = 17;
    doc.evidence.lost_samples = 3;
    doc
}

/// Two threads and a place that the user named; nothing exact beside it, and the budget may be exceeded.
pub fn comm_watched() -> Comm {
    let places = vec![CommPlace { address: 0x40_4040, bytes: 16, name: "counters+0x0/16".into() }];
    let mut doc = of(2, CommWay::Watched { places, watchpoints: 1 }, |_, false_sharing| CommShare {
        total: Estimate::new(false_sharing as f64, 0.8 * false_sharing as f64, 1.3 * false_sharing as f64),
        true_sharing: Estimate::new(0.0, 0.0, 12.0),
        false_sharing: Estimate::new(false_sharing as f64, 0.8 * false_sharing as f64, 1.3 * false_sharing as f64),
        evidence: 212,
        exact: None,
    });
    doc.lines.truncate(1);
    doc.core_pairs.clear();
    doc.evidence = CommEvidence { traps: 4_210, ..CommEvidence::default() };
    doc.cost = doc.cost.map(|cost| CommCost { overhead: Some(about(0.048, 0.006)), ..cost });
    let message = "process 4711 has 4 debug registers of each thread, 1 is free".into();
    doc.origin.warnings = vec![Warning::Other { message, remedy: "end the debugger that holds the others".into() }];
    doc
}

/// Sixty-four threads around a ring, with a first one that all hand to.
pub fn comm_many() -> Comm {
    let mut doc = of(64, comm().way, |true_sharing, false_sharing| {
        let around = |n: u64| about(n as f64, (1.96 * (90.0 * n as f64).sqrt()).round());
        CommShare {
            total: around(true_sharing + false_sharing),
            true_sharing: around(true_sharing),
            false_sharing: around(false_sharing),
            evidence: (true_sharing + false_sharing) / 90,
            exact: None,
        }
    });
    doc.lines[0].name = "std::vector<worker<int>, std::allocator<worker<int>>>::shared_state_of_all+0x40 [a-long-program]".into();
    doc
}

/// A program of so many threads: neighbours share a line of counters falsely, all hand tickets to the first one.
fn of(threads: u32, way: CommWay, mut share: impl FnMut(u64, u64) -> CommShare) -> Comm {
    let mut pairs: Vec<CommPair> = Vec::new();
    let mut pair = |from: u32, to: u32, true_sharing, false_sharing| {
        pairs.push(CommPair { from, to, share: share(true_sharing, false_sharing) });
    };
    for thread in 0..threads {
        let next = (thread + 1) % threads;
        pair(thread, next, 40 * u64::from(thread), 60_000 - 700 * u64::from(thread));
        if thread > 0 && next != 0 {
            pair(thread, 0, 9_000, 100);
        }
    }
    pairs.sort_by(|a, b| b.share.total.estimate.total_cmp(&a.share.total.estimate));
    let mut sum = share(0, 0);
    pairs.iter().for_each(|pair| add(&mut sum, &pair.share));
    let core_pairs = by_core(&pairs);
    let named = |number: u32| CommThread {
        number,
        process: Some(4711),
        tid: Some(4711 + number as i32),
        name: if number == 0 { "counters".into() } else { format!("worker-{number}") },
        core: Some(number / 2),
    };
    let lines =
        vec![counters(share(900, 180_000)), queue(share(26_000, 0)), configuration(share(0, 1_800)), unnamed(share(0, 90))];
    Comm {
        origin: origin("comm", &["perftax", "comm", "--", "./counters", "4"]),
        program: vec!["./counters".into(), threads.to_string()],
        way,
        elapsed_s: 11.8,
        threads: (0..threads).map(named).collect(),
        total: sum,
        pairs,
        core_pairs,
        lines,
        evidence: CommEvidence {
            samples: 121_400,
            accesses: 1_214_000_000,
            traps: 30_210,
            followed: 41_000,
            unfollowed: 80_400,
            silent: 10_790,
            evicted: 12,
            ..CommEvidence::default()
        },
        cost: Some(CommCost {
            trap_ns: Some(about(4_100.0, 200.0)),
            armed: 0.42,
            budget: Some(0.05),
            overhead: Some(about(0.031, 0.006)),
            own_s: Some(0.43),
            probes: 0,
        }),
    }
}

/// Two threads a core; what stays in a core is no transfer between cores.
fn by_core(pairs: &[CommPair]) -> Vec<CommPair> {
    let mut cores: Vec<CommPair> = Vec::new();
    for pair in pairs.iter().filter(|pair| pair.from / 2 != pair.to / 2) {
        let (from, to) = (pair.from / 2, pair.to / 2);
        match cores.iter_mut().find(|known| (known.from, known.to) == (from, to)) {
            Some(known) => add(&mut known.share, &pair.share),
            None => cores.push(CommPair { from, to, share: pair.share }),
        }
    }
    cores
}

fn add(sum: &mut CommShare, share: &CommShare) {
    sum.total = sum.total.plus(&share.total);
    sum.true_sharing = sum.true_sharing.plus(&share.true_sharing);
    sum.false_sharing = sum.false_sharing.plus(&share.false_sharing);
    sum.evidence += share.evidence;
    if let (Some(exact), Some(more)) = (sum.exact.as_mut(), share.exact) {
        exact.true_sharing += more.true_sharing;
        exact.false_sharing += more.false_sharing;
        exact.by_stores += more.by_stores;
        exact.by_later_loads += more.by_later_loads;
    }
}

fn site(is_store: bool, offset: u32, line: u32, threads: &[u32], seen: u64) -> CommSite {
    CommSite {
        ip: 0x40_1100 + u64::from(line) * 4,
        function: format!("count+{:#x} [counters]", line * 4),
        source: Some(format!("counters.c:{line}")),
        is_store,
        offset,
        bytes: 8,
        threads: threads.to_vec(),
        seen,
    }
}

fn counters(share: CommShare) -> CommLine {
    CommLine {
        address: 0x40_4040,
        name: "counters [counters]".into(),
        allocated_at: Vec::new(),
        objects: Vec::new(),
        share,
        pairs: vec![(0, 1, 60_000.0), (1, 0, 59_100.0)],
        sites: vec![site(true, 0, 17, &[0], 1_204), site(true, 8, 17, &[1], 1_187)],
        advice: CommAdvice::Pad,
        rest: None,
    }
}

fn queue(share: CommShare) -> CommLine {
    let handed = |line, is_store, threads: &[u32], seen| site(is_store, 0, line, threads, seen);
    let mut sites = vec![handed(40, true, &[1, 2, 3], 300), handed(52, false, &[0], 290)];
    sites[1].source = None;
    sites[1].function = "take [counters]".into();
    CommLine {
        address: 0x5555_5555_92c0,
        name: "heap+0x2c0".into(),
        allocated_at: vec!["queue_new queue.c:12".into(), "main counters.c:80".into()],
        objects: Vec::new(),
        share,
        pairs: vec![(3, 0, 9_000.0), (2, 0, 8_900.0), (1, 0, 8_100.0)],
        sites,
        advice: CommAdvice::Move,
        rest: None,
    }
}

fn configuration(share: CommShare) -> CommLine {
    CommLine {
        address: 0x40_4100,
        name: "limit, served [counters]".into(),
        allocated_at: Vec::new(),
        objects: Vec::new(),
        share,
        pairs: vec![(0, 1, 1_000.0), (0, 2, 700.0), (0, 3, 100.0)],
        sites: vec![site(true, 8, 61, &[0], 80), site(false, 0, 62, &[1, 2, 3], 71)],
        advice: CommAdvice::Split,
        rest: None,
    }
}

fn unnamed(share: CommShare) -> CommLine {
    CommLine {
        address: 0x7f00_1234_5640,
        name: String::new(),
        allocated_at: Vec::new(),
        objects: Vec::new(),
        share,
        pairs: vec![(0, 1, 90.0)],
        sites: Vec::new(),
        advice: CommAdvice::None,
        rest: None,
    }
}
