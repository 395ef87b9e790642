//! A trap of a debug register.

use perftax_pmu::sampler::Payload;

/// What the record of a trap holds: registers most of all, for which instruction it was and what it touched hangs on them.
pub fn trap_payload() -> Payload {
    Payload::BASIC.with_place().with_address().with_data_source().with_user_registers()
}
