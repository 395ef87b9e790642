//! Plots as plotly.js takes them: traces and a layout. Colours that follow the page's look are set by the page's script.

use std::collections::BTreeSet;

use perftax_doc::{Estimate, Mechanism};
use serde_json::{Map, Value, json};

use crate::printable::printable;
use crate::units;

/// Colours that can be told apart on light and dark, also by most who cannot tell red from green. The script has the same.
pub(super) const PALETTE: [&str; 8] = ["#3b7dd8", "#e0752d", "#2fa36b", "#c2479b", "#8a63d2", "#b5891b", "#1fa3b5", "#d64545"];

/// Lines to compare with: budgets, 1:1, zero.
pub(super) const REFERENCE: &str = "#8b949e";

/// A plot in the making.
#[derive(Debug)]
pub(super) struct Figure {
    pub(super) height: u32,
    data: Vec<Value>,
    layout: Map<String, Value>,
    shapes: Vec<Value>,
    annotations: Vec<Value>,
}

/// An axis.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    json: Value,
    /// How a number on it reads.
    text: fn(f64) -> String,
}

impl Axis {
    fn new(title: &str) -> Self {
        Self::reading(title, |x| x.to_string())
    }

    fn reading(title: &str, text: fn(f64) -> String) -> Self {
        let json = json!({"title": {"text": title, "standoff": 10}, "zeroline": false, "ticks": "outside"});
        Self { json, text }
    }

    fn with(mut self, more: Value) -> Self {
        merge(&mut self.json, more);
        self
    }

    /// Seconds, shown as s, ms, µs or ns.
    pub(super) fn time(title: &str) -> Self {
        Self::reading(title, |x| compact(&units::time_s(x)))
            .with(json!({"tickformat": "~s", "ticksuffix": "s", "hoverformat": ".4~s"}))
    }

    /// A fraction, shown in per cent.
    pub(super) fn share(title: &str) -> Self {
        Self::reading(title, units::share).with(json!({"tickformat": "~%", "hoverformat": ".3~%"}))
    }

    /// How many times fewer lie beyond a quantile, 1/(1 − q), shown as the quantile: as far as 1 in `fewest` lies beyond.
    pub(super) fn quantile(title: &str, fewest: f64) -> Self {
        let powers = (1..=12).map(|power| 10f64.powi(power)).take_while(|beyond| *beyond <= fewest);
        let ticks: Vec<f64> = [1.0, 2.0].into_iter().chain(powers).collect();
        let text = |beyond: &f64| match *beyond {
            b if b < 10.0 => format!("{} %", 100.0 - 100.0 / b),
            b => format!("{:.*} %", (b.log10().round() as usize).saturating_sub(2), 100.0 - 100.0 / b),
        };
        let texts: Vec<String> = ticks.iter().map(text).collect();
        Self::new(title).with(json!({"type": "log", "tickvals": ticks, "ticktext": texts}))
    }

    /// Counts, shown with k and M.
    pub(super) fn count(title: &str) -> Self {
        Self::reading(title, units::about).with(json!({"tickformat": "~s", "hoverformat": ",.4~r"}))
    }

    /// Pure numbers, as they are.
    pub(super) fn number(title: &str) -> Self {
        Self::reading(title, units::about).with(json!({"tickformat": "~g", "hoverformat": ".4~g"}))
    }

    /// The sampling period of a mechanism: a time or a number of events.
    pub(super) fn period(mechanism: Mechanism) -> Self {
        if mechanism.is_time_driven() { Self::time("sampling period") } else { Self::count("sampling period (events)") }
    }

    /// Names.
    pub(super) fn names() -> Self {
        Self::new("").with(json!({"type": "category"}))
    }

    /// Positions with names of their own.
    pub(super) fn labels(labels: &[String]) -> Self {
        let labels: Vec<String> = labels.iter().map(|l| label(l)).collect();
        let last = labels.len() as f64 - 0.5;
        let places: Vec<usize> = (0..labels.len()).collect();
        Self::new("").with(json!({"tickvals": places, "ticktext": labels, "range": [-0.5, last], "showgrid": false}))
    }

    /// Logarithmic, with ticks at 1, 2, 3 and 5 times each power of ten (plotly.js leaves the unit off some of its own).
    pub(super) fn log(self) -> Self {
        const POWERS: std::ops::Range<i32> = -12..13;
        let ticks: Vec<f64> = POWERS
            .flat_map(|power| [1.0, 2.0, 3.0, 5.0].map(|n| format!("{n}e{power}")))
            .filter_map(|text| text.parse().ok())
            .collect();
        let texts: Vec<String> = ticks.iter().map(|&x| (self.text)(x)).collect();
        self.with(json!({"type": "log", "tickvals": ticks, "ticktext": texts}))
    }

