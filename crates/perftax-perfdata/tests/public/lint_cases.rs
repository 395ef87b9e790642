//! Recordings that look faulty and are not, or the other way round.

use perftax_doc::LintVerdict::{Error, Passed, Unknown, Warning};
use perftax_doc::{LintCheck, LintVerdict};
use perftax_perfdata::lint::Limits;

use crate::bill_built::{MS, SAMPLE_TYPE};
use crate::lint_built::{
    BY_FREQUENCY, Built, CALLCHAIN, CODE, CPU_CLOCK, EXCLUDE_KERNEL, Event, PAGE_FAULTS, PERIOD, check_of, linted,
};

const END: u64 = 1002 * MS;

fn checked(name: &str, built: Built) -> LintCheck {
    check_of(&linted(&built.ended(END), &Limits::default(), None), name).clone()
}

fn by_command(command: &str, event: Event) -> Built {
    Built::new(command, "6.1.0", "elsewhere", event).mapped("/bin/program")
}

const USER: Event = Event { flags: EXCLUDE_KERNEL, ..CPU_CLOCK };

/// Modifiers of a group are its members', and those of one event are not another's.
#[test]
fn who_asked_for_user_mode_only() {
    let faults = |built: &mut Built| built.pipe.event(1, 2, 1, SAMPLE_TYPE, 0, EXCLUDE_KERNEL, &[20]);
    for (command, verdict) in [
        ("perf record -e {cpu-clock,page-faults}:u -- program", Passed),
        ("perf record -e cpu-clock:u,page-faults:u -- program", Passed),
        ("perf record -e cpu-clock:u,page-faults -- program", Warning),
        ("perf record -e cpu-clock,page-faults -- program", Warning),
        ("perf record --all-user -e cpu-clock,page-faults -- program", Passed),
    ] {
        let mut built = by_command(command, USER);
        faults(&mut built);
        let found = checked("narrowed", built.sampled(200));
        assert_eq!(found.verdict, verdict, "{command}: {found:#?}");
    }
}

/// A program in the kernel used no CPU in user mode, and is not idle for that.
#[test]
fn who_works_in_the_mode_that_was_left_out_is_not_idle() {
    let found = checked("idle", by_command("perf record -e cpu-clock:u -- dd", USER).sampled(5));
    assert_eq!(found.verdict, Unknown, "{found:#?}");
    let busy = checked("idle", by_command("perf record -e cpu-clock:u -- dd", USER).sampled(900));
    assert_eq!(busy.verdict, Passed, "{busy:#?}");
}

#[test]
fn one_clock_that_was_asked_for_does_not_excuse_another() {
    let mut built = by_command("perf record -e cycles,cpu-clock -- program", CPU_CLOCK);
    built.pipe.event(1, 0, 1_000_000, SAMPLE_TYPE | PERIOD, 0, 0, &[20]);
    assert_eq!(checked("substituted", built.sampled(200)).verdict, Error);
    // A rate of an event's own is not the command's.
    let own = Event { rate: 50, flags: BY_FREQUENCY, ..CPU_CLOCK };
    let found = checked("substituted", by_command("perf record -F 999 -e cpu-clock/freq=50/ -- x", own).sampled(200));
    assert_eq!(found.verdict, Passed, "{found:#?}");
}

#[test]
fn a_clock_in_step_is_told_by_its_time() {
    let mut built = by_command("perf record -F 1000 -e cpu-clock -- x", Event { rate: 1000, flags: BY_FREQUENCY, ..CPU_CLOCK });
    for i in 0..500 {
        built.sample(7, 2 * MS + i * MS, CODE + i % 3 * 64, 1_000_000, &[]);
    }
    let found = checked("in-step", built);
    assert!(found.verdict == Error && found.evidence.contains("every 1.0 ms"), "{found:#?}");
    assert!(found.remedy.contains("-F 997") && !found.remedy.contains("-c"), "{found:#?}");
}

