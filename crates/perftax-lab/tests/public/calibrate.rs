//! Calibration on the live kernel: counts that must equal truths known by construction, and a control that must catch a bias.

use std::time::Duration;

use perftax_cost::prediction::CALLERS;
use perftax_doc::Mechanism;
use perftax_doc::observation::Block;
use perftax_lab::calibrate::{Buffers, Depth, Spec, Worker, conclude};
use perftax_lab::stimulus::{PageFaults, PathWalk, Stimulus};
use perftax_pmu::Error;
use perftax_pmu::event::Catalog;
use perftax_pmu::record::{Context, Header, Record, decode};
use perftax_pmu::sampler::{LiveSampler, Payload, Sampler, Sampling};
use perftax_pmu::sys::Target;

use crate::alone;

fn spec(mechanism: Mechanism, depth: Depth) -> Spec {
    let cpu = *perftax_pmu::guard::allowed_cpus().unwrap().last().unwrap();
    Spec {
        buffers: Buffers::default(),
        event: None,
        mechanism,
        cpu,
        depth,
        period: None,
        payload: Payload::BASIC,
        planted_bias: 0.0,
    }
}

/// Every sampled block without loss delivers exactly events/period samples; counting arms deliver none.
fn counts_are_exact(mechanism: Mechanism) {
    let _alone = alone();
    let mut worker = Worker::start(&spec(mechanism, Depth::Full), 3).unwrap();
    let blocks = worker.session(3).unwrap().blocks;
    let sampled: Vec<_> = blocks.iter().filter(|b| b.period > 0).collect();
    assert!(sampled.iter().any(|b| b.arm == "on" && b.period == 1), "{mechanism}: no arm at period 1");
    for block in &sampled {
        assert_eq!((block.lost, block.throttled), (0, 0), "{mechanism} {}", block.arm);
        // The kernel counts up to the period from where the last block left off: a remainder may complete in this one.
        let (samples, expected) = (block.samples as f64, block.expected);
        let slack = if block.period == 1 { 0.0 } else { 1.0 };
        assert!((samples - expected).abs() <= slack, "{mechanism} {}: {samples} samples, {expected} by construction", block.arm);
    }
    for block in blocks.iter().filter(|b| b.period == 0) {
        assert_eq!(block.samples, 0, "{mechanism} {}", block.arm);
    }
}

#[test]
fn page_faults_are_counted_exactly() {
    counts_are_exact(Mechanism::Software);
}

#[test]
fn watchpoint_hits_are_counted_exactly() {
    counts_are_exact(Mechanism::Breakpoint);
}

#[test]
fn tracepoint_hits_are_counted_exactly() {
    counts_are_exact(Mechanism::Tracepoint);
}

#[test]
fn uprobe_hits_are_counted_exactly() {
    counts_are_exact(Mechanism::Uprobe);
}

#[test]
fn cpu_clock_delivers_about_what_the_period_says() {
    let _alone = alone();
    let mut worker = Worker::start(&spec(Mechanism::CpuClock, Depth::Alpha), 3).unwrap();
    // A block of 2.5 ms loses much to one pause of the hypervisor's: the median block is what the period gives.
    let blocks = (0..4).flat_map(|_| worker.session(10).unwrap().blocks).collect::<Vec<_>>();
    let on = blocks.iter().filter(|b| b.arm == "on" && b.expected > 0.0);
    let mut ratios: Vec<f64> = on.map(|b| b.samples as f64 / b.expected).collect();
    ratios.sort_by(f64::total_cmp);
    let median = ratios[ratios.len() / 2];
    assert!((median - 1.0).abs() < 0.15, "{median} of {ratios:?}");
    // What a filter drops leaves no sample, in either mode; work that lives off its caches is sampled, and more rarely.
    let of = |arm: &str| blocks.iter().filter(|b| b.arm == arm).collect::<Vec<_>>();
    for arm in ["excluded-user", "excluded-kernel"] {
        assert!(of(arm).len() == 40 && of(arm).iter().all(|b| b.samples == 0 && b.expected > 1.0), "{:?}", of(arm));
    }
    let (on, cached) = (of("on"), of("cached-work"));
    assert!(cached.len() == 40 && cached.iter().map(|b| b.samples).sum::<u64>() > 40, "{cached:?}");
    assert!(cached[0].period > on[0].period && of("off-cached").len() == 40 && of("off-kernel").len() == 40);
    // Where somebody else wants the processor hardly a block is left whole: their CPU time stands for the time of a machine of their own.
    let of_their_own: Vec<Block> =
        blocks.iter().map(|block| Block { wall_ns: block.cpu_ns, discarded: None, ..block.clone() }).collect();
    let conclusion = conclude(&of_their_own, Mechanism::CpuClock, &[]).unwrap();
    for term in ["excluded-user", "excluded-kernel", "cached-work"] {
        assert!(conclusion.terms.contains_key(term), "{term}: {:?}", conclusion.terms);
    }
}

/// The work of the arm is where it is said to be: in the kernel.
#[test]
fn a_path_is_walked_in_the_kernel() {
    let mut walk = PathWalk::lasting(Duration::from_millis(5));
    let (user_before_s, system_before_s) = cpu_times();
    for _ in 0..60 {
        walk.run();
    }
    let (user_s, system_s) = cpu_times();
    let (user_s, system_s) = (user_s - user_before_s, system_s - system_before_s);
    assert!(system_s > 3.0 * user_s, "{user_s} s in user mode, {system_s} s in the kernel");
}

