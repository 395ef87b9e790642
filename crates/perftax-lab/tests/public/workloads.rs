//! The shipped workloads are what their descriptions claim: they prepare, run, and make the same input each time.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

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

fn rewound(mut file: File) -> File {
    file.seek(SeekFrom::Start(0)).unwrap();
    file
}

/// What a program may take of `make test`'s time; `scripts/acceptance long-tests` sets `PERFTAX_ALL`, and has each come to its end.
const LONGEST: Duration = Duration::from_millis(500);

fn run(prepared: &Prepared) {
    let stdin = prepared.stdin.as_ref().map_or_else(Stdio::null, |path| File::open(path).unwrap().into());
    let errors = tempfile::tempfile().unwrap();
    let mut program = Command::new(&prepared.argv[0]);
    program.args(&prepared.argv[1..]).current_dir(&prepared.cwd).stdin(stdin).stdout(Stdio::null());
    let mut running = program.stderr(errors.try_clone().unwrap()).process_group(0).spawn().unwrap();
    let began = Instant::now();
    let is_whole = is_whole();
    let status = loop {
        match running.try_wait().unwrap() {
            Some(status) => break status,
            None if !is_whole && began.elapsed() > LONGEST => {
                // Those that it has started, too.
                let group = rustix::process::Pid::from_child(&running);
                rustix::process::kill_process_group(group, rustix::process::Signal::KILL).unwrap();
                running.wait().unwrap();
                return;
            }
            None => std::thread::sleep(Duration::from_millis(5)),
        }
    };
    let stderr = std::io::read_to_string(rewound(errors)).unwrap();
    assert!(status.success(), "{}: {status}: {stderr}", prepared.name);
}

/// Whether all is done: twice, and to the end (`scripts/acceptance long-tests`).
fn is_whole() -> bool {
    std::env::var_os("PERFTAX_ALL").is_some()
}

/// Every second one, from this one on: two processors take half each. That two preparations are alike is asked where there is time.
fn inputs_are_the_same_each_time_and_programs_leave_them_alone(first: usize) {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for workload in shipped().into_iter().skip(first).step_by(2) {
        let first = workload.prepare(one.path()).unwrap();
        let input = contents(&first.cwd);
        if is_whole() {
            let second = workload.prepare(two.path()).unwrap();
            // Not assert_eq: nobody wants to read 30 MB.
            assert!(input == contents(&second.cwd), "{}: two preparations differ", workload.name);
            std::fs::remove_dir_all(second.cwd).unwrap();
        }
        if let Some(stdin) = &first.stdin {
            assert!(stdin.is_file(), "{}: {}", workload.name, stdin.display());
        }
        run(&first);
        assert!(input == contents(&first.cwd), "{}: the run changed its folder", workload.name);
        std::fs::remove_dir_all(first.cwd).unwrap();
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
