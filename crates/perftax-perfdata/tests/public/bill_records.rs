//! Records built byte by byte from the kernel's and perf's headers, in both byte orders, and what a bill makes of them.

use std::collections::BTreeMap;

use perftax_doc::steps::{Calibrated, Operation};
use perftax_doc::{Bill, Calibration, MachineId, MachineProfile, SampleCount, SpanOf, StopReason};
use perftax_doc::{Estimate, Mechanism, Warning};
use perftax_perfdata::bill;

use crate::bill_built::{ENABLE_ON_EXEC, MS, Pipe, SAMPLE_ID_ALL, SAMPLE_TYPE, exit, origin, two_events};

#[test]
fn every_record_in_both_byte_orders() {
    for big in [false, true] {
        let mut pipe = two_events(big);
        let name = [pipe.words(&[2, 20]), b"my-faults\0\0\0\0\0\0\0".to_vec()].concat();
        pipe.record(78, 0, &name); // EVENT_UPDATE, name
        pipe.sample(10, 7, 2 * MS, 0);
        pipe.sample(11, 8, 3 * MS, 1);
        pipe.sample(20, 7, 4 * MS, 0);
        pipe.sample(0, 7, 5 * MS, 0); // id 0 stands for the first event
        pipe.sample(99, 7, 6 * MS, 0); // nobody's
        let lost = pipe.words(&[20, 40]);
        pipe.with_trailer(2, 0, lost, 20, 7 * MS);
        let hardware_lost = pipe.words(&[2]);
        pipe.with_trailer(13, 0, hardware_lost, 11, 7 * MS);
        let filtered = pipe.words(&[5]);
        pipe.with_trailer(13, 1 << 15, filtered, 10, 7 * MS);
        let throttle = pipe.words(&[8 * MS, 11, 11]);
        pipe.with_trailer(5, 0, throttle.clone(), 11, 8 * MS);
        pipe.with_trailer(6, 0, throttle, 11, 9 * MS);
        let fork = [pipe.halves(&[8, 7, 8, 7]), pipe.words(&[2 * MS])].concat();
        pipe.with_trailer(7, 0, fork, 10, 2 * MS);
        let values = [pipe.halves(&[7, 7]), pipe.words(&[123, 1000, 250])].concat();
        pipe.with_trailer(8, 0, values, 20, 9 * MS);
        let aux = pipe.words(&[0, 64, 8]);
        pipe.with_trailer(11, 0, aux, 10, 9 * MS);
        let auxtrace = pipe.words(&[24, 0, 0, 0, 0]);
        pipe.record(71, 0, &auxtrace);
        pipe.bytes.extend([9; 24]); // AUX data that look like samples must be passed over
        exit(&mut pipe);
        let recording = pipe.read();
        assert_eq!(recording.fault, None);
        let (clock, faults) = (&recording.events[0], &recording.events[1]);
        assert_eq!((clock.name.as_str(), faults.name.as_str()), ("cpu-clock", "my-faults"), "big endian {big}");
        assert_eq!((clock.samples, clock.lost(), clock.filtered, clock.throttled), (3, 2, 5, 1));
        assert_eq!((faults.samples, faults.lost(), faults.throttled), (1, 40, 0));
        assert_eq!(faults.running(), Some(1.0), "what the kernel counts by itself waits for no counter");
        assert_eq!(recording.counts.unknown_samples, 1);
        assert_eq!(recording.counts.aux_lossy, 1);
        assert_eq!(recording.counts.comm(8), "program");
        assert_eq!(recording.counts.by_cpu[&(1, 0)], 1);
        assert_eq!(recording.command_span_s(), Some(1.0));
    }
}

#[test]
fn compressed_records_cut_anywhere() {
    for kind in [81, 83] {
        let mut pipe = two_events(false);
        let mut plain = Vec::new();
        for i in 0..500 {
            let body = [pipe.words(&[10, i, 7 | 7 << 32, i * MS, 0])].concat();
            plain.extend(pipe.record_bytes(9, 2, &body));
        }
        let mut packed = vec![0; 1 << 16];
        let length = zstd_safe::compress(&mut packed[..], &plain, 1).unwrap();
        for piece in packed[..length].chunks(37) {
            let body = match kind {
                81 => piece.to_vec(),
                _ => [&pipe.words(&[piece.len() as u64])[..], piece, &[0; 3]].concat(),
            };
            pipe.record(kind, 0, &body);
        }
        let recording = pipe.read();
        assert_eq!(recording.fault, None);
        assert_eq!(recording.events[0].samples, 500, "type {kind}");
    }
}

