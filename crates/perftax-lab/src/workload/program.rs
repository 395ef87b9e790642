//! Where a program lies.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// Debian installs games and administration tools here, which a non-interactive root's PATH often leaves out.
const ALSO: [&str; 3] = ["/usr/games", "/usr/sbin", "/sbin"];

/// The path of an executable: as given where it has a `/`, else from PATH, else from Debian's folders beside it.
pub fn find_program(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Some(PathBuf::from(name)).filter(|path| is_executable(path));
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    let also = ALSO.iter().map(PathBuf::from);
    std::env::split_paths(&path).chain(also).map(|folder| folder.join(name)).find(|path| is_executable(path))
}

/// The index of the program in a command: the first word that is neither `env` nor an assignment.
pub(super) fn of(command: &[String]) -> Option<usize> {
    let skip = match command.first().map(String::as_str) {
        Some("env") => 1,
        _ => 0,
    };
    command.iter().enumerate().skip(skip).find(|(_, word)| skip == 0 || !word.contains('=')).map(|(index, _)| index)
}

fn is_executable(path: &Path) -> bool {
    path.metadata().is_ok_and(|m| m.is_file() && m.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_is_there_and_nothing_else() {
        assert!(find_program("sh").is_some_and(|path| path.is_absolute()));
        assert_eq!(find_program("/bin/sh"), Some(PathBuf::from("/bin/sh")));
        assert_eq!(find_program("no-such-program-anywhere"), None);
        assert_eq!(find_program("/etc/passwd"), None, "not executable");
        assert_eq!(find_program("/etc"), None, "a folder");
    }

    #[test]
    fn looks_through_env() {
        let words = |text: &str| text.split(' ').map(String::from).collect::<Vec<_>>();
        assert_eq!(of(&words("perl a=b")), Some(0));
        assert_eq!(of(&words("env A=1 B= perl x=y")), Some(3));
        assert_eq!(of(&words("env A=1")), None);
        assert_eq!(of(&[]), None);
    }
}
