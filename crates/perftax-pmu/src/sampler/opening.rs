//! Opening events: what they ask the kernel for, and what its terse answers mean.

use std::ffi::CString;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;

use perftax_doc::Mechanism;
use perftax_doc::steps::Operation;

use super::Sampling;
use super::attributes::attributes;
use crate::error::{Error, KERNEL_SAYS, Result};
use crate::event::{Event, pmu_types};
use crate::machine::{Beyond, Privilege, Refusal, Root, cpu_list, version};
use crate::process;
use crate::sys::{Attributes, OpenEvent, SelfMonitor, Target, self_monitor, timer_resolution_ns};

/// A clock that is asked for more often than timers fire would give a sample a tick, and say nothing.
fn check_timer(event: &Event, sampling: &Sampling, resolution_ns: u64) -> Result<()> {
    match sampling.period {
        Some(period) if event.mechanism == Mechanism::CpuClock && period < resolution_ns => Err(Error::Unsupported {
            what: format!("sample {} every {:.3} ms", event.name, period as f64 / 1e6),
            why: format!(
                "this kernel's timers fire every {:.3} ms at most (clock_getres of CLOCK_MONOTONIC): high-resolution timers are off",
                resolution_ns as f64 / 1e6
            ),
            remedy:
                "boot without highres=off; a kernel that has just booted turns them on within seconds, once it trusts its clock"
                    .into(),
        }),
        _ => Ok(()),
    }
}

impl OpenEvent {
    /// Opens an event. `group` makes it a member of that leader's group.
    pub fn open(event: &Event, sampling: &Sampling, target: Target, group: Option<&Self>) -> Result<Self> {
        // The path must outlive the call: the kernel copies it during perf_event_open.
        let path = match &event.uprobe {
            Some(uprobe) => Some(
                CString::new(uprobe.path.as_os_str().as_bytes())
                    .map_err(|_| Error::EventSyntax { text: event.name.clone(), why: "the path holds a NUL byte".into() })?,
            ),
            None => None,
        };
        check_timer(event, sampling, timer_resolution_ns())?;
        let mut attributes = attributes(event, sampling, path.as_deref());
        Self::by(&mut attributes, target, group).map_err(|error| refusal(error, event, target, &mut attributes, group))?
    }

    /// Aims an open breakpoint at another place, and switches it on or off: for every thread that inherited it, too (`PERF_EVENT_IOC_MODIFY_ATTRIBUTES`,
    /// Linux 4.17 on). Event and sampling are those that it was opened with, but for the place.
    ///
    /// # Errors
    /// Where the kernel refuses the place.
    pub fn aim(&self, event: &Event, sampling: &Sampling, is_on: bool) -> Result<()> {
        let mut attributes = attributes(event, sampling, None);
        attributes.0.set_disabled(u64::from(!is_on));
        self.modify(&mut attributes).map_err(|source| Error::System {
            call: format!("ioctl PERF_EVENT_IOC_MODIFY_ATTRIBUTES for {}", event.name),
            source,
        })
    }
}

impl SelfMonitor {
    /// Events that are started and stopped together, by their leader, and read by one call. At least one, at most
    /// [`self_monitor::EVENTS_MAX`].
    ///
    /// # Errors
    /// Where an event cannot be opened, or the hardware has no room for the group (EINVAL).
    pub fn group(events: &[Event]) -> Result<Self> {
        Self::of(events, true)
    }

    /// Events each by itself.
    ///
    /// # Errors
    /// Where one cannot be opened.
    pub fn singles(events: &[Event]) -> Result<Self> {
        Self::of(events, false)
    }

    fn of(events: &[Event], is_group: bool) -> Result<Self> {
        if events.len() > self_monitor::EVENTS_MAX {
            let needed = format!("at most {} in one monitor", self_monitor::EVENTS_MAX);
            return Err(Error::Argument { argument: "events", value: events.len().to_string(), needed });
        }
        let mut monitor = Self::without_events(is_group);
        for event in events {
            monitor.add(counting(event)).map_err(|error| {
                let mut attributes = counting(event);
                // Its refusal is had once more, for the kernel writes into the attributes what it knows.
                let again = OpenEvent::by(&mut attributes, Target::ThisThread, None).err();
                refusal(again.unwrap_or(error), event, Target::ThisThread, &mut attributes, None)
            })?;
        }
        Ok(monitor)
    }
}

