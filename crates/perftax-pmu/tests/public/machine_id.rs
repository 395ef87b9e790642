//! The identity of a machine.

use perftax_pmu::machine::{Cpuid, Machine, Root};

#[test]
fn the_machine_here_has_an_identity_that_stays() {
    let first = Machine::here();
    let id = first.id();
    assert_eq!(id, Machine::here().id());
    assert_eq!(id.fingerprint.len(), 16);
    assert!(id.cpus >= 1);
    assert!(!id.cpu.is_empty());
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap();
    assert_eq!(first.kernel(), release.trim());
}

#[test]
fn an_empty_tree_is_still_a_machine() {
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::read(Root::at(folder.path()), Cpuid::recorded(&[]));
    assert_eq!(machine.kernel(), "unknown");
    assert_eq!(machine.id().virtualisation, "none");
    assert_eq!(machine.id().name, "unknown CPU, 0 CPUs");
}