/// Two that are hot by turns, at random: each sample tells nothing of the next.
#[test]
fn two_hot_places_are_not_in_step() {
    let mut random = fastrand::Rng::with_seed(5);
    let event = Event { rate: 100, sample_type: SAMPLE_TYPE, ..PAGE_FAULTS };
    let mut built = by_command("perf record -c 100 -e page-faults -- x", event);
    for i in 0..1000 {
        built.sample(7, 2 * MS + i * MS, CODE + u64::from(random.bool()) * 64, 100, &[]);
    }
    assert_eq!(checked("in-step", built).verdict, Passed);
    // One after the other, as programs have phases; and one alone, which may be so.
    for (phases, verdict) in [(2, Passed), (1, Warning)] {
        let mut built = by_command("perf record -c 100 -e page-faults -- x", event);
        for i in 0..1000 {
            built.sample(7, 2 * MS + i * MS, CODE + i * phases / 1000 * 64, 100, &[]);
        }
        let found = checked("in-step", built);
        assert_eq!(found.verdict, verdict, "{phases}: {found:#?}");
    }
}

/// Chains beyond the usual limit are of a machine where it was raised.
#[test]
fn long_chains_are_cut_off_only_where_many_are_as_long() {
    const CONTEXT_USER: u64 = -512_i64 as u64;
    let recorded = |frames: &dyn Fn(u64) -> u64| {
        let event = Event { sample_type: SAMPLE_TYPE | PERIOD | CALLCHAIN, ..CPU_CLOCK };
        let mut built = by_command("perf record -g -e cpu-clock -- x", event);
        for i in 0..200 {
            let frames = frames(i);
            let chain: Vec<u64> = [frames + 1, CONTEXT_USER].into_iter().chain((0..frames).map(|frame| CODE + frame)).collect();
            let chain = built.pipe.words(&chain);
            built.sample(7, 2 * MS + i * MS, CODE, 1_000_000, &chain);
        }
        checked("stacks", built)
    };
    assert_eq!(recorded(&|i| 130 + i).verdict, Passed);
    let full = recorded(&|i| (i + 27).min(127));
    assert!(full.verdict == Error && full.evidence.contains("as many frames as fit"), "{full:#?}");
}

/// perf's own samples of --off-cpu stand behind all times, and stand for nanoseconds.
#[test]
fn samples_that_perf_writes_itself_are_not_damage() {
    let bpf_output = Event { config: 10, rate: 1, flags: BY_FREQUENCY, ..CPU_CLOCK };
    let mut built = by_command("perf record --off-cpu -- x", bpf_output).sampled(200);
    for i in 0..200 {
        built.sample(8, !0 << 32, CODE, i * 1000, &[]);
    }
    let lint = linted(&built.ended(END), &Limits::default(), None);
    for name in ["cut-off", "by-count", "few-samples"] {
        assert_eq!(check_of(&lint, name).verdict, Passed, "{:#?}", check_of(&lint, name));
    }
}

/// A task that ends while it is throttled is told of no more.
#[test]
fn a_throttled_task_that_ends_is_not_throttled_for_ever() {
    let mut built = by_command("perf record -e cpu-clock -- x", CPU_CLOCK).sampled(1000);
    let body = built.pipe.words(&[20 * MS, 10, 77]);
    built.trailed(5, 0, body, 20 * MS);
    let found = checked("throttled", built);
    assert!(found.verdict == Warning && found.measured.is_some_and(|share| share <= 0.0101), "{found:#?}");
}

/// What is no file is not opened: a pipe would never end.
#[test]
fn a_mapping_that_is_no_file_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let here = rustix::system::uname().nodename().to_str().unwrap().to_string();
    let mut built = Built::new("perf record -e cpu-clock -- x", "6.1.0", &here, CPU_CLOCK);
    built.map(7, pipe.to_str().unwrap());
    let found = checked("symbols", built.sampled(200));
    assert!(found.verdict == Warning && found.evidence.contains("cannot be found here any more"), "{found:#?}");
}

