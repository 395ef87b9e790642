//! OpenMetrics text (version 1.0.0): what a scraper of metrics reads.

use std::fmt::Write as _;

use perftax_doc::{Estimate, TraceTop};

/// What the answer's header says of it.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Families of metrics, in the making.
#[derive(Debug, Default)]
pub struct Page {
    out: String,
}

impl Page {
    /// A family begins: its name, which ends in its unit where it has one, its type, and what it means.
    pub fn family(&mut self, name: &str, kind: &str, unit: &str, help: &str) {
        let Self { out } = self;
        // A String takes all that is written.
        let _ = writeln!(out, "# TYPE {name} {kind}");
        if !unit.is_empty() {
            let _ = writeln!(out, "# UNIT {name} {unit}");
        }
        let _ = writeln!(out, "# HELP {name} {}", escaped(help));
    }

    /// A sample of the family that began last: with the suffix that its type has.
    pub fn sample(&mut self, name: &str, labels: &[(&str, &str)], value: impl std::fmt::Display) {
        let labels: Vec<String> = labels.iter().map(|(name, value)| format!("{name}=\"{}\"", escaped(value))).collect();
        let labels = if labels.is_empty() { String::new() } else { format!("{{{}}}", labels.join(",")) };
        let _ = writeln!(self.out, "{name}{labels} {value}");
    }

    /// The end of the page.
    pub fn finish(self) -> String {
        self.out + "# EOF\n"
    }

    /// A family of one gauge; nothing where it is not known.
    pub fn gauge(&mut self, name: &str, unit: &str, help: &str, value: Option<f64>) {
        if let Some(value) = value {
            self.family(name, "gauge", unit, help);
            self.sample(name, &[], value);
        }
    }

    /// A family of one counter.
    pub fn counter(&mut self, name: &str, unit: &str, help: &str, value: impl std::fmt::Display) {
        self.family(name, "counter", unit, help);
        self.sample(&format!("{name}_total"), &[], value);
    }

    /// An estimate and both ends of its interval; nothing where it is not known.
    pub fn estimate(&mut self, name: &str, unit: &str, help: &str, value: Option<&Estimate>) {
        let Some(Estimate { estimate, low, high, .. }) = value else { return };
        self.family(name, "gauge", unit, help);
        for (bound, value) in [("estimate", estimate), ("low", low), ("high", high)] {
            self.sample(name, &[("bound", bound)], value);
        }
    }
}

/// Backslashes, line ends and quotes, as the format has them.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n").replace('"', "\\\"")
}

fn seconds(ns: f64) -> f64 {
    ns / 1e9
}

/// A boundary: a float, which has a point.
fn boundary(ns: u64) -> String {
    let text = seconds(ns as f64).to_string();
    if text.contains('.') { text } else { text + ".0" }
}

/// The messages of a recording that is followed.
pub fn trace_top(doc: &TraceTop) -> String {
    let mut page = Page::default();
    let messages = doc.latency.as_ref().map_or(0, |latency| latency.messages);
    let name = "perftax_message_latency_seconds";
    page.family(name, "histogram", "seconds", "How long messages took, since the recording began.");
    for bucket in &doc.histogram {
        page.sample(&format!("{name}_bucket"), &[("le", &boundary(bucket.to_ns))], bucket.messages);
    }
    page.sample(&format!("{name}_bucket"), &[("le", "+Inf")], messages);
    page.sample(&format!("{name}_count"), &[], messages);
    page.sample(&format!("{name}_sum"), &[], doc.latency_sum_s);
    let name = "perftax_message_cause_seconds";
    page.family(name, "counter", "seconds", "What the time of messages went to that recording was on for, since it began.");
    for (cause, s) in &doc.causes_s {
        page.sample(&format!("{name}_total"), &[("cause", cause)], s);
    }
    page.counter("perftax_messages_watched", "", "Messages that recording was on for from begin to end.", doc.watched);
    if let Some(now) = &doc.now {
        let name = "perftax_message_latency_now_seconds";
        page.family(name, "gauge", "seconds", "Quantiles of how long the messages of the last minute took.");
        let quantiles = [
            ("0.5", now.latency.p50_ns),
            ("0.99", now.latency.p99_ns),
            ("0.999", now.latency.p999_ns),
            ("1.0", now.latency.max_ns),
        ];
        for (quantile, ns) in quantiles {
            page.sample(name, &[("quantile", quantile)], seconds(ns as f64));
        }
        let per_s = Some(now.per_s);
        page.gauge(
            "perftax_messages_now_per_second",
            "",
            "Messages of the last minute, a second in which they could be seen.",
            per_s,
        );
        if let Some(blame) = &now.blame {
            let name = "perftax_slow_message_extra_now_seconds";
            let help =
                "What the slow messages of the last minute spent beyond the median one, each, by cause, with its 95 % interval.";
            page.family(name, "gauge", "seconds", help);
            for cause in &blame.causes {
                let Estimate { estimate, low, high, .. } = &cause.extra_ns;
                for (bound, ns) in [("estimate", estimate), ("low", low), ("high", high)] {
                    page.sample(name, &[("cause", &cause.cause), ("bound", bound)], seconds(*ns));
                }
            }
        }
        let name = "perftax_kind_messages_now";
        page.family(name, "gauge", "", "Messages of the last minute by kind, those whose slow ones take most.");
        now.kinds.iter().for_each(|kind| page.sample(name, &[("kind", &kind.kind)], kind.latency.messages));
        let name = "perftax_kind_slow_messages_now";
        page.family(name, "gauge", "", "Slow messages of the last minute by kind, of those that recording was on for.");
        now.kinds.iter().for_each(|kind| page.sample(name, &[("kind", &kind.kind)], kind.slow));
        let name = "perftax_kind_latency_now_seconds";
        page.family(name, "gauge", "seconds", "Quantiles of how long they took, by kind.");
        for kind in &now.kinds {
            for (quantile, ns) in [("0.5", kind.latency.p50_ns), ("0.99", kind.latency.p99_ns)] {
                page.sample(name, &[("kind", &kind.kind), ("quantile", quantile)], seconds(ns as f64));
            }
        }
    }
    if let Some(lost) = doc.lost {
        page.counter("perftax_lost_records", "", "Samples and kernel records that found no room.", lost);
    }
    page.counter("perftax_dropped_marks", "", "Marks that found no room.", doc.dropped);
    let help = "Extra CPU time of the program while recording is on, a share of what there would have been without.";
    page.estimate("perftax_cost_while_on_ratio", "ratio", help, doc.checked.as_ref().map(|checked| &checked.extra));
    let help = "The same over all the time, rests among it.";
    page.estimate("perftax_cost_ratio", "ratio", help, doc.budget.spent.as_ref());
    page.gauge("perftax_budget_ratio", "ratio", "What it may come to.", Some(doc.budget.share));
    let help = "The share of the program's CPU time for which recording was on.";
    page.gauge("perftax_on_ratio", "ratio", help, Some(doc.budget.on_share));
    page.counter("perftax_own_cpu_seconds", "seconds", "CPU time of perftax itself, beside the program.", doc.own_cpu_s);
    let bytes = doc.own_memory_bytes.map(|bytes| bytes as f64);
    page.gauge("perftax_own_memory_peak_bytes", "bytes", "The most memory that perftax itself had.", bytes);
    if let Some(sent) = &doc.sent {
        page.counter("perftax_spans_taken", "", "Slow messages that a receiver of spans took.", sent.taken);
        page.counter("perftax_spans_refused", "", "Slow messages that it did not take, or that did not reach it.", sent.refused);
    }
    page.finish()
}
