//! A handler cross-check for α: how long the interrupt handler ran, as the kernel's own tracepoints tell.
//!
//! `irq_vectors:local_timer_entry` and `_exit` bracket the handler of a timer interrupt (cpu-clock); `nmi:nmi_handler` carries
//! the duration of a counter interrupt's. What lies outside of the handler (delivery of the interrupt, in a guest two exits to
//! the hypervisor) is not seen, so the cross-check is a lower bound, and the difference to α is itself a finding.

use perf_event_open_sys::bindings as abi;
use perftax_cost::bootstrap::{REPLICATES, SEED, cluster_bootstrap};
use perftax_doc::CrossCheck;
use perftax_doc::Mechanism;
use perftax_pmu::Result;
use perftax_pmu::event::{Catalog, Event, parse};
use perftax_pmu::sampler::{LiveSampler, Payload, Sampler, Sampling};
use perftax_pmu::sys::Target;

/// Handler time and samples of one session.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CrossCheckSample {
    /// Time in handlers while sampling, less what the same work without sampling spent in them.
    pub handler_ns: f64,
    /// Samples taken meanwhile.
    pub samples: u64,
}

/// The tracepoints that bracket, or carry, a mechanism's handler.
pub struct Handler {
    events: Vec<Event>,
    source: &'static str,
}

const RING_PAGES: usize = 512;

impl Handler {
    /// The tracepoints for a mechanism; none where it has no handler of its own or the kernel lacks them.
    pub fn of(mechanism: Mechanism, catalog: &Catalog) -> Option<Self> {
        let source = match mechanism {
            Mechanism::CpuClock => "irq_vectors:local_timer_entry,irq_vectors:local_timer_exit",
            Mechanism::Pebs | Mechanism::Pmi | Mechanism::IbsOp | Mechanism::IbsFetch => "nmi:nmi_handler",
            _ => return None,
        };
        Some(Self { events: parse(source, catalog).ok()?, source })
    }

    /// Which tracepoints they are.
    pub fn source(&self) -> &'static str {
        self.source
    }

    /// Time spent in handlers on `cpu` while `work` runs, ns.
    pub fn watch(&self, cpu: u32, work: impl FnOnce() -> Result<()>) -> Result<f64> {
        let mut payload = Payload::BASIC;
        payload.sample_type = u64::from(abi::PERF_SAMPLE_IDENTIFIER) | u64::from(abi::PERF_SAMPLE_TIME);
        if self.events.len() == 1 {
            payload.sample_type |= u64::from(abi::PERF_SAMPLE_RAW);
        }
        let sampling = Sampling::every(1, RING_PAGES * rustix::param::page_size()).carrying(payload);
        let events: Vec<_> = self.events.iter().map(|event| (event.clone(), sampling)).collect();
        let mut sampler = LiveSampler::open(&events, &[Target::Cpu(cpu)], RING_PAGES)?;
        let entry = sampler.events()[0].id()?;
        sampler.enable()?;
        let worked = work();
        sampler.disable()?;
        worked?;
        let (mut entered, mut total_ns) = (None, 0.0);
        sampler.drain(&mut |header, body| {
            if header.kind != abi::PERF_RECORD_SAMPLE {
                return;
            }
            let word = |i: usize| body.get(i * 8..).and_then(<[u8]>::first_chunk).map_or(0, |b| u64::from_ne_bytes(*b));
            if events.len() == 1 {
                total_ns += nmi_duration_ns(body).unwrap_or(0.0);
            } else if word(0) == entry {
                entered = Some(word(1));
            } else if let Some(start) = entered.take() {
                total_ns += word(1).saturating_sub(start) as f64;
            }
        })?;
        Ok(total_ns)
    }
}

/// The field delta_ns of `nmi:nmi_handler` (include/trace/events/nmi.h): 8 bytes of common fields, the handler's address, then it.
fn nmi_duration_ns(body: &[u8]) -> Option<f64> {
    const RAW_DATA_AT: usize = 8 + 8 + 4;
    const DELTA_AT: usize = RAW_DATA_AT + 8 + 8;
    body.get(DELTA_AT..)?.first_chunk().map(|b| i64::from_ne_bytes(*b) as f64)
}

/// The cross-check of all sessions: Σ handler time / Σ samples, with an interval over sessions.
pub fn conclude(source: &str, sessions: &[CrossCheckSample]) -> Option<CrossCheck> {
    let ratio = |sample: &[&CrossCheckSample]| {
        let samples: u64 = sample.iter().map(|s| s.samples).sum();
        sample.iter().map(|s| s.handler_ns).sum::<f64>() / samples as f64
    };
    let handler_ns = cluster_bootstrap(sessions, ratio, REPLICATES, SEED)?;
    Some(CrossCheck { source: source.into(), handler_ns, samples: sessions.iter().map(|s| s.samples).sum() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_duration_in_a_raw_nmi_sample() {
        // identifier, time, raw size, then common fields, handler, delta_ns = 2345, handled.
        let mut body = Vec::new();
        body.extend(7u64.to_ne_bytes());
        body.extend(99u64.to_ne_bytes());
        body.extend(36u32.to_ne_bytes());
        body.extend([0u8; 8]);
        body.extend(0xffff_ffff_8100_0000u64.to_ne_bytes());
        body.extend(2345i64.to_ne_bytes());
        body.extend(1i32.to_ne_bytes());
        assert_eq!(nmi_duration_ns(&body), Some(2345.0));
        assert_eq!(nmi_duration_ns(&body[..30]), None);
    }

    #[test]
    fn the_ratio_is_of_sums() {
        let sessions = [CrossCheckSample { handler_ns: 100.0, samples: 10 }, CrossCheckSample { handler_ns: 500.0, samples: 30 }];
        let cross_check = conclude("x", &sessions).unwrap();
        assert_eq!(cross_check.handler_ns.estimate, 15.0);
        assert_eq!(cross_check.samples, 40);
    }
}
