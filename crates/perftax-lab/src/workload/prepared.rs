//! A workload with its input in place, ready to run.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use perftax_pmu::{Error, Result};

use super::{Workload, find_program, program};

/// A command that can be run any number of times. Its output is to be discarded; it writes no files of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Prepared {
    /// The workload's name.
    pub name: String,
    /// Program (an absolute path) and arguments.
    pub argv: Vec<OsString>,
    /// Folder to run in: the one that `prepare` filled.
    pub cwd: PathBuf,
    /// File to read as standard input; `/dev/null` where there is none.
    pub stdin: Option<PathBuf>,
    /// Threads (or processes) that do the work.
    pub threads: u32,
}

/// Where prepared inputs are kept unless the user says otherwise, in [`perftax_folders::cache`].
pub fn default_cache_dir() -> PathBuf {
    perftax_folders::cache("workloads")
}

impl Workload {
    /// Makes the input under `cache_dir`, once: a folder named after the workload and a hash of its preparation, which
    /// appears whole or not at all. Runs nothing where it is there already.
    ///
    /// # Errors
    /// [`Error::Unsupported`] with the `apt-get` command where the program is not installed; [`Error::System`] with the
    /// script's last words where it fails; [`Error::File`] for the cache.
    pub fn prepare(&self, cache_dir: &Path) -> Result<Prepared> {
        let at = program::of(&self.command).unwrap_or(0);
        let wanted = self.command.get(at).map_or("", String::as_str);
        // A program that the preparation builds is looked for when that is done.
        let built = wanted.starts_with(DIR);
        let found = if built { None } else { Some(find_program(wanted).ok_or_else(|| self.not_installed(wanted))?) };

        std::fs::create_dir_all(cache_dir).map_err(Error::file(cache_dir))?;
        let cache_dir = cache_dir.canonicalize().map_err(Error::file(cache_dir))?;
        let dir = cache_dir.join(format!("{}-{:016x}", self.name, self.key()));
        if !dir.is_dir() {
            self.fill(&cache_dir, &dir)?;
        }

        let mut argv: Vec<OsString> = self.command.iter().map(|word| replace_dir(word, &dir)).collect();
        if let Some(found) = found {
            argv[at] = found.into();
        }
        if at > 0 {
            argv[0] = find_program("env").ok_or_else(|| self.not_installed("env"))?.into();
        }
        let stdin = self.stdin.as_ref().map(|file| PathBuf::from(replace_dir(file, &dir)));
        Ok(Prepared { name: self.name.clone(), argv, cwd: dir, stdin, threads: self.threads })
    }

    fn fill(&self, cache_dir: &Path, dir: &Path) -> Result<()> {
        let partial =
            tempfile::Builder::new().prefix(&format!(".{}-", self.name)).tempdir_in(cache_dir).map_err(Error::file(cache_dir))?;
        let output = Command::new("/bin/sh")
            .args(["-euc", &self.prepare])
            .current_dir(partial.path())
            .env("LC_ALL", "C")
            .env("PATH", search_path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .output()
            .map_err(|source| Error::System { call: format!("preparing workload {}: /bin/sh", self.name), source })?;
        if !output.status.success() {
            return Err(self.script_failed(output.status, &output.stderr));
        }
        // On the way in the folder is private; others may share the cache.
        std::fs::set_permissions(partial.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755))
            .map_err(Error::file(partial.path()))?;
        match std::fs::rename(partial.path(), dir) {
            // Another process was first: what it made is the same, and ours goes away with `partial`.
            Err(_) if dir.is_dir() => Ok(()),
            Err(source) => Err(Error::File { path: dir.into(), source }),
            Ok(()) => {
                let _moved_away = partial.keep();
                Ok(())
            }
        }
    }

    fn not_installed(&self, program: &str) -> Error {
        let packages = std::iter::once(&self.package).chain(&self.needs).cloned().collect::<Vec<_>>().join(" ");
        Error::Unsupported {
            what: format!("run workload {}", self.name),
            why: format!("program '{program}' is not installed"),
            remedy: format!("apt-get install -y {packages}"),
        }
    }

