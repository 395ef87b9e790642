//! How a recording goes, for whoever asks for metrics.

use perftax_cost::governor::Decision;
use perftax_record::Status;
use perftax_report::openmetrics::Page;

/// The page of metrics.
pub fn page(budget: f64, status: &Status<'_>, dropped_segments: u64) -> String {
    let (governor, ledger, totals) = (status.governor, status.governor.ledger(), &status.totals);
    let mut page = Page::default();
    let help = "Share of the program's CPU time that sampling may take.";
    page.gauge("perftax_budget_ratio", "ratio", help, Some(budget));
    let help = "CPU time of the program, sampling included.";
    page.counter("perftax_program_cpu_seconds", "seconds", help, ledger.program_ns as f64 * 1e-9);
    // An estimate may become smaller when prices of other things come in: no counter.
    let help = "CPU time that sampling took of the program, with its 95 % interval.";
    page.estimate("perftax_spent_seconds", "seconds", help, Some(&ledger.spent_s()));
    let help = "CPU time that may be spent beyond the budget of any second.";
    page.gauge("perftax_burst_seconds", "seconds", help, Some(governor.burst_s()));
    page.counter("perftax_samples", "", "Samples recorded.", ledger.samples().saturating_sub(totals.lost));
    page.family("perftax_samples_lost", "counter", "", "Samples that found no room.");
    page.sample("perftax_samples_lost_total", &[("why", "ring")], totals.lost);
    page.sample("perftax_samples_lost_total", &[("why", "disk")], totals.unwritten);
    page.counter("perftax_throttled", "", "Times that the kernel throttled the event.", totals.throttled);
    let period = match governor.decision() {
        Decision::Sample(rate) => governor.tariff().periods[rate] as f64,
        Decision::Rest => 0.0,
    };
    let period = if period.is_finite() { period } else { 0.0 };
    let help = "Period of the event now, in its unit; 0 while sampling rests.";
    page.gauge("perftax_period", "", help, Some(period));
    page.counter("perftax_recorder_cpu_seconds", "seconds", "CPU time of the recorder.", totals.recorder_cpu_s);
    page.counter("perftax_recording_bytes", "bytes", "Bytes of records written.", totals.bytes);
    page.counter("perftax_segments_dropped", "", "Segments that were given up for room.", dropped_segments);
    page.finish()
}
