//! `perftax sim --comm` over programs whose sharing is known by construction (crates/perftax-lab/workloads/sharing.c).

use std::path::{Path, PathBuf};
use std::process::Command;

use perftax_doc::{Comm, CommLine};
use tempfile::TempDir;

/// The microbenchmark, built.
struct Sharing {
    folder: TempDir,
}

impl Sharing {
    fn build() -> Self {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../perftax-lab/workloads/sharing.c");
        Self::built(&std::fs::read(source).unwrap())
    }

    fn built(source: &[u8]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("sharing.c"), source).unwrap();
        let mut gcc = Command::new("cc");
        gcc.args(["-O2", "-g", "-pthread", "-o", "sharing", "sharing.c"]).current_dir(folder.path());
        assert!(gcc.status().unwrap().success());
        Self { folder }
    }

    fn program(&self) -> PathBuf {
        self.folder.path().join("sharing")
    }

    fn run(&self, options: &[&str], arguments: &[&str]) -> Comm {
        let at = self.folder.path().join("comm.json");
        let mut command = Command::new(env!("CARGO_BIN_EXE_perftax"));
        command.args(["sim", "--comm"]).args(options).arg("--json").arg(&at).arg("--").arg(self.program()).args(arguments);
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        serde_json::from_slice(&std::fs::read(at).unwrap()).unwrap()
    }
}

/// Lines of one variable.
fn lines<'a>(comm: &'a Comm, variable: &str) -> Vec<&'a CommLine> {
    let is = |line: &&CommLine| line.name.split(['+', ' ']).next() == Some(variable);
    comm.lines.iter().filter(is).collect()
}

/// True and false transfers of one variable.
fn transfers(comm: &Comm, variable: &str) -> (f64, f64) {
    let lines = lines(comm, variable);
    let sum = |of: fn(&CommLine) -> f64| lines.iter().map(|line| of(line)).sum();
    (sum(|line| line.share.true_sharing.estimate), sum(|line| line.share.false_sharing.estimate))
}

/// A line of a queue is filled by one thread and read by another, each time exactly once, whatever the schedule is.
#[test]
fn every_hand_over_is_one_transfer() {
    let sharing = Sharing::build();
    for quantum in ["1", "16", "1000"] {
        let comm = sharing.run(&["--quantum", quantum], &["ring", "1", "4", "3000"]);
        assert_eq!(transfers(&comm, "slots"), (6000.0, 0.0), "two pairs, 3000 lines each, by turns of {quantum}");
        for line in lines(&comm, "slots") {
            let all = line.pairs.iter().all(|(from, to, _)| (from % 2 == 1) && *to == from + 1);
            assert!(all, "workers are threads 1 to 4, the first of each pair fills: {:?}", line.pairs);
        }
    }
    let comm = sharing.run(&[], &["producer-consumer", "1", "2", "3000"]);
    assert_eq!(transfers(&comm, "mailbox"), (3000.0, 0.0));
}

/// What a lock protects moves with the lock: both lines as often, and both truly shared.
#[test]
fn what_a_lock_protects_moves_together() {
    let comm = Sharing::build().run(&[], &["lock", "1", "4", "2000"]);
    let counts: Vec<f64> = lines(&comm, "protected").iter().map(|line| line.share.total.estimate).collect();
    assert!(counts.len() == 2 && counts[0] == counts[1] && counts[0] >= 3.0, "{counts:?}");
    assert_eq!(transfers(&comm, "protected").1, 0.0);
    let (yes, no) = transfers(&comm, "mutex");
    assert!(yes + no >= counts[0], "the mutex moves at each attempt: {yes} and {no}, {counts:?}");
}

#[test]
fn true_and_false_sharing_are_told_apart() {
    let sharing = Sharing::build();
    let comm = sharing.run(&["-c", "101"], &["mixed", "1", "4", "20000"]);
    for (variable, is_true) in [("common", true), ("apart", false)] {
        let found = lines(&comm, variable);
        assert!(!found.is_empty(), "{variable} is among {:?}", comm.lines.iter().map(|line| &line.name).collect::<Vec<_>>());
        for line in found {
            let exact = line.share.exact.unwrap();
            let (of_kind, of_other) =
                if is_true { (exact.true_sharing, exact.false_sharing) } else { (exact.false_sharing, exact.true_sharing) };
            assert!(of_kind > 1000 && of_other == 0, "{variable}: {exact:?}");
            let share = if is_true { line.share.true_sharing } else { line.share.false_sharing };
            assert_eq!(share.estimate, line.share.total.estimate, "{variable}");
        }
    }
}