/// Has an open breakpoint that only counts watch what `event` says (`PERF_EVENT_IOC_MODIFY_ATTRIBUTES`). Other events refuse it (EOPNOTSUPP).
///
/// # Errors
/// The kernel's.
#[inline(always)]
pub fn modify(fd: BorrowedFd<'_>, event: &Event) -> io::Result<()> {
    self_monitor::modify(fd, &mut counting(event))
}

/// The attributes of an event that is only counted.
fn counting(event: &Event) -> Attributes {
    attributes(event, &Sampling::COUNTING, None)
}

/// What a refusal means, by the attributes that were refused, into which the kernel has written what it knows; they are tried again where that tells.
fn refusal(error: io::Error, event: &Event, target: Target, attributes: &mut Attributes, group: Option<&OpenEvent>) -> Error {
    let known_bytes = attributes.0.size;
    let opens_without_guests = || {
        attributes.0.set_exclude_guest(1);
        OpenEvent::by(attributes, target, group).is_ok()
    };
    refused_for_guests(&error, event, opens_without_guests)
        .or_else(|| too_long(&error, event, Attributes::new().0.size, known_bytes))
        .unwrap_or_else(|| explain(error, event, target))
}

/// A host with a mediated vPMU (in Linux 7.1, `mediated_pmu_account_event`): while a virtual machine has one, an event of a core that counts guests is refused with
/// EOPNOTSUPP, as is what the hardware cannot do. Leaving guests out tells the two apart.
fn refused_for_guests(error: &io::Error, event: &Event, opens_without_guests: impl FnOnce() -> bool) -> Option<Error> {
    let is_of_core = matches!(event.mechanism, Mechanism::Pmi | Mechanism::Pebs);
    let may_be = error.raw_os_error() == Some(libc::EOPNOTSUPP) && is_of_core && !event.modifiers.exclude_guest;
    (may_be && opens_without_guests()).then(|| {
        let join = if event.name.contains([':', '/']) { "" } else { ":" };
        Error::Unsupported {
            what: format!("sample {}", event.name),
            why: format!(
                "{KERNEL_SAYS} EOPNOTSUPP to exclude_guest 0, and takes exclude_guest 1: a virtual machine here has the counters to itself while it runs \
                 (mediated vPMU)"
            ),
            remedy: format!("leave guests out, {}{join}H, or end the virtual machine; in it, its own kernel counts it", event.name),
        }
    })
}

/// E2BIG: something is in the attribute that this kernel's structure does not reach to, whose size it has written back (`perf_copy_attr`); where it has not, a
/// sample would be longer than it writes.
fn too_long(error: &io::Error, event: &Event, asked_bytes: u32, known_bytes: u32) -> Option<Error> {
    if error.raw_os_error() != Some(libc::E2BIG) {
        return None;
    }
    let what = format!("sample {}", event.name);
    if known_bytes >= asked_bytes {
        let why =
            format!("{KERNEL_SAYS} E2BIG: a sample with the counts of its whole group would be longer than the kernel writes");
        return Some(Error::Unsupported { what, why, remedy: "take fewer events into the group".into() });
    }
    // PERF_ATTR_SIZE_VER7 to VER9 (linux/perf_event.h): each of these words made it 8 bytes longer.
    let words = [("config3", event.config3, 136), ("config4", event.config4, 144)];
    let beyond: Vec<String> = words
        .iter()
        .filter(|(_, value, bytes)| *value != 0 && known_bytes < *bytes)
        .map(|(name, value, bytes)| format!("{name} is {value:#x} and needs {bytes}"))
        .collect();
    let beyond = if beyond.is_empty() { "what was asked for needs more".to_string() } else { beyond.join(", ") };
    let why = format!("{KERNEL_SAYS} E2BIG: this kernel knows {known_bytes} bytes of perf_event_attr; {beyond}");
    Some(Error::Unsupported { what, why, remedy: "leave the terms of that word out, or boot a newer kernel".into() })
}

