//! Why the kernel refuses to open an event, and what an administrator can do about it.
//!
//! What perf_event_open(2) checks, in this order (kernel/events/core.c): a seccomp filter stands before all; security modules and, on the
//! distributions' kernels, a paranoid level of 3 or more refuse everything; kernel mode needs level 1, whole CPUs 0, tracepoints -1, uprobes
//! CAP_SYS_ADMIN whatever the level.

use perftax_doc::steps::Operation;

use super::Privilege;
use crate::error::Error;

/// The knob that most refusals hang on.
pub const PARANOID: &str = "kernel.perf_event_paranoid";
/// The level from which on the distributions' kernels let nobody measure (Debian's and Ubuntu's patch; the kernel itself takes it for 2).
const NOTHING_AT_ALL: i32 = 3;
/// What measures without the kernel's leave.
pub fn meanwhile() -> String {
    let (simulate, predict, bill) = (Operation::Simulate, Operation::PredictFromSimulation, Operation::Bill);
    format!("meanwhile, without any right: {simulate}; {predict}; {bill}")
}

/// What an event needs beyond the program's own user mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beyond {
    /// Nothing.
    Nothing,
    /// The kernel's mode as well, of own processes.
    KernelMode,
    /// Everything on a CPU.
    WholeCpu,
    /// A tracepoint's samples.
    Tracepoint,
    /// An instruction of a program.
    Uprobe,
}

impl Beyond {
    /// The highest paranoid level at which it is allowed without a capability; none where one is needed whatever the level.
    pub fn level(self) -> Option<i32> {
        match self {
            Self::Nothing => Some(2),
            Self::KernelMode => Some(1),
            Self::WholeCpu => Some(0),
            Self::Tracepoint => Some(-1),
            Self::Uprobe => None,
        }
    }
}

/// A refusal: what was asked for, as a verb phrase (`sample cpu-clock`), what that needs, and the kernel's answer (an errno).
#[derive(Clone, Debug)]
pub struct Refusal<'a> {
    /// What was asked for.
    pub what: String,
    /// What it needs.
    pub beyond: Beyond,
    /// The kernel's answer: EACCES, EPERM or ENOSYS.
    pub errno: i32,
    /// Who asked.
    pub privilege: &'a Privilege,
}

impl Refusal<'_> {
    /// The error: the knob that refuses, its value, the value needed, the command that sets it.
    pub fn error(self) -> Error {
        if self.errno == libc::ENOSYS {
            return self.no_such_call();
        }
        let privilege = self.privilege;
        let needed = self.beyond.level();
        // A filter stands before all, and mostly answers what the kernel itself says to tracepoints alone.
        if privilege.is_filtered && self.errno == libc::EPERM && self.beyond != Beyond::Tracepoint {
            return self.by_somebody_else();
        }
        if needed.is_none() && !privilege.sys_admin {
            return self.by_capability();
        }
        match privilege.paranoid {
            Some(level) if !privilege.is_capable() && needed.is_some_and(|needed| level > needed) => self.by_level(level),
            // A capability that is there, and yet refused: those of the distributions' kernels ask for another one.
            Some(level) if level >= NOTHING_AT_ALL && !privilege.sys_admin => self.by_level(level),
            _ => self.by_somebody_else(),
        }
    }

    fn by_level(self, level: i32) -> Error {
        let user_mode = if self.beyond == Beyond::KernelMode && level >= 2 { "2 with the modifier :u; " } else { "" };
        let level_needed = self.beyond.level().unwrap_or(-1);
        let needed = format!("{level_needed} or less ({user_mode}or {})", capability(level));
        let mut command = self.privilege.where_to_run(format!("sudo sysctl {PARANOID}={level_needed}"));
        if self.beyond == Beyond::Nothing {
            command = format!("{command}\n  {}", meanwhile());
        }
        Error::Permission { what: self.what, knob: PARANOID.into(), value: level.to_string(), needed, command }
    }

    /// Found by trying, Debian's kernels 6.1 and 6.12: CAP_PERFMON opens no uprobe, whatever the documentation of capabilities says.
    fn by_capability(self) -> Error {
        Error::Permission {
            what: self.what,
            knob: "CAP_SYS_ADMIN".into(),
            value: "missing".into(),
            needed: "to be granted, whatever the paranoid level (CAP_PERFMON is not enough)".into(),
            command: self.privilege.give(&["cap_sys_admin"]),
        }
    }

    fn by_somebody_else(self) -> Error {
        let privilege = self.privilege;
        let answer = if self.errno == libc::EPERM { "EPERM" } else { "EACCES" };
        let (knob, value, needed, command) = if privilege.is_filtered {
            filter(answer)
        } else if privilege.lockdown == "confidentiality" {
            let knob = "kernel lockdown (/sys/kernel/security/lockdown)";
            (
                knob,
                "confidentiality".into(),
                "integrity or none".into(),
                "boot without lockdown=confidentiality on the kernel's command line".into(),
            )
        } else {
            let modules = if privilege.security_modules.is_empty() { "unknown" } else { &privilege.security_modules };
            let command = "sudo dmesg | grep -i -e apparmor -e avc -e perf_event   # names the policy that refuses";
            (
                "a security module (/sys/kernel/security/lsm)",
                format!("{modules}, answering {answer}"),
                "a policy that allows perf_event".into(),
                command.into(),
            )
        };
        Error::Permission { what: self.what, knob: knob.into(), value, needed, command: format!("{command}\n  {}", meanwhile()) }
    }

    /// ENOSYS: of a filter, or of a kernel that has no perf events.
    fn no_such_call(self) -> Error {
        if self.privilege.is_filtered {
            let (knob, value, needed, command) = filter("ENOSYS");
            let command = format!("{command}\n  {}", meanwhile());
            return Error::Permission { what: self.what, knob: knob.into(), value, needed, command };
        }
        Error::Unsupported {
            what: self.what,
            why: "the kernel has no perf events (perf_event_open says ENOSYS)".into(),
            remedy: format!("use a kernel with CONFIG_PERF_EVENTS\n  {}", meanwhile()),
        }
    }
}

