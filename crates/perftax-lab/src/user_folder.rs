//! Where what is kept for a user lies.

use std::path::{Path, PathBuf};

use rustix::process::geteuid;
use xdg::BaseDirectories;

/// Of what can be made again: `$XDG_CACHE_HOME/perftax/NAME`, or `~/.cache/perftax/NAME`; without a home a folder of the user's beside temporary
/// files.
pub fn cache(name: &str) -> PathBuf {
    own(BaseDirectories::with_prefix("perftax").get_cache_home(), &std::env::temp_dir(), "cache").join(name)
}

/// Of what was measured: `$XDG_DATA_HOME/perftax/NAME`, or `~/.local/share/perftax/NAME`; without a home a folder of the user's in /var/tmp, which
/// survives a boot.
pub fn data(name: &str) -> PathBuf {
    own(BaseDirectories::with_prefix("perftax").get_data_home(), Path::new("/var/tmp"), "data").join(name)
}

/// Each user's is another: programs lie there that are run, and numbers that are believed.
fn own(found: Option<PathBuf>, beside: &Path, kind: &str) -> PathBuf {
    // A home may be relative, by which every folder would have its own.
    let found = found.filter(|folder| folder.is_absolute());
    found.unwrap_or_else(|| beside.join(format!("perftax-{kind}-{}", geteuid().as_raw())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_home_it_is_the_users_own() {
        let here = |found: &str| own(Some(found.into()), Path::new("/var/tmp"), "data");
        assert_eq!(here("/home/me/.cache/perftax"), Path::new("/home/me/.cache/perftax"));
        let without = own(None, Path::new("/var/tmp"), "data");
        assert_eq!(without, Path::new(&format!("/var/tmp/perftax-data-{}", geteuid().as_raw())));
        assert_eq!(here("not/absolute"), without);
    }
}
