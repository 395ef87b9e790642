//! A trace of any number of messages, with delays planted at known ids.

use std::collections::BTreeMap;

use perftax_doc::{
    AmongParts, BetweenHops, BlamedCause, BlamedDetail, BlamedEvents, BlamedExecution, BlamedPlace, ExecutionSight, LastPart,
    Latencies, LongerExecution, Meanwhile, MessageEvents, MessageExecution, MessageHop, Neighbour, Noise, PathStep, Place, Point,
    PriceChecked, RelatedMessage, SampledFunction, SlowMessage, SocketSight, TailBlame, TraceCost, TraceEvent, TraceHost,
    TraceMessage, TraceMeta, TracePicture, TraceReport, Waker, Waterfall, WaterfallPiece,
};

use super::{about, origin};

/// The causes, as perftax-trace names them.
pub const CAUSES: [&str; 11] = [
    "on CPU",
    "page fault",
    "system call",
    "irq",
    "softirq",
    "vector",
    "steal",
    "preempted",
    "runnable",
    "blocked",
    "unattended",
];

/// Every so many messages one is delayed.
pub const EVERY: u64 = 997;

fn meta() -> TraceMeta {
    TraceMeta {
        origin: origin("trace", &["perftax", "trace", "record", "-o", "slow.trace", "--", "./server", "--port", "80"]),
        program: vec!["./server".into(), "--port".into(), "80".into()],
        host: Some(TraceHost { name: "front-1".into(), boot_id: "0b00".into() }),
        code: Some(0),
        elapsed_s: 12.5,
        cpu_s: 11.0,
        event: "cpu-clock".into(),
        period: 1_000_003,
        sampling_gap_ns: Some(1_000_003),
        clock_of_cpus: false,
        counted: vec![TraceEvent {
            name: "l3-misses".into(),
            period: 101,
            samples: 9000,
            unplaced: 30,
            counted_share: Some(1.0),
        }],
        executed: Some(ExecutionSight {
            readings_of_cpus: 61_000,
            readings_in_marks: 2_000_000,
            marks_without_count: 0,
            are_taken: false,
            filtered: Vec::new(),
            threads: 2,
            threads_without: 0,
            refused: BTreeMap::new(),
            reading_ns: Some(about(31.0, 4.0)),
        }),
        kernel_noise: true,
        rings: 2,
        lost: 0,
        dropped: 0,
        refused: 0,
        late: 0,
        broken: Vec::new(),
        rows: [2_000_000, 12_000, 400_000],
        recorded: [2_000_000, 12_000, 400_000],
        mark_ns: Some(about(15.0, 2.0)),
        tag: "marks".into(),
        register: None,
        probes: None,
        contexts: None,
        sockets: None,
        interrupts: None,
        kept: None,
        spent: None,
        missing: Vec::new(),
        checked: None,
        own_cpu_s: Some(0.25),
        steal_s: Some(0.1),
        losses_ns: Vec::new(),
        threads: Vec::new(),
        irqs: Vec::new(),
        locks: Vec::new(),
    }
}

/// The cause that message `id` is delayed by, and for how long.
fn delay(id: u64) -> Option<(usize, u64)> {
    let causes = [9, 7, 2, 6, 4];
    id.is_multiple_of(EVERY).then(|| (causes[(id / EVERY) as usize % causes.len()], 200_000 + id % 7 * 450_000))
}

fn point(id: u64, begin_ns: u64, rng: &mut fastrand::Rng) -> Point {
    let usual = (2000.0 * (super::normal(rng) * 0.25).exp()) as u64 + id % 1000 / 5 * 4;
    match delay(id) {
        Some((cause, ns)) => {
            Point { id, begin_ns, latency_ns: usual + ns, cause: cause as u8, function: (cause == 2).then_some(1), is_slow: true }
        }
        None => {
            let cause = if rng.u32(..50) == 0 { 5 } else { 0 };
            let function = (rng.u32(..500) == 0).then(|| 2 + rng.u32(..6));
            Point { id, begin_ns, latency_ns: usual, cause, function, is_slow: usual > 6000 }
        }
    }
}

