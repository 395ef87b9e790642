//! Slow messages in pieces, as the page's script takes them: numbers, and texts by their number.

use std::collections::HashMap;

use itertools::Itertools as _;
use perftax_doc::{SampledFunction, Waterfall};
use serde_json::{Value, json};

use crate::printable::printable;
use crate::trace_events;
use crate::trace_execution;
use crate::units;
use crate::waker;

/// Texts of a page, each once.
#[derive(Debug, Default)]
struct Texts {
    all: Vec<String>,
    numbers: HashMap<String, usize>,
}

impl Texts {
    fn number(&mut self, text: &str) -> usize {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        self.all.push(printable(text));
        self.numbers.insert(text.into(), self.all.len() - 1);
        self.all.len() - 1
    }
}

/// `{"texts", "all": [{"id", "label", "begin", "latency", "shares", "pieces", ...}]}`. Of each piece: from, ns, thread, cause, which,
/// who woke it and samples; the last four are texts, -1 for none. Ids are texts: they do not fit the script's numbers.
pub(super) fn json(waterfalls: &[Waterfall]) -> Value {
    let mut texts = Texts::default();
    let all: Vec<Value> = waterfalls.iter().map(|message| one(message, &mut texts)).collect();
    json!({"all": all, "texts": texts.all})
}

fn one(message: &Waterfall, texts: &mut Texts) -> Value {
    let mut pieces: Vec<i64> = Vec::new();
    for piece in &message.pieces {
        let which = piece.which.as_deref().map_or(-1, |which| texts.number(which) as i64);
        let woken = piece.woken_by.as_ref().map(|waker| format!("woken by {}", waker::named(waker)));
        let functions = (!piece.functions.is_empty()).then(|| sampled(&piece.functions));
        let meanwhile = piece.meanwhile.as_ref().map(waker::worked_on);
        let more: Vec<String> = woken.into_iter().chain(meanwhile).chain(functions).collect();
        let samples = if more.is_empty() { -1 } else { texts.number(&more.join("; ")) as i64 };
        let (thread, cause) = (texts.number(&piece.thread) as i64, texts.number(&piece.cause) as i64);
        pieces.extend([piece.from_ns as i64, piece.ns as i64, thread, cause, which, samples]);
    }
    let functions = if message.functions.is_empty() { String::new() } else { sampled(&message.functions) };
    let executed = message.executed.as_ref().map(trace_execution::of_message);
    let events = message.events.iter().map(trace_events::of_message).join("; ");
    json!({
        "id": message.id.to_string(),
        "label": message.label.as_deref().map(printable),
        "begin": message.begin_s * 1e9,
        "latency": message.latency_ns,
        "shares": message.shares_ns,
        "pieces": pieces,
        "functions": functions,
        "executed": executed,
        "events": events,
        "faults": message.faults,
        "migrations": message.migrations,
        "leftOut": message.left_out,
        "doubtful": message.is_doubtful,
    })
}

/// `parse (3 samples, 2.00 ms to 4.00 ms)`; times are between two ends, as samples say no more.
fn sampled(functions: &[SampledFunction]) -> String {
    let one = |function: &SampledFunction| {
        let samples =
            if function.samples == 1 { "1 sample".into() } else { format!("{} samples", units::count(function.samples)) };
        let times = function.between_ns.map_or_else(String::new, |(low, high)| {
            format!(", {} to {}", units::time_ns(low as f64), units::time_ns(high as f64))
        });
        format!("{} ({samples}{times})", printable(&function.name))
    };
    functions.iter().map(one).join(", ")
}
