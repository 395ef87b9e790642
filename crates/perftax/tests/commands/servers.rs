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

/// A server is started before its load and ended after it, in each run.
#[test]
fn a_server_is_measured_under_its_load() {
    let folder = tempfile::tempdir().unwrap();
    let [port, served] = ["port", "served"].map(|name| folder.path().join(name).display().to_string());
    // It says on which port it listens in a file that appears whole, and answers one line each time.
    let server = format!(
        "use IO::Socket::INET; my $s = IO::Socket::INET->new(Listen => 9, LocalAddr => '127.0.0.1') or die; \
         open my $f, '>', '{port}.new'; print $f $s->sockport; close $f; rename '{port}.new', '{port}'; \
         while (my $c = $s->accept) {{ my $i = 0; $i++ while $i < 3e5; print $c \"done\\n\"; close $c }}"
    );
    let load = format!(
        "rm -f '{port}.seen'; perl -MIO::Socket::INET -e 'open my $f, \"<\", \"{port}\"; my $p = <$f>; for (1..20) {{ \
         my $c = IO::Socket::INET->new(PeerAddr => \"127.0.0.1:$p\") or exit 7; <$c> eq \"done\\n\" or exit 8 }}' && rm '{port}' && echo x >>'{served}'"
    );
    let measured = predict(&["--load", &load, "--ready", &port, "--json", "-"], &server);
    let said = String::from_utf8_lossy(&measured.stderr);
    assert_eq!(measured.status.code(), Some(0), "{said}");
    let prediction: Prediction = serde_json::from_slice(&measured.stdout).unwrap();
    assert!(prediction.workload.cpu_s.estimate > 0.02, "{:?}", prediction.workload.cpu_s);
    // The one that looks at tasks, the one that counts, and two unmonitored ones.
    assert_eq!(std::fs::read_to_string(&served).unwrap().lines().count(), 4);

    let failed = predict(&["--load", "exit 5"], SERVER);
    let said = String::from_utf8_lossy(&failed.stderr);
    assert!(failed.status.code() == Some(1) && said.contains("exit 5") && said.contains("exited with code 5"), "{said}");
    for refused in [&["--load", "true", "--for", "1s"][..], &["--ready", "80"], &["--load", "true", "--ready", "tomorrow"]] {
        let output = predict(refused, SERVER);
        assert_eq!(output.status.code(), Some(2), "{refused:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
