//! Where scrapers of metrics ask, by HTTP (OpenMetrics 1.0).

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use perftax_report::openmetrics::{CONTENT_TYPE, Page};

/// Whoever asks has so long to do so, and to take the answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// More than any request of theirs has, bytes.
const REQUEST_BYTES: usize = 8192;

/// Answers whoever asks, from a thread of its own. That ends with the process: who asks meanwhile gets no answer, as from anything that ends.
pub struct Endpoint {
    page: Arc<Mutex<String>>,
    address: SocketAddr,
}

impl Endpoint {
    /// Listens at an address; until something is published a page of nothing is answered.
    ///
    /// # Errors
    /// Where nobody may listen there, or there can be no more threads.
    pub fn listen(address: SocketAddr) -> Result<Self> {
        let cannot = || format!("cannot listen at --metrics {address}");
        let listener = TcpListener::bind(address).with_context(cannot)?;
        let address = listener.local_addr().with_context(cannot)?;
        let page = Arc::new(Mutex::new(Page::default().finish()));
        let shared = Arc::clone(&page);
        let answer_all = move || {
            for asking in listener.incoming() {
                let Ok(asking) = asking else {
                    // There may be no descriptor for it just now.
                    std::thread::sleep(PATIENCE / 10);
                    continue;
                };
                let page = shared.lock().unwrap_or_else(PoisonError::into_inner).clone();
                // Whoever has gone meanwhile does not want it.
                answer(asking, &page).ok();
            }
        };
        let thread = std::thread::Builder::new().name("perftax-metrics".into());
        thread.spawn(answer_all).context("cannot start the thread that answers --metrics")?;
        Ok(Self { page, address })
    }

    /// Where it answers.
    #[cfg_attr(not(feature = "trace"), allow(dead_code))]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers so from now on.
    pub fn publish(&self, page: String) {
        *self.page.lock().unwrap_or_else(PoisonError::into_inner) = page;
    }
}

/// `127.0.0.1:9105`, `[::1]:9105`, or a port alone, of this machine.
pub fn address(text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix(':').unwrap_or(text);
    if let Ok(port) = port.parse::<u16>() {
        return Ok(SocketAddr::from(([127, 0, 0, 1], port)));
    }
    text.parse().map_err(|_| "needs an address with a port, such as 127.0.0.1:9105, or a port".into())
}

fn answer(mut asking: TcpStream, page: &str) -> std::io::Result<()> {
    let until = Instant::now() + PATIENCE;
    asking.set_write_timeout(Some(PATIENCE))?;
    let mut question = Vec::new();
    while !question.windows(4).any(|end| end == b"\r\n\r\n") {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || question.len() > REQUEST_BYTES {
            return Ok(());
        }
        asking.set_read_timeout(Some(left))?;
        let mut some = [0; 1024];
        match asking.read(&mut some)? {
            0 => return Ok(()),
            n => question.extend_from_slice(&some[..n]),
        }
    }
    let line = String::from_utf8_lossy(&question);
    let mut words = line.split_whitespace();
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let path = path.split('?').next().unwrap_or_default();
    let (status, kind, body) = match (method, path) {
        ("GET" | "HEAD", "/metrics" | "/") => ("200 OK", CONTENT_TYPE, page),
        ("GET" | "HEAD", _) => ("404 Not Found", PLAIN, "it is /metrics\n"),
        _ => ("405 Method Not Allowed", PLAIN, "GET /metrics\n"),
    };
    let allow = if status.starts_with("405") { "Allow: GET, HEAD\r\n" } else { "" };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {}\r\n{allow}Connection: close\r\n\r\n",
        body.len()
    );
    asking.write_all(head.as_bytes())?;
    if method != "HEAD" {
        asking.write_all(body.as_bytes())?;
    }
    asking.flush()
}

const PLAIN: &str = "text/plain; charset=utf-8";

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
        let endpoint = Endpoint::listen(address("0").unwrap()).unwrap();
        let asked = |question: &str| {
            let mut connection = TcpStream::connect(endpoint.address()).unwrap();
            connection.write_all(question.as_bytes()).unwrap();
            let mut answer = String::new();
            connection.read_to_string(&mut answer).unwrap();
            answer
        };
        let get = |path: &str| asked(&format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert!(get("/metrics").ends_with("\r\n\r\n# EOF\n"));
        endpoint.publish("a 1\n# EOF\n".into());
        let silent = TcpStream::connect(endpoint.address()).unwrap();
        let answer = get("/metrics?x=1");
        assert!(answer.starts_with("HTTP/1.1 200 ") && answer.contains(CONTENT_TYPE), "{answer}");
        assert!(answer.ends_with("\r\n\r\na 1\n# EOF\n"), "{answer}");
        assert!(get("/nowhere").starts_with("HTTP/1.1 404 "));
        assert!(asked("POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
        assert!(asked("HEAD /metrics HTTP/1.1\r\n\r\n").ends_with("\r\n\r\n"));
        drop(silent);
    }
}
