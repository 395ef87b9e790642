//! What a program of the host's needs to run elsewhere: itself, its interpreter and its libraries.

use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{Error, Result};

/// Looks a program up as a shell would; `None` where there is none.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = Path::new(program);
    if program.contains('/') {
        return path.is_file().then(|| std::path::absolute(path).ok()).flatten();
    }
    let folders = std::env::var_os("PATH")?;
    std::env::split_paths(&folders).map(|folder| folder.join(path)).find(|file| file.is_file())
}

/// The libraries that a program is linked with, as `ldd` finds them; none for what is no dynamic program.
///
/// # Errors
/// Where `ldd` cannot be run, or a library is missing.
pub fn libraries(program: &Path) -> Result<Vec<PathBuf>> {
    let output = Command::new("ldd").arg(program).env("LC_ALL", "C").output().map_err(Error::file("ldd"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    if let Some(line) = text.lines().find(|line| line.contains("not found")) {
        return Err(Error::Missing {
            what: format!("a library of {}", program.display()),
            why: line.trim().to_string(),
            remedy: "install it here first".into(),
        });
    }
    Ok(text.lines().filter_map(library).collect())
}

/// The programs that a script's first line asks for: its interpreter and, where that is `env`, what it looks up (execve(2)). None for what is no script.
///
/// # Errors
/// Where the file cannot be read.
pub fn interpreters(program: &Path) -> Result<Vec<String>> {
    let mut first = Vec::new();
    let file = std::fs::File::open(program).map_err(Error::file(program))?;
    // As much as the kernel looks at.
    file.take(256).read_to_end(&mut first).map_err(Error::file(program))?;
    Ok(first.strip_prefix(b"#!").map_or_else(Vec::new, |line| {
        let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
        let line = String::from_utf8_lossy(line).into_owned();
        let mut words = line.split_whitespace().map(String::from);
        let Some(interpreter) = words.next() else { return Vec::new() };
        let is_env = Path::new(&interpreter).file_name().is_some_and(|name| name == "env");
        let looked_up = words.find(|word| !word.starts_with('-') && !word.contains('=')).filter(|_| is_env);
        std::iter::once(interpreter).chain(looked_up).collect()
    }))
}

/// `libc.so.6 => /lib/libc.so.6 (0x…)` or `/lib64/ld-linux-x86-64.so.2 (0x…)`.
fn library(line: &str) -> Option<PathBuf> {
    let file = line.split_once("=>").map_or(line, |(_, file)| file).split_whitespace().next()?;
    file.starts_with('/').then(|| file.into())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    #[test]
    fn scripts_say_who_reads_them() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("script");
        for (text, wanted) in [
            ("#!/bin/sh -e\necho", &["/bin/sh"][..]),
            ("#! /usr/bin/env -S FOO=1 python3 -u\n", &["/usr/bin/env", "python3"]),
            ("#!", &[]),
            ("echo", &[]),
            ("", &[]),
        ] {
            std::fs::write(&file, text).unwrap();
            assert_eq!(interpreters(&file).unwrap(), wanted, "{text:?}");
        }
    }

    #[test]
    fn lines_of_ldd() {
        assert_eq!(library("\tlibc.so.6 => /lib/x/libc.so.6 (0x00007f)"), Some("/lib/x/libc.so.6".into()));
        assert_eq!(library("\t/lib64/ld-linux-x86-64.so.2 (0x00007f)"), Some("/lib64/ld-linux-x86-64.so.2".into()));
        assert_eq!(library("\tlinux-vdso.so.1 (0x00007ffc)"), None);
        assert_eq!(library("\tnot a dynamic executable"), None);
        assert!(!libraries(Path::new("/bin/ls")).unwrap().is_empty());
    }
}
