//! Who fetches from whom, as heat maps.

use std::collections::HashMap;

use perftax_doc::Estimate;
use perftax_doc::{Comm, CommPair, CommShare};
use serde_json::{Value, json};

use crate::html::figure::{Axis, Figure, Trace};
use crate::html::page::Panel;
use crate::text::{comm_members as members, comm_thread};
use crate::units;

/// Members up to which the three maps stand side by side; beyond, one fills the width, and buttons choose which.
const MAX_ABREAST: usize = 8;
/// Members up to which a field has place for its number: side by side, and in a map that fills the width.
const MAX_WRITTEN: (usize, usize) = (5, 12);
/// Members up to which a label has place for a name beside the number.
const MAX_NAMED: usize = 32;
/// Members that a page shows: more make its fields too small to be seen.
const MAX_SHOWN: usize = 128;
/// Characters of a name beside its row.
const LONGEST: usize = 22;

/// A kind of sharing: its name, and its transfers.
type Kind = (&'static str, fn(&CommShare) -> Estimate);

/// The kinds of sharing, each a map.
const KINDS: [Kind; 3] =
    [("all", |share| share.total), ("true sharing", |share| share.true_sharing), ("false sharing", |share| share.false_sharing)];

/// Threads; none where there is no pair.
pub(super) fn of_threads(doc: &Comm) -> Option<Panel> {
    let members = members(&doc.pairs);
    let quiet = doc.threads.len().saturating_sub(members.len());
    let quiet = if quiet > 0 { format!(" {quiet} further threads share nothing that was seen.") } else { String::new() };
    let caption = format!(
        "A field is how often the thread across fetched a line that the thread down wrote; fields without a colour had no transfer. The maps \
         have one scale.{quiet}"
    );
    let label = |number| comm_thread(doc, number);
    drawn(&doc.pairs, members, &label).map(|(figure, cut)| Panel::new("Thread × thread", &(caption + &cut)).figure(figure))
}

/// Cores; none where they are not known.
pub(super) fn of_cores(doc: &Comm) -> Option<Panel> {
    let caption = "The same by the cores that the threads ran on. What crosses a socket or a shared cache costs the most.";
    let label = |core: u32| format!("core {core}");
    let (figure, cut) = drawn(&doc.core_pairs, members(&doc.core_pairs), &label)?;
    Some(Panel::new("Core × core", &format!("{caption}{cut}")).figure(figure))
}

/// The maps, and what is not in them.
fn drawn(pairs: &[CommPair], members: Vec<u32>, label: &dyn Fn(u32) -> String) -> Option<(Figure, String)> {
    if pairs.is_empty() {
        return None;
    }
    let all = members.len();
    let members = busiest(pairs, members);
    let cut = if members.len() < all {
        format!(" The {} of {all} with the most transfers are shown.", members.len())
    } else {
        String::new()
    };
    let maps = Maps::of(pairs, members, label);
    Some((if maps.members.len() <= MAX_ABREAST { maps.abreast() } else { maps.behind_buttons() }, cut))
}

/// Those with the most transfers, in their order.
fn busiest(pairs: &[CommPair], mut members: Vec<u32>) -> Vec<u32> {
    let mut transfers: HashMap<u32, f64> = HashMap::new();
    for pair in pairs {
        for member in [pair.from, pair.to] {
            *transfers.entry(member).or_default() += pair.share.total.estimate;
        }
    }
    let of = |member: &u32| transfers.get(member).copied().unwrap_or_default();
    members.sort_by(|a, b| of(b).total_cmp(&of(a)));
    members.truncate(MAX_SHOWN);
    members.sort_unstable();
    members
}

/// What the maps are drawn from.
struct Maps<'a> {
    members: Vec<u32>,
    pairs: HashMap<(u32, u32), &'a CommShare>,
    columns: Vec<String>,
    rows: Vec<String>,
    label: &'a dyn Fn(u32) -> String,
    most: f64,
}