/// ENOENT on a CPU whose cores are of another kind than the event's PMU, in words; `None` where it is another reason.
fn of_other_kind(event: &Event, target: Target, root: &Root) -> Option<String> {
    let (pmu, cpu) = (event.core.as_deref()?, target.cpu()?);
    let cpus = root.sys(&format!("bus/event_source/devices/{pmu}/cpus"))?;
    (!cpu_list(&cpus).contains(&cpu)).then(|| format!("{KERNEL_SAYS} ENOENT on CPU {cpu}: {pmu} is the PMU of CPUs {cpus} alone"))
}

/// The first kernel whose IBS samples threads: before, it was no PMU of the core's ("perf/amd: Make IBS a core pmu").
const IBS_OF_THREADS: (u32, u32) = (6, 2);

/// Why IBS's driver says EINVAL, where it does: to leaving something out (arch/x86/events/amd/ibs.c, `perf_ibs_init`), and to threads on an older kernel.
fn refused_by_ibs(event: &Event, target: Target, release: &str) -> Option<Error> {
    let pmu = match event.mechanism {
        Mechanism::IbsOp => "ibs_op",
        Mechanism::IbsFetch => "ibs_fetch",
        _ => return None,
    };
    let modifiers = &event.modifiers;
    let what = format!("sample {}", event.name);
    if modifiers.exclude_host || modifiers.exclude_guest {
        let why = format!("{KERNEL_SAYS} EINVAL: IBS leaves neither guests nor the host out (G, H)");
        return Some(Error::Unsupported { what, why, remedy: format!("take {pmu} without G and H") });
    }
    let is_of_thread = matches!(target, Target::ThisThread | Target::Thread(_) | Target::ThreadOnCpu(..));
    if is_of_thread && version(release).is_some_and(|version| version < IBS_OF_THREADS) {
        let why = format!("{KERNEL_SAYS} EINVAL: Linux {release} samples whole CPUs alone by IBS, threads from 6.2 on");
        return Some(Error::Unsupported { what, why, remedy: "boot Linux 6.2 or newer, or sample whole CPUs".into() });
    }
    let leaves_out = modifiers.exclude_user || modifiers.exclude_kernel || modifiers.exclude_hv;
    let mode = if modifiers.exclude_kernel { "u" } else { "k" };
    (leaves_out && event.config2 & SOFTWARE_FILTER == 0).then(|| Error::Unsupported {
        what,
        why: format!("{KERNEL_SAYS} EINVAL: swfilt is 0, needs 1 to leave a mode out: this CPU, or this kernel, does not filter by itself (Zen 6 and Linux 7.1 do)"),
        remedy: format!("write {pmu}/swfilt=1/{mode} (Linux 6.14 and later)"),
    })
}

fn kernel_release() -> String {
    Root::here().sysctl("kernel.osrelease").unwrap_or_default()
}

/// `swfilt` of IBS's PMUs: bit 0 of config2.
const SOFTWARE_FILTER: u64 = 1;

/// What an event needs beyond its program's user mode.
fn beyond(event: &Event, target: Target) -> Beyond {
    if event.pmu_type == pmu_types::TRACEPOINT {
        Beyond::Tracepoint
    } else if event.uprobe.is_some() {
        Beyond::Uprobe
    } else if matches!(target, Target::Cpu(_) | Target::GroupOnCpu(..)) {
        Beyond::WholeCpu
    } else if !event.modifiers.exclude_kernel {
        Beyond::KernelMode
    } else {
        Beyond::Nothing
    }
}