    pub(super) fn titled(self, title: &str) -> Self {
        self.with(json!({"title": {"text": title}}))
    }

    /// Without numbers or names at its ticks: those of a plot beside it are the same.
    pub(super) fn unlabelled(self) -> Self {
        self.with(json!({"showticklabels": false}))
    }

    pub(super) fn zero_based(self) -> Self {
        self.with(json!({"rangemode": "tozero"}))
    }

    /// Few ticks, for small plots.
    pub(super) fn few(self) -> Self {
        self.with(json!({"nticks": 5}))
    }

    /// Names in this order.
    pub(super) fn order(&mut self, names: &[&String]) {
        let names: Vec<String> = names.iter().map(|name| label(name)).collect();
        merge(&mut self.json, json!({"categoryorder": "array", "categoryarray": names}));
    }

    /// First name on top.
    pub(super) fn downwards(self) -> Self {
        self.with(json!({"autorange": "reversed"}))
    }

    /// From so much below zero to as much above it.
    pub(super) fn within(self, most: f64) -> Self {
        self.with(json!({"range": [-most, most]}))
    }

    pub(super) fn reference_zero(self) -> Self {
        self.with(json!({"zeroline": true}))
    }
}

impl Figure {
    pub(super) fn new(height: u32, x: Axis, y: Axis) -> Self {
        let layout = [
            ("xaxis", x.json),
            ("yaxis", y.json),
            ("hovermode", json!("closest")),
            ("margin", json!({"l": 70, "r": 40, "t": 44, "b": 56})),
            ("legend", json!({"orientation": "h", "x": 0, "xanchor": "left", "y": 1.02, "yanchor": "bottom"})),
        ];
        let layout = layout.into_iter().map(|(key, value)| (key.to_string(), value)).collect();
        Self { height, data: Vec::new(), layout, shapes: Vec::new(), annotations: Vec::new() }
    }

    pub(super) fn add(&mut self, trace: Trace) {
        self.data.push(trace.0);
    }

    pub(super) fn set(&mut self, key: &str, value: Value) {
        self.layout.insert(key.into(), value);
    }

    pub(super) fn axis(&mut self, name: &str, axis: Axis) {
        self.layout.insert(name.into(), axis.json);
    }

    /// A dashed horizontal line across the plot, named at its right end.
    pub(super) fn level(&mut self, y: f64, log: bool, name: &str) {
        self.shapes.push(json!({
            "type": "line", "xref": "paper", "x0": 0, "x1": 1, "yref": "y", "y0": y, "y1": y,
            "line": {"color": REFERENCE, "width": 1.5, "dash": "dash"},
        }));
        let place = if log { y.log10() } else { y };
        self.annotations.push(json!({
            "xref": "paper", "x": 1, "xanchor": "right", "yref": "y", "y": place, "yanchor": "bottom",
            "text": label(name), "showarrow": false,
        }));
    }

    /// A dashed vertical line across the plot.
    pub(super) fn upright(&mut self, x: f64) {
        self.shapes.push(json!({
            "type": "line", "yref": "paper", "y0": 0, "y1": 1, "xref": "x", "x0": x, "x1": x,
            "line": {"color": REFERENCE, "width": 1.5, "dash": "dash"},
        }));
    }

    /// A title above one of several plots in a grid.
    pub(super) fn heading(&mut self, axis: &str, text: &str) {
        self.annotations.push(json!({
            "xref": format!("x{axis} domain"), "x": 0.5, "xanchor": "center",
            "yref": format!("y{axis} domain"), "y": 1.03, "yanchor": "bottom",
            "text": label(text), "showarrow": false, "font": {"size": 14},
        }));
    }

    /// Gives many names downwards exactly their place: plotly.js leaves a twentieth of the axis empty above and below them.
    fn fit_names(&mut self) {
        const MANY: usize = 20;
        for (key, axis) in self.layout.iter_mut().filter(|(key, _)| key.starts_with("yaxis")) {
            if axis["autorange"] != "reversed" || axis["type"] != "category" {
                continue;
            }
            let of_axis = key.replace("axis", "");
            let on_it = |trace: &&Value| trace["yaxis"].as_str().unwrap_or("y") == of_axis;
            let names: BTreeSet<&str> = self
                .data
                .iter()
                .filter(on_it)
                .filter_map(|trace| trace["y"].as_array())
                .flatten()
                .filter_map(Value::as_str)
                .collect();
            if let (true, Some(axis)) = (names.len() > MANY, axis.as_object_mut()) {
                axis.remove("autorange");
                axis.insert("range".into(), json!([names.len() as f64 - 0.5, -0.5]));
            }
        }
    }

