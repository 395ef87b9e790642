//! `perftax comm` on four emulated processors with debug registers of their own, under the distribution's kernel. Needs the machine and
//! perftax built (`make build machine`); `make test` sees to that.

use crate::common;
use std::path::Path;
use std::process::Command;

use perftax_cost::document::{Comm, CommAdvice};

/// Lines that one thread fills and another reads, each time once: so many transfers by construction, whatever the schedule is. The debug
/// registers of all four processors see each of them.
#[test]
fn hand_overs_are_counted() {
    const EACH: u64 = 500;
    let share = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../workloads/sharing.c");
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-g", "-static", "-pthread", "-o"]).arg(share.path().join("sharing")).arg(source);
    assert!(gcc.status().unwrap().success());
    let script = format!("perftax comm --watch mailbox/32 --json - -- ./sharing producer-consumer 1 4 {EACH}\n");
    std::fs::write(share.path().join("script"), script).unwrap();
    let (output, errors, finished) = common::boot_with(&["sh", "script"].map(String::from), &common::perftax(), |guest| {
        guest.share = Some(share.path().into());
        guest.processor.count = 4;
    });
    assert_eq!(finished.code, 0, "{output}{errors}");
    let comm: Comm = serde_json::from_str(&output).unwrap_or_else(|error| panic!("{error}: {output}{errors}"));
    // Four words are stored and loaded each time.
    assert_eq!((comm.evidence.traps, comm.evidence.undecoded, comm.evidence.lost_traps), (8 * EACH, 0, 0));
    assert_eq!((comm.total.true_sharing.estimate, comm.total.false_sharing.estimate), (EACH as f64, 0.0));
    assert_eq!((comm.pairs.len(), comm.lines.len(), comm.lines[0].advice), (1, 1, CommAdvice::Move));
    assert!(comm.lines[0].sites.iter().all(|site| site.source.as_deref().is_some_and(|at| at.contains("sharing.c:"))));
}
