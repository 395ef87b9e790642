//! The command line as its documentation promises it: help with examples, messages that name what is wrong, exit codes.
//! Nothing here measures; what commands print when they work is tested where it is made.

use snapbox::cmd::{Command, OutputAssert, cargo_bin};

fn perftax(arguments: &[&str]) -> OutputAssert {
    // A terminal's width and colours must not change what is compared.
    Command::new(cargo_bin!("perftax")).args(arguments).env("NO_COLOR", "1").env_remove("COLUMNS").assert()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

/// The commands that `perftax --help` shows.
fn commands() -> Vec<String> {
    let help = text(&perftax(&["--help"]).success().get_output().stdout);
    // Under their groups, up to the options.
    help.lines()
        .take_while(|line| *line != "Options:")
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next().map(String::from))
        .collect()
}

#[test]
fn every_command_is_there_and_its_help_has_an_example() {
    let commands = commands();
    for wanted in [
        "doctor",
        "list",
        "calibrate",
        "predict",
        "plan",
        "verify",
        "bill",
        "lint",
        "sim",
        "vm",
        "sensitivity",
        "selfcost",
        "trace",
        "matrix",
        "comm",
        "report",
    ] {
        assert!(commands.iter().any(|c| c == wanted), "{wanted} is not in {commands:?}");
    }
    for command in commands {
        let help = text(&perftax(&[&command, "--help"]).success().get_output().stdout);
        let (_, examples) = help.split_once("Example").unwrap_or_else(|| panic!("{command} --help has no example:\n{help}"));
        assert!(examples.contains(&format!("perftax {command}")), "{command}: {examples}");
        // What comes out of the emulated machine is what was run in it; what the commands of a trace or a data set write, they say themselves.
        let has_actions = ["vm", "trace", "dataset"].contains(&command.as_str());
        for option in ["--json", "--field-separator", "--html", "--output"].iter().filter(|_| !has_actions) {
            assert!(help.contains(option), "{command} --help lacks {option}");
        }
        let widest = help.lines().map(|line| line.chars().count()).max().unwrap();
        assert!(widest <= 110, "{command} --help is {widest} columns wide");
    }
}

#[test]
fn what_vm_can_do_has_an_example_each() {
    for action in ["build", "run", "shell"] {
        let help = text(&perftax(&["vm", action, "--help"]).success().get_output().stdout);
        let (_, examples) = help.split_once("Example").unwrap_or_else(|| panic!("vm {action} --help has no example:\n{help}"));
        assert!(examples.contains(&format!("perftax vm {action}")), "{action}: {examples}");
        assert!(help.lines().all(|line| line.chars().count() <= 110), "vm {action} --help is too wide");
    }
}

#[test]
fn what_trace_can_do_has_an_example_each() {
    for action in ["record", "report", "show", "export"] {
        let help = text(&perftax(&["trace", action, "--help"]).success().get_output().stdout);
        let (_, examples) = help.split_once("Example").unwrap_or_else(|| panic!("trace {action} --help has no example:\n{help}"));
        assert!(examples.contains(&format!("perftax trace {action}")), "{action}: {examples}");
        assert!(help.lines().all(|line| line.chars().count() <= 110), "trace {action} --help is too wide");
        assert!(help.contains("--output") && help.contains("--json") == ["report", "show"].contains(&action), "{help}");
    }
}

#[test]
fn help_names_the_exit_codes() {
    let help = text(&perftax(&["--help"]).success().get_output().stdout);
    // Wrapped to the width at hand: compared word by word.
    let words = help.split_whitespace().collect::<Vec<_>>().join(" ");
    for code in ["Exit codes: 0 done; 1 our failure", "; 2 usage; 3 this machine cannot do it; 4 a negative verdict", "126/127"] {
        assert!(words.contains(code), "'{code}' is not in {words}");
    }
    perftax(&["--version"]).success().stdout_eq("perftax [..]\n");
}

#[test]
fn usage_errors_exit_2_and_say_nothing_on_stdout() {
    for arguments in [
        &["frobnicate"][..],
        &[],
        &["list", "--frobnicate"],
        &["calibrate", "--mechanism", "magic"],
        &["calibrate", "-c", "many"],
        &["calibrate", "-c", "0"],
        &["calibrate", "-c", "300000000000000"],
        &["calibrate", "--precision", "0"],
        &["bill", "one.data", "two.data"],
        &["doctor", "--html", "page.html"],
    ] {
        perftax(arguments).code(2).stdout_eq("");
    }
}

#[test]
fn arguments_out_of_range_name_value_and_need() {
    perftax(&["calibrate", "-c", "0"]).code(2).stderr_eq("perftax: -c is 0, needs 1 to 2^48\n");
    perftax(&["calibrate", "--mechanism", "magic"]).code(2).stderr_eq(
        "error: invalid value 'magic' for '--mechanism <M>': unknown mechanism 'magic': one of pebs, [..]
...
",
    );
}