    /// The plot as JSON that is safe inside a script element: `<` never stands in it.
    pub(super) fn json(mut self) -> String {
        self.fit_names();
        self.layout.insert("shapes".into(), self.shapes.into());
        self.layout.insert("annotations".into(), self.annotations.into());
        json!({"data": self.data, "layout": self.layout}).to_string().replace('<', "\\u003c")
    }
}

/// One set of points, lines or bars.
#[derive(Clone, Debug)]
pub(super) struct Trace(Value);

impl Trace {
    /// Points with intervals, upwards.
    pub(super) fn points(name: &str, x: &[f64], y: &[Estimate]) -> Self {
        Self(json!({
            "type": "scatter", "mode": "markers", "name": label(name), "x": x, "y": centres(y),
            "error_y": intervals(y), "marker": {"size": 8},
        }))
    }

    /// Points with intervals to the right, beside names.
    pub(super) fn forest(name: &str, x: &[Estimate], names: &[String]) -> Self {
        Self(json!({
            "type": "scatter", "mode": "markers", "name": label(name), "x": centres(x), "y": labels(names),
            "error_x": intervals(x), "marker": {"size": 9},
        }))
    }

    /// Points with intervals both ways.
    pub(super) fn cross(name: &str, x: &[Estimate], y: &[Estimate]) -> Self {
        Self::points(name, &centres(x), y).with(json!({"error_x": intervals(x), "marker": {"size": 6}}))
    }

    /// Points without intervals.
    pub(super) fn dots(name: &str, x: &[f64], y: &[f64]) -> Self {
        Self(json!({
            "type": "scatter", "mode": "markers", "name": label(name), "x": x, "y": y, "marker": {"size": 6, "opacity": 0.45},
        }))
    }

    pub(super) fn line(name: &str, x: &[f64], y: &[f64]) -> Self {
        Self(json!({"type": "scatter", "mode": "lines", "name": label(name), "x": x, "y": y, "line": {"width": 2}}))
    }

    /// The area between two curves.
    pub(super) fn band(name: &str, x: &[f64], low: &[f64], high: &[f64]) -> Self {
        let around: Vec<f64> = x.iter().chain(x.iter().rev()).copied().collect();
        let edge: Vec<f64> = high.iter().chain(low.iter().rev()).copied().collect();
        Self(json!({
            "type": "scatter", "mode": "lines", "name": label(name), "x": around, "y": edge, "fill": "toself",
            "line": {"width": 0}, "opacity": 0.25, "hoverinfo": "skip",
        }))
    }

    /// Bars to the right, beside names.
    pub(super) fn bars_right(name: &str, x: &[Estimate], names: &[String]) -> Self {
        Self(json!({
            "type": "bar", "orientation": "h", "name": label(name), "x": centres(x), "y": labels(names), "error_x": intervals(x),
        }))
    }

    /// Bars upwards, above names.
    pub(super) fn bars_up(name: &str, names: &[String], y: &[f64]) -> Self {
        Self(json!({"type": "bar", "name": label(name), "x": labels(names), "y": y}))
    }

    /// Bars upwards with intervals, above names.
    pub(super) fn bars_between(name: &str, names: &[String], y: &[Estimate]) -> Self {
        Self(json!({"type": "bar", "name": label(name), "x": labels(names), "y": centres(y), "error_y": intervals(y)}))
    }

    /// A heat map of fractions in per cent, symmetric around 0 so that no colour stands for less than nothing; each field with its text,
    /// none where there is no number.
    pub(super) fn heat(columns: &[String], rows: &[String], fields: &[Vec<Option<f64>>], texts: &[Vec<String>]) -> Self {
        let most = fields.iter().flatten().flatten().fold(0.01_f64, |most, value| most.max(value.abs()));
        let texts: Vec<Vec<String>> = texts.iter().map(|row| labels(row)).collect();
        Self(json!({
            "type": "heatmap", "x": labels(columns), "y": labels(rows), "z": fields, "text": texts, "texttemplate": "%{text}",
            "hovertemplate": "%{y}, %{x}: %{text}<extra></extra>", "zmin": -most, "zmax": most, "xgap": 2, "ygap": 2,
            "colorscale": [[0, "#3b7dd8"], [0.5, "#e9e9e4"], [1, "#e0752d"]], "textfont": {"color": "#1c1c1c"},
            "colorbar": {"tickformat": "~%", "title": {"text": "overhead", "side": "right"}, "thickness": 12},
        }))
    }

