//! The only place of this crate with `unsafe`: system calls, mapped memory, forked children.

mod bare_thread;
mod bpf;
mod child;
mod clock;
mod counter_page;
mod descendants;
mod detach;
pub mod direct;
mod exec_image;
mod exec_stop;
mod fault_area;
mod host_clock;
pub mod libpapi;
pub mod libpfm;
mod open;
mod realtime;
mod registry;
mod ring;
mod robust_list;
pub mod self_monitor;
mod stray_trap;
mod tcp;
mod tree_clock;

pub use bare_thread::create_and_join_thread;
pub use bpf::{OutputMap, OverflowProgram};
pub use child::{Child, ChildSpec, EndWait, Ended, Exit, Stdio, Usage, wait_for_end};
pub use clock::{
    Tsc, monotonic_ns, monotonic_raw_ns, own_and_children_cpu_ns, own_cpu_ns, own_thread_cpu_ns, process_cpu_ns, thread_cpu_ns,
    thread_involuntary_switches, timer_resolution_ns,
};
pub use counter_page::CounterPage;
pub use descendants::{children_of, kill_with_descendants, process_tree, process_trees};
pub use detach::{close_output, detach_from_parent, die_with_us, exit_now};
pub use exec_stop::{AtExec, Stopped};
pub use fault_area::FaultArea;
pub use host_clock::{Discipline, HostClock};
pub(crate) use open::Attributes;
pub use open::{OpenEvent, Reading, Target};
pub(crate) use realtime::make_this_thread_realtime;
pub use registry::disable_open_events;
pub use ring::Ring;
pub use robust_list::robust_list_head;
pub use self_monitor::SelfMonitor;
pub use stray_trap::stray_traps;
pub use tcp::Descriptors;
pub use tree_clock::TreeClock;
