//! The modules of the kernel that are loaded.

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelModule {
    /// Its name.
    pub name: String,
    /// Its first address.
    pub from: u64,
    /// Bytes.
    pub bytes: u64,
}

impl KernelModule {
    /// Those that are loaded now (`/proc/modules`); none where their addresses are hidden (`kptr_restrict`), or the kernel has none.
    pub fn loaded() -> Vec<Self> {
        std::fs::read_to_string("/proc/modules").unwrap_or_default().lines().filter_map(Self::of_line).collect()
    }

    /// A line: name, size, users, who, state, address.
    fn of_line(line: &str) -> Option<Self> {
        let mut fields = line.split_whitespace();
        let (name, bytes) = (fields.next()?.to_owned(), fields.next()?.parse().ok()?);
        let from = u64::from_str_radix(fields.nth(3)?.strip_prefix("0x")?, 16).ok()?;
        (from > 0).then_some(Self { name, from, bytes })
    }

    /// Whether an address lies in it.
    pub fn has(&self, address: u64) -> bool {
        address >= self.from && address - self.from < self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modules_have_a_place_and_a_size() {
        let module = KernelModule::of_line("nf_tables 376832 84 nft_ct,nft_compat, Live 0xffffffffc0e00000");
        let wanted = KernelModule { name: "nf_tables".into(), from: 0xffff_ffff_c0e0_0000, bytes: 376_832 };
        assert_eq!(module.as_ref(), Some(&wanted));
        assert!(wanted.has(wanted.from) && wanted.has(wanted.from + 376_831));
        assert!(!wanted.has(wanted.from - 1) && !wanted.has(wanted.from + 376_832));
        assert_eq!(KernelModule::of_line("nf_tables 376832 84 - Live 0x0000000000000000"), None);
    }
}
