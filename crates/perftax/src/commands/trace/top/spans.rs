//! Slow messages as spans, sent to a receiver of OpenTelemetry's protocol from a thread of its own: whoever receives slowly, or not at all, delays nothing.

use std::hash::{BuildHasher, RandomState};
use std::path::Path;
use std::sync::mpsc::{SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use anyhow::Result;
use perftax_doc::SpansSent;
use perftax_pmu::Error;
use perftax_pmu::sys::monotonic_raw_ns;
use perftax_trace::export::otlp::{Handler, MessageSpan, Role, Value, refused, request};
use perftax_trace::live::{Slow, View};
use perftax_trace::mark::TraceIdentity;
use perftax_trace::{Cause, Live, Names, Usual};

/// Spans of one interval at most, the slowest.
const MAX_SPANS: usize = 512;
/// Batches that wait for the receiver at most.
const MAX_WAITING: usize = 4;
/// The receiver has so long for each.
const PATIENCE: Duration = Duration::from_secs(3);
/// Where receivers take spans.
const PATH: &str = "/v1/traces";

/// Where spans are sent.
#[derive(Debug)]
pub struct Receiver(String);

impl Receiver {
    /// From the option's text.
    pub fn parse(text: &str) -> Result<Self> {
        let place = text.strip_prefix("http://").unwrap_or(text).trim_end_matches('/');
        let (host, path) = place.split_once('/').map_or((place, ""), |(host, path)| (host, path));
        let port = host.rsplit_once(':').map(|(name, port)| (name, port.parse::<u16>()));
        let is_place = matches!(port, Some((name, Ok(_))) if !name.is_empty() && !name.contains(['/', '@', ' ']));
        if !is_place || place.contains("://") {
            let needed = "HOST:PORT, as in localhost:4318, of a receiver of OTLP by HTTP (without encryption: a collector on this machine sends on)";
            return Err(Error::Argument { argument: "--otlp", value: text.into(), needed: needed.into() }.into());
        }
        let path = if path.is_empty() { PATH.into() } else { format!("/{path}") };
        Ok(Self(format!("http://{host}{path}")))
    }
}

/// What the program is called to those who look at its spans: as OpenTelemetry's own variable says, else by its file.
pub fn service(words: &[String]) -> String {
    let by_variable = std::env::var("OTEL_SERVICE_NAME").ok().filter(|name| !name.is_empty());
    by_variable.unwrap_or_else(|| {
        let word = words.first().map_or("", String::as_str);
        Path::new(word).file_name().map_or_else(|| "unknown_service".into(), |name| name.to_string_lossy().into_owned())
    })
}

/// Whom slow messages go to.
pub struct Spans {
    out: Option<SyncSender<Vec<MessageSpan>>>,
    sender: Option<std::thread::JoinHandle<()>>,
    sent: Arc<Mutex<SpansSent>>,
    handed_out: u64,
    seed: RandomState,
}

impl Spans {
    /// Begins to send.
    pub fn to(receiver: Receiver, service: &str) -> Result<Self> {
        let (out, batches) = sync_channel::<Vec<MessageSpan>>(MAX_WAITING);
        let sent = Arc::new(Mutex::new(SpansSent::default()));
        let counted = Arc::clone(&sent);
        let attributes = vec![("service.name".into(), Value::String(service.into()))];
        let handler = Handler { attributes, version: env!("CARGO_PKG_VERSION").into() };
        let agent: ureq::Agent =
            ureq::Agent::config_builder().timeout_global(Some(PATIENCE)).http_status_as_error(false).proxy(None).build().into();
        let send = move || {
            while let Ok(spans) = batches.recv() {
                let done = deliver(&agent, &receiver.0, &request(&handler, &spans));
                let mut sent = lock(&counted);
                match done {
                    Ok((refused, why)) => {
                        let refused = refused.min(spans.len() as u64);
                        (sent.taken, sent.refused) = (sent.taken + spans.len() as u64 - refused, sent.refused + refused);
                        sent.why = Some(why).filter(|why| !why.is_empty()).or_else(|| sent.why.take());
                    }
                    Err(why) => (sent.refused, sent.why) = (sent.refused + spans.len() as u64, Some(why)),
                }
            }
        };
        let sender = std::thread::Builder::new().name("spans".into()).spawn(send)?;
        Ok(Self { out: Some(out), sender: Some(sender), sent, handed_out: 0, seed: RandomState::new() })
    }

    /// What became of them so far.
    pub fn sent(&self) -> SpansSent {
        lock(&self.sent).clone()
    }

    /// Sends the slow messages of the slice that ended last.
    pub fn send(&mut self, live: &Live, view: &View<'_>, names: &Names) {
        let Some(slice) = live.last() else { return };
        // Before anything was known to be slow, everything was.
        let is_slow = |slow: &&Slow| slice.threshold_ns > 0 || slow.brief.latency_ns >= view.slow_ns;
        let mut slow: Vec<&Slow> = slice.slow.values().filter(is_slow).collect();
        slow.sort_by_key(|slow| std::cmp::Reverse(slow.brief.latency_ns));
        lock(&self.sent).left_out += slow.len().saturating_sub(MAX_SPANS) as u64 + slice.slow_left_out;
        slow.truncate(MAX_SPANS);
        if slow.is_empty() {
            return;
        }
        let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let since_1970_ns = (since_1970.as_nanos() as u64).saturating_sub(monotonic_raw_ns());
        let span = |slow: &&Slow| self.span(slow, since_1970_ns, live, names, &view.usual);
        let spans: Vec<MessageSpan> = slow.iter().map(span).collect();
        let n = spans.len() as u64;
        self.handed_out += n;
        match self.out.as_ref().map(|out| out.try_send(spans)) {
            Some(Ok(())) => {}
            Some(Err(TrySendError::Full(_))) => {
                let mut sent = lock(&self.sent);
                (sent.refused, sent.why) = (sent.refused + n, Some("it takes them too slowly".into()));
            }
            Some(Err(TrySendError::Disconnected(_))) | None => lock(&self.sent).refused += n,
        }
    }

    /// As a span; `since_1970_ns` is added to its times.
    fn span(&self, slow: &Slow, since_1970_ns: u64, live: &Live, names: &Names, usual: &Usual) -> MessageSpan {
        let brief = &slow.brief;
        let foremost = brief.foremost(&usual.shares);
        let own = |what: (&str, u64, u64)| self.seed.hash_one(what).max(1);
        let is_known = slow.identity != TraceIdentity::default();
        let (trace, parent) = match (is_known, slow.parent) {
            (true, _) => (slow.identity.trace, Some(slow.identity.span).filter(|span| *span != 0)),
            // Those that are part of one message are in one trace with it.
            (false, parent) => {
                let root = if parent == 0 { brief.id } else { parent };
                (u128::from(own(("trace", root, 0))) << 64 | u128::from(own(("rest of it", root, 0))), None)
            }
        };
        let text = |key: &str, text: String| (key.to_string(), Value::String(text));
        let ns = |key: String, ns: u64| (key, Value::Int(i64::try_from(ns).unwrap_or(i64::MAX)));
        let detail = |(detail, _)| names.detail(foremost.cause, detail, live.symbols());
        let mut attributes = vec![
            ns("perftax.message.id".into(), brief.id),
            text("perftax.cause", foremost.cause.name().into()),
            ns("perftax.beyond_median_ns".into(), foremost.beyond_ns),
            text("perftax.threads", slow.threads.iter().map(|tid| names.thread(*tid)).collect::<Vec<_>>().join(", ")),
        ];
        attributes.extend((slow.parent != 0).then(|| ns("perftax.part_of.id".into(), slow.parent)));
        attributes.extend(foremost.which.and_then(detail).map(|which| text("perftax.cause.which", which)));
        attributes.extend(foremost.function.and_then(detail).map(|function| text("perftax.cause.function", function)));
        if let Some(waker) = slow.woken_by.filter(|waker| foremost.cause == Cause::Blocked && waker.tid != 0) {
            attributes.push(text("perftax.woken_by", names.thread(waker.tid)));
        }
        for cause in Cause::ALL.into_iter().filter(|cause| brief.shares.of(*cause) > 0) {
            attributes.push(ns(format!("perftax.{}_ns", cause.name().replace(' ', "_").to_lowercase()), brief.shares.of(cause)));
        }
        let begin_ns = brief.begin_ns + since_1970_ns;
        MessageSpan {
            trace: trace.to_be_bytes(),
            span: own(("span", brief.id, brief.begin_ns)).to_be_bytes(),
            parent: parent.map(u64::to_be_bytes),
            name: slow.text.clone().unwrap_or_else(|| live.kind(slow.kind).into()),
            role: Role::default(),
            unix_ns: (begin_ns, begin_ns + brief.latency_ns),
            attributes,
        }
    }

    /// The end: what waits has so long to arrive.
    pub fn finish(mut self, at_most: Duration) -> SpansSent {
        self.out = None;
        let until = Instant::now() + at_most;
        while self.sender.as_ref().is_some_and(|sender| !sender.is_finished()) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
        let mut sent = self.sent();
        // What is still on its way has not arrived.
        let late = self.handed_out.saturating_sub(sent.taken + sent.refused);
        if late > 0 {
            (sent.refused, sent.why) = (sent.refused + late, Some("it takes them too slowly".into()));
        }
        sent
    }
}

fn lock(sent: &Mutex<SpansSent>) -> std::sync::MutexGuard<'_, SpansSent> {
    sent.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How many of a request's spans were refused, and why.
fn deliver(agent: &ureq::Agent, to: &str, body: &[u8]) -> std::result::Result<(u64, String), String> {
    let mut answer =
        agent.post(to).header("Content-Type", "application/x-protobuf").send(body).map_err(|error| format!("{to}: {error}"))?;
    let status = answer.status();
    if !status.is_success() {
        return Err(format!("{to}: {status}"));
    }
    let body = answer.body_mut().with_config().limit(1 << 20).read_to_vec().map_err(|error| format!("{to}: {error}"))?;
    refused(&body).ok_or_else(|| format!("{to}: what answers there is no receiver of OTLP"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn receivers_are_hosts_with_ports() {
        for (text, place) in [
            ("localhost:4318", "http://localhost:4318/v1/traces"),
            ("http://10.0.0.1:4318/", "http://10.0.0.1:4318/v1/traces"),
            ("[::1]:4318/api/otlp", "http://[::1]:4318/api/otlp"),
        ] {
            assert_eq!(Receiver::parse(text).unwrap().0, place);
        }
        for wrong in ["", "localhost", "localhost:x", ":4318", "https://localhost:4318", "a b:1", "user@host:1"] {
            let error = Receiver::parse(wrong).unwrap_err().to_string();
            assert!(error.contains("--otlp") && error.contains("HOST:PORT"), "{wrong}: {error}");
        }
    }
}
