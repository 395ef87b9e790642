//! The program whose threads share lines, built for one test at a time.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::MutexGuard;

use crate::common::turn;

/// A folder with the test's program. One test at a time: what one makes of the CPUs is not to be another's trouble.
pub struct Place {
    pub folder: tempfile::TempDir,
    pub program: PathBuf,
    pub _turn: MutexGuard<'static, ()>,
}

impl Place {
    /// The program, built with these options besides: without frame pointers, as compilers do.
    pub fn new(options: &[&str]) -> Self {
        let turn = turn();
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("sharing");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/commands/sharing.c");
        let mut cc = Command::new("cc");
        cc.args(["-g", "-O1", "-fomit-frame-pointer", "-Wall", "-Werror", "-pthread"])
            .args(options)
            .arg("-o")
            .arg(&program)
            .arg(source);
        assert!(cc.status().unwrap().success());
        Self { folder, program, _turn: turn }
    }

    /// `perftax comm`, with profiles of its own.
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_perftax"));
        command.arg("comm");
        // Where nothing else is asked for every access is to be seen, so that counts are exact.
        if !arguments.contains(&"--budget") {
            command.args(["--budget", "none"]);
        }
        command.args(arguments).env("XDG_DATA_HOME", self.folder.path()).env("NO_COLOR", "1").stdin(Stdio::null());
        command
    }
}
