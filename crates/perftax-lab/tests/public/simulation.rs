//! Programs with known counts under the software PMU: what it counts and samples is compared with what construction says, and
//! with what the PES study published. Needs qemu-user and the plugin; `make test` sees to both.

use perftax_lab::microbench::{Accuracy, Bias, Microbench};
use perftax_lab::published::Published;
use perftax_lab::simulation::{Brought, Guest, Installation, simulate};
use perftax_model::Event;
use perftax_model::machine::{Handler, Mechanism};
use perftax_model::run::{Outcome, Request, Sampling};

fn request(machine: &str, sampling: Option<(Mechanism, Event, u64)>, caches: bool) -> Request {
    let machine = Published::load(machine).unwrap().model().unwrap().clone();
    let sampling = sampling.map(|(mechanism, event, period)| Sampling {
        mechanism,
        event,
        period,
        buffer_bytes: None,
        handler: Handler::Copies,
    });
    Request { sampling, caches, reference: caches, ..Request::counting(machine) }
}

fn run(bench: &impl Microbench, request: &Request) -> Outcome {
    let folder = tempfile::tempdir().unwrap();
    let program = bench.build(folder.path()).unwrap();
    let guest = Guest { argv: vec![program.into()], ..Guest::default() };
    let simulated = simulate(&Installation::find(&Brought::default()).unwrap(), &guest, request).unwrap();
    assert_eq!(simulated.code, 0);
    simulated.outcome.unwrap()
}

fn samples(outcome: &Outcome) -> u64 {
    outcome.cores.iter().map(|core| core.samples).sum()
}

/// One hundredth of the study's rounds: its counts are compared per round.
const ROUNDS: u64 = 10_000;
const SHARE: f64 = ROUNDS as f64 / Accuracy::ROUNDS as f64;

fn accuracy(step: u64) -> Accuracy {
    Accuracy { step, rounds: ROUNDS, seed: 1 }
}

#[test]
fn counts_are_those_of_the_construction() {
    for step in [20, 100] {
        let bench = accuracy(step);
        let outcome = run(&bench, &request("cascade-lake", None, true));
        let counts = &outcome.cores[0].counts;
        assert_eq!(counts[Event::Instructions], bench.instructions());
        assert_eq!(counts[Event::Loads], bench.l1_misses());
        assert_eq!(counts[Event::L1Misses], bench.l1_misses());
        let branches = ROUNDS * 1001 + ROUNDS + 1;
        assert_eq!(counts[Event::Branches], branches, "one a step, the jump into and the one around each round, and the exit");
        assert_eq!(counts[Event::Stores], 0);
    }
}

/// PES figure 3, Intel: samples of instructions at 100,000 within 0.15 % of the published means.
#[test]
fn figure_3_intel() {
    let published = [200_081.0, 400_133.0, 600_180.0, 800_228.0, 1_000_277.0];
    for (step, published) in Accuracy::STEPS.into_iter().zip(published) {
        let bench = accuracy(step);
        let outcome = run(&bench, &request("cascade-lake", Some((Mechanism::Pebs, Event::Instructions, 100_000)), false));
        assert_eq!(samples(&outcome), bench.instructions() / 100_001);
        let error = samples(&outcome) as f64 / (published * SHARE) - 1.0;
        assert!(error.abs() < 0.0015, "1/{step}: {:+.3} %", 100.0 * error);
    }
}

/// PES figures 4 and 6, Intel: samples of misses, 0.15 % at 1000 and 0.5 % at 100.
#[test]
fn figures_4_and_6_intel() {
    for (period, published, limit) in [(1000, 998_963.8, 0.0015), (100, 9_928_535.4, 0.005)] {
        let bench = accuracy(20);
        let outcome = run(&bench, &request("cascade-lake", Some((Mechanism::Pebs, Event::L1Misses, period)), true));
        assert_eq!(samples(&outcome), bench.l1_misses() / (period + 1));
        let error = samples(&outcome) as f64 / (published * SHARE) - 1.0;
        assert!(error.abs() < limit, "every {period}: {:+.3} %", 100.0 * error);
    }
}

/// PES figure 3, AMD: signed errors of IBS op and fetch at 100,000 within 2 percentage points.
#[test]
fn figure_3_amd() {
    let published = [
        (Mechanism::IbsOp, Event::DispatchedOps, [7.83, 8.41, 8.53, 8.63, 8.68]),
        (Mechanism::IbsFetch, Event::Fetches, [2.39, 2.93, 3.22, 3.30, 3.21]),
    ];
    for (mechanism, event, errors) in published {
        for (step, published) in Accuracy::STEPS.into_iter().zip(errors) {
            let bench = accuracy(step);
            let outcome = run(&bench, &request("zen2", Some((mechanism, event, 100_000)), false));
            let truth = if event == Event::Fetches { bench.fetches() } else { bench.instructions() };
            let counted = outcome.cores[0].counts[event];
            assert!((counted as f64 / truth as f64 - 1.0).abs() < 0.002, "{counted} {}, {truth} by construction", event.name());
            let error = 100.0 * (samples(&outcome) as f64 / (truth as f64 / 100_000.0) - 1.0);
            assert!((error - published).abs() < 2.0, "{} 1/{step}: {error:+.2} %, published {published:+.2} %", mechanism.name());
        }
    }
}

