//! What the kernel lets this process measure.

use super::Root;

/// Bits of a capability set (capabilities(7)).
const CAP_SYS_PTRACE: u32 = 19;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;

/// The process's own privileges and the knob that they are held against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Privilege {
    /// Effective CAP_PERFMON (Linux 5.8).
    pub perfmon: bool,
    /// Effective CAP_SYS_ADMIN, which includes it.
    pub sys_admin: bool,
    /// Effective CAP_SYS_PTRACE: other users' processes.
    pub ptrace: bool,
    /// `kernel.perf_event_paranoid`; `None` where the kernel has no perf events.
    pub paranoid: Option<i32>,
}

impl Privilege {
    /// Reads `/proc/self/status` and the sysctl.
    pub fn read(root: &Root) -> Self {
        let status = root.proc("self/status").unwrap_or_default();
        let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        let set = effective.and_then(|text| u64::from_str_radix(text.trim(), 16).ok()).unwrap_or(0);
        let has = |bit: u32| set & 1 << bit != 0;
        Self {
            perfmon: has(CAP_PERFMON),
            sys_admin: has(CAP_SYS_ADMIN),
            ptrace: has(CAP_SYS_PTRACE),
            paranoid: root.sysctl("kernel.perf_event_paranoid").and_then(|text| text.parse().ok()),
        }
    }

    /// Whether the paranoid level does not bind this process (`perfmon_capable()` in the kernel).
    pub fn is_capable(&self) -> bool {
        self.perfmon || self.sys_admin
    }

    /// Whether something that needs a paranoid level of at most `level` is allowed.
    pub fn allows(&self, level: i32) -> bool {
        self.is_capable() || self.paranoid.is_some_and(|paranoid| paranoid <= level)
    }
}