/// Translates the kernel's terse answer into what the user can do about it.
fn explain(error: io::Error, event: &Event, target: Target) -> Error {
    let what = format!("sample {}", event.name);
    match error.raw_os_error() {
        Some(errno @ (libc::EACCES | libc::EPERM | libc::ENOSYS)) => {
            // Somebody else's thread is closed whatever else is allowed.
            if let Target::Thread(tid) | Target::ThreadOnCpu(tid, _) = target
                && let Some(refusal) = process::refusal(tid as u32)
            {
                return refusal;
            }
            let privilege = Privilege::read(&Root::here());
            Refusal { what, beyond: beyond(event, target), errno, privilege: &privilege }.error()
        }
        Some(libc::ENOENT) if of_other_kind(event, target, &Root::here()).is_some() => Error::Unsupported {
            what,
            why: of_other_kind(event, target, &Root::here()).unwrap_or_default(),
            remedy: "take those CPUs alone, or the event of the kind of core that the others are of".into(),
        },
        Some(libc::ENOENT | libc::EOPNOTSUPP | libc::ENODEV | libc::ENXIO) => Error::Unsupported {
            what,
            why: format!("{KERNEL_SAYS} {error}; PMU type {} config {:#x}", event.pmu_type, event.config),
            remedy: format!("{} shows which mechanisms this machine has", Operation::Diagnose),
        },
        Some(libc::EBUSY | libc::ENOSPC) if event.breakpoint_type != 0 => Error::Unsupported {
            what,
            why: format!("its debug registers are taken ({error})"),
            remedy: format!("end the debugger or profiler that has them, or take fewer ({})", Operation::WatchWithTwo),
        },
        Some(libc::EBUSY | libc::ENOSPC) => Error::Unsupported {
            what,
            why: format!("its counters or debug registers are taken ({error})"),
            remedy: "close other profilers; sysctl kernel.nmi_watchdog=0 frees one counter".into(),
        },
        Some(libc::EMFILE) => Error::System { call: "perf_event_open (too many open files: ulimit -n)".into(), source: error },
        Some(libc::EINVAL) => refused_by_ibs(event, target, &kernel_release()).unwrap_or_else(|| Error::Unsupported {
            what,
            why: format!("{KERNEL_SAYS} EINVAL to PMU type {} config {:#x} with these attributes", event.pmu_type, event.config),
            remedy: format!("{} shows which attributes this machine accepts", Operation::DiagnoseEvent("EVENT".into())),
        }),
        Some(libc::ESRCH) => Error::System { call: "perf_event_open (the thread is gone)".into(), source: error },
        _ => Error::System { call: format!("perf_event_open for {}", event.name), source: error },
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use std::path::Path;

    use super::*;
    use crate::event::{Catalog, Vendor, parse_one};

    fn event(text: &str, vendor: Vendor) -> Event {
        parse_one(text, &Catalog::at(Path::new("/nonexistent"), None).with_vendor(vendor)).unwrap()
    }

    fn kernel(errno: i32) -> io::Error {
        io::Error::from_raw_os_error(errno)
    }

    /// EOPNOTSUPP is a mediated vPMU's where the event opens without guests, and only of an event that counts guests.
    #[test]
    fn a_mediated_vpmu_is_told_from_what_the_hardware_cannot_do() {
        let counts_guests = event("cycles:k", Vendor::Intel);
        let error = refused_for_guests(&kernel(libc::EOPNOTSUPP), &counts_guests, || true).unwrap();
        let text = error.to_string();
        assert!(text.contains("exclude_guest 1") && text.contains("mediated vPMU") && text.contains("cycles:kH"), "{text}");
        assert!(error.is_kernels_refusal());
        assert!(refused_for_guests(&kernel(libc::EOPNOTSUPP), &counts_guests, || false).is_none(), "the hardware cannot");
        let never = || panic!("is not tried");
        for (text, errno) in [
            ("cycles:u", libc::EOPNOTSUPP),
            ("cycles:kH", libc::EOPNOTSUPP),
            ("page-faults:k", libc::EOPNOTSUPP),
            ("cycles:k", libc::EINVAL),
        ] {
            assert!(refused_for_guests(&kernel(errno), &event(text, Vendor::Intel), never).is_none(), "{text}");
        }
        let with_terms = event("cpu/event=0xc0/k", Vendor::Intel);
        let error = refused_for_guests(&kernel(libc::EOPNOTSUPP), &with_terms, || true).unwrap().to_string();
        assert!(error.contains("cpu/event=0xc0/kH"), "{error}");
    }

    /// The kernel's size decides which word is beyond it, and none where it was not written back.
    #[test]
    fn an_attribute_that_is_too_long_is_told_by_word_and_size() {
        let told = |text: &str, known| too_long(&kernel(libc::E2BIG), &event(text, Vendor::Arm), 144, known).unwrap().to_string();
        let old = told("arm_spe_0/inv_event_filter=0x80/", 128);
        assert!(
            old.contains("knows 128 bytes") && old.contains("config3 is 0x80 and needs 136") && !old.contains("config4"),
            "{old}"
        );
        let between = told("arm_spe_0/inv_event_filter=0x80,inv_data_src_filter=3/", 136);
        assert!(
            between.contains("knows 136 bytes")
                && between.contains("config4 is 0x3 and needs 144")
                && !between.contains("config3"),
            "{between}"
        );
        let group = told("arm_spe_0/ts_enable=1/", 144);
        assert!(group.contains("group") && !group.contains("perf_event_attr"), "{group}");
        assert!(too_long(&kernel(libc::EINVAL), &event("cycles", Vendor::Arm), 144, 128).is_none());
    }

    /// An event of one kind of core on a CPU of another is told from one that does not exist.
    #[test]
    fn a_cpu_of_another_kind_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let atom = folder.path().join("sys/bus/event_source/devices/cpu_atom");
        std::fs::create_dir_all(&atom).unwrap();
        std::fs::write(atom.join("cpus"), "16-23\n").unwrap();
        let root = Root::at(folder.path());
        let of = |text: &str, target| of_other_kind(&event(text, Vendor::Intel), target, &root);
        let why = of("cpu_atom/cycles/", Target::Cpu(3)).unwrap();
        assert!(why.contains("CPU 3") && why.contains("cpu_atom is the PMU of CPUs 16-23"), "{why}");
        assert_eq!(of("cpu_atom/cycles/", Target::ThreadOnCpu(1, 16)), None);
        assert_eq!((of("cpu_atom/cycles/", Target::ThisThread), of("cycles", Target::Cpu(3))), (None, None));
        assert_eq!(of("cpu_core/cycles/", Target::Cpu(3)), None, "it is not known whose CPUs they are");
    }

    #[test]
    fn what_ibs_cannot_leave_out_is_named() {
        let on = |text: &str, target, release| {
            refused_by_ibs(&event(text, Vendor::Amd), target, release).map(|error| error.to_string())
        };
        let why = |text: &str| on(text, Target::ThisThread, "6.12.22-amd64");
        let filter = why("ibs_op//u").unwrap();
        assert!(filter.contains("swfilt is 0, needs 1") && filter.contains("ibs_op/swfilt=1/u"), "{filter}");
        assert!(why("ibs_fetch//k").unwrap().contains("ibs_fetch/swfilt=1/k"));
        assert!(why("ibs_op//H").unwrap().contains("neither guests nor the host"));
        assert_eq!((why("ibs_op/swfilt=1/u"), why("ibs_op//"), why("cycles:u")), (None, None, None));
        let of_threads = on("ibs_op//", Target::Thread(1), "6.1.0-57-amd64").unwrap();
        assert!(of_threads.contains("Linux 6.1.0-57-amd64 samples whole CPUs alone by IBS, threads from 6.2 on"), "{of_threads}");
        assert_eq!((on("ibs_op//", Target::Cpu(0), "6.1.0"), on("ibs_op//", Target::ThisThread, "unknown")), (None, None));
    }

    /// The whole structure, so that words that came late are asked for; what is 0 in them no kernel minds.
    #[test]
    fn the_last_words_stand_where_the_kernel_has_them() {
        let spe = event("arm_spe_0/event_filter=1,min_latency=2,inv_event_filter=3,inv_data_src_filter=4/", Vendor::Arm);
        let bytes = attributes(&spe, &Sampling::COUNTING, None).bytes();
        let word = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        assert_eq!((bytes.len(), word(56), word(64), word(128), word(136)), (144, 1, 2, 3, 4));
        assert_eq!(bytes[4], 144);
    }
}