/// Shares of the loads of a loop of four, least first.
fn shares(mechanism: Mechanism, period: u64) -> Vec<f64> {
    let bench = Bias { iterations: 100_000_000, loads: 4 };
    let mut request = request("cascade-lake", Some((mechanism, Event::Loads, period)), false);
    // An interrupt without skid is the ideal sampler.
    (request.machine.interrupt.least_skid, request.machine.interrupt.most_skid) = (0, 0);
    let outcome = run(&bench, &request);
    let total = samples(&outcome) as f64;
    let mut shares: Vec<f64> = outcome.by_address.values().map(|&n| n as f64 / total).collect();
    shares.sort_by(f64::total_cmp);
    shares
}

/// A period that fits the loop sees one load of four, another all of them.
#[test]
fn a_period_that_fits_the_loop_sees_one_load() {
    assert!(*shares(Mechanism::Interrupt, 100_000).last().unwrap() >= 0.99);
    let even = shares(Mechanism::Interrupt, 100_003);
    assert!(even.len() == 4 && even.iter().all(|share| (share - 0.25).abs() < 0.01), "{even:?}");
}

/// PEBS samples one event in period + 1: the round period spreads, and it is the prime that sees one load only.
#[test]
fn with_pebs_it_is_the_period_plus_one_that_must_not_fit() {
    let even = shares(Mechanism::Pebs, 100_000);
    assert!(even.len() == 4 && even.iter().all(|share| (share - 0.25).abs() < 0.01), "{even:?}");
    assert!(*shares(Mechanism::Pebs, 100_003).last().unwrap() >= 0.99, "100,004 is a multiple of 4");
    assert!(*shares(Mechanism::Pebs, 99_999).last().unwrap() >= 0.99);
}

/// Every thread's samples and instructions add up to the whole, each on the core it was dealt to.
#[test]
fn threads_add_up() {
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("threads.c"), folder.path().join("threads"));
    let text = r#"
        #include <pthread.h>
        static void *work(void *arg) {
            volatile long sum = 0;
            for (long i = 0; i < 3000000; i++) sum += i;
            return arg;
        }
        int main(void) {
            pthread_t threads[5];
            for (int i = 0; i < 5; i++) pthread_create(&threads[i], 0, work, 0);
            for (int i = 0; i < 5; i++) pthread_join(threads[i], 0);
            return 0;
        }"#;
    std::fs::write(&source, text).unwrap();
    assert!(std::process::Command::new("gcc").arg("-O1").arg("-o").args([&program, &source]).status().unwrap().success());
    for (sampling, caches) in [(Some((Mechanism::Pebs, Event::Instructions, 1009)), false), (None, false), (None, true)] {
        let mut request = request("skylake", sampling, caches);
        request.cores = 3;
        let guest = Guest { argv: vec![program.clone().into()], ..Guest::default() };
        let outcome = simulate(&Installation::find(&Brought::default()).unwrap(), &guest, &request).unwrap().outcome.unwrap();
        assert_eq!(outcome.threads.len(), 6);
        let instructions: u64 = outcome.cores.iter().map(|core| core.counts[Event::Instructions]).sum();
        assert_eq!(outcome.threads.iter().map(|t| t.instructions).sum::<u64>(), instructions);
        assert_eq!(outcome.threads.iter().map(|t| t.samples).sum::<u64>(), samples(&outcome));
        assert_eq!(outcome.by_address.values().sum::<u64>(), samples(&outcome));
        assert!(outcome.threads.iter().all(|t| t.core == t.thread % 3));
        // Five instructions a turn or more: nobody's work is missing, counted twice or given to another.
        let workers = &outcome.threads[1..];
        assert!(workers.iter().all(|t| t.instructions > 5 * 3_000_000), "{workers:?}");
        let (least, most) = (workers.iter().map(|t| t.instructions).min(), workers.iter().map(|t| t.instructions).max());
        assert!(most.unwrap() - least.unwrap() < 10_000, "{workers:?}");
        if sampling.is_some() {
            for thread in &outcome.threads {
                assert_eq!(thread.samples, thread.instructions / 1010, "each thread has its own counter");
            }
        }
    }
}

/// A repeated string instruction is one instruction, whatever its count, and however the program comes to it; its accesses are
/// counted each.
#[test]
fn a_repeated_instruction_counts_once() {
    struct Copies;
    impl Microbench for Copies {
        fn name(&self) -> String {
            "copies".into()
        }
        // Three ways to come to one: from the instruction before, by a jump, and from another one; the last with nothing to do.
        fn assembly(&self) -> String {
            "\
    .globl _start
    .text
_start:
    movl $1000, %edx
again:
    movl $from, %esi
    movl $to, %edi
    movl $32, %ecx
    rep movsq
    movl $8, %ecx
    jmp jumped
    .skip 100
jumped:
    rep lodsq
    rep stosq
    decl %edx
    jnz again
    movl $60, %eax
    xorl %edi, %edi
    syscall
    .bss
from:
    .skip 512
to:
    .skip 512
"
            .into()
        }
    }
    let instructions = 1 + 1000 * 10 + 3;
    for (event, sampled) in [(Event::Instructions, instructions), (Event::Loads, 40_000), (Event::Fetches, 0)] {
        let sampling = (Mechanism::Pebs, event, 99);
        for sampling in [None, Some(sampling)] {
            let outcome = run(&Copies, &request("skylake", sampling, false));
            let counts = &outcome.cores[0].counts;
            assert_eq!(counts[Event::Instructions], instructions, "{event:?}");
            assert_eq!((counts[Event::Loads], counts[Event::Stores]), (40_000, 32_000), "{event:?}");
            if sampling.is_some() && sampled > 0 {
                assert_eq!(samples(&outcome), sampled / 100, "{event:?}");
            }
        }
    }
}