#[test]
fn an_unknown_event_exits_3_everywhere_and_its_neighbours_are_named() {
    for arguments in [&["doctor", "-e", "page-fautls"][..], &["calibrate", "-e", "page-fautls"]] {
        perftax(arguments).code(3).stdout_eq("").stderr_eq(
            "perftax: unknown event 'page-fautls'; nearest: page-faults[..]
  perftax list shows all events of this machine
",
        );
    }
    perftax(&["list", "zzzzzzzz"]).code(3).stdout_eq("").stderr_eq("perftax: unknown event 'zzzzzzzz'\n...\n");
}

#[test]
fn an_event_with_broken_syntax_is_a_usage_error() {
    perftax(&["calibrate", "-e", "r01c2:/"]).code(2).stdout_eq("").stderr_eq("perftax: cannot read event 'r01c2:/': [..]\n...");
}

#[test]
fn a_recording_that_is_none_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let foreign = dir.path().join("letter.txt");
    std::fs::write(&foreign, "Dear performance engineer,\n").unwrap();
    let missing = dir.path().join("missing.data");
    for path in [&foreign, &missing] {
        for command in ["bill", "lint"] {
            let assert = perftax(&[command, path.to_str().unwrap()]).code(1).stdout_eq("");
            let stderr = text(&assert.get_output().stderr);
            assert!(stderr.starts_with(&format!("perftax: {}", path.display())), "{stderr}");
        }
    }
}

/// A recording is not written over, nor two outputs into one file; names that are no UTF-8 are names.
#[test]
fn what_is_read_is_not_written_over() {
    use std::os::unix::ffi::OsStrExt;
    let dir = tempfile::tempdir().unwrap();
    let fixture = concat!(env!("CARGO_MANIFEST_DIR"), "/../perftax-pmu/tests/fixtures/faults.data");
    let recording = dir.path().join("perf.data");
    std::fs::copy(fixture, &recording).unwrap();
    let (alias, out) = (dir.path().join("alias"), dir.path().join("out"));
    std::os::unix::fs::symlink(&recording, &alias).unwrap();
    let before = std::fs::read(&recording).unwrap();
    let (recording, alias, out) = (recording.to_str().unwrap(), alias.to_str().unwrap(), out.to_str().unwrap());
    for command in ["bill", "lint"] {
        for output in [recording, alias] {
            for option in ["-o", "--json", "--html"] {
                let refused = perftax(&[command, option, output, recording]).code(2).stdout_eq("");
                let said = text(&refused.get_output().stderr);
                assert!(said.contains(option) && said.contains("another file than the one that is read"), "{said}");
                assert_eq!(std::fs::read(recording).unwrap(), before, "{command} {option}");
            }
        }
        let refused = perftax(&[command, "-o", out, "--json", out, recording]).code(2);
        assert!(text(&refused.get_output().stderr).contains("a file for each"));
    }
    let named = dir.path().join(std::ffi::OsStr::from_bytes(b"n\xffme"));
    std::fs::copy(fixture, &named).unwrap();
    for command in ["bill", "lint"] {
        let ran = std::process::Command::new(env!("CARGO_BIN_EXE_perftax")).arg(command).arg(&named).output().unwrap();
        assert!(!text(&ran.stderr).contains("panicked") && !ran.stdout.is_empty(), "{ran:?}");
    }
}

/// Thresholds for CI: from a file, whose mistakes are named.
#[test]
fn a_recording_that_cannot_be_trusted_exits_4_by_the_thresholds_of_a_file() {
    let dir = tempfile::tempdir().unwrap();
    let (config, recording) =
        (dir.path().join("lint.toml"), concat!(env!("CARGO_MANIFEST_DIR"), "/../perftax-pmu/tests/fixtures/faults.data"));
    let lint = |thresholds: &str| {
        std::fs::write(&config, thresholds).unwrap();
        perftax(&["lint", "--config", config.to_str().unwrap(), recording])
    };
    let strict = lint("[few-samples]\nwarning = 0.000001\nerror = 0.000001\n").code(4);
    let strict = text(&strict.get_output().stdout);
    assert!(strict.contains("not to be trusted") && strict.contains("few-samples"), "{strict}");
    let names =
        ["cut-off", "substituted", "lost", "throttled", "multiplexed", "by-count", "in-step", "idle", "short-tasks", "stacks"];
    let names = names.iter().chain(&["mappings", "clock", "own-cost"]);
    let off: String = names.map(|name| format!("[{name}]\noff = true\n")).collect();
    lint(&off).code(0);
    let wrong = lint("[few-samples]\nerror = 2\n").code(2).stdout_eq("");
    let wrong = text(&wrong.get_output().stderr);
    assert!(wrong.contains("[few-samples] error = 2") && wrong.contains("at most 1"), "{wrong}");
}

