//! Guards: every knob that perftax changes is put back, also on a panic, SIGINT and SIGTERM, and by a guardian process where perftax is killed.

mod affinity;
mod descriptors;
pub(crate) mod guardian;
mod interrupt;
mod lock;
mod probe_definitions;
mod throttle;
mod watchdog;

pub use affinity::{allowed_cpus, online_cpus, pin_this_thread};
pub use descriptors::raise_descriptor_limit;
pub use guardian::{repair, served_as_guardian};
pub(crate) use interrupt::interrupt_descriptor;
pub use interrupt::{Interrupted, check_interrupted, interrupted, on_signal_restore, take_interrupt_as_end, watch_interrupts_by};
pub use lock::{WAIT_VARIABLE, waiting_time};
pub use probe_definitions::{ProbeDefinition, ProbeDefinitions};
pub use throttle::ThrottleGuard;
pub use watchdog::end_on_interrupt;