/// In CI a check that could not be made may be as bad as one that failed.
#[test]
fn what_is_unknown_fails_where_that_is_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("lint.toml");
    let linted =
        |limits: &Limits| linted(&by_command("perf record -e cpu-clock -- x", CPU_CLOCK).sampled(1000).ended(END), limits, None);
    let own_cost = |limits: &Limits| check_of(&linted(limits), "own-cost").clone();
    let lenient = own_cost(&Limits::default());
    assert_eq!(lenient.verdict, Unknown, "{lenient:#?}");
    for (wanted, verdict) in [("warning", Warning), ("error", Error)] {
        std::fs::write(&file, format!("[own-cost]\nunknown = \"{wanted}\"\n")).unwrap();
        let limits = Limits::read(&file).unwrap();
        let (strict, lint) = (own_cost(&limits), linted(&limits));
        assert_eq!((strict.verdict, lint.verdict, strict.measured), (verdict, verdict, None), "{strict:#?}");
        assert!(strict.evidence == lenient.evidence && !strict.effect.is_empty() && !strict.remedy.is_empty(), "{strict:#?}");
    }
}

/// No CPU is no CPU of that number; of a million mappings those that are not kept are no evidence.
#[test]
fn what_nobody_knows_is_unknown() {
    let mut built = by_command("perf record -e cpu-clock -- x", CPU_CLOCK);
    let pipe = &mut built.pipe;
    let body =
        [pipe.words(&[10, CODE]), pipe.halves(&[7, 7]), pipe.words(&[5 * MS]), pipe.halves(&[u32::MAX, 0]), pipe.words(&[1])];
    pipe.record(9, 2, &body.concat());
    let lint = linted(&built.sampled(200).ended(END), &Limits::default(), None);
    assert_eq!(lint.samples, 201);
    let mut built = by_command("perf record -e cpu-clock -- x", CPU_CLOCK);
    for i in 0..(1_u64 << 18) {
        let address = (1 << 40) + i * 8192;
        let body = [built.pipe.halves(&[9, 9]), built.pipe.words(&[address, 4096, 0]), b"/x\0\0\0\0\0\0".to_vec()].concat();
        built.trailed(1, 0, body, MS);
    }
    built.map(8, "/bin/late");
    for i in 0..200 {
        built.sample(8, 2 * MS + i * MS, CODE, 1_000_000, &[]);
    }
    assert_eq!(checked("mappings", built).verdict, Unknown);
}

#[test]
fn kernels_are_told_by_all_three_numbers() {
    let of = |kernel: &str| {
        let event = Event { flags: 1 << 1, pmu_type: 0, read_format: 3, ..CPU_CLOCK };
        let mut built =
            Built::new("perf record -s -e cycles -- x", kernel, "elsewhere", event).mapped("/bin/program").sampled(100);
        let body = [built.pipe.halves(&[7, 7]), built.pipe.words(&[5, 1000, 300])].concat();
        built.trailed(8, 0, body, END);
        checked("kernel", built).verdict
    };
    let verdicts: Vec<LintVerdict> = ["2.6.33", "2.6.39", "5.10.1", "6.1.0-18-amd64", "6.15.0-rc2", "6.18"].map(of).to_vec();
    assert_eq!(verdicts, [Warning, Passed, Passed, Warning, Passed, Passed]);
}

/// A rate of which a run has room for few samples tells nothing of idleness, and no samples are no shares.
#[test]
fn without_samples_nothing_is_known() {
    let rare = Event { rate: 3, flags: BY_FREQUENCY, ..CPU_CLOCK };
    let found = checked("idle", by_command("perf record -F 3 -e cpu-clock -- x", rare));
    assert_eq!(found.verdict, Unknown, "{found:#?}");
    let delayed = checked("idle", by_command("perf record -D 900 -e cpu-clock -- x", CPU_CLOCK).sampled(5));
    assert_eq!(delayed.verdict, Unknown, "{delayed:#?}");
    let every = Event { rate: 1, sample_type: SAMPLE_TYPE, ..PAGE_FAULTS };
    let none = checked("few-samples", by_command("perf record -c 1 -e page-faults -- x", every));
    assert!(none.verdict == Warning && none.evidence.contains("no samples"), "{none:#?}");
}