    /// A heat map of what is nothing or more, on the figure's `coloraxis`; each field with its text and what it says when pointed at. Without
    /// texts where there are none.
    pub(super) fn map(
        columns: &[String],
        rows: &[String],
        fields: &[Vec<Option<f64>>],
        texts: &[Vec<String>],
        said: &[Vec<String>],
    ) -> Self {
        let [texts, said] = [texts, said].map(|all| all.iter().map(|row| labels(row)).collect::<Vec<_>>());
        // A field is not wide: its interval stands below its number.
        let two_lines = |row: &Vec<String>| row.iter().map(|text| text.replace('±', "<br>±")).collect::<Vec<_>>();
        let texts: Vec<Vec<String>> = texts.iter().map(two_lines).collect();
        let map = Self(json!({
            "type": "heatmap", "x": labels(columns), "y": labels(rows), "z": fields, "hovertext": said, "hoverinfo": "text",
            "coloraxis": "coloraxis", "xgap": 1, "ygap": 1, "hoverongaps": false,
        }));
        if texts.is_empty() { map } else { map.with(json!({"text": texts, "texttemplate": "%{text}"})) }
    }

    /// Words at places, without marks.
    pub(super) fn words(x: &[String], y: &[String], words: &[String]) -> Self {
        Self(json!({
            "type": "scatter", "mode": "text", "x": labels(x), "y": labels(y), "text": labels(words), "hoverinfo": "skip", "showlegend": false,
        }))
    }

    /// Anything plotly.js knows beside.
    pub(super) fn with(mut self, more: Value) -> Self {
        merge(&mut self.0, more);
        self
    }

    /// In the colour with this number.
    pub(super) fn colour(self, i: usize) -> Self {
        self.paint(PALETTE[i % PALETTE.len()])
    }

    pub(super) fn paint(self, colour: &str) -> Self {
        let mut more = json!({"marker": {"color": colour}, "line": {"color": colour}});
        if self.0["type"] == "bar" {
            more = json!({"marker": {"color": colour}});
        }
        if self.0["fill"] == "toself" {
            more["fillcolor"] = json!(colour);
        }
        self.with(more)
    }

    /// Dashed and in the colour of things to compare with.
    pub(super) fn reference(self) -> Self {
        self.with(json!({"line": {"dash": "dash", "color": REFERENCE, "width": 1.5}}))
    }

    pub(super) fn unlisted(self) -> Self {
        self.with(json!({"showlegend": false}))
    }
}

/// A number with its unit without idle zeros: `2 ms` for `2.00 ms`.
fn compact(text: &str) -> String {
    match text.split_once(' ') {
        Some((number, unit)) if number.contains('.') => {
            format!("{} {unit}", number.trim_end_matches('0').trim_end_matches('.'))
        }
        _ => text.into(),
    }
}

fn centres(estimates: &[Estimate]) -> Vec<f64> {
    estimates.iter().map(|e| e.estimate).collect()
}

fn intervals(estimates: &[Estimate]) -> Value {
    if estimates.iter().all(|e| e.half_width() == 0.0) {
        return json!({"visible": false});
    }
    let above: Vec<f64> = estimates.iter().map(|e| e.high - e.estimate).collect();
    let below: Vec<f64> = estimates.iter().map(|e| e.estimate - e.low).collect();
    json!({"type": "data", "symmetric": false, "array": above, "arrayminus": below, "thickness": 1.5, "width": 4})
}

fn labels(names: &[String]) -> Vec<String> {
    names.iter().map(|name| label(name)).collect()
}

/// Plotly reads a little markup in its texts (links among it): names from documents must not be that.
pub(super) fn label(text: &str) -> String {
    printable(text).replace('<', "‹").replace('>', "›")
}

fn merge(into: &mut Value, more: Value) {
    match (into, more) {
        (Value::Object(into), Value::Object(more)) => {
            for (key, value) in more {
                merge(into.entry(key).or_insert(Value::Null), value);
            }
        }
        (into, more) => *into = more,
    }
}

/// `n` numbers from `low` to `high` at equal ratios.
pub(super) fn geometric(low: f64, high: f64, n: usize) -> Vec<f64> {
    let step = (high / low).powf(1.0 / (n.max(2) - 1) as f64);
    (0..n).map(|i| low * step.powi(i as i32)).collect()
}

/// A period as a number on the axis of [`Axis::period`]: seconds or events.
pub(super) fn place(mechanism: Mechanism, period: f64) -> f64 {
    if mechanism.is_time_driven() { period * 1e-9 } else { period }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_names_fill_their_axis_and_few_keep_its_margin() {
        let drawn = |count: usize| {
            let names: Vec<String> = (0..count).map(|i| format!("name {i}")).collect();
            let mut figure = Figure::new(400, Axis::count("cost"), Axis::names().downwards());
            figure.add(Trace::forest("cost", &vec![Estimate::exact(1.0); count], &names));
            serde_json::from_str::<Value>(&figure.json()).unwrap()["layout"]["yaxis"].clone()
        };
        assert_eq!(drawn(40)["range"], json!([39.5, -0.5]));
        assert!(drawn(40).get("autorange").is_none());
        assert_eq!(drawn(5)["autorange"], "reversed");
    }
}
