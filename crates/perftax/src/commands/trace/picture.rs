//! A trace for a page: its messages as points, the slowest in pieces, what kept CPUs from it.

use std::path::Path;

use anyhow::Result;
use perftax_doc::{Noise as NoiseOf, Point, TracePicture, TraceReport};
use perftax_trace::{Answer, Cause, Detail, Latencies, Message, Noise, Picture, Question, analyse_watching};

use super::describe::waterfall;
use super::reading::Reading;

/// Messages on a page, so that it opens within seconds.
const MAX_POINTS: usize = 1_000_000;
/// Messages in pieces.
const WATERFALLS: usize = 1000;
/// Pieces of all of these: the slowest messages come first.
const MAX_PIECES: usize = 60_000;
/// Bins of time of each CPU: about as many as a screen has columns.
const BINS: usize = 1024;

/// What is collected while a trace is read.
pub struct Drawing {
    picture: Picture,
    noise: Noise,
}

impl Drawing {
    /// Of messages with these latencies, which are slow from one on.
    pub fn new(latencies: &Latencies, slow_ns: u64) -> Self {
        Self { picture: Picture::new(latencies, slow_ns, MAX_POINTS, WATERFALLS), noise: Noise::new(BINS) }
    }

    /// Reads the trace; `each` sees every message beside.
    pub fn analyse(
        &mut self,
        reading: &Reading,
        latencies: &Latencies,
        question: &Question,
        each: &mut dyn FnMut(&Message),
    ) -> Result<Answer> {
        let (picture, noise) = (&mut self.picture, &mut self.noise);
        let take = |message: &Message| {
            each(message);
            picture.take(message);
        };
        Ok(analyse_watching(&reading.store, latencies, question, |row| noise.take(row), take)?)
    }

    /// What the page draws.
    pub fn finish(
        self,
        reading: &Reading,
        latencies: &Latencies,
        answer: &Answer,
        report: TraceReport,
        folder: &Path,
    ) -> TracePicture {
        let shown = self.picture.finish(answer);
        let first_ns = answer.from_ns;
        let points = shown.dots.iter().map(|dot| Point {
            id: dot.id,
            begin_ns: dot.begin_ns.saturating_sub(first_ns),
            latency_ns: dot.latency_ns,
            cause: dot.cause as u8,
            function: dot.function,
            is_slow: dot.latency_ns >= answer.slow_ns,
        });
        let symbols = &reading.store.symbols;
        let function = |number: usize| {
            let name = reading.names.detail(Cause::OnCpu, Detail::Function(number as u32), symbols);
            name.unwrap_or_default()
        };
        let mut pieces = 0;
        let fits = |message: &&perftax_trace::Message| {
            pieces += message.pieces.len();
            pieces <= MAX_PIECES
        };
        TracePicture {
            folder: folder.display().to_string(),
            causes: Cause::ALL.into_iter().map(|cause| cause.name().into()).collect(),
            functions: (0..symbols.len()).map(function).collect(),
            points: points.collect(),
            left_out: shown.left_out,
            slow_ns: answer.slow_ns,
            quantiles: quantiles(latencies),
            waterfalls: shown
                .slowest
                .iter()
                .take_while(fits)
                .map(|message| waterfall(reading, message, first_ns, &answer.usual))
                .collect(),
            noise: noise(&self.noise, first_ns),
            report,
        }
    }
}

/// From the fastest to the slowest: ever closer together as they come near 1, as far as there are messages.
fn quantiles(latencies: &Latencies) -> Vec<(f64, u64)> {
    const STEPS: usize = 40;
    let n = latencies.len() as f64;
    if latencies.is_empty() {
        return Vec::new();
    }
    let decades = n.log10().max(0.0);
    let steps = (decades * STEPS as f64) as usize;
    // 1 − q goes down from 1 to 1/n at equal ratios.
    let beyond = (0..=steps).map(|step| 10f64.powf(-(step as f64) / STEPS as f64));
    let mut all: Vec<(f64, u64)> = beyond.map(|beyond| (1.0 - beyond, latencies.quantile_ns(1.0 - beyond))).collect();
    all.push((1.0 - 1.0 / n, latencies.quantile_ns(1.0)));
    all
}

fn noise(noise: &Noise, first_ns: u64) -> NoiseOf {
    let (from_ns, bin_ns) = noise.bins();
    NoiseOf {
        from_ns: i64::try_from(from_ns).unwrap_or(i64::MAX).saturating_sub_unsigned(first_ns),
        bin_ns,
        kinds: Noise::KINDS.map(String::from).to_vec(),
        cpus: noise.cpus().map(|(cpu, bins)| (cpu, bins.iter().flatten().copied().collect())).collect(),
    }
}
