//! Requests for other tools: a trace of one process a service, or spans.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use perftax_doc::{RequestPart, RequestWaterfall, TraceJoin};
use perftax_pmu::Error;
use perftax_trace::export::otlp::{Handler, MessageSpan, Role, Value, request};
use perftax_trace::export::services::trace;
use sha2::{Digest as _, Sha256};

use crate::output::write_bytes;

/// Writes what was asked for.
pub fn write(perfetto: Option<&Path>, otlp: Option<&Path>, document: &TraceJoin) -> Result<()> {
    for (option, path) in [("--perfetto", perfetto), ("--otlp", otlp)] {
        let Some(path) = path else { continue };
        let Some(requests) = document.requests.as_ref().map(|requests| &requests.waterfalls).filter(|all| !all.is_empty()) else {
            let needed = "requests to write: the traces have none, or --waterfalls is 0".into();
            return Err(Error::Argument { argument: option, value: path.display().to_string(), needed }.into());
        };
        let bytes = if option == "--otlp" { spans(requests) } else { trace(requests) };
        write_bytes(path, &bytes)?;
    }
    Ok(())
}

/// The body of a request to a receiver of OTLP. Requests of one service after the other: what is repeated in protobuf is concatenated.
fn spans(requests: &[RequestWaterfall]) -> Vec<u8> {
    let mut by_service: BTreeMap<(&str, Option<&str>), Vec<MessageSpan>> = BTreeMap::new();
    for waterfall in requests {
        for (at, part) in waterfall.parts.iter().enumerate() {
            by_service.entry((&part.service, part.host.as_deref())).or_default().push(span(waterfall, at, part));
        }
    }
    let mut body = Vec::new();
    for ((service, host), spans) in by_service {
        let text = |key: &str, value: &str| (key.to_string(), Value::String(value.into()));
        let attributes = std::iter::once(text("service.name", service)).chain(host.map(|host| text("host.name", host)));
        let handler = Handler { attributes: attributes.collect(), version: env!("CARGO_PKG_VERSION").into() };
        body.extend(request(&handler, &spans));
    }
    body
}

/// A number that is the same whenever the same request is written.
fn number<const N: usize>(what: &str, waterfall: &RequestWaterfall, part: usize) -> [u8; N] {
    let request = &waterfall.request;
    let text = format!("{what} {:?} {} {:?} {part}", request.identity, request.id, waterfall.begin_unix_ns);
    let hash = Sha256::digest(text);
    std::array::from_fn(|at| hash[at])
}

fn span(waterfall: &RequestWaterfall, at: usize, part: &RequestPart) -> MessageSpan {
    let known = waterfall.request.identity.as_ref().and_then(|identity| identity.split_once('-'));
    let trace = known.and_then(|(trace, _)| u128::from_str_radix(trace, 16).ok()).map(u128::to_be_bytes);
    let text = |key: &str, text: String| (key.to_string(), Value::String(text));
    let ns = |key: &str, ns: u64| (key.to_string(), Value::Int(i64::try_from(ns).unwrap_or(i64::MAX)));
    let mut attributes =
        vec![ns("perftax.message.id", part.id), ns("perftax.began_known_to_ns", part.from_ns.1.abs_diff(part.from_ns.0))];
    let mut by_cause: BTreeMap<&str, u64> = BTreeMap::new();
    for piece in part.pieces.iter().flatten() {
        *by_cause.entry(&piece.cause).or_default() += piece.ns;
    }
    attributes.extend(
        by_cause.into_iter().map(|(cause, sum)| ns(&format!("perftax.{}_ns", cause.replace(' ', "_").to_lowercase()), sum)),
    );
    if let Some(hop) = part.hop {
        attributes.extend([ns("perftax.away_ns", hop.away_ns), ns("perftax.ways_ns", hop.ways_ns)]);
    }
    if at == 0 {
        let request = &waterfall.request;
        attributes.push(text("perftax.cause", format!("{}: {}", request.foremost.service, request.foremost.cause)));
        attributes.extend(request.which.clone().map(|which| text("perftax.cause.which", which)));
        attributes.extend((!request.flaws.is_empty()).then(|| text("perftax.not_known", request.flaws.join("; "))));
    }
    let begin_ns = waterfall.begin_unix_ns.unwrap_or(0).saturating_add_signed(part.from_ns.0.midpoint(part.from_ns.1));
    MessageSpan {
        trace: trace.unwrap_or_else(|| number("trace", waterfall, 0)),
        span: number("span", waterfall, at),
        parent: part.parent.map(|parent| number("span", waterfall, parent)),
        name: part.label.clone().unwrap_or_else(|| format!("message {}", part.id)),
        role: if part.hop.is_some() { Role::Server } else { Role::Internal },
        unix_ns: (begin_ns, begin_ns + part.ns),
        attributes,
    }
}
