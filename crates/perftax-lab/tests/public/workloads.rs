//! The shipped workloads are what their descriptions claim: they prepare, run, and make the same input each time.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};

use perftax_lab::workload::{Prepared, shipped};

/// Every file of a folder, by name.
fn contents(dir: &Path) -> BTreeMap<OsString, Vec<u8>> {
    std::fs::read_dir(dir)
        .unwrap()
        .map(|entry| {
            let entry = entry.unwrap();
            (entry.file_name(), std::fs::read(entry.path()).unwrap())
        })
        .collect()
}

fn run(prepared: &Prepared) {
    let stdin = prepared.stdin.as_ref().map_or_else(Stdio::null, |path| File::open(path).unwrap().into());
    let output = Command::new(&prepared.argv[0])
        .args(&prepared.argv[1..])
        .current_dir(&prepared.cwd)
        .stdin(stdin)
        .stdout(Stdio::null())
        .output()
        .unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {}: {stderr}", prepared.name, output.status);
}

/// Every second one, from this one on: two processors take half each.
fn inputs_are_the_same_each_time_and_programs_leave_them_alone(first: usize) {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for workload in shipped().into_iter().skip(first).step_by(2) {
        let first = workload.prepare(one.path()).unwrap();
        let second = workload.prepare(two.path()).unwrap();
        let input = contents(&first.cwd);
        // Not assert_eq: nobody wants to read 30 MB.
        assert!(input == contents(&second.cwd), "{}: two preparations differ", workload.name);
        if let Some(stdin) = &first.stdin {
            assert!(stdin.is_file(), "{}: {}", workload.name, stdin.display());
        }
        run(&first);
        assert!(input == contents(&first.cwd), "{}: the run changed its folder", workload.name);
        std::fs::remove_dir_all(first.cwd).unwrap();
        std::fs::remove_dir_all(second.cwd).unwrap();
    }
}

#[test]
fn even_inputs_are_the_same_each_time_and_programs_leave_them_alone() {
    inputs_are_the_same_each_time_and_programs_leave_them_alone(0);
}

#[test]
fn odd_inputs_are_the_same_each_time_and_programs_leave_them_alone() {
    inputs_are_the_same_each_time_and_programs_leave_them_alone(1);
}
