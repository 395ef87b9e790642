//! Booting a guest that has our kernel module.

use std::path::Path;
use std::process::Command;

use perftax_vm::{Finished, Guest};

/// What is injected unless a test says otherwise.
pub const ASSIST_NS: u64 = 286;

/// Boots a guest that has the module and the programs of its tests in its folder, and runs a script there.
pub fn boot(script: &str, change: impl FnOnce(&mut Guest)) -> (String, String, Finished) {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let module = root.join("target/kmod/perftax.ko");
    assert!(module.is_file(), "{} is not there: make kmod", module.display());
    let folder = tempfile::tempdir().unwrap();
    std::fs::copy(module, folder.path().join("perftax.ko")).unwrap();
    for program in ["direct", "fuzz", "knob"] {
        let mut gcc = Command::new("gcc");
        gcc.args(["-O1", "-Wall", "-Werror", "-static", "-I"]).arg(root.join("kmod"));
        gcc.arg("-o").arg(folder.path().join(program)).arg(super::source(&format!("{program}.c")));
        assert!(gcc.status().unwrap().success());
    }
    std::fs::write(folder.path().join("script"), script).unwrap();
    let perftax = super::perftax();
    super::boot_with(&["sh", "script"].map(String::from), &perftax, |guest| {
        guest.with = vec!["chrt".into()];
        guest.share = Some(folder.path().into());
        guest.processor.assist_ns = ASSIST_NS;
        change(guest);
    })
}

/// What a line of the guest's says behind its name.
pub fn said<'a>(output: &'a str, errors: &str, name: &str) -> &'a str {
    output.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_else(|| panic!("no '{name}' in\n{output}{errors}")).trim()
}

/// The numbers among a line's words.
pub fn numbers(line: &str) -> Vec<u64> {
    line.split_whitespace().filter_map(|word| word.parse().ok()).collect()
}

/// Loads the module, and counts at the end what the kernel complained about.
pub fn loaded(script: &str) -> String {
    format!(
        "{}dmesg -c >/dev/null; insmod perftax.ko || exit 9\n{script}\n\
         rmmod perftax && dmesg | grep -c -E 'BUG|WARNING|Call Trace|general protection|unknown reason'\n",
        super::SHORT_PERF
    )
}

/// Nothing was in the log.
pub fn kernel_is_well(output: &str, errors: &str) {
    assert_eq!(output.lines().last(), Some("0"), "{output}{errors}");
}