/// A delayed message in pieces.
pub fn waterfall(point: &Point) -> Waterfall {
    let cause = CAUSES[usize::from(point.cause)];
    let piece = |from_ns, ns, tid: u32, cause: &str, which: Option<&str>| WaterfallPiece {
        from_ns,
        ns,
        tid,
        thread: if tid == 0 { "no thread".into() } else { format!("worker ({tid})") },
        cause: cause.into(),
        which: which.map(String::from),
        woken_by: None,
        meanwhile: (cause == "unattended").then(|| Meanwhile {
            tid: 4712,
            thread: "worker (4712)".into(),
            stretches: 3,
            ns: 1500,
            is_partial: false,
            most: 17,
            label: None,
        }),
        functions: Vec::new(),
    };
    let half = point.latency_ns / 2;
    let which = match point.cause {
        7 => Some("by cron (812)"),
        2 => Some("read"),
        9 => Some("futex"),
        4 => Some("NET_RX"),
        _ => None,
    };
    let mut pieces = vec![
        piece(0, 1000, 4711, "on CPU", None),
        piece(1000, half - 1000, 4711, cause, which),
        piece(half, 900, 4712, "vector", Some("local timer")),
        piece(half + 900, point.latency_ns - half - 900, 4712, "on CPU", None),
    ];
    let function = SampledFunction { name: "answer [server]".into(), samples: 2, between_ns: Some((1_000_003, 1_400_000)) };
    pieces[3].functions = vec![function.clone()];
    if which == Some("futex") {
        let at = Some("system call: futex".into());
        let thread = Some("worker (4712)".into());
        pieces[1].woken_by = Some(Waker { tid: 4712, thread, message: Some(point.id + 1), label: None, at });
    }
    let mut shares: BTreeMap<String, u64> = BTreeMap::new();
    for piece in &pieces {
        *shares.entry(piece.cause.clone()).or_default() += piece.ns;
    }
    Waterfall {
        id: point.id,
        label: point.id.is_multiple_of(2).then(|| format!("GET /{}?<b>", point.id)),
        begin_s: point.begin_ns as f64 * 1e-9,
        latency_ns: Some(point.latency_ns),
        shares_ns: shares,
        pieces,
        functions: vec![function],
        events: vec![misses(point)],
        executed: Some(executed(point)),
        faults: 2,
        migrations: 1,
        left_out: 0,
        is_doubtful: false,
    }
}

/// Those that end in an even number have more work, the others are slower at it.
fn executed(point: &Point) -> MessageExecution {
    let has_more = point.id.is_multiple_of(2);
    let ns = (point.latency_ns - 2000) as f64;
    let (instructions, cycles) =
        if has_more { (6000 + 2 * point.latency_ns, 4000 + point.latency_ns) } else { (6000, 3 * point.latency_ns) };
    MessageExecution {
        instructions,
        cycles,
        instructions_between: (!has_more).then_some((5000, 9000)),
        cycles_between: None,
        against_usual: Some(LongerExecution {
            usual_instructions: 6000.0,
            usual_cycles: 4000.0,
            more_work_ns: if has_more { ns } else { 0.0 },
            slower_work_ns: if has_more { 0.0 } else { ns },
            rest_ns: 120.0,
        }),
    }
}

/// What slow ones executed more.
fn blamed_execution(scale: f64) -> BlamedExecution {
    let about = |estimate: f64| about(estimate * scale, estimate * scale * 0.1);
    BlamedExecution {
        messages: 9,
        unknown: 1,
        usual_instructions: 6000.0,
        usual_cycles: 4000.0,
        usual_on_cpu_ns: 1600.0,
        extra_instructions: about(9000.0),
        extra_cycles: about(16_000.0),
        extra_on_cpu_ns: about(6700.0),
        more_work_ns: about(2400.0),
        slower_work_ns: about(4000.0),
        rest_ns: about(300.0),
    }
}

/// Every other message has many.
fn misses(point: &Point) -> MessageEvents {
    let samples = if point.id.is_multiple_of(2) { 5 } else { 1 };
    MessageEvents {
        event: "l3-misses".into(),
        samples,
        between_events: ((samples - 1) * 101, (samples + 1) * 101),
        usual_events: 12.5,
        are_many: samples > 1,
        function: Some("lookup [server]".into()),
        object: Some("routes [server]".into()),
        samples_there: samples,
    }
}

fn blamed_misses(scale: f64) -> BlamedEvents {
    let place = |object: Option<&str>, events: f64| BlamedPlace {
        function: Some("lookup [server]".into()),
        object: object.map(String::from),
        extra_events: about(events * scale, events * scale * 0.1),
    };
    BlamedEvents {
        event: "l3-misses".into(),
        usual_events: 12.5,
        extra_events: about(230.0 * scale, 9.0 * scale),
        with_many: 7,
        each_ns: Some(about(54.0, 3.0)),
        places: vec![place(Some("routes [server]"), 210.0), place(Some("mmap of 67108864 bytes"), 15.0), place(None, 0.4)],
    }
}

