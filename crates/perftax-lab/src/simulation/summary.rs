//! From what the model saw to what is reported.

use super::mapping;
use perftax_doc::{AddressSamples, BufferAdvice, BufferCost, SimulatedCore, SimulatedRun, TermsS, ThreadSamples};
use perftax_model::cache::Traffic;
use perftax_model::machine::{Handler, Machine};
use perftax_model::run::{CoreOutcome, Outcome, Request};
use perftax_model::{Event, advice};
use perftax_symbols::naming::Functions;

/// The run as reported. A core's time is that of its operations and misses by the machine's cost model; pollution is what the
/// misses cost that it has with records and would not have without.
pub fn summary(outcome: &Outcome, request: &Request) -> SimulatedRun {
    let total = |of: &dyn Fn(&CoreOutcome) -> u64| outcome.cores.iter().map(of).sum::<u64>();
    let traffic = |of: fn(&Traffic) -> u64| total(&|core| of(&core.traffic));
    let reference =
        |of: fn(&Traffic) -> u64| outcome.cores.iter().map(|core| core.reference.as_ref().map(of)).sum::<Option<u64>>();
    let cores: Vec<SimulatedCore> = outcome.cores.iter().map(|core| one_core(core, &request.machine)).collect();
    let elapsed_s = cores.iter().map(|core| core.elapsed_s).fold(0.0, f64::max);
    let slowest = cores.iter().max_by(|a, b| sampled_s(a).total_cmp(&sampled_s(b)));
    let sampling = request.sampling;
    let llc_misses = traffic(|t| t.llc_misses);
    SimulatedRun {
        mechanism: sampling.map_or("count", |s| s.mechanism.name()).into(),
        event: sampling.map_or("", |s| s.event.name()).into(),
        period: sampling.map_or(0, |s| s.period),
        buffer_bytes: request.buffer().map(|(_, bytes)| bytes),
        handler: match sampling.map(|s| s.handler) {
            Some(Handler::Discards) => "discards",
            Some(Handler::Copies) => "copies",
            None => "",
        }
        .into(),
        seed: request.seed,
        instructions: total(&|core| core.counts[Event::Instructions]),
        events: sampling.map_or(0, |s| total(&|core| core.counts[s.event])),
        samples: total(&|core| core.samples),
        lost: total(&|core| core.lost),
        interrupts: total(&|core| core.interrupts),
        counts: outcome.counted.iter().map(|&event| (event.name().to_string(), total(&|core| core.counts[event]))).collect(),
        by_address: by_address(outcome),
        by_thread: outcome
            .threads
            .iter()
            .map(|t| ThreadSamples { thread: t.thread, core: t.core, instructions: t.instructions, samples: t.samples })
            .collect(),
        terms_s: slowest.map(|core| core.terms_s).unwrap_or_default(),
        caches: outcome.caches,
        memory_read_bytes: traffic(Traffic::memory_read_bytes),
        memory_write_bytes: traffic(Traffic::memory_write_bytes),
        unsampled_memory_bytes: reference(Traffic::memory_read_bytes).zip(reference(Traffic::memory_write_bytes)),
        llc_misses_caused: reference(|t| t.llc_misses).map(|without| llc_misses as i64 - without as i64),
        llc_misses_of_records: traffic(|t| t.record_llc_misses),
        pollution_predicted_s: outcome.profile.as_ref().map(|profile| {
            let samples = outcome.cores.first().map_or(0, |core| core.samples);
            profile.pollution_s(&request.machine, &request.streams(samples))
        }),
        buffer_advice: advice(outcome, request, elapsed_s),
        elapsed_s,
        predicted_overhead: if elapsed_s > 0.0 { slowest.map_or(0.0, sampled_s) / elapsed_s - 1.0 } else { 0.0 },
        cores,
    }
}

fn advice(outcome: &Outcome, request: &Request, elapsed_s: f64) -> Option<BufferAdvice> {
    let samples = outcome.cores.first()?.samples;
    // What the request asked for was done already: the machine can.
    let advice = advice::BufferAdvice::of(request, outcome.profile.as_ref()?, samples, elapsed_s).ok()??;
    let cost = |c: &advice::BufferCost| BufferCost { buffer_bytes: c.buffer_bytes, pmi_s: c.pmi_s, pollution_s: c.pollution_s };
    Some(BufferAdvice {
        best_bytes: advice.best_bytes,
        flat_from_bytes: advice.flat_bytes.0,
        flat_to_bytes: advice.flat_bytes.1,
        tolerance: advice.tolerance,
        curve: advice.curve.iter().map(cost).collect(),
    })
}

fn sampled_s(core: &SimulatedCore) -> f64 {
    core.elapsed_s + core.terms_s.total()
}

fn one_core(core: &CoreOutcome, machine: &Machine) -> SimulatedCore {
    let uops = core.counts[Event::Uops];
    let with = machine.time_s(uops, &core.traffic);
    let without = core.reference.as_ref().map_or(with, |reference| machine.time_s(uops, reference));
    let terms = core.terms;
    SimulatedCore {
        core: core.core,
        samples: core.samples,
        elapsed_s: without,
        terms_s: TermsS { assist: terms.assist, pmi: terms.pmi, drain: terms.drain, pollution: with - without },
    }
}

/// Most samples first, then by address.
fn by_address(outcome: &Outcome) -> Vec<AddressSamples> {
    let mut functions = functions(outcome);
    let mut rows: Vec<AddressSamples> = outcome
        .by_address
        .iter()
        .map(|(&address, &samples)| AddressSamples { address, symbol: functions.name(address).unwrap_or_default(), samples })
        .collect();
    rows.sort_by(|a, b| b.samples.cmp(&a.samples).then(a.address.cmp(&b.address)));
    rows
}

/// The functions of what a simulated program had mapped.
pub fn functions(outcome: &Outcome) -> Functions {
    let mapping = |mapped: &perftax_model::run::Mapping| mapping(mapped.start, mapped.end, mapped.offset, &mapped.path);
    Functions::of(outcome.mappings.iter().map(mapping).collect())
}
