//! OTLP: messages as spans, as OpenTelemetry's receivers take them (opentelemetry-proto 1.x, trace/v1/trace.proto and collector/trace/v1/trace_service.proto).

use prost::Message as _;

/// The messages of the protocol that are written and read; fields as numbered there.
#[allow(missing_docs)] // as published
pub mod schema {
    #[derive(Clone, PartialEq, prost::Message)]
    pub struct ExportTraceServiceRequest {
        #[prost(message, repeated, tag = "1")]
        pub resource_spans: Vec<ResourceSpans>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct ResourceSpans {
        #[prost(message, optional, tag = "1")]
        pub resource: Option<Resource>,
        #[prost(message, repeated, tag = "2")]
        pub scope_spans: Vec<ScopeSpans>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Resource {
        #[prost(message, repeated, tag = "1")]
        pub attributes: Vec<KeyValue>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct ScopeSpans {
        #[prost(message, optional, tag = "1")]
        pub scope: Option<InstrumentationScope>,
        #[prost(message, repeated, tag = "2")]
        pub spans: Vec<Span>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct InstrumentationScope {
        #[prost(string, tag = "1")]
        pub name: String,
        #[prost(string, tag = "2")]
        pub version: String,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct Span {
        #[prost(bytes = "vec", tag = "1")]
        pub trace_id: Vec<u8>,
        #[prost(bytes = "vec", tag = "2")]
        pub span_id: Vec<u8>,
        #[prost(bytes = "vec", tag = "4")]
        pub parent_span_id: Vec<u8>,
        #[prost(string, tag = "5")]
        pub name: String,
        #[prost(int32, tag = "6")]
        pub kind: i32,
        #[prost(fixed64, tag = "7")]
        pub start_time_unix_nano: u64,
        #[prost(fixed64, tag = "8")]
        pub end_time_unix_nano: u64,
        #[prost(message, repeated, tag = "9")]
        pub attributes: Vec<KeyValue>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct KeyValue {
        #[prost(string, tag = "1")]
        pub key: String,
        #[prost(message, optional, tag = "2")]
        pub value: Option<AnyValue>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct AnyValue {
        #[prost(oneof = "Value", tags = "1, 3, 4")]
        pub value: Option<Value>,
    }

    #[derive(Clone, PartialEq, prost::Oneof)]
    pub enum Value {
        #[prost(string, tag = "1")]
        String(String),
        #[prost(int64, tag = "3")]
        Int(i64),
        #[prost(double, tag = "4")]
        Double(f64),
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct ExportTraceServiceResponse {
        #[prost(message, optional, tag = "1")]
        pub partial_success: Option<ExportTracePartialSuccess>,
    }

    #[derive(Clone, PartialEq, prost::Message)]
    pub struct ExportTracePartialSuccess {
        #[prost(int64, tag = "1")]
        pub rejected_spans: i64,
        #[prost(string, tag = "2")]
        pub error_message: String,
    }
}

pub use schema::Value;

/// What a message is to others (`Span.SpanKind`, by its numbers there).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Role {
    /// Nobody knows of others, or it is part of one of its own service.
    #[default]
    Internal = 1,
    /// Another service called it.
    Server = 2,
}

/// A message as a span.
#[derive(Clone, Debug, PartialEq)]
pub struct MessageSpan {
    /// The trace that it is part of.
    pub trace: [u8; 16],
    /// Its own number.
    pub span: [u8; 8],
    /// The span that it is part of, where there is one.
    pub parent: Option<[u8; 8]>,
    /// What it is called.
    pub name: String,
    /// What it is to others.
    pub role: Role,
    /// When it began and ended, ns since 1970.
    pub unix_ns: (u64, u64),
    /// What is known of it.
    pub attributes: Vec<(String, Value)>,
}

/// Who handles the messages: attributes of `resource`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Handler {
    /// Such as `service.name`.
    pub attributes: Vec<(String, Value)>,
    /// Our own version.
    pub version: String,
}

fn key_values(attributes: &[(String, Value)]) -> Vec<schema::KeyValue> {
    let value = |value: &Value| Some(schema::AnyValue { value: Some(value.clone()) });
    attributes.iter().map(|(key, of)| schema::KeyValue { key: key.clone(), value: value(of) }).collect()
}

/// The body of a request that sends spans.
pub fn request(handler: &Handler, spans: &[MessageSpan]) -> Vec<u8> {
    let span = |span: &MessageSpan| schema::Span {
        trace_id: span.trace.to_vec(),
        span_id: span.span.to_vec(),
        parent_span_id: span.parent.map(Vec::from).unwrap_or_default(),
        name: span.name.clone(),
        kind: span.role as i32,
        start_time_unix_nano: span.unix_ns.0,
        end_time_unix_nano: span.unix_ns.1,
        attributes: key_values(&span.attributes),
    };
    let scope = schema::InstrumentationScope { name: "perftax".into(), version: handler.version.clone() };
    let scope_spans = vec![schema::ScopeSpans { scope: Some(scope), spans: spans.iter().map(span).collect() }];
    let resource = Some(schema::Resource { attributes: key_values(&handler.attributes) });
    let resource_spans = vec![schema::ResourceSpans { resource, scope_spans }];
    schema::ExportTraceServiceRequest { resource_spans }.encode_to_vec()
}

/// How many spans were refused by an answer's body, and why; none where it is no answer.
pub fn refused(body: &[u8]) -> Option<(u64, String)> {
    let answer = schema::ExportTraceServiceResponse::decode(body).ok()?;
    let partial = answer.partial_success.unwrap_or_default();
    Some((partial.rejected_spans.max(0).unsigned_abs(), partial.error_message))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use opentelemetry_proto::tonic::collector::trace::v1 as collector;
    use opentelemetry_proto::tonic::common::v1::any_value;
    use prost::Message as _;

    use super::*;

    /// The classes that OpenTelemetry publishes read what is written, and write what is read.
    #[test]
    fn the_published_classes_read_it() {
        let span = MessageSpan {
            trace: [7; 16],
            span: [8; 8],
            parent: Some([9; 8]),
            name: "GET /".into(),
            role: Role::Server,
            unix_ns: (1_800_000_000_000_000_001, 1_800_000_000_000_000_900),
            attributes: vec![
                ("perftax.cause".into(), Value::String("blocked".into())),
                ("perftax.latency".into(), Value::Int(899)),
                ("perftax.share".into(), Value::Double(0.5)),
            ],
        };
        let handler = Handler { attributes: vec![("service.name".into(), Value::String("shop".into()))], version: "1.2".into() };
        let body = request(&handler, &[span.clone(), MessageSpan { parent: None, ..span.clone() }]);
        let read = collector::ExportTraceServiceRequest::decode(body.as_slice()).unwrap();
        let of_resource = &read.resource_spans[0];
        let name = &of_resource.resource.as_ref().unwrap().attributes[0];
        let value = |value: &str| Some(any_value::Value::StringValue(value.into()));
        assert_eq!((name.key.as_str(), name.value.as_ref().unwrap().value.clone()), ("service.name", value("shop")));
        let scope = &of_resource.scope_spans[0];
        let by = scope.scope.as_ref().unwrap();
        assert_eq!((by.name.as_str(), by.version.as_str()), ("perftax", "1.2"));
        let [first, second] = &scope.spans[..] else { panic!("{read:?}") };
        assert_eq!((first.trace_id.as_slice(), first.span_id.as_slice()), (&[7; 16][..], &[8; 8][..]));
        assert_eq!((first.parent_span_id.as_slice(), second.parent_span_id.len()), (&[9; 8][..], 0));
        assert_eq!((first.name.as_str(), first.kind), ("GET /", 2));
        assert_eq!((first.start_time_unix_nano, first.end_time_unix_nano), span.unix_ns);
        let values: Vec<_> = first.attributes.iter().map(|one| one.value.as_ref().unwrap().value.clone().unwrap()).collect();
        let expected = [
            any_value::Value::StringValue("blocked".into()),
            any_value::Value::IntValue(899),
            any_value::Value::DoubleValue(0.5),
        ];
        assert_eq!(values, expected);
        let partial = collector::ExportTracePartialSuccess { rejected_spans: 3, error_message: "full".into() };
        let answer = collector::ExportTraceServiceResponse { partial_success: Some(partial) }.encode_to_vec();
        assert_eq!(refused(&answer), Some((3, "full".into())));
        assert_eq!(refused(&[]), Some((0, String::new())));
        assert_eq!(refused(b"<html>"), None);
    }
}