    fn script_failed(&self, status: ExitStatus, stderr: &[u8]) -> Error {
        let how = match (status.code(), status.signal()) {
            // A shell's way to say that a command of the script was not found.
            (Some(127), _) => return self.not_installed(&last_line(stderr)),
            (Some(code), _) => format!("exit {code}"),
            (None, Some(signal)) => format!("signal {signal}"),
            (None, None) => "unknown status".into(),
        };
        Error::System {
            call: format!("preparing workload {}", self.name),
            source: std::io::Error::other(format!("its script ended with {how}: {}", last_line(stderr))),
        }
    }
}

/// What stands for the workload's folder in its description.
const DIR: &str = "{dir}";

fn replace_dir(word: &str, dir: &Path) -> OsString {
    // Joined by hand because a path need not be UTF-8.
    let mut parts = word.split(DIR);
    let mut replaced = OsString::from(parts.next().unwrap_or_default());
    for part in parts {
        replaced.push(dir);
        replaced.push(part);
    }
    replaced
}

fn search_path() -> OsString {
    let mut path = std::env::var_os("PATH").unwrap_or_else(|| "/usr/bin:/bin".into());
    path.push(":/usr/games:/usr/sbin:/sbin");
    path
}

fn last_line(stderr: &[u8]) -> String {
    String::from_utf8_lossy(stderr).lines().rev().find(|line| !line.trim().is_empty()).unwrap_or("(no message)").trim().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn workload(extra: &str) -> Workload {
        let head = "name = 'a'\npackage = 'p'\nneeds = ['q']\ndescription = 'd'\nthreads = 1\n";
        Workload::parse(&format!("{head}{extra}"), "a.toml").unwrap()
    }

    #[test]
    fn prepares_once_and_whole() {
        let cache = tempfile::tempdir().unwrap();
        let log = cache.path().join("log");
        let text = format!(
            "command = ['cat', 'x{{dir}}/in{{dir}}']\nstdin = '{{dir}}/in'\nprepare = 'echo once >> {}; echo 1 > in'",
            log.display()
        );
        let workload = workload(&text);
        let first = workload.prepare(cache.path()).unwrap();
        let second = workload.prepare(cache.path()).unwrap();
        assert_eq!(first, second);
        assert_eq!(std::fs::read_to_string(&log).unwrap(), "once\n");
        assert_eq!(std::fs::read_to_string(first.stdin.unwrap()).unwrap(), "1\n");
        assert!(Path::new(&first.argv[0]).is_absolute());
        let dir = first.cwd.display();
        assert_eq!(first.argv[1], OsString::from(format!("x{dir}/in{dir}")));
        let left: Vec<_> = std::fs::read_dir(cache.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        assert_eq!(left.len(), 2, "only the log and the folder: {left:?}");
    }

    #[test]
    fn two_at_once_agree() {
        let cache = tempfile::tempdir().unwrap();
        let workload = workload("command = ['cat', '{dir}/in']\nprepare = 'sleep 0.2; echo 1 > in'");
        let prepared: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(|| workload.prepare(cache.path()).unwrap())).collect();
            threads.into_iter().map(|t| t.join().unwrap()).collect()
        });
        assert!(prepared.iter().all(|p| *p == prepared[0]));
        assert_eq!(std::fs::read_dir(cache.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_failed_script_leaves_nothing_and_is_quoted() {
        let cache = tempfile::tempdir().unwrap();
        let failed = workload("command = ['cat']\nprepare = 'echo half > in; echo no luck >&2; exit 3'").prepare(cache.path());
        let message = failed.unwrap_err().to_string();
        assert!(message.contains("exit 3: no luck"), "{message}");
        assert_eq!(std::fs::read_dir(cache.path()).unwrap().count(), 0);
    }

    #[test]
    fn a_missing_program_names_its_packages() {
        let cache = tempfile::tempdir().unwrap();
        let in_command = workload("command = ['env', 'A=1', 'no-such-program']").prepare(cache.path()).unwrap_err();
        let in_script = workload("command = ['cat']\nprepare = 'no-such-program'").prepare(cache.path()).unwrap_err();
        for error in [in_command, in_script] {
            assert!(matches!(error, Error::Unsupported { .. }), "{error:?}");
            assert!(error.to_string().contains("no-such-program"), "{error}");
            assert!(error.to_string().ends_with("apt-get install -y p q"), "{error}");
        }
    }
}
