//! Messages by what they are called: statements without their values.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use perftax_doc::LabelLatencies;
use perftax_trace::label::normal;
use perftax_trace::{Distribution, Labels, Message};

/// Labels that are listed.
const LISTED: usize = 20;
/// Labels that are told apart: what comes when there are so many counts as [`OTHER`].
const MAX: usize = 4096;
const OTHER: &str = "(other)";

/// Latencies by label.
pub struct ByLabel<'a> {
    labels: &'a Labels,
    slow_ns: u64,
    /// The normal form's place, by the text's number.
    places: HashMap<u32, usize>,
    by_name: HashMap<String, usize>,
    all: Vec<Labelled>,
}

struct Labelled {
    name: String,
    latency: Distribution,
    slow: u64,
}

impl<'a> ByLabel<'a> {
    /// Of messages with these labels; from `slow_ns` on they are slow.
    pub fn new(labels: &'a Labels, slow_ns: u64) -> Self {
        Self { labels, slow_ns, places: HashMap::new(), by_name: HashMap::new(), all: Vec::new() }
    }

    /// Adds a message.
    pub fn add(&mut self, message: &Message) {
        let (Some(latency_ns), Some(number)) = (message.latency_ns(), self.labels.number(message.id)) else { return };
        let place = match self.places.get(&number) {
            Some(place) => *place,
            None => self.place(number),
        };
        let labelled = &mut self.all[place];
        labelled.latency.add(latency_ns);
        labelled.slow += u64::from(latency_ns >= self.slow_ns);
    }

    fn place(&mut self, number: u32) -> usize {
        let is_full = self.all.len() >= MAX;
        let name = normal(self.labels.text(number).unwrap_or_default());
        let name = if is_full && !self.by_name.contains_key(&name) { OTHER.into() } else { name };
        let place = match self.by_name.entry(name) {
            Entry::Occupied(entry) => *entry.get(),
            Entry::Vacant(entry) => {
                self.all.push(Labelled { name: entry.key().clone(), latency: Distribution::default(), slow: 0 });
                *entry.insert(self.all.len() - 1)
            }
        };
        self.places.insert(number, place);
        place
    }

    /// Those with the most slow messages, and how many others there are.
    pub fn finish(mut self) -> (Vec<LabelLatencies>, u64) {
        self.all.sort_by(|a, b| (b.slow, b.latency.len(), &a.name).cmp(&(a.slow, a.latency.len(), &b.name)));
        let left_out = self.all.len().saturating_sub(LISTED) as u64;
        let listed = self.all.into_iter().take(LISTED).map(|labelled| LabelLatencies {
            messages: labelled.latency.len(),
            p50_ns: labelled.latency.quantile_ns(0.5),
            p99_ns: labelled.latency.quantile_ns(0.99),
            max_ns: labelled.latency.max_ns(),
            slow: labelled.slow,
            label: labelled.name,
        });
        (listed.collect(), left_out)
    }
}