fn slow(point: &Point) -> SlowMessage {
    let waterfall = waterfall(point);
    SlowMessage {
        id: point.id,
        label: waterfall.label,
        begin_s: waterfall.begin_s,
        latency_ns: point.latency_ns,
        latency_between_ns: None,
        cause: CAUSES[usize::from(point.cause)].into(),
        beyond_ns: point.latency_ns - 2000,
        which: waterfall.pieces[1].which.clone(),
        woken_by: waterfall.pieces[1].woken_by.clone(),
        meanwhile: waterfall.pieces[1].meanwhile.clone(),
        function: waterfall.functions.first().cloned(),
        events: waterfall.events,
        executed: waterfall.executed,
        shares_ns: waterfall.shares_ns,
        faults: 2,
        migrations: 1,
        is_doubtful: point.id.is_multiple_of(3),
    }
}

/// A server that was joined while it ran, whose messages its system calls told; some came while recording paused.
pub fn joined() -> TraceReport {
    let mut report = picture(2000, false).report;
    report.meta.code = None;
    report.meta.tag = "socket:8080".into();
    let (begun, answered) = (2023, 2021);
    report.meta.sockets =
        Some(SocketSight { port: Some(8080), connections: 4, begun, answered, unanswered: 2, unasked: 0, refused: 0, rings: 0 });
    let extra = about(0.021, 0.004);
    report.meta.checked = Some(PriceChecked { extra, off_s: 0.4, off_cpu_s: 0.1, at_least: true, pairs: vec![0.02, 0.022] });
    report
}

/// A trace of so many messages; `spread` makes their ids so long that they have all 62 bits.
pub fn picture(messages: u64, spread: bool) -> TracePicture {
    let mut rng = fastrand::Rng::with_seed(7);
    let mut begin_ns = 0;
    let mut points: Vec<Point> = (1..=messages)
        .map(|id| {
            begin_ns += 8000 + rng.u64(..8000);
            point(id, begin_ns, &mut rng)
        })
        .collect();
    if spread {
        points.iter_mut().for_each(|point| point.id = point.id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 2);
    }
    let mut slowest: Vec<Point> = points.iter().copied().filter(|point| point.is_slow).collect();
    slowest.sort_by_key(|point| std::cmp::Reverse(point.latency_ns));
    let mut sorted: Vec<u64> = points.iter().map(|point| point.latency_ns).collect();
    sorted.sort_unstable();
    let at = |q: f64| sorted[((q * sorted.len() as f64) as usize).min(sorted.len() - 1)];
    let latency = Latencies { messages, p50_ns: at(0.5), p99_ns: at(0.99), p999_ns: at(0.999), max_ns: at(1.0) };
    let cause = |cause: &str, ns: f64, which: &[(&str, f64)]| BlamedCause {
        cause: cause.into(),
        extra_ns: about(ns, ns * 0.3),
        which: which.iter().map(|(name, ns)| BlamedDetail { name: (*name).into(), extra_ns: about(*ns, ns * 0.4) }).collect(),
        by_whom: Vec::new(),
        functions: vec![BlamedDetail { name: "answer [server]".into(), extra_ns: about(ns * 0.1, ns * 0.08) }],
    };
    let blame = |from: f64, scale: f64| TailBlame {
        from,
        messages: (messages as f64 * (1.0 - from)) as u64,
        extra_ns: about(150_000.0 * scale, 22_000.0 * scale),
        causes: vec![
            cause("blocked", 60_000.0 * scale, &[("futex", 52_000.0 * scale)]),
            cause("preempted", 41_000.0 * scale, &[("by cron (812)", 40_000.0 * scale)]),
            cause("system call", 25_000.0 * scale, &[("read", 24_000.0 * scale)]),
            cause("steal", 20_000.0 * scale, &[]),
        ],
        events: vec![blamed_misses(scale)],
        executed: Some(blamed_execution(scale)),
    };
    let report = TraceReport {
        meta: meta(),
        messages,
        trouble: BTreeMap::from([("never ended".to_string(), 3)]),
        latency: Some(latency),
        latency_between: None,
        watched: messages,
        samples: 12_000,
        cost: TraceCost {
            parts: Vec::new(),
            share: Some(about(0.03, 0.005)),
            is_checked: false,
            priced_share: None,
            busiest: None,
        },
        labels: Vec::new(),
        labels_left_out: 0,
        blames: vec![blame(0.99, 1.0), blame(0.999, 7.0)],
        slowest: slowest.iter().take(20).map(slow).collect(),
    };
    let quantile = |step: i32| 1.0 - 10f64.powf(-f64::from(step) / 20.0);
    let steps = (messages as f64).log10() * 20.0;
    let bins = 1000;
    let noise = (0..2u64).map(|cpu| {
        let bin = |at: u64| {
            [
                at % 50 / 40 * 900,
                at % 7 * 40,
                1500,
                if at.is_multiple_of(180) { begin_ns / bins / 3 } else { 0 },
                at % 90 / 60 * cpu * 100_000,
            ]
        };
        (cpu as u32, (0..bins).flat_map(bin).collect())
    });
    TracePicture {
        report,
        folder: "slow.trace".into(),
        causes: CAUSES.map(String::from).to_vec(),
        functions: ["[unknown]", "read_iter [kernel]", "parse", "answer [server]", "free", "malloc", "hash", "memcpy"]
            .map(String::from)
            .to_vec(),
        left_out: 0,
        slow_ns: latency.p99_ns,
        quantiles: (0..=steps as i32).map(|step| (quantile(step), at(quantile(step)))).collect(),
        waterfalls: slowest.iter().take(1000).map(waterfall).collect(),
        noise: Noise {
            from_ns: 0,
            bin_ns: begin_ns / bins,
            kinds: ["irq", "softirq", "vector", "steal", "other threads"].map(String::from).to_vec(),
            cpus: noise.collect(),
        },
        points,
    }
}

