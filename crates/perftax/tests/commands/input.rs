//! A program that is run several times reads the same each time, wherever it comes from; and is found out where it would read a terminal.

use std::io::Write;
use std::process::{Command, Output, Stdio};

const BYTES: usize = 5_000_000;

/// Fails unless it reads so many bytes; takes long enough to be measured.
const READER: &str = "local $/; $_ = <STDIN>; exit 7 if length != 5_000_000; my $i = 0; $i++ while $i < 3e6";

/// Predicts with somebody else's costs: nothing is calibrated here.
fn predict(options: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_perftax"));
    command.args(["predict", "--machine", "broadwell", "-e", "UOPS_RETIRED.ALL", "--count-of", "1e8", "-r", "2"]).args(options);
    command.env("NO_COLOR", "1").stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn works(output: &Output) {
    assert_eq!(output.status.code(), Some(0), "{}", said(output));
}

#[test]
fn each_run_reads_all_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("with a space");
    std::fs::write(&file, vec![b'x'; BYTES]).unwrap();
    let reader = ["--", "perl", "-e", READER];
    works(&predict(&reader).stdin(std::fs::File::open(&file).unwrap()).output().unwrap());
    works(&predict(&[&["--stdin", file.to_str().unwrap()][..], &reader].concat()).stdin(Stdio::null()).output().unwrap());
    let mut piped = predict(&reader).stdin(Stdio::piped()).spawn().unwrap();
    piped.stdin.take().unwrap().write_all(&vec![b'x'; BYTES]).unwrap();
    works(&piped.wait_with_output().unwrap());
    // And one that gets nothing says so itself.
    let empty = predict(&reader).stdin(Stdio::null()).output().unwrap();
    assert!(empty.status.code() == Some(1) && said(&empty).contains("exited with code 7"), "{}", said(&empty));
}

#[test]
fn an_input_that_is_not_there_is_said_to_be_missing() {
    let missing = predict(&["--stdin", "/nowhere/at all", "--", "cat"]).stdin(Stdio::null()).output().unwrap();
    assert!(missing.status.code() == Some(1) && said(&missing).contains("/nowhere/at all"), "{}", said(&missing));
    // A pipe that whoever started us has left open: a program that reads nothing is measured, one that does is not.
    let silent = |program: &str| {
        let mut open = predict(&["--", "perl", "-e", program]).stdin(Stdio::piped()).spawn().unwrap();
        let kept_open = open.stdin.take();
        let output = open.wait_with_output().unwrap();
        drop(kept_open);
        output
    };
    let deaf = silent("my $i = 0; $i++ while $i < 3e6");
    works(&deaf);
    assert!(said(&deaf).contains("in which nothing came"), "{}", said(&deaf));
    let reads = silent(READER);
    assert!(reads.status.code() == Some(2) && said(&reads).contains("--stdin FILE"), "{}", said(&reads));
}

#[test]
fn a_terminal_is_read_by_nobody_several_times() {
    let perftax = env!("CARGO_BIN_EXE_perftax");
    let on_a_terminal = |program: &str| {
        let line = format!("{perftax} predict --machine broadwell -e UOPS_RETIRED.ALL --count-of 1e8 -r 2 -- {program}");
        // script(1) gives it a terminal, and its exit code.
        let mut script = Command::new("script");
        script.args(["-qec", &line, "/dev/null"]).env("NO_COLOR", "1").stdin(Stdio::null()).output().unwrap()
    };
    let deaf = on_a_terminal("perl -e 'my $i = 0; $i++ while $i < 3e6'");
    works(&deaf);
    let reads = on_a_terminal("cat");
    assert!(reads.status.code() == Some(2) && said(&reads).contains("standard input is a terminal"), "{}", said(&reads));
}

/// An event of another machine's need only have a name; how many there are nobody can count here.
#[test]
fn another_machines_event_is_priced_once_it_is_said_how_many_there_are() {
    let program = ["--", "perl", "-e", "my $i = 0; $i++ while $i < 3e6"];
    let told = predict(&program).stdin(Stdio::null()).output().unwrap();
    works(&told);
    assert!(said(&told).contains("UOPS_RETIRED.ALL"), "{}", said(&told));
    let mut untold = Command::new(env!("CARGO_BIN_EXE_perftax"));
    untold.args(["predict", "--machine", "broadwell", "-e", "UOPS_RETIRED.ALL", "-r", "2"]).args(program).stdin(Stdio::null());
    let untold = untold.output().unwrap();
    assert!(untold.status.code() == Some(3) && said(&untold).contains("--count-of N"), "{}", said(&untold));
    let mut clock = Command::new(env!("CARGO_BIN_EXE_perftax"));
    clock.args(["predict", "--machine", "broadwell", "-e", "cpu-clock", "-r", "2"]).args(program).stdin(Stdio::null());
    let clock = clock.output().unwrap();
    assert!(clock.status.code() == Some(2) && said(&clock).contains("published costs for"), "{}", said(&clock));
}
