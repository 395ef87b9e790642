//! Events and how they are sampled, as perf_event_open(2) wants them (Linux, include/uapi/linux/perf_event.h).

use std::ffi::CStr;

use perf_event_open_sys::bindings as abi;

use super::{Sampling, Wakeup};
use crate::event::Event;
use crate::sys::Attributes;

/// The attributes of an event that is sampled so, as bytes (`struct perf_event_attr`): what a recording says of it. Where periods vary, `frequency` says how many
/// samples a second there were to be, for then a reader takes each sample's own period. A uprobe's path, an address of this process, is left out.
pub fn attribute_bytes(event: &Event, sampling: &Sampling, frequency: Option<u64>) -> Vec<u8> {
    let mut attributes = attributes(event, sampling, None);
    if let Some(frequency) = frequency {
        attributes.0.set_freq(1);
        attributes.0.__bindgen_anon_1.sample_freq = frequency;
    }
    // Readers refuse attributes that are longer than those they know, even where there is nothing in them: perf 6.1 knows 128 bytes.
    let mut bytes = attributes.bytes();
    while bytes.len() > READ_BY_ALL && bytes.ends_with(&[0; 8]) {
        bytes.truncate(bytes.len() - 8);
    }
    let size = bytes.len() as u32;
    bytes[4..8].copy_from_slice(&size.to_ne_bytes());
    bytes
}

/// `PERF_ATTR_SIZE_VER7` (Linux 5.11).
const READ_BY_ALL: usize = 128;

/// The attributes of an event that is sampled so; `uprobe_path` is read when they are used.
pub(super) fn attributes(event: &Event, sampling: &Sampling, uprobe_path: Option<&CStr>) -> Attributes {
    let mut attributes = Attributes::new();
    let attr = &mut attributes.0;
    attr.type_ = event.pmu_type;
    attr.config = event.config;
    attr.__bindgen_anon_3.config1 = uprobe_path.map_or(event.config1, |p| p.as_ptr() as u64);
    attr.__bindgen_anon_4.config2 = event.uprobe.as_ref().map_or(event.config2, |u| u.offset);
    attr.config3 = event.config3;
    attr.config4 = event.config4;
    attr.bp_type = event.breakpoint_type;
    attr.read_format = u64::from(abi::PERF_FORMAT_TOTAL_TIME_ENABLED) | u64::from(abi::PERF_FORMAT_TOTAL_TIME_RUNNING);
    attr.set_disabled((!sampling.on_with_leader).into());
    attr.set_inherit(sampling.inherit.into());
    attr.set_inherit_stat(sampling.task_counts.into());
    attr.set_exclude_idle(sampling.without_idle.into());
    attr.set_enable_on_exec(sampling.enable_on_exec.into());

    let modifiers = &event.modifiers;
    attr.set_exclude_user(modifiers.exclude_user.into());
    attr.set_exclude_kernel(modifiers.exclude_kernel.into());
    attr.set_exclude_hv(modifiers.exclude_hv.into());
    attr.set_exclude_host(modifiers.exclude_host.into());
    attr.set_exclude_guest(modifiers.exclude_guest.into());
    attr.set_pinned(modifiers.pinned.into());
    attr.set_exclusive(modifiers.exclusive.into());

    // All events of a group have one clock.
    if let Some(clock) = sampling.clock.id() {
        attr.set_use_clockid(1);
        attr.clockid = clock;
    }
    if let Some(period) = sampling.period {
        attr.__bindgen_anon_1.sample_period = period;
        // A counter that takes no samples must not ask for precision: EINVAL (arch/x86/events/core.c, x86_pmu_hw_config).
        attr.set_precise_ip(modifiers.precise.into());
        let payload = &sampling.payload;
        attr.sample_type = payload.sample_type;
        attr.sample_regs_user = payload.regs_user;
        attr.sample_regs_intr = payload.regs_intr;
        attr.sample_stack_user = payload.stack_user_bytes;
        attr.set_exclude_callchain_user(payload.chain_of_kernel.into());
        attr.branch_sample_type = payload.branch_sample_type;
        if payload.group_read {
            // A counter with `inherit` cannot be read as a group into samples; callers keep the two apart.
            attr.read_format |= u64::from(abi::PERF_FORMAT_GROUP) | u64::from(abi::PERF_FORMAT_ID);
        }
        attr.set_sample_id_all(1);
        if sampling.task_records {
            attr.set_comm(1);
            attr.set_task(1);
        }
        if sampling.mapping_records {
            attr.set_mmap(1);
            attr.set_mmap2(1);
            attr.set_mmap_data(sampling.data_mapping_records.into());
        }
        match sampling.wakeup {
            Wakeup::EverySample => attr.__bindgen_anon_2.wakeup_events = 1,
            Wakeup::Bytes(bytes) => {
                attr.set_watermark(1);
                attr.__bindgen_anon_2.wakeup_watermark = bytes;
            }
        }
    }
    attributes
}