#[test]
fn an_exploding_stream_is_refused() {
    let mut pipe = two_events(false);
    let mut packed = vec![0; 1 << 20];
    // 256 MiB of zeros fit into a few KiB: as records they would also be of length 0.
    let sample = pipe.record_bytes(9, 2, &[0; 40]);
    let plain: Vec<u8> = sample.iter().copied().cycle().take(48 * 1_000_000).collect();
    let length = zstd_safe::compress(&mut packed[..], &plain, 1).unwrap();
    assert!(length < 8_000, "{length}");
    pipe.record(81, 0, &packed[..length]);
    assert!(pipe.read().fault.unwrap().why.contains("expand"));
}

pub fn calibration(mechanism: Mechanism, event: &str, alpha_ns: f64, drift: f64) -> Calibration {
    Calibration {
        origin: origin(1000.0),
        mechanism,
        event: event.into(),
        alpha_ns: Estimate::new(alpha_ns, alpha_ns * 0.9, alpha_ns * 1.1),
        floor_ns: None,
        samples: 1,
        expected_samples: 1.0,
        lost: 0,
        throttled: 0,
        terms: BTreeMap::from([("raw".to_string(), Estimate::exact(2_000.0))]),
        wide_code_pages: None,
        linearity: None,
        control: None,
        cross_check: None,
        direct: None,
        drift,
        sessions: 1,
        elapsed_s: 1.0,
        stopped: StopReason::Precision,
        blocks: Vec::new(),
    }
}

pub fn profile(calibrations: Vec<Calibration>) -> MachineProfile {
    MachineProfile { schema: 1, machine: MachineId::default(), kernel: String::new(), calibrations }
}

fn bill(pipe: &Pipe, profile: Option<&MachineProfile>) -> Bill {
    bill::bill(&pipe.read(), profile, origin(1060.0))
}

fn near(a: f64, b: f64) -> bool {
    (a - b).abs() <= 1e-9 * b.abs().max(1e-9)
}

/// `clock` samples on CPU `cpu`, one a millisecond from 2 ms on.
fn clock_samples(pipe: &mut Pipe, many: u64, cpu: u32) {
    for i in 0..many {
        pipe.sample(10, 7 + cpu, 2 * MS + i * MS, cpu);
    }
}

#[test]
fn samples_and_losses_times_alpha() {
    let mut pipe = two_events(false);
    clock_samples(&mut pipe, 900, 0);
    let lost = pipe.words(&[10, 100]);
    pipe.with_trailer(2, 0, lost, 10, 7 * MS);
    exit(&mut pipe);
    let bill = bill(&pipe, Some(&profile(vec![calibration(Mechanism::CpuClock, "cpu-clock", 20_000.0, 0.0)])));
    // 1000 × 20 µs = 20 ms of a run of 1 s: 20 / 980.
    let cost = bill.cost_s.unwrap();
    assert!(near(cost.estimate, 0.020) && near(cost.low, 0.018) && near(cost.high, 0.022), "{cost:?}");
    assert_eq!((bill.span_s, bill.span_of), (1.0, SpanOf::Command));
    let share = bill.share_of_run.unwrap();
    assert!(
        near(share.estimate, 0.020 / 0.980) && near(share.low, 0.018 / 0.982) && near(share.high, 0.022 / 0.978),
        "{share:?}"
    );
    assert_eq!(bill.by_thread[0].key, "7/7 program");
    assert!(bill.origin.warnings.contains(&Warning::LostRecords { lost: 100 }));
    // An event that never fired needs no price.
    assert_eq!(bill.events[1].cost_s, Some(Estimate::exact(0.0)));
    assert_eq!(bill.origin.warnings.len(), 1, "{:?}", bill.origin.warnings);
}

