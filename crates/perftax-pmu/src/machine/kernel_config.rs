//! The options that the kernel was built with, where it tells.

use std::io::Read;

use flate2::read::GzDecoder;

use super::Root;
use super::root::read;

/// A kernel configuration.
#[derive(Clone, Debug, Default)]
pub struct KernelConfig {
    /// Its text; `None` where the machine does not hold it.
    text: Option<String>,
}

/// More than any kernel configuration is long (about 300 KB): a bound for what is unpacked.
const MAX_BYTES: u64 = 8 << 20;

impl KernelConfig {
    /// Reads `/proc/config.gz`, else `/boot/config-RELEASE`.
    pub fn read(root: &Root, release: &str) -> Self {
        let packed = std::fs::File::open(root.proc.join("config.gz")).ok();
        let unpacked = packed.and_then(|file| {
            let mut text = String::new();
            GzDecoder::new(file).take(MAX_BYTES).read_to_string(&mut text).ok().map(|_| text)
        });
        Self { text: unpacked.or_else(|| read(&root.boot.join(format!("config-{release}")))) }
    }

    /// The value of an option (`y`, `m`, `250`); `None` where it is not set, or no configuration was found.
    pub fn get(&self, option: &str) -> Option<&str> {
        let value = |line: &'_ str| line.strip_prefix(option).and_then(|rest| rest.strip_prefix('=')).map(str::len);
        let text = self.text.as_deref()?;
        text.lines().find_map(|line| value(line).map(|length| &line[line.len() - length..]))
    }

    /// Whether an option is built in; `None` where no configuration was found.
    pub fn has(&self, option: &str) -> Option<bool> {
        self.text.as_ref().map(|_| self.get(option) == Some("y"))
    }
}
