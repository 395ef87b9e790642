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

    /// The one of them that an address lies in: since Linux 6.4 a module's size is that of all its parts, which lie apart, so that it may seem to reach into the next one's.
    pub fn at(modules: &[Self], address: u64) -> Option<&Self> {
        let has = |module: &&Self| address >= module.from && address - module.from < module.bytes;
        modules.iter().filter(has).max_by_key(|module| module.from)
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
        let next = KernelModule { name: "next".into(), from: wanted.from + 0x1000, bytes: 1_000_000 };
        let all = [wanted.clone(), next];
        let at = |offset: i64| KernelModule::at(&all, wanted.from.wrapping_add_signed(offset)).map(|module| module.name.as_str());
        assert_eq!((at(0), at(0xfff), at(-1)), (Some("nf_tables"), Some("nf_tables"), None));
        assert_eq!((at(0x1000), at(0x1000 + 999_999), at(0x1000 + 1_000_000)), (Some("next"), Some("next"), None));
        assert_eq!(KernelModule::of_line("nf_tables 376832 84 - Live 0x0000000000000000"), None);
    }
}