/// A task that is created inherits each event, and pays for it though it is never sampled.
#[test]
fn tasks_that_come_and_go_are_billed() {
    let recorded = |inherit: u64, created_at: u64| {
        let mut pipe = Pipe::new(false);
        pipe.event(1, 0, 3_600_000_000_000, SAMPLE_TYPE, 0, SAMPLE_ID_ALL | ENABLE_ON_EXEC | inherit << 1, &[10]);
        let exec = [pipe.halves(&[7, 7]), b"program\0".to_vec()].concat();
        pipe.with_trailer(3, 1 << 13, exec.clone(), 10, MS);
        for child in 0..1000 {
            // pid, parent's, tid, parent's, time.
            let fork = [pipe.halves(&[100 + child, 7, 100 + child, 7]), pipe.words(&[created_at])].concat();
            pipe.with_trailer(7, 0, fork, 10, created_at);
            if child < 200 {
                pipe.with_trailer(
                    3,
                    1 << 13,
                    [pipe.halves(&[100 + child; 2]), b"true\0\0\0\0".to_vec()].concat(),
                    10,
                    created_at,
                );
            }
        }
        exit(&mut pipe);
        pipe
    };
    let mut known = calibration(Mechanism::CpuClock, "cpu-clock", 20_000.0, 0.0);
    let term = |name: &str, ns: f64| (name.to_string(), Estimate::new(ns, ns * 0.9, ns * 1.1));
    known.terms.extend([term("task", 15_000.0), term("task-event", 2_000.0), term("exec", 100_000.0)]);
    let bill_of = |pipe: &Pipe, known: &Calibration| bill(pipe, Some(&profile(vec![known.clone()])));
    let billed = bill_of(&recorded(1, 5 * MS), &known);
    let tasks = billed.tasks.unwrap();
    assert_eq!((tasks.created, tasks.executed, tasks.events), (1000, 200, 1));
    // 1000 × 15 µs and 200 × 100 µs, and no sample.
    assert!(near(tasks.cost_s.unwrap().estimate, 0.035) && near(billed.cost_s.unwrap().estimate, 0.035), "{billed:?}");
    assert!(near(billed.share_of_run.unwrap().estimate, 0.035 / 0.965), "{billed:?}");
    // Where nothing is inherited, or tasks were there before, nothing is.
    assert_eq!(bill_of(&recorded(0, 5 * MS), &known).tasks, None);
    assert_eq!(bill_of(&recorded(1, 0), &known).tasks, None);
    // What was never calibrated is said, and is not nothing.
    known.terms.remove("task");
    let partial = bill_of(&recorded(1, 5 * MS), &known);
    assert_eq!(partial.tasks.unwrap().cost_s, None);
    assert!(
        partial.origin.warnings.iter().any(|warning| warning.to_string().contains("not in the bill")),
        "{:?}",
        partial.origin
    );
}

#[test]
fn drift_widens_and_payload_adds() {
    let mut pipe = Pipe::new(false);
    pipe.event(1, 0, 1_000_000, SAMPLE_TYPE | 1 << 10 | 1 << 13, 0, SAMPLE_ID_ALL, &[10]);
    clock_samples(&mut pipe, 100, 0);
    let bill = bill(&pipe, Some(&profile(vec![calibration(Mechanism::CpuClock, "cpu-clock", 18_000.0, 0.5)])));
    let alpha = bill.events[0].alpha_ns.unwrap();
    assert!(near(alpha.estimate, 20_000.0), "what a tracepoint records costs 2 µs on top: {alpha:?}");
    let half = (0.1_f64 * 18_000.0).hypot(0.5 * 20_000.0);
    assert!(near(alpha.high - alpha.estimate, half), "{alpha:?}");
    assert_eq!(bill.events[0].payload, ["raw"]);
    assert!(bill.origin.warnings.iter().any(|w| w.to_string().contains("user-stack")), "{:?}", bill.origin.warnings);
    assert_eq!(bill.span_of, SpanOf::Samples);
}

/// A program's caches lose something to a clock, from nothing to what work that lives off them loses; how much no recording tells.
#[test]
fn what_caches_may_lose_to_a_clock_is_in_the_interval() {
    let mut pipe = Pipe::new(false);
    pipe.event(1, 0, 1_000_000, SAMPLE_TYPE, 0, SAMPLE_ID_ALL, &[10]);
    clock_samples(&mut pipe, 100, 0);
    let mut known = calibration(Mechanism::CpuClock, "cpu-clock", 10_000.0, 0.0);
    let by = |known: &Calibration| bill(&pipe, Some(&profile(vec![known.clone()]))).events[0].alpha_ns.unwrap();
    let without = by(&known);
    assert!(near(without.estimate, 10_000.0), "{without:?}");
    known.terms.insert("cached-work".into(), Estimate::exact(20_000.0));
    let with = by(&known);
    // A millisecond apart: 36 % of the way on average, 96 at most (docs/explain/cost-model.md, own).
    assert!(near(with.estimate, 13_600.0) && with.high > 19_000.0, "{with:?}");
    assert!(with.low < without.estimate, "{with:?}, {without:?}");
    // Faults interrupt nobody who did not call for it.
    let faults = Calibration { mechanism: Mechanism::Software, event: "page-faults".into(), ..known };
    let mut pipe = Pipe::new(false);
    pipe.event(1, 2, 1, SAMPLE_TYPE, 0, SAMPLE_ID_ALL, &[10]);
    clock_samples(&mut pipe, 100, 0);
    assert!(near(bill(&pipe, Some(&profile(vec![faults]))).events[0].alpha_ns.unwrap().estimate, 10_000.0));
}

