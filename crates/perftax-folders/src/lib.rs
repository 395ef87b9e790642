//! Where what is kept for a user lies: `$XDG_CACHE_HOME/perftax`, `$XDG_DATA_HOME/perftax` or their usual places below the home
//! (XDG Base Directory Specification 0.8).
//!
//! Programs lie there that are run, and numbers that are believed: without a home it is a folder of the user's own beside temporary files, and
//! never one that somebody else has made or may write to.

use std::fs::DirBuilder;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;

/// The last part of every folder.
const NAME: &str = "perftax";

/// Of what can be made again: `$XDG_CACHE_HOME/perftax/NAME`, or `~/.cache/perftax/NAME`; without a home it is lost at the next boot.
pub fn cache(name: &str) -> PathBuf {
    of("XDG_CACHE_HOME", ".cache", &std::env::temp_dir(), "cache").join(name)
}

/// Of what was measured or installed: `$XDG_DATA_HOME/perftax/NAME`, or `~/.local/share/perftax/NAME`; without a home it lies in /var/tmp, which
/// survives a boot.
pub fn data(name: &str) -> PathBuf {
    of("XDG_DATA_HOME", ".local/share", Path::new("/var/tmp"), "data").join(name)
}

fn of(variable: &str, below_home: &str, beside: &Path, kind: &str) -> PathBuf {
    let set = std::env::var_os(variable).map(PathBuf::from);
    found(set, std::env::home_dir(), below_home).unwrap_or_else(|| own(beside, kind))
}

/// By the variable, or the home. A relative one would be another in every folder; of users that are nobody's the home is not there.
fn found(set: Option<PathBuf>, home: Option<PathBuf>, below_home: &str) -> Option<PathBuf> {
    let set = set.filter(|folder| folder.is_absolute());
    let at_home = || home.filter(|home| home.is_absolute() && home.is_dir()).map(|home| home.join(below_home));
    set.or_else(at_home).map(|folder| folder.join(NAME))
}

/// A folder that is this user's alone, by a name that is known the next time; where somebody else has that, one that lasts as long as this process
/// is known by its number.
fn own(beside: &Path, kind: &str) -> PathBuf {
    let usual = beside.join(format!("{NAME}-{kind}-{}", geteuid().as_raw()));
    if is_made_ours(&usual) {
        return usual;
    }
    let numbered = |n: u32| beside.join(format!("{NAME}-{kind}-{}-{}-{n}", geteuid().as_raw(), std::process::id()));
    (0..1000).map(numbered).find(|folder| is_made_ours(folder)).unwrap_or(usual)
}

/// Makes it, or finds it made.
fn is_made_ours(folder: &Path) -> bool {
    DirBuilder::new().mode(0o700).create(folder).ok();
    is_ours_alone(folder).unwrap_or(false)
}

/// Whether it is a folder of this user's, no link to one, and nobody else may write to it.
///
/// # Errors
/// Where it is not there, or cannot be looked at.
pub fn is_ours_alone(folder: &Path) -> std::io::Result<bool> {
    let found = std::fs::symlink_metadata(folder)?;
    Ok(found.is_dir() && found.uid() == geteuid().as_raw() && found.mode() & 0o022 == 0)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn the_variable_comes_before_the_home_and_both_are_absolute() {
        let home = tempfile::tempdir().unwrap();
        let found = |set: Option<&str>, home: &Path| found(set.map(PathBuf::from), Some(home.into()), ".cache");
        assert_eq!(found(Some("/of/mine"), home.path()), Some("/of/mine/perftax".into()));
        assert_eq!(found(None, home.path()), Some(home.path().join(".cache/perftax")));
        assert_eq!(found(Some("relative"), home.path()), Some(home.path().join(".cache/perftax")));
        assert_eq!(found(None, Path::new("relative")), None);
        assert_eq!(found(None, &home.path().join("nonexistent")), None);
    }

    #[test]
    fn without_a_home_nobody_else_can_put_anything_there() {
        let beside = tempfile::tempdir().unwrap();
        let usual = own(beside.path(), "cache");
        assert_eq!(usual, beside.path().join(format!("perftax-cache-{}", geteuid().as_raw())));
        assert_eq!(std::fs::metadata(&usual).unwrap().permissions().mode() & 0o777, 0o700);
        assert_eq!(own(beside.path(), "cache"), usual, "it is known the next time");
        // Others may write to it.
        std::fs::set_permissions(&usual, std::fs::Permissions::from_mode(0o777)).unwrap();
        let private = own(beside.path(), "cache");
        assert!(private != usual && is_made_ours(&private), "{}", private.display());
        // A link to a folder, even of ours.
        std::fs::remove_dir(&usual).unwrap();
        symlink(&private, &usual).unwrap();
        assert_ne!(own(beside.path(), "cache"), usual);
    }
}