/// One message, as `trace show` has it.
pub fn message() -> TraceMessage {
    let point = Point { id: 4 * EVERY, begin_ns: 48_000_000, latency_ns: 1_803_700, cause: 9, function: None, is_slow: true };
    let neighbour = |place, id, apart_ns| Neighbour {
        thread: "worker (4711)".into(),
        place,
        id,
        label: None,
        apart_ns,
        latency_ns: 2_050,
        cause: "on CPU".into(),
    };
    let step = |from_ns, ns, tid: u32, message: Option<u64>, depth| PathStep {
        from_ns,
        ns,
        tid,
        thread: format!("worker ({tid})"),
        message,
        label: message.filter(|id| *id == 17).map(|_| "GET /".into()),
        cause: "system call".into(),
        which: (depth > 0).then(|| "write".into()),
        depth,
        functions: if depth > 0 {
            vec![SampledFunction { name: "keep_books [shop]".into(), samples: 2, between_ns: None }]
        } else {
            Vec::new()
        },
    };
    TraceMessage {
        meta: meta(),
        occurrences: 3,
        occurrence: 2,
        messages: 1_000_000,
        faster_share: 0.9998,
        median_ns: 2_050,
        median_shares_ns: BTreeMap::from([("on CPU".to_string(), 2_050)]),
        waterfall: waterfall(&point),
        identity: Some("4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7".into()),
        parent: Some(RelatedMessage { id: 8000, label: Some("stage 3".into()), ..RelatedMessage::default() }),
        parts: vec![
            RelatedMessage {
                id: 8318,
                label: Some("GET /cart".into()),
                thread: Some("store (4720)".into()),
                latency_ns: Some(61_000),
                cause: Some("blocked".into()),
                which: Some("fdatasync".into()),
            },
            RelatedMessage { id: 8319, ..RelatedMessage::default() },
        ],
        parts_left_out: 3,
        last_part: Some(LastPart {
            part: RelatedMessage {
                id: 9000,
                latency_ns: Some(1_500_000),
                cause: Some("blocked".into()),
                ..RelatedMessage::default()
            },
            alone_ns: 900_000,
        }),
        among_parts: Some(AmongParts { parts: 40, alone_ns: None, before_last_ns: 12_000_000 }),
        hops: vec![
            MessageHop { from_ns: 1500, tid: 4712, thread: "worker (4712)".into(), is_sent: true, between: None },
            MessageHop {
                from_ns: 4500,
                tid: 4720,
                thread: "store (4720)".into(),
                is_sent: false,
                between: Some(BetweenHops { ns: 3000, kernel_ns: 1000, queue_ns: 1500, unseen_ns: 500 }),
            },
        ],
        path: vec![
            step(0, 1000, 4711, Some(4 * EVERY), 0),
            step(1000, 1_700_000, 4712, Some(17), 1),
            step(1_701_000, 2700, 90, None, 2),
            step(1_703_700, 100_000, 4711, Some(4 * EVERY), 0),
        ],
        neighbours: vec![neighbour(Place::Before, 4 * EVERY - 1, 120), neighbour(Place::After, 4 * EVERY + 1, 90)],
    }
}