impl<'a> Maps<'a> {
    fn of(pairs: &'a [CommPair], members: Vec<u32>, label: &'a dyn Fn(u32) -> String) -> Self {
        let columns: Vec<String> = members.iter().map(u32::to_string).collect();
        let named = |&member: &u32| label(member).chars().take(LONGEST).collect();
        let rows = if members.len() <= MAX_NAMED { members.iter().map(named).collect() } else { columns.clone() };
        let most = pairs.iter().map(|pair| pair.share.total.estimate).fold(1.0, f64::max);
        let pairs = pairs.iter().map(|pair| ((pair.from, pair.to), &pair.share)).collect();
        Self { members, pairs, columns, rows, label, most }
    }

    /// A line of fields for each writer.
    fn fields<T>(&self, of: impl Fn(u32, u32, Option<&CommShare>) -> T) -> Vec<Vec<T>> {
        let row = |from: u32| self.members.iter().map(|&to| of(from, to, self.pairs.get(&(from, to)).copied())).collect();
        self.members.iter().map(|&from| row(from)).collect()
    }

    fn trace(&self, kind: fn(&CommShare) -> Estimate, is_written: bool) -> Trace {
        let fields = self.fields(|_, _, share| share.map(|share| kind(share).estimate));
        let brief = |share: Option<&CommShare>| share.map_or(String::new(), |share| units::brief_estimate(&kind(share)));
        let texts = if is_written { self.fields(|_, _, share| brief(share)) } else { Vec::new() };
        let said = |from, to, share: Option<&CommShare>| {
            share.map_or(String::new(), |share| {
                format!("{} → {}: {}", (self.label)(from), (self.label)(to), units::estimate_number(&kind(share)))
            })
        };
        Trace::map(&self.columns, &self.rows, &fields, &texts, &self.fields(said))
    }

    fn scale(&self) -> Value {
        json!({
            "cmin": 0, "cmax": self.most, "colorscale": [[0, "#f4f1ea"], [0.25, "#f2c48f"], [0.6, "#eb9a5c"], [1, "#7a2c0c"]],
            "colorbar": {"tickformat": "~s", "title": {"text": "transfers", "side": "right"}, "thickness": 12},
        })
    }

    fn abreast(&self) -> Figure {
        const HEIGHT: u32 = 420;
        let mut figure = Figure::new(HEIGHT, Axis::names(), Axis::names());
        figure.set("grid", json!({"rows": 1, "columns": KINDS.len(), "pattern": "independent", "xgap": 0.12}));
        figure.set("coloraxis", self.scale());
        for (i, (name, kind)) in KINDS.into_iter().enumerate() {
            let axis = if i == 0 { String::new() } else { (i + 1).to_string() };
            figure.axis(&format!("xaxis{axis}"), Axis::names().titled("reader"));
            let y = Axis::names().downwards();
            figure.axis(&format!("yaxis{axis}"), if i == 0 { y.titled("writer") } else { y.unlabelled() });
            figure.heading(&axis, name);
            let map = self.trace(kind, self.members.len() <= MAX_WRITTEN.0);
            figure.add(map.with(json!({"xaxis": format!("x{axis}"), "yaxis": format!("y{axis}")})));
        }
        figure
    }

    fn behind_buttons(&self) -> Figure {
        let height = 160 + (self.members.len() as u32 * 26).clamp(340, 800);
        let mut figure = Figure::new(height, Axis::names().titled("reader"), Axis::names().downwards().titled("writer"));
        figure.set("coloraxis", self.scale());
        for (i, (_, kind)) in KINDS.into_iter().enumerate() {
            figure.add(self.trace(kind, self.members.len() <= MAX_WRITTEN.1).with(json!({"visible": i == 0})));
        }
        let button = |(i, (name, _)): (usize, &Kind)| {
            let visible: Vec<bool> = (0..KINDS.len()).map(|other| other == i).collect();
            json!({"label": name, "method": "restyle", "args": [{"visible": visible}]})
        };
        let buttons: Vec<Value> = KINDS.iter().enumerate().map(button).collect();
        figure.set(
            "updatemenus",
            json!([{
                "type": "buttons", "direction": "right", "x": 0, "xanchor": "left", "y": 1.01, "yanchor": "bottom", "buttons": buttons,
            }]),
        );
        figure
    }
}
