//! Programs that do not end.

use std::process::{Command, Output, Stdio};
use std::time::Instant;

use perftax_cost::document::Prediction;

/// Listens, and waits for somebody who never comes.
const SERVER: &str =
    "use IO::Socket::INET; my $s = IO::Socket::INET->new(Listen => 1, LocalAddr => '127.0.0.1') or die; $s->accept";

/// Predicts with somebody else's costs: nothing is calibrated here.
fn predict(options: &[&str], program: &str) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_perftax"));
    command.args(["predict", "--machine", "broadwell", "-e", "UOPS_RETIRED.ALL", "--count-of", "1e8", "-r", "2"]).args(options);
    command.args(["--", "perl", "-e", program]).env("NO_COLOR", "1").stdin(Stdio::null()).output().unwrap()
}

#[test]
fn one_that_waits_for_work_gets_an_answer_and_may_be_measured_for_a_time() {
    let began = Instant::now();
    let refused = predict(&[], SERVER);
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(refused.status.code() == Some(2) && said.contains("--for 30s") && said.contains("wait for work"), "{said}");
    // Nine seconds where nobody else is on the machine.
    assert!(began.elapsed().as_secs() < 60, "{:?}", began.elapsed());

    let measured = predict(&["--for", "400ms", "--json", "-"], SERVER);
    let said = String::from_utf8_lossy(&measured.stderr);
    assert_eq!(measured.status.code(), Some(0), "{said}");
    let prediction: Prediction = serde_json::from_slice(&measured.stdout).unwrap();
    let elapsed_s = prediction.workload.elapsed_s.estimate;
    // It is the time that was asked for, not what the machine made of it.
    assert!((0.4..1.0).contains(&elapsed_s), "{elapsed_s}");
    assert!(prediction.workload.runs.len() == 2, "{:?}", prediction.workload.runs);
}

#[test]
fn a_time_that_is_none_is_refused() {
    for wrong in ["30", "forever", "0s"] {
        let refused = predict(&["--for", wrong], SERVER);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert!(refused.status.code() == Some(2) && said.contains(wrong), "{said}");
    }
    let simulated = Command::new(env!("CARGO_BIN_EXE_perftax")).args(["sim", "--for", "1s", "--", "true"]).output().unwrap();
    let said = String::from_utf8_lossy(&simulated.stderr);
    assert!(simulated.status.code() == Some(2) && said.contains("--for"), "{said}");
}