/// What a filter drops has interrupted as well: nobody knows how often, and nobody says never.
#[test]
fn interrupts_without_a_sample_are_in_the_interval() {
    const EXCLUDE_KERNEL: u64 = 1 << 5;
    let billed = |flags: u64| {
        let mut pipe = Pipe::new(false);
        pipe.event(1, 0, 1_000_000, SAMPLE_TYPE, 0, SAMPLE_ID_ALL | ENABLE_ON_EXEC | flags, &[10, 11]);
        let comm = [pipe.halves(&[7, 7]), b"program\0".to_vec()].concat();
        pipe.with_trailer(3, 1 << 13, comm, 10, MS);
        clock_samples(&mut pipe, 300, 0);
        exit(&mut pipe);
        let mut known = calibration(Mechanism::CpuClock, "cpu-clock", 20_000.0, 0.0);
        known.terms.insert("excluded-kernel".into(), Estimate::exact(10_000.0));
        bill(&pipe, Some(&profile(vec![known])))
    };
    // 300 samples of 20 µs in a second of a millisecond's clock: up to 700 more of 10 µs.
    let user = billed(EXCLUDE_KERNEL);
    let dropped = user.events[0].dropped.unwrap();
    assert!((dropped.low, dropped.high) == (0.0, 700.0), "{dropped:?}");
    let cost = user.cost_s.unwrap();
    assert!(cost.contains(300.0 * 20e-6) && cost.contains(300.0 * 20e-6 + 690.0 * 10e-6) && !cost.contains(0.015), "{cost:?}");
    assert_eq!(user.events[0].cost_s, user.cost_s);
    let all = billed(0);
    assert_eq!((all.events[0].dropped, all.cost_s.map(|cost| near(cost.estimate, 0.006))), (None, Some(true)));
}

/// A recording of CPUs is of no one run, and whoever idles is not held up.
#[test]
fn cpus_are_billed_by_cpu_and_by_process() {
    let mut pipe = Pipe::new(false);
    pipe.event(1, 0, 1_000_000, SAMPLE_TYPE, 0, SAMPLE_ID_ALL, &[10, 11]);
    for i in 0..100 {
        pipe.sample(10, if i < 90 { 0 } else { 7 }, (2 + i) * MS, 0);
        pipe.sample(11, if i < 50 { 0 } else { 8 }, (2 + i) * MS, 1);
    }
    let bill = bill(&pipe, Some(&profile(vec![calibration(Mechanism::CpuClock, "cpu-clock", 20_000.0, 0.0)])));
    assert!(bill.of_cpus && bill.elapsed_cost_s.is_none() && bill.share_of_run.is_none(), "{bill:?}");
    assert!(near(bill.cost_s.unwrap().estimate, 200.0 * 20e-6) && bill.events[0].idle == 140, "{bill:?}");
    let costs = |counts: &[SampleCount]| {
        counts.iter().map(|c| (c.key.clone(), c.samples, c.idle, (c.cost_s.unwrap().estimate * 1e6).round())).collect::<Vec<_>>()
    };
    assert_eq!(costs(&bill.by_cpu), [("0".into(), 100, 90, 200.0), ("1".into(), 100, 50, 1000.0)]);
    assert_eq!(costs(&bill.by_process), [("8".into(), 50, 0, 1000.0), ("7".into(), 10, 0, 200.0)]);
    // Without a price nobody paid nothing.
    let unpriced = bill::bill(&pipe.read(), None, origin(1060.0));
    assert!(unpriced.by_cpu.iter().chain(&unpriced.by_process).all(|c| c.cost_s.is_none()), "{unpriced:?}");
}