#[test]
fn an_output_that_cannot_be_written_fails_before_the_work_and_leaves_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("no/such/folder/out.json");
    perftax(&["calibrate", "--json", path.to_str().unwrap()])
        .code(1)
        .stdout_eq("")
        .stderr_eq("perftax: cannot write [..]/no/such/folder/out.json: [..]\n");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0);
}

#[test]
fn a_list_is_there_as_values_and_as_json() {
    perftax(&["list", "page-faults", "-x", ","]).success().stdout_eq("event,[..]\npage-faults,[..]\n...");
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("events.json");
    perftax(&["list", "page-faults", "--json", path.to_str().unwrap()]).success();
    let json = std::fs::read_to_string(&path).unwrap();
    assert!(json.contains("\"schema\"") && json.contains("\"page-faults\""), "{json}");
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1, "no partial file stays");
}

/// What a shell's script asks for, and gets.
fn completions(words: &[&str]) -> Vec<String> {
    let asked = Command::new(cargo_bin!("perftax")).arg("--").args(words).env("PERFTAX_COMPLETE", "bash").env("_CLAP_IFS", "\n");
    let asked = asked.env("_CLAP_COMPLETE_INDEX", (words.len() - 1).to_string());
    text(&asked.assert().success().get_output().stdout).lines().map(String::from).collect()
}

#[test]
fn shells_complete_commands_and_the_names_of_events_workloads_and_machines() {
    assert_eq!(completions(&["perftax", "pla"]), ["plan"]);
    assert!(completions(&["perftax", "plan", "--bud"]).iter().any(|option| option.starts_with("--budget")));
    assert_eq!(completions(&["perftax", "plan", "-e", "page-fau"]), ["page-faults"]);
    assert_eq!(completions(&["perftax", "plan", "-w", "bzi"]), ["bzip2"]);
    assert_eq!(completions(&["perftax", "predict", "--machine", "broadw"]), ["broadwell"]);
    assert!(completions(&["perftax", "plan", "-e", "no-such-event"]).is_empty());
    // Packagers' commands are not for everybody.
    assert!(!completions(&["perftax", ""]).contains(&"man".to_string()));
    for shell in ["bash", "zsh", "fish"] {
        let script = Command::new(cargo_bin!("perftax")).env("PERFTAX_COMPLETE", shell).assert().success();
        assert!(text(&script.get_output().stdout).contains(r#"PERFTAX_COMPLETE"#), "{shell}");
    }
}

/// Readline takes words apart at colons and equals signs, and leaves what is before the last piece standing.
#[test]
fn bash_completes_words_with_colons_and_equals_signs() {
    let script = Command::new(cargo_bin!("perftax")).env("PERFTAX_COMPLETE", "bash").assert().success();
    let script = text(&script.get_output().stdout);
    // The line up to the cursor, the pieces that readline makes of it, what it wants completed; what perftax is asked, and what readline gets.
    let cases = [
        ("perftax pl", "perftax pl", "pl", "perftax pl", "plan"),
        ("perftax plan  -e ", "perftax plan -e ''", "", "perftax plan -e ", "sched:sched_switch"),
        ("perftax plan -e sched:sw", "perftax plan -e sched : sw", "sw", "perftax plan -e sched:sw", "sched_switch"),
        ("perftax plan -e sched:", "perftax plan -e sched :", "", "perftax plan -e sched:", "sched_switch"),
        ("perftax plan --event=sched:s", "perftax plan --event = sched : s", "s", "perftax plan --event=sched:s", "sched_switch"),
        ("perftax predict --machine=br", "perftax predict --machine = br", "br", "perftax predict --machine=br", "broadwell"),
        ("perftax plan -e sched:", "perftax plan -e sched :", ":", "perftax plan -e sched:", "sched_switch"),
        (
            r#"perftax predict --machine="br"#,
            r#"perftax predict --machine = '"br'"#,
            "br",
            "perftax predict --machine=br",
            "broadwell",
        ),
        ("perftax plan -e sched:sw", "perftax plan -e sched:sw", "sched:sw", "perftax plan -e sched:sw", "sched:sched_switch"),
    ];
    for (line, pieces, wanted, asked, gets) in cases {
        // Answers with whole words, as perftax does, and says what it was asked.
        let perftax = format!(
            r#"perftax() {{ shift; local IFS=" "; echo "$*" >&2; case ${{!#}} in pl) echo plan ;; *=sched*) echo --event=sched:sched_switch ;; *=br) echo --machine=broadwell ;; *) echo sched:sched_switch ;; esac; }}
            {script}
            COMP_LINE='{line} and more' COMP_POINT={} COMP_TYPE=9 COMP_WORDS=({pieces} and more); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 3))
            _perftax_completion perftax '{wanted}' before; echo "${{COMPREPLY[*]}}""#,
            line.len()
        );
        let assert = Command::new("bash").args(["--norc", "-c", &perftax]).assert().success();
        let output = assert.get_output();
        assert_eq!((text(&output.stderr).trim_end_matches('\n'), text(&output.stdout).trim_end()), (asked, gets), "{line}");
    }
}
