//! What this process is, as far as the kernel looks at it when it decides what it lets it measure.

use super::Root;

/// Bits of a capability set (capabilities(7)).
const CAP_IPC_LOCK: u32 = 14;
const CAP_SYS_PTRACE: u32 = 19;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_SYS_NICE: u32 = 23;
const CAP_PERFMON: u32 = 38;

/// What `/proc/self/uid_map` says outside every user namespace: all identities are themselves (user_namespaces(7)).
const ALL_IDENTITIES: [&str; 3] = ["0", "0", "4294967295"];
/// `Seccomp:` of `/proc/self/status` where a filter decides about system calls (seccomp(2), SECCOMP_MODE_FILTER).
const FILTERED: &str = "2";

/// The process's own privileges and the knob that they are held against.
///
/// Capabilities are those that count: the kernel asks for the initial user namespace's (`capable()`), and those of the root of another one, as in a
/// rootless container, are none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Privilege {
    /// CAP_PERFMON (Linux 5.8).
    pub perfmon: bool,
    /// CAP_SYS_ADMIN, which includes it.
    pub sys_admin: bool,
    /// CAP_SYS_PTRACE: other users' processes.
    pub ptrace: bool,
    /// CAP_SYS_NICE: real-time scheduling.
    pub sys_nice: bool,
    /// CAP_IPC_LOCK: rings of any size.
    pub ipc_lock: bool,
    /// Whether it lives in a user namespace of its own, where no capability of its counts.
    pub in_user_namespace: bool,
    /// Whether a seccomp filter stands between it and the kernel.
    pub is_filtered: bool,
    /// `kernel.perf_event_paranoid`; `None` where the kernel has no perf events, or hides its settings.
    pub paranoid: Option<i32>,
    /// The security modules that are asked, too (`/sys/kernel/security/lsm`); empty where nothing tells.
    pub security_modules: String,
    /// Capabilities that this process and what it executes can ever have (`CapBnd:`), as a mask; all where nothing tells.
    pub bounding: Option<u64>,
    /// Whether `/proc/sys` is mounted read-only, as in containers.
    pub settings_are_read_only: bool,
    /// Kernel lockdown: `none`, `integrity`, `confidentiality`; empty where nothing tells.
    pub lockdown: String,
}

impl Privilege {
    /// Reads `/proc/self`, the sysctl, and what security modules show.
    pub fn read(root: &Root) -> Self {
        let status = root.proc("self/status").unwrap_or_default();
        let field = |name: &str| status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        let in_user_namespace = root.proc("self/uid_map").is_some_and(|map| !map.split_ascii_whitespace().eq(ALL_IDENTITIES));
        let set = field("CapEff:").and_then(|text| u64::from_str_radix(text, 16).ok()).unwrap_or(0);
        let has = |bit: u32| !in_user_namespace && set & 1 << bit != 0;
        let lockdown = root.sys("kernel/security/lockdown").unwrap_or_default();
        Self {
            perfmon: has(CAP_PERFMON),
            sys_admin: has(CAP_SYS_ADMIN),
            ptrace: has(CAP_SYS_PTRACE),
            sys_nice: has(CAP_SYS_NICE),
            ipc_lock: has(CAP_IPC_LOCK),
            in_user_namespace,
            is_filtered: field("Seccomp:") == Some(FILTERED),
            paranoid: root.sysctl("kernel.perf_event_paranoid").and_then(|text| text.parse().ok()),
            security_modules: root.sys("kernel/security/lsm").unwrap_or_default(),
            bounding: field("CapBnd:").and_then(|text| u64::from_str_radix(text, 16).ok()),
            settings_are_read_only: rustix::fs::statvfs(root.proc.join("sys"))
                .is_ok_and(|mount| mount.f_flag.contains(rustix::fs::StatVfsMountFlags::RDONLY)),
            lockdown: lockdown.split(['[', ']']).nth(1).unwrap_or_default().to_string(),
        }
    }

    /// Whether the paranoid level does not bind this process (`perfmon_capable()` in the kernel).
    pub fn is_capable(&self) -> bool {
        self.perfmon || self.sys_admin
    }

    /// Whether a capability (`cap_perfmon`) is within what this process can ever have.
    pub(super) fn may_be_given(&self, name: &str) -> bool {
        let bit = self.capabilities().into_iter().find(|capability| capability.0 == name).map(|(_, bit, _)| bit);
        self.bounding.zip(bit).is_none_or(|(bounding, bit)| bounding & 1 << bit != 0)
    }

    /// Those that perftax knows: name, bit, and whether this process has it.
    pub(super) fn capabilities(&self) -> [(&'static str, u32, bool); 5] {
        [
            ("cap_perfmon", CAP_PERFMON, self.perfmon),
            ("cap_sys_admin", CAP_SYS_ADMIN, self.sys_admin),
            ("cap_sys_ptrace", CAP_SYS_PTRACE, self.ptrace),
            ("cap_sys_nice", CAP_SYS_NICE, self.sys_nice),
            ("cap_ipc_lock", CAP_IPC_LOCK, self.ipc_lock),
        ]
    }

    /// Whether something that needs a paranoid level of at most `level` is allowed.
    pub fn allows(&self, level: i32) -> bool {
        self.is_capable() || self.paranoid.is_some_and(|paranoid| paranoid <= level)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    fn read(files: &[(&str, &str)]) -> Privilege {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        Privilege::read(&Root::at(folder.path()))
    }

    const ROOT: (&str, &str) = ("proc/self/status", "Name:\tx\nCapEff:\t000001ffffffffff\nSeccomp:\t0\n");

    #[test]
    fn capabilities_of_a_user_namespace_are_none() {
        let outside = read(&[ROOT, ("proc/self/uid_map", "         0          0 4294967295\n")]);
        assert!(outside.is_capable() && outside.sys_nice && outside.ipc_lock && !outside.in_user_namespace);
        let inside = read(&[ROOT, ("proc/self/uid_map", "         0       1000          1\n")]);
        assert!(inside.in_user_namespace && !inside.is_capable() && !inside.sys_nice && !inside.ptrace, "{inside:?}");
        // A kernel without user namespaces has no such file.
        assert!(read(&[ROOT]).is_capable());
    }

    #[test]
    fn filters_and_lockdown_are_seen() {
        let status = ("proc/self/status", "CapEff:\t0000000000000000\nSeccomp:\t2\nSeccomp_filters:\t1\n");
        let seen = read(&[status, ("sys/kernel/security/lockdown", "none integrity [confidentiality]\n")]);
        assert!(seen.is_filtered && !seen.is_capable());
        assert_eq!((seen.lockdown.as_str(), seen.paranoid), ("confidentiality", None));
        assert!(!read(&[ROOT]).is_filtered);
    }
}
