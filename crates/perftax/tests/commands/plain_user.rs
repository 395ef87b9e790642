//! What a plain user can do on this machine: without root, without a capability, at the paranoid level that it has. `docs/guide/rights.md` has every situation,
//! made in the emulated machine; here the same programs run on this one.

use perftax_doc::Calibration;

use crate::common::is_root;
use crate::streams::{BRIEF, BUSY, Place};

/// A command, the program that it is given, exit codes that are no failure, and what it says.
struct Asked {
    command: &'static str,
    options: String,
    program: Vec<String>,
    codes: &'static [i32],
    says: &'static str,
    /// Whether it takes the right to measure own programs.
    measures: bool,
}

fn asked(place: &Place) -> Vec<Asked> {
    let row = |command, options: &str, program: &[&str], codes, says, measures| Asked {
        command,
        options: options.into(),
        program: program.iter().map(|word| word.to_string()).collect(),
        codes,
        says,
        measures,
    };
    let [sharing, messages, calibration, recording, new, made] =
        ["sharing", "messages", "calibration.json", "faults.data", "new", "plan.json"].map(|name| place.path(name));
    let (done, verdict): (&[i32], &[i32]) = (&[0], &[0, 4]);
    let calibrate = "-e cpu-clock:u --quick --no-save --time 1 --spacing 0 --precision 90";
    let verify = "-e cpu-clock:u -c 1000003 --min-rounds 3 --half-width 99 --time 60 --no-probe";
    let sensitivity = "--method eviction --min-rounds 3 --half-width 100 --time 60";
    vec![
        row("doctor", "", &[], done, "As you are, you can", false),
        row("list", "page-faults", &[], done, "page-faults", false),
        row("calibrate", calibrate, &[], done, "samples", true),
        row("predict", "-c 1000003 -e cpu-clock:u", &BUSY, done, "1.000003 ms", true),
        row("plan", "--budget 5%", &BUSY, done, "perf record -e", true),
        row("plan", &format!("--budget 5% --json {made} -e cpu-clock:u"), &BUSY, done, "gives no samples of the kernel's", true),
        row("verify", verify, &BUSY, verdict, "verdict", true),
        row("sensitivity", sensitivity, &BUSY, done, "taken away", false),
        row("bill", &recording, &[], done, "rates of", false),
        row("lint", &recording, &[], verdict, "verdict", false),
        row("report", &calibration, &[], done, "cpu-clock", false),
        row("report", &made, &[], done, "cpu-clock:u", true),
        row("sim", "--no-caches", &BRIEF, done, "instructions on 1 thread", false),
        row("comm", "--watch counter --budget none", &[&sharing], done, "true sharing", true),
        row("record", &format!("-o {}", place.path("perf.data")), &BUSY, done, "perf report", true),
        row("trace record", &format!("-o {new}"), &[&messages], done, "400 marks of 1 threads", true),
        row("trace report", &new, &[], done, "messages", true),
        row("vm", "list", &[], done, "", false),
    ]
}

#[test]
fn what_needs_no_more_than_the_programs_own_user_mode_works() {
    let place = Place::of_a_plain_user();
    let may_measure = place.perftax("doctor", &["--for", "plan"]).code == Some(0);
    for Asked { command, options, program, codes, says, measures } in asked(&place) {
        let mut arguments: Vec<&str> = options.split_whitespace().collect();
        if !program.is_empty() {
            arguments.push("--");
        }
        arguments.extend(program.iter().map(String::as_str));
        let ran = place.perftax(command, &arguments);
        if ["calibrate", "verify", "sensitivity"].contains(&command) && ran.is_discarded() {
            continue;
        }
        let what = format!("{command} {options}: {:?}\n{}\n{}", ran.code, ran.stdout, ran.stderr);
        // A machine that lets its users measure nothing says what would change that, and does not pretend.
        if measures && !may_measure {
            assert!(!matches!(ran.code, Some(0 | 101) | None), "{what}");
            continue;
        }
        assert!(ran.code.is_some_and(|code| codes.contains(&code)), "{what}");
        assert!(ran.stdout.contains(says) || ran.stderr.contains(says), "'{says}' is not there: {what}");
    }
}

/// Who may not watch CPUs has all else measured.
#[test]
fn what_may_not_be_watched_takes_nothing_else_with_it() {
    let place = Place::of_a_plain_user();
    let may_measure = place.perftax("doctor", &["--for", "plan"]).code == Some(0);
    let options =
        ["-e", "cpu-clock:u", "--quick", "--no-save", "--time", "1", "--spacing", "0", "--precision", "90", "--json", "-"];
    let ran = place.perftax("calibrate", &options);
    if !may_measure || ran.is_discarded() {
        assert!(ran.code != Some(0), "{}\n{}", ran.stdout, ran.stderr);
        return;
    }
    let calibration: Calibration = serde_json::from_str(&ran.stdout).unwrap_or_else(|error| panic!("{error}: {}", ran.stderr));
    for arm in ["task-off", "task-on", "exec-off", "exec-on"] {
        assert!(calibration.blocks.iter().any(|block| block.arm == arm), "{arm}: {:?}", calibration.origin.warnings);
    }
}

/// What is left out is said; an event that is named is never changed behind the user's back.
#[test]
fn what_is_not_allowed_is_refused_with_the_event_that_is() {
    let place = Place::of_a_plain_user();
    let rights = place.perftax("doctor", &["--json", "-"]);
    let rights: serde_json::Value = serde_json::from_str(&rights.stdout).unwrap();
    let holds = |name: &str| {
        let rights = rights["rights"].as_array().unwrap();
        rights.iter().find(|right| right["name"] == name).unwrap()["held"].as_bool().unwrap()
    };
    let program = place.path("sharing");
    let named = place.perftax("plan", &["--budget", "5%", "-e", "cpu-clock", "--", &program]);
    if holds("own-kernel-mode") {
        assert_ne!(named.code, Some(3), "{}", named.stderr);
    } else {
        assert_eq!(named.code, Some(3), "{}", named.stderr);
        assert!(named.stderr.contains("sample cpu-clock") && named.stderr.contains("sudo sysctl"), "{}", named.stderr);
    }
    // Somebody else's process is named as what it is, by whoever would watch it: these tests' own, where they are root's.
    if is_root() {
        let pid = std::process::id().to_string();
        let new = place.path("watched");
        let asked: [(&str, &[&str]); 3] = [
            ("plan", &["--for", "50ms"]),
            ("comm", &["--watch", "counter"]),
            ("trace record", &["--no-kernel-noise", "-o", &new]),
        ];
        for (command, options) in asked {
            let refused = place.perftax(command, &[options, &["-p", &pid]].concat());
            let is_named =
                refused.stderr.contains("the right to trace it") && refused.stderr.contains("its owner, or CAP_SYS_PTRACE");
            assert!(refused.code == Some(3) && is_named, "{command} {:?} {}", refused.code, refused.stderr);
        }
    }
    let usdt = place.perftax("trace record", &["-o", &place.path("probed"), "--tag", "usdt:a:b,c", "--", &program]);
    assert!(!matches!(usdt.code, Some(0 | 101) | None), "{}", usdt.stderr);
}