/// Knob, value, value needed and command of a seccomp filter.
fn filter(answer: &str) -> (&'static str, String, String, String) {
    (
        "the seccomp filter around this process (Seccomp: 2 in /proc/self/status)",
        format!("answering {answer} to perf_event_open"),
        "a filter that allows perf_event_open".into(),
        "docker run --security-opt seccomp=unconfined …   (podman: the same; Kubernetes: seccompProfile: {type: Unconfined})"
            .into(),
    )
}

/// The capability that lifts a paranoid level: the distributions' patch for levels of 3 and more asks for the older one.
fn capability(level: i32) -> &'static str {
    if level >= NOTHING_AT_ALL { "CAP_SYS_ADMIN" } else { "CAP_PERFMON" }
}

impl Privilege {
    /// The command that gives perftax's file capabilities, those that this process has already included: what a file had before is overwritten.
    pub fn give(&self, capabilities: &[&str]) -> String {
        let wanted = self.capabilities().into_iter().filter(|(name, _, has)| *has || capabilities.contains(name));
        let all: Vec<&str> = wanted.map(|(name, ..)| name).collect();
        // Beyond what a container may have a file's capabilities are none, and the file can no longer be executed at all (capabilities(7)).
        if capabilities.iter().any(|name| !self.may_be_given(name)) {
            let added: String = capabilities
                .iter()
                .map(|name| format!(" --cap-add {}", name.trim_start_matches("cap_").to_uppercase()))
                .collect();
            return format!("docker run{added} …   (podman: the same; Kubernetes: securityContext.capabilities.add)");
        }
        self.where_to_run(format!("sudo setcap {}+ep \"$(readlink -f \"$(command -v perftax)\")\"", all.join(",")))
    }

    /// A command for the administrator, and where it has to be run: a container's own root cannot.
    pub fn where_to_run(&self, command: String) -> String {
        let why = if self.in_user_namespace {
            "root of a user namespace is no root to the kernel"
        } else if self.settings_are_read_only && command.contains("sysctl") {
            "/proc/sys is read-only here"
        } else {
            return command;
        };
        format!("{command}\n  on the host: {why}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(paranoid: i32) -> Privilege {
        Privilege { paranoid: Some(paranoid), ..Privilege::default() }
    }

    fn said(privilege: &Privilege, beyond: Beyond, errno: i32) -> String {
        Refusal { what: "sample it".into(), beyond, errno, privilege }.error().to_string()
    }

    #[test]
    fn each_scope_names_the_level_that_allows_it() {
        for (beyond, level, needed) in
            [(Beyond::Nothing, 3, 2), (Beyond::KernelMode, 2, 1), (Beyond::WholeCpu, 1, 0), (Beyond::Tracepoint, 0, -1)]
        {
            let text = said(&user(level), beyond, libc::EACCES);
            let wanted = [format!("{PARANOID} is {level}, needs {needed} or less"), format!("sudo sysctl {PARANOID}={needed}")];
            assert!(wanted.iter().all(|part| text.contains(part)), "{text}");
        }
        for privilege in [user(-1), Privilege { perfmon: true, ..user(2) }] {
            let uprobe = said(&privilege, Beyond::Uprobe, libc::EACCES);
            assert!(uprobe.contains("CAP_SYS_ADMIN is missing") && uprobe.contains("cap_sys_admin+ep"), "{uprobe}");
        }
    }

    #[test]
    fn a_capability_that_does_not_help_is_not_advised() {
        // CAP_PERFMON is there, and level 3 refuses all the same.
        let refused = Privilege { perfmon: true, ..user(3) };
        let text = said(&refused, Beyond::Nothing, libc::EACCES);
        assert!(text.contains("CAP_SYS_ADMIN") && !text.contains("CAP_PERFMON"), "{text}");
        assert!(text.contains("a simulation of the program"), "{text}");
    }

    #[test]
    fn capabilities_that_a_file_has_are_kept() {
        let has_one = Privilege { perfmon: true, ..user(2) };
        assert!(
            has_one.give(&["cap_sys_nice"]).contains("setcap cap_perfmon,cap_sys_nice+ep"),
            "{}",
            has_one.give(&["cap_sys_nice"])
        );
    }

    #[test]
    fn filters_are_named_whatever_they_answer() {
        let filtered = Privilege { is_filtered: true, ..user(2) };
        for errno in [libc::EPERM, libc::ENOSYS] {
            let text = said(&filtered, Beyond::Nothing, errno);
            assert!(text.contains("seccomp") && text.contains("a simulation of the program"), "{text}");
        }
        let text = said(&user(2), Beyond::Nothing, libc::ENOSYS);
        assert!(text.contains("CONFIG_PERF_EVENTS") && !text.contains("seccomp"), "{text}");
    }

    #[test]
    fn root_of_a_user_namespace_is_sent_to_the_host() {
        let inside = Privilege { in_user_namespace: true, ..user(2) };
        assert!(said(&inside, Beyond::KernelMode, libc::EACCES).contains("on the host"));
    }

    #[test]
    fn what_nothing_explains_is_the_security_modules() {
        let text = said(&Privilege { security_modules: "lockdown,selinux".into(), ..user(-1) }, Beyond::Nothing, libc::EACCES);
        assert!(text.contains("lockdown,selinux") && text.contains("dmesg"), "{text}");
    }
}
