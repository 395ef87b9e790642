//! A newer kernel in the emulated machine: Debian 13's. Needs it built (`target/release/perftax vm build --kernel trixie`); `make test` sees
//! to that.

use crate::common;
use std::path::Path;

use perftax_doc::{Audit, Verdict};

/// The suite whose kernel it is.
const SUITE: &str = "trixie";

#[test]
fn counting_is_right_under_a_newer_kernel_too() {
    let script = "perftax audit --quick --runs 1 --only count,generic --json -".split(' ').map(String::from).collect::<Vec<_>>();
    let (output, errors, finished) =
        common::boot_kernel(Some(Path::new(SUITE)), &script, &common::perftax(), |guest| guest.append = "nopti".into());
    let audit: Audit = serde_json::from_str(&output).unwrap_or_else(|e| panic!("{e}: {output}{errors}"));
    let newer = audit.origin.kernel.split('.').take(2).map(|n| n.parse().unwrap()).collect::<Vec<u32>>();
    assert!(newer > vec![6, 1], "{}", audit.origin.kernel);
    let failed: Vec<_> = audit.failed().collect();
    assert!(failed.is_empty() && finished.code == 0, "{failed:#?}");
    let passed = |name: &str| {
        let rows = audit.experiments.iter().filter(|experiment| experiment.name == name).flat_map(|experiment| &experiment.rows);
        rows.filter(|row| row.verdict == Verdict::Passed).count()
    };
    assert!(passed("count") >= 10 && passed("generic") >= 20, "{audit:#?}");
}