/// Every access is seen beside samples of it: the estimate is held against the truth of the same run.
#[test]
fn estimates_hold_the_truth() {
    // A line that nobody shares is followed for a thousand samples now and then: there must be some ten thousand.
    const OPERATIONS: &str = "160000";
    let sharing = Sharing::build();
    let mut covered = 0;
    for kind in ["true", "false", "read-write", "ring"] {
        let comm = sharing.run(&["-c", "211"], &[kind, "0.7", "4", OPERATIONS]);
        let exact = comm.total.exact.unwrap();
        let exact = (exact.true_sharing + exact.false_sharing) as f64;
        let error = (comm.total.total.estimate / exact - 1.0).abs();
        let allowed = 0.1_f64.max(3.0 / (comm.total.evidence as f64).sqrt());
        assert!(comm.total.evidence > 60 && error <= allowed, "{kind}: {:?} of {exact}", comm.total);
        covered += u32::from(comm.total.total.contains(exact));
        assert!(comm.evidence.traps > 0 && comm.evidence.followed + comm.evidence.unfollowed <= comm.evidence.samples);
    }
    assert!(covered >= 3, "intervals of 95 % held the truth in {covered} of 4 programs");
}

#[test]
fn nothing_is_reported_where_nothing_is_shared() {
    let comm = Sharing::build().run(&["-c", "211"], &["true", "0", "4", "40000"]);
    assert!(lines(&comm, "own").is_empty(), "{:?}", comm.lines);
    let workers = comm.pairs.iter().filter(|pair| pair.from > 0 && pair.to > 0);
    // They meet at the barrier and where threads end, some ten times.
    let total: f64 = workers.map(|pair| pair.share.total.estimate).sum();
    assert!(total < 2.0 * 211.0, "{:?}", comm.pairs);
}

/// Threads meet as on cores of their own, however few there are and whoever else uses them: taking turns evenly, four threads of which each
/// stores to what all share in half of its operations hand over some 29,000 times.
#[test]
fn threads_overlap() {
    let sharing = Sharing::build();
    for _ in 0..3 {
        let total = sharing.run(&[], &["true", "0.5", "4", "20000"]).total.total.estimate;
        assert!((8000.0..32_000.0).contains(&total), "{total}");
    }
}

#[test]
fn what_does_not_go_together_is_said() {
    let said = |arguments: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_perftax")).arg("sim").args(arguments).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    for arguments in [
        &["--comm", "--count", "--", "ls"][..],
        &["--watchpoints", "2", "--", "ls"],
        &["--comm", "--watchpoints", "5", "--", "ls"],
    ] {
        let (code, text) = said(arguments);
        assert_eq!(code, Some(2), "{arguments:?}: {text}");
    }
    assert_eq!(said(&["--comm", "--", "/nonexistent/program"]).0, Some(127));
}

/// A copy by a string instruction reads one place and writes another: each line that it reads is a transfer.
#[test]
fn what_is_moved_from_memory_to_memory_is_read() {
    const SOURCE: &str = r#"
#include <pthread.h>
#include <string.h>
static char filled[64 * 64] __attribute__((aligned(64))), copied[64 * 64] __attribute__((aligned(64)));
static void *copy(void *unused)
{
    void *to = copied, *from = filled;
    long bytes = sizeof filled;
    __asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(bytes) : : "memory");
    return unused;
}
int main(void)
{
    pthread_t thread;
    memset(filled, 1, sizeof filled);
    return pthread_create(&thread, NULL, copy, NULL) || pthread_join(thread, NULL);
}
"#;
    let sharing = Sharing::built(SOURCE.as_bytes());
    let comm = sharing.run(&[], &[]);
    assert_eq!((transfers(&comm, "filled"), transfers(&comm, "copied")), ((64.0, 0.0), (0.0, 0.0)));
}