#[test]
fn two_cpus_delay_the_run_by_the_busier() {
    let mut pipe = two_events(false);
    clock_samples(&mut pipe, 900, 0);
    clock_samples(&mut pipe, 450, 1);
    exit(&mut pipe);
    let bill = bill(&pipe, Some(&profile(vec![calibration(Mechanism::CpuClock, "cpu-clock", 20_000.0, 0.0)])));
    assert!(near(bill.cost_s.unwrap().estimate, 0.027));
    let elapsed = bill.elapsed_cost_s.unwrap().estimate;
    assert!((elapsed - 0.018).abs() < 0.0002, "{elapsed}");
    assert_eq!(bill.by_cpu.iter().map(|c| c.samples).collect::<Vec<_>>(), [900, 450]);
}

#[test]
fn unpriced_events() {
    let mut pipe = two_events(false);
    clock_samples(&mut pipe, 10, 0);
    pipe.sample(20, 7, 4 * MS, 0);
    exit(&mut pipe);
    let none = bill(&pipe, None);
    assert_eq!((none.cost_s, none.share_of_run), (None, None));
    assert_eq!(none.events[0].samples, 10);
    let partly = bill(&pipe, Some(&profile(vec![calibration(Mechanism::CpuClock, "cpu-clock", 20_000.0, 0.0)])));
    assert!(near(partly.cost_s.unwrap().estimate, 0.0002));
    assert_eq!((partly.events[1].alpha_ns, partly.events[1].cost_s), (None, None));
    let warning = partly.origin.warnings.iter().find(|w| w.to_string().contains("not priced: page-faults")).unwrap();
    assert_eq!(warning.remedy(), Operation::Calibrate(Calibrated::Event("page-faults".into())).to_string());
    let other = bill(&pipe, Some(&profile(vec![calibration(Mechanism::Software, "context-switches", 800.0, 0.0)])));
    assert!(other.origin.warnings.iter().any(|w| w.to_string().contains("priced with the cost of context-switches")));
}

#[test]
fn nothing_sampled_costs_nothing() {
    let mut pipe = two_events(false);
    exit(&mut pipe);
    let bill = bill(&pipe, None);
    assert_eq!(bill.cost_s, Some(Estimate::exact(0.0)));
    assert_eq!(bill.share_of_run, Some(Estimate::exact(0.0)));
    assert!(bill.origin.warnings[0].to_string().contains("no samples"));
}

#[test]
fn a_price_beyond_the_run_has_no_share() {
    let mut pipe = two_events(false);
    clock_samples(&mut pipe, 900, 0);
    exit(&mut pipe);
    let bill = bill(&pipe, Some(&profile(vec![calibration(Mechanism::CpuClock, "cpu-clock", 2_000_000.0, 0.0)])));
    assert_eq!(bill.share_of_run, None);
    assert!(bill.origin.warnings.iter().any(|w| w.to_string().contains("as long as the whole run")));
    assert!(serde_json::to_string(&bill).unwrap().contains("\"share_of_run\":null"));
}

#[test]
fn another_machines_and_old_prices_are_said() {
    let mut pipe = two_events(false);
    let text = [pipe.words(&[4]), pipe.halves(&[8]), b"6.1.0\0\0\0".to_vec()].concat();
    pipe.record(80, 0, &text); // HEADER_FEATURE, OSRELEASE
    clock_samples(&mut pipe, 10, 0);
    let profile = MachineProfile {
        kernel: "6.18.0".into(),
        ..profile(vec![calibration(Mechanism::CpuClock, "cpu-clock", 20_000.0, 0.07)])
    };
    let bill = bill::bill(&pipe.read(), Some(&profile), origin(1000.0 + 7200.0));
    assert!(bill.origin.warnings.iter().any(|w| matches!(w, Warning::ForeignProfile { .. })), "{:?}", bill.origin.warnings);
    assert!(bill.origin.warnings.contains(&Warning::OldCalibration { age_s: 7200.0, drift: 0.25 }));
}

/// A ring loses records of mappings and threads as well, and no event was interrupted for those.
#[test]
fn what_a_ring_lost_beside_samples_is_not_billed() {
    const COUNTS_LOST: u64 = 1 << 4;
    let recorded = |read_format: u64, ends_early: bool| {
        let mut pipe = Pipe::new(false);
        pipe.event(1, 2, 1, SAMPLE_TYPE, read_format, SAMPLE_ID_ALL | ENABLE_ON_EXEC, &[10]);
        pipe.sample(10, 7, 2 * MS, 0);
        let lost = pipe.words(&[10, 40]);
        pipe.with_trailer(2, 0, lost, 10, 3 * MS);
        if ends_early {
            pipe.bytes.extend([9, 0]);
        }
        pipe.read().events[0].lost()
    };
    // The event counts its own losses, and none were told at the end.
    assert_eq!(recorded(COUNTS_LOST, false), 0);
    // Killed before it could, or too old to count.
    assert_eq!((recorded(COUNTS_LOST, true), recorded(0, false)), (40, 40));
}

