//! pprof: samples by function, each with its message and cause (github.com/google/pprof, proto/profile.proto).

use std::collections::BTreeMap;
use std::io::{Result, Write};

use flate2::Compression;
use flate2::write::GzEncoder;
use prost::Message as _;

use super::{Context, Export};
use crate::cause::Cause;
use crate::message::Message;

/// The messages of profile.proto that are written; fields as numbered there.
#[allow(missing_docs)] // as published
pub mod schema {
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Profile {
        #[prost(message, repeated, tag = "1")]
        pub sample_type: Vec<ValueType>,
        #[prost(message, repeated, tag = "2")]
        pub sample: Vec<Sample>,
        #[prost(message, repeated, tag = "3")]
        pub mapping: Vec<Mapping>,
        #[prost(message, repeated, tag = "4")]
        pub location: Vec<Location>,
        #[prost(message, repeated, tag = "5")]
        pub function: Vec<Function>,
        #[prost(string, repeated, tag = "6")]
        pub string_table: Vec<String>,
        #[prost(int64, tag = "9")]
        pub time_nanos: i64,
        #[prost(int64, tag = "10")]
        pub duration_nanos: i64,
        #[prost(message, optional, tag = "11")]
        pub period_type: Option<ValueType>,
        #[prost(int64, tag = "12")]
        pub period: i64,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub struct ValueType {
        #[prost(int64, tag = "1")]
        pub r#type: i64,
        #[prost(int64, tag = "2")]
        pub unit: i64,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Sample {
        #[prost(uint64, repeated, tag = "1")]
        pub location_id: Vec<u64>,
        #[prost(int64, repeated, tag = "2")]
        pub value: Vec<i64>,
        #[prost(message, repeated, tag = "3")]
        pub label: Vec<Label>,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub struct Label {
        #[prost(int64, tag = "1")]
        pub key: i64,
        #[prost(int64, tag = "2")]
        pub str: i64,
        #[prost(int64, tag = "3")]
        pub num: i64,
        #[prost(int64, tag = "4")]
        pub num_unit: i64,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub struct Mapping {
        #[prost(uint64, tag = "1")]
        pub id: u64,
        #[prost(int64, tag = "5")]
        pub filename: i64,
        #[prost(bool, tag = "7")]
        pub has_functions: bool,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Location {
        #[prost(uint64, tag = "1")]
        pub id: u64,
        #[prost(uint64, tag = "2")]
        pub mapping_id: u64,
        #[prost(message, repeated, tag = "4")]
        pub line: Vec<Line>,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub struct Line {
        #[prost(uint64, tag = "1")]
        pub function_id: u64,
    }

    #[derive(Clone, Copy, PartialEq, prost::Message)]
    pub struct Function {
        #[prost(uint64, tag = "1")]
        pub id: u64,
        #[prost(int64, tag = "2")]
        pub name: i64,
        #[prost(int64, tag = "3")]
        pub system_name: i64,
    }
}

use schema::{Function, Label, Line, Location, Mapping, Profile, Sample, ValueType};

/// Samples by message, cause and function, summed up.
pub struct Pprof<'a> {
    context: Context<'a>,
    /// By message, cause and function.
    samples: BTreeMap<(u64, Cause, u32), u64>,
    span_ns: Option<(u64, u64)>,
}

impl<'a> Pprof<'a> {
    /// An empty one.
    pub fn new(context: Context<'a>) -> Self {
        Self { context, samples: BTreeMap::new(), span_ns: None }
    }

    fn profile(&self) -> Profile {
        let context = &self.context;
        let mut texts = Texts::default();
        let samples_in = ValueType { r#type: texts.number("samples"), unit: texts.number("count") };
        let (type_of, unit, each) = match context.sampling_gap_ns {
            Some(gap_ns) => ("time", "nanoseconds", gap_ns),
            None => (context.event, "count", context.period),
        };
        let weight = ValueType { r#type: texts.number(type_of), unit: texts.number(unit) };
        let (message_key, cause_key, id_unit) = (texts.number("message"), texts.number("cause"), texts.number("id"));
        let mut profile = Profile { sample_type: vec![samples_in, weight], ..Profile::default() };
        // pprof takes the first mapping for the program.
        let mut modules = BTreeMap::from([(context.program.to_string(), 1)]);
        profile.mapping.push(Mapping { id: 1, filename: texts.number(context.program), has_functions: true });
        let mut places = BTreeMap::new();
        for ((message, cause, function), n) in &self.samples {
            let place = *places.entry(*function).or_insert_with(|| {
                let next = profile.function.len() as u64 + 1;
                let module = context.symbols.get(*function).module.clone();
                let filename = texts.number(&module);
                let mapping_id = *modules.entry(module).or_insert(profile.mapping.len() as u64 + 1);
                if mapping_id > profile.mapping.len() as u64 {
                    profile.mapping.push(Mapping { id: mapping_id, filename, has_functions: true });
                }
                let name = texts.number(&context.function(*function));
                profile.function.push(Function { id: next, name, system_name: name });
                profile.location.push(Location { id: next, mapping_id, line: vec![Line { function_id: next }] });
                next
            });
            let of_message = match context.labels.get(message) {
                Some(label) => Label { key: message_key, str: texts.number(&format!("{message}: {label}")), ..Label::default() },
                None => Label { key: message_key, num: *message as i64, num_unit: id_unit, ..Label::default() },
            };
            let of_cause = Label { key: cause_key, str: texts.number(cause.name()), ..Label::default() };
            let value = vec![*n as i64, n.saturating_mul(each) as i64];
            profile.sample.push(Sample { location_id: vec![place], value, label: vec![of_message, of_cause] });
        }
        profile.time_nanos = (context.taken_at_s * 1e9) as i64;
        profile.duration_nanos = self.span_ns.map_or(0, |(from_ns, to_ns)| (to_ns - from_ns) as i64);
        profile.period_type = Some(weight);
        profile.period = context.sampling_gap_ns.unwrap_or(context.period) as i64;
        profile.string_table = texts.finish();
        profile
    }
}

impl Export for Pprof<'_> {
    fn take(&mut self, message: &Message, _: &mut dyn Write) -> Result<()> {
        for hit in &message.hits {
            *self.samples.entry((message.id, hit.cause, hit.function)).or_default() += 1;
        }
        let end_ns = message.end_ns.unwrap_or(message.begin_ns);
        let (from_ns, to_ns) = self.span_ns.unwrap_or((message.begin_ns, end_ns));
        self.span_ns = Some((from_ns.min(message.begin_ns), to_ns.max(end_ns)));
        Ok(())
    }

    fn finish(self: Box<Self>, out: &mut dyn Write) -> Result<()> {
        let mut gzip = GzEncoder::new(out, Compression::default());
        gzip.write_all(&self.profile().encode_to_vec())?;
        gzip.finish()?.flush()
    }
}

/// Texts by number; the first one is empty, as the format wants it.
struct Texts {
    all: Vec<String>,
    numbers: BTreeMap<String, i64>,
}

impl Default for Texts {
    fn default() -> Self {
        Self { all: vec![String::new()], numbers: BTreeMap::from([(String::new(), 0)]) }
    }
}

impl Texts {
    fn number(&mut self, text: &str) -> i64 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.all.len() as i64;
        self.all.push(text.into());
        self.numbers.insert(text.into(), number);
        number
    }

    fn finish(self) -> Vec<String> {
        self.all
    }
}
