//! Samples of what needs no PMU: a simulation, a sweep, a sensitivity.

use std::collections::BTreeMap;

use perftax_doc::{
    AddressSamples, BufferAdvice, BufferCost, Sensitivity, SensitivityRow, SensitivityRun, SimulatedCore, SimulatedRun,
    Simulation, TermsS, ThreadSamples,
};

use super::{about, origin};

/// One run with so large a buffer.
fn run(buffer_bytes: u64, pollution_s: f64) -> SimulatedRun {
    let samples = 791_298;
    let records = buffer_bytes / 192;
    let terms_s = TermsS { assist: 0.226, pmi: (samples / records) as f64 * 2250e-9, drain: 0.0, pollution: pollution_s };
    let elapsed_s = 0.465;
    let counts = [("instructions", 1_385_553_226), ("loads", 406_427_030), ("l1-misses", 8_390_664), ("uops", 1_585_762_733)];
    let address = |address, symbol: &str, samples| AddressSamples { address, symbol: symbol.into(), samples };
    SimulatedRun {
        mechanism: "pebs".into(),
        event: "uops".into(),
        period: 2003,
        buffer_bytes: Some(buffer_bytes),
        handler: "discards".into(),
        seed: 1,
        instructions: 1_385_553_226,
        events: 1_585_762_733,
        samples,
        lost: 0,
        interrupts: samples / records,
        counts: counts.map(|(name, count)| (name.to_string(), count)).into_iter().collect::<BTreeMap<_, _>>(),
        by_address: vec![
            address(0x40_0285_4b03, "BZ2_compressBlock+0x4b3", 24_740),
            address(0x40_0285_4aff, "BZ2_compressBlock+0x4af", 24_310),
            address(0x40_0285_2ffc, "libbz2.so.1.0.4+0x2ffc", 4_810),
        ],
        by_thread: vec![ThreadSamples { thread: 0, core: 0, instructions: 1_385_553_226, samples }],
        terms_s,
        caches: true,
        memory_read_bytes: 76_756_000 + buffer_bytes / 4,
        memory_write_bytes: 52_848_000 + buffer_bytes / 4,
        unsampled_memory_bytes: Some((73_505_000, 50_646_000)),
        llc_misses_caused: Some(49_055),
        llc_misses_of_records: 2_298,
        pollution_predicted_s: Some(1.2 * pollution_s),
        buffer_advice: Some(BufferAdvice {
            best_bytes: 131_072,
            flat_from_bytes: 65_536,
            flat_to_bytes: 262_144,
            tolerance: 0.005,
            curve: (12..=24)
                .map(|bits| BufferCost {
                    buffer_bytes: 1 << bits,
                    pmi_s: 0.4 / f64::from(1 << (bits - 11)),
                    pollution_s: 1e-4 * f64::from(1 << (bits - 11)),
                })
                .collect(),
        }),
        elapsed_s,
        predicted_overhead: terms_s.total() / elapsed_s,
        cores: vec![SimulatedCore { core: 0, samples, elapsed_s, terms_s }],
    }
}

/// One run.
pub fn simulation() -> Simulation {
    let mut origin = origin("sim", &["perftax", "sim", "--", "bzip2", "-kc", "big"]);
    origin.machine.name = "Intel Xeon E5-2630 v4 (Broadwell), modelled".into();
    origin.kernel = String::new();
    Simulation {
        origin,
        program: ["bzip2", "-kc", "big"].map(String::from).to_vec(),
        exit_code: 0,
        model: "broadwell".into(),
        model_sources: vec!["Assist: ROSS'17, section 4.2.".into(), "Latencies of the caches: assumed.".into()],
        run: run(65_536, 0.0041),
        swept: None,
        sweep: Vec::new(),
    }
}

/// Five sizes of the buffer.
pub fn sweep() -> Simulation {
    let sizes = [(16, 0.0033), (64, 0.0041), (256, 0.0149), (1024, 0.037), (4096, 0.0284)];
    let runs: Vec<SimulatedRun> = sizes.iter().map(|&(kib, pollution_s)| run(kib << 10, pollution_s)).collect();
    Simulation { run: runs[0].clone(), swept: Some("buffer".into()), sweep: runs, ..simulation() }
}

/// A program that feels evictions.
pub fn sensitivity() -> Sensitivity {
    let losses = [
        (32 << 10, 0.0003, 0.0013),
        (256 << 10, 0.004, 0.0035),
        (1 << 20, 0.0095, 0.0026),
        (4 << 20, 0.0165, 0.0015),
        (16 << 20, 0.029, 0.009),
    ];
    let rows: Vec<SensitivityRow> = losses
        .iter()
        .map(|&(taken_bytes, loss, half_width)| SensitivityRow {
            taken_bytes,
            loss: about(loss, half_width),
            loss_ns_per_visit: Some(about(loss * 4.9e6, half_width * 4.9e6)),
            memory_bytes: None,
            rounds: 16,
        })
        .collect();
    let runs = (0..16).flat_map(|round| {
        [0].into_iter().chain(losses.iter().map(|l| l.0)).map(move |taken_bytes| SensitivityRun {
            round,
            taken_bytes,
            visits: 230,
            memory_bytes: None,
            cpu_s: 1.11 + 0.001 * f64::from(round % 5),
            elapsed_s: 1.13 + 0.001 * f64::from(round % 5),
            discarded: None,
        })
    });
    Sensitivity {
        origin: origin("sensitivity", &["perftax", "sensitivity", "--", "bzip2", "-kc", "big"]),
        program: ["bzip2", "-kc", "big"].map(String::from).to_vec(),
        method: "eviction".into(),
        cpu: 1,
        interval_s: 0.005,
        buffer_bytes: Sensitivity::unfelt(&rows, 0.01),
        tolerance: 0.01,
        runs: runs.collect(),
        rows,
    }
}