#[test]
fn what_cannot_be_is_refused_and_not_multiplied() {
    let mut pipe = two_events(false);
    clock_samples(&mut pipe, 100, 0);
    pipe.sample(10, 7, 1 << 63, 0);
    let lost = pipe.words(&[10, u64::MAX]);
    pipe.with_trailer(2, 0, lost, 10, 7 * MS);
    let lost = pipe.words(&[u64::MAX]);
    pipe.with_trailer(13, 0, lost, 10, 7 * MS);
    exit(&mut pipe);
    let prices = profile(vec![calibration(Mechanism::CpuClock, "cpu-clock", 10_000.0, 0.0)]);
    let billed = bill(&pipe, Some(&prices));
    assert_eq!((billed.events[0].samples, billed.events[0].lost), (101, 0));
    assert!(billed.cost_s.unwrap().high < 0.01 && near(billed.span_s, 1.0), "{billed:#?}");
    let said = format!("{:?}", billed.origin.warnings);
    assert!(said.contains("3 records state what cannot be"), "{said}");
}

/// perf has the samples of tracepoints carry their period, and the kernel then takes each event for a sample.
#[test]
fn a_period_that_the_kernel_ignored_is_no_period() {
    const PERIOD: u64 = 1 << 8;
    let recorded = |sample_type: u64| {
        let mut pipe = Pipe::new(false);
        pipe.event(2, 314, 100, sample_type, 0, SAMPLE_ID_ALL | ENABLE_ON_EXEC, &[10]);
        (0..50).for_each(|i| pipe.sample(10, 7, (2 + i) * MS, 0));
        let mut prices = profile(vec![calibration(Mechanism::Tracepoint, "sched:sched_switch", 3_000.0, 0.0)]);
        prices.calibrations[0].terms.insert("counting".into(), Estimate::exact(200.0));
        bill(&pipe, Some(&prices))
    };
    let each = recorded(SAMPLE_TYPE | PERIOD);
    assert_eq!(each.events[0].period, Some(1));
    assert!(format!("{:?}", each.origin.warnings).contains("--no-period"), "{:?}", each.origin.warnings);
    let hundredth = recorded(SAMPLE_TYPE);
    assert_eq!(hundredth.events[0].period, Some(100));
    assert!(
        each.events[0].alpha_ns.unwrap().estimate < hundredth.events[0].alpha_ns.unwrap().estimate,
        "{each:#?}\n{hundredth:#?}"
    );
}

/// What tasks pay at each switch is no sample's price: many of them are said.
#[test]
fn many_context_switches_are_said_to_be_unbilled() {
    let said = |switches: u64, sample_type: u64| {
        let mut pipe = Pipe::new(false);
        pipe.event(1, 3, 1, sample_type, 0, SAMPLE_ID_ALL | ENABLE_ON_EXEC, &[10]);
        (0..switches).for_each(|i| pipe.sample(10, 7, 2 * MS + i * 1000 * MS / switches, 0));
        format!("{:?}", bill(&pipe, None).origin.warnings)
    };
    assert!(said(20_000, SAMPLE_TYPE).contains("20000 context switches"), "{}", said(20_000, SAMPLE_TYPE));
    assert!(!said(200, SAMPLE_TYPE).contains("context switches"), "{}", said(200, SAMPLE_TYPE));
}

/// With a price they are part of the bill.
#[test]
fn context_switches_are_billed_where_they_are_told() {
    let mut pipe = Pipe::new(false);
    pipe.event(1, 3, 1, SAMPLE_TYPE, 0, SAMPLE_ID_ALL | ENABLE_ON_EXEC, &[10]);
    (0..1000).for_each(|i| pipe.sample(10, 7, 2 * MS + i * MS, 0));
    let mut prices = profile(vec![calibration(Mechanism::Software, "context-switches", 1_000.0, 0.0)]);
    let without = bill(&pipe, Some(&prices)).cost_s.unwrap().estimate;
    prices.calibrations[0].terms.insert("switch-inherited".into(), Estimate::exact(800.0));
    let with = bill(&pipe, Some(&prices));
    assert!(near(with.cost_s.unwrap().estimate - without, 1000.0 * 800e-9), "{with:#?}");
    assert_eq!(with.switches.map(|switches| switches.switches), Some(1000));
}