/// CPU time of this thread, user's and kernel's, s (/proc/thread-self/stat, in ticks of 10 ms).
fn cpu_times() -> (f64, f64) {
    let text = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
    let fields: Vec<&str> = text.rsplit(')').next().unwrap().split_whitespace().collect();
    let seconds = |field: usize| fields[field].parse::<f64>().unwrap() * 0.01;
    (seconds(11), seconds(12))
}

/// A bias far above any noise must be caught; that 3 % is caught is a matter of statistics, shown by `make acceptance`. The blocks are real, and their CPU time
/// stands for the time that a machine of their own would have given them: whoever else wants the processor takes none of it.
#[test]
fn the_control_catches_a_planted_bias() {
    let _alone = alone();
    let planted = Spec { planted_bias: 0.5, ..spec(Mechanism::CpuClock, Depth::Alpha) };
    let mut worker = Worker::start(&planted, 1).unwrap();
    let blocks = (0..6).flat_map(|session| {
        let blocks = worker.session(8).unwrap().blocks;
        blocks.into_iter().map(move |block| Block { session, wall_ns: block.cpu_ns, discarded: None, ..block })
    });
    let control = conclude(&blocks.collect::<Vec<_>>(), Mechanism::CpuClock, &[]).unwrap().control.unwrap();
    assert!(!control.passed, "{control:?}");
    assert!(control.difference.estimate > 0.2, "{control:?}");
}

#[test]
fn a_cpu_that_is_not_ours_is_an_error() {
    let message = Worker::start(&Spec { cpu: 4095, ..spec(Mechanism::CpuClock, Depth::Alpha) }, 1).err().unwrap().to_string();
    assert!(message.contains("'CPU' is 4095"), "{message}");
}

/// A system call's tracepoint is raised by the return from a signal's handler: an arm with signals would never end. Needs tracefs (root).
#[test]
fn an_event_that_an_arm_raises_itself_is_measured_without_that_arm() {
    let _alone = alone();
    for name in ["raw_syscalls:sys_enter", "raw_syscalls:sys_exit"] {
        let event = perftax_pmu::event::parse(name, &Catalog::of_this_machine()).map(|mut events| events.remove(0));
        let event = match event {
            Ok(event) => event,
            Err(error) if !rustix::process::geteuid().is_root() => return eprintln!("not tried, as a plain user: {error}"),
            Err(error) => panic!("{error}"),
        };
        let mut worker = Worker::start(&Spec { event: Some(event), ..spec(Mechanism::Tracepoint, Depth::Full) }, 3).unwrap();
        let [skipped] = worker.skipped() else { panic!("{:?}", worker.skipped()) };
        assert!(skipped.arm == "signal" && skipped.why.contains(&format!("it raises {name} itself")), "{skipped:?}");
        let blocks = worker.session(3).unwrap().blocks;
        assert!(blocks.iter().all(|block| block.arm != "signal") && blocks.iter().any(|block| block.arm == "callchain"));
        // What timing a block takes of system calls is in what must come.
        for block in blocks.iter().filter(|block| block.period == 1 && block.lost == 0) {
            assert_eq!(block.samples as f64, block.expected, "{name} {}", block.arm);
        }
    }
}

#[test]
fn a_session_that_takes_too_long_is_broken_off() {
    let _alone = alone();
    let mut worker = Worker::start(&spec(Mechanism::CpuClock, Depth::Alpha), 3).unwrap();
    let error = worker.session_until(1_000_000, std::time::Instant::now() + Duration::from_millis(300)).unwrap_err();
    assert!(matches!(&error, Error::Discarded { why, .. } if why.contains("the time was up")), "{error}");
    // The thread is still there, and answers.
    assert!(!worker.session(1).unwrap().blocks.is_empty());
}

/// What is sampled for the cost of a chain has one of the same length each time, whatever the compiler keeps in the frame pointer.
#[cfg(target_arch = "x86_64")]
#[test]
fn chains_are_of_so_many_callers() {
    const FAULTS: usize = 200;
    let _alone = alone();
    let event = perftax_pmu::event::parse("page-faults", &Catalog::of_this_machine()).unwrap().remove(0);
    let sampling = Sampling::every(1, 1 << 20).carrying(Payload::BASIC.with_callchain());
    let mut work = PageFaults::new(FAULTS).unwrap();
    let mut sampler = LiveSampler::open(&[(event, sampling)], &[Target::ThisThread], 256).unwrap();
    work.prepare().unwrap();
    sampler.enable().unwrap();
    work.run();
    sampler.disable().unwrap();
    let layout = *sampler.layout();
    let mut chains = Vec::new();
    let mut note = |header: Header, body: &[u8]| {
        if let Record::Sample(sample) = decode(header, body, &layout).unwrap() {
            chains.push(sample.callchain.unwrap().frames().filter(|frame| frame.context == Context::User).count());
        }
    };
    sampler.drain(&mut note).unwrap();
    // Another page may fault beside those of the work.
    let as_known = chains.iter().filter(|&&frames| frames == CALLERS + 1).count();
    assert_eq!(as_known, FAULTS, "of {}: {chains:?}", chains.len());
}
