//! How a recording goes, for whoever asks by HTTP (OpenMetrics 1.0).

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use perftax_record::Status;

/// Answers whoever asks.
pub struct Metrics {
    text: Arc<Mutex<String>>,
}

/// How long one who asks may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// More than any request of theirs has.
const REQUEST_BYTES: usize = 8192;

impl Metrics {
    /// Listens at an address, of this machine alone where it names no host.
    pub fn listen(address: SocketAddr) -> Result<Self> {
        let listener = TcpListener::bind(address).with_context(|| format!("cannot listen at --metrics {address}"))?;
        let text = Arc::new(Mutex::new(String::from("# EOF\n")));
        let shown = Arc::clone(&text);
        // It ends with the process: who asks meanwhile gets no answer, as from anything that ends.
        std::thread::Builder::new()
            .name("perftax-metrics".into())
            .spawn(move || listener.incoming().flatten().for_each(|stream| answer(stream, &shown)))
            .context("cannot start the thread that answers --metrics")?;
        Ok(Self { text })
    }

    /// What is answered from now on.
    pub fn tell(&self, budget: f64, status: &Status<'_>, dropped_segments: u64) {
        *self.text.lock().unwrap_or_else(PoisonError::into_inner) = exposition(budget, status, dropped_segments);
    }
}

fn answer(mut stream: TcpStream, text: &Mutex<String>) {
    let limits = stream.set_read_timeout(Some(PATIENCE)).and_then(|()| stream.set_write_timeout(Some(PATIENCE)));
    let mut request = Vec::new();
    let mut part = [0; 1024];
    while limits.is_ok() && !request.windows(4).any(|four| four == b"\r\n\r\n") && request.len() < REQUEST_BYTES {
        match stream.read(&mut part) {
            Ok(read) if read > 0 => request.extend_from_slice(&part[..read]),
            _ => return,
        }
    }
    let path = request.split(|byte| *byte == b' ').nth(1).unwrap_or_default();
    let path = path.split(|byte| *byte == b'?').next().unwrap_or_default();
    let (status, kind, body) = match (request.starts_with(b"GET "), path) {
        (true, b"/metrics" | b"/") => {
            let text = text.lock().unwrap_or_else(PoisonError::into_inner).clone();
            ("200 OK", "application/openmetrics-text; version=1.0.0; charset=utf-8", text)
        }
        (true, _) => ("404 Not Found", "text/plain", "it is /metrics\n".to_string()),
        (false, _) => ("405 Method Not Allowed", "text/plain", "GET /metrics\n".to_string()),
    };
    let head =
        format!("HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n", body.len());
    // Whoever has gone meanwhile does not want it.
    stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())).ok();
}

/// The text of OpenMetrics: each family with its type, unit and meaning.
fn exposition(budget: f64, status: &Status<'_>, dropped_segments: u64) -> String {
    let (governor, ledger) = (status.governor, status.governor.ledger());
    let spent = ledger.spent_s();
    let mut text = String::new();
    let mut family = |name: &str, kind: &str, unit: &str, help: &str, samples: &[(&str, f64)]| {
        text.push_str(&format!("# TYPE {name} {kind}\n"));
        if !unit.is_empty() {
            text.push_str(&format!("# UNIT {name} {unit}\n"));
        }
        text.push_str(&format!("# HELP {name} {help}\n"));
        let suffix = if kind == "counter" { "_total" } else { "" };
        for (labels, value) in samples {
            text.push_str(&format!("{name}{suffix}{labels} {value}\n"));
        }
    };
    family("perftax_budget_ratio", "gauge", "ratio", "Share of the program's CPU time that sampling may take.", &[("", budget)]);
    family(
        "perftax_program_cpu_seconds",
        "counter",
        "seconds",
        "CPU time of the program, sampling included.",
        &[("", ledger.program_ns as f64 * 1e-9)],
    );
    // An estimate may become smaller when prices of other things come in: no counter.
    let ends = [("{bound=\"low\"}", spent.low), ("{bound=\"estimate\"}", spent.estimate), ("{bound=\"high\"}", spent.high)];
    family(
        "perftax_spent_seconds",
        "gauge",
        "seconds",
        "CPU time that sampling took of the program, with its 95 % interval.",
        &ends,
    );
    family(
        "perftax_burst_seconds",
        "gauge",
        "seconds",
        "CPU time that may be spent beyond the budget of any second.",
        &[("", governor.burst_s())],
    );
    family(
        "perftax_samples",
        "counter",
        "",
        "Samples recorded.",
        &[("", ledger.samples().saturating_sub(status.totals.lost) as f64)],
    );
    let lost = [("{why=\"ring\"}", status.totals.lost as f64), ("{why=\"disk\"}", status.totals.unwritten as f64)];
    family("perftax_samples_lost", "counter", "", "Samples that found no room.", &lost);
    family(
        "perftax_throttled",
        "counter",
        "",
        "Times that the kernel throttled the event.",
        &[("", status.totals.throttled as f64)],
    );
    let period = match governor.decision() {
        perftax_cost::governor::Decision::Sample(rate) => governor.tariff().periods[rate] as f64,
        perftax_cost::governor::Decision::Rest => f64::INFINITY,
    };
    let period = if period.is_finite() { period } else { 0.0 };
    family("perftax_period", "gauge", "", "Period of the event now, in its unit; 0 while sampling rests.", &[("", period)]);
    family(
        "perftax_recorder_cpu_seconds",
        "counter",
        "seconds",
        "CPU time of the recorder.",
        &[("", status.totals.recorder_cpu_s)],
    );
    family("perftax_recording_bytes", "counter", "bytes", "Bytes of records written.", &[("", status.totals.bytes as f64)]);
    family("perftax_segments_dropped", "counter", "", "Segments that were given up for room.", &[("", dropped_segments as f64)]);
    text.push_str("# EOF\n");
    text
}

/// `127.0.0.1:9105`, `[::1]:9105`, or a port alone, of this machine.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix(':').unwrap_or(text);
    if let Ok(port) = port.parse::<u16>() {
        return Ok(SocketAddr::from(([127, 0, 0, 1], port)));
    }
    text.parse().map_err(|_| "needs an address with a port, such as 127.0.0.1:9105, or a port".into())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    #[test]
    fn a_port_alone_is_of_this_machine() {
        assert_eq!(address("9105").unwrap().to_string(), "127.0.0.1:9105");
        assert_eq!(address(":9105").unwrap().to_string(), "127.0.0.1:9105");
        assert_eq!(address("0.0.0.0:1").unwrap().to_string(), "0.0.0.0:1");
        assert!(address("nowhere").is_err() && address("70000").is_err());
    }

    #[test]
    fn who_asks_in_a_wrong_way_is_told_and_who_says_nothing_does_not_hold_others_up() {
        let metrics = Metrics::listen(SocketAddr::from(([127, 0, 0, 1], 0)));
        assert!(metrics.is_ok());
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let text = Arc::new(Mutex::new("# EOF\n".to_string()));
        std::thread::spawn(move || listener.incoming().flatten().for_each(|stream| answer(stream, &text)));
        let silent = TcpStream::connect(address).unwrap();
        let ask = |request: &str| {
            let mut stream = TcpStream::connect(address).unwrap();
            stream.write_all(request.as_bytes()).unwrap();
            let mut said = String::new();
            stream.read_to_string(&mut said).unwrap();
            said
        };
        assert!(ask("GET /metrics HTTP/1.1\r\n\r\n").ends_with("# EOF\n"));
        assert!(ask("GET /nowhere HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
        assert!(ask("POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
        drop(silent);
    }
}
