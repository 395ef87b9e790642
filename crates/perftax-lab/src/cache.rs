//! Where what can be made again is kept.

use std::path::PathBuf;

/// `$XDG_CACHE_HOME/perftax/NAME`, `~/.cache/perftax/NAME`, or a folder beside temporary files where there is no home.
pub fn cache_folder(name: &str) -> PathBuf {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    absolute("XDG_CACHE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".cache")))
        .unwrap_or_else(std::env::temp_dir)
        .join("perftax")
        .join(name)
}
