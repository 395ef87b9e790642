//! Guards: every knob that perftax changes is put back, also on a panic, SIGINT and SIGTERM, and by a guardian process where perftax is killed.

mod affinity;
mod descriptors;
pub(crate) mod guardian;
mod lock;
mod probe_definitions;
mod realtime;
mod throttle;
mod watchdog;

pub use crate::error::Interrupted;
pub use crate::interrupt::{check_interrupted, interrupted, on_signal_restore, take_interrupt_as_end, watch_interrupts_by};
pub use affinity::{allowed_cpus, online_cpus, pin_this_thread};
pub use descriptors::raise_descriptor_limit;
pub use guardian::{repair, served_as_guardian};
pub use lock::{WAIT_VARIABLE, waiting_time};
pub use probe_definitions::{ProbeDefinition, ProbeDefinitions};
pub use realtime::make_this_thread_realtime;
pub use throttle::ThrottleGuard;
pub use watchdog::end_on_interrupt;
