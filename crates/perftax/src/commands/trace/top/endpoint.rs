//! A place where scrapers of metrics ask.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use perftax_report::openmetrics::CONTENT_TYPE;

/// Whoever asks has so long to do so, and to take the answer.
const PATIENCE: Duration = Duration::from_secs(2);
/// A question has so many bytes at most.
const LONGEST: usize = 8192;

/// Answers from a thread of its own; it ends with the process.
pub struct Endpoint {
    page: Arc<Mutex<Option<String>>>,
    address: SocketAddr,
}

impl Endpoint {
    /// Begins to answer.
    ///
    /// # Errors
    /// Where there can be no more threads.
    pub fn new(listener: TcpListener) -> std::io::Result<Self> {
        let address = listener.local_addr()?;
        let page = Arc::new(Mutex::new(None));
        let shared = Arc::clone(&page);
        std::thread::Builder::new().name("metrics".into()).spawn(move || {
            for asking in listener.incoming().flatten() {
                let page = shared.lock().unwrap_or_else(PoisonError::into_inner).clone();
                // Who does not listen to the answer does not get it.
                let _ = answer(asking, page.as_deref());
            }
        })?;
        Ok(Self { page, address })
    }

    /// Where it answers.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Answers so from now on.
    pub fn publish(&self, page: String) {
        *self.page.lock().unwrap_or_else(PoisonError::into_inner) = Some(page);
    }
}

fn answer(mut asking: TcpStream, page: Option<&str>) -> std::io::Result<()> {
    let until = Instant::now() + PATIENCE;
    asking.set_write_timeout(Some(PATIENCE))?;
    let mut question = Vec::new();
    while !question.windows(4).any(|end| end == b"\r\n\r\n") {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() || question.len() > LONGEST {
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
    let (status, kind, body) = match (method, path, page) {
        ("GET" | "HEAD", "/metrics", Some(page)) => ("200 OK", CONTENT_TYPE, page),
        ("GET" | "HEAD", "/metrics", None) => ("503 Service Unavailable", PLAIN, "the first interval is not over\n"),
        ("GET" | "HEAD", ..) => ("404 Not Found", PLAIN, "what there is is at /metrics\n"),
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
    use super::*;

    fn asked(address: SocketAddr, question: &str) -> String {
        let mut connection = TcpStream::connect(address).unwrap();
        connection.write_all(question.as_bytes()).unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).unwrap();
        answer
    }

    #[test]
    fn whoever_asks_for_metrics_gets_them_and_others_are_told() {
        let endpoint = Endpoint::new(TcpListener::bind("127.0.0.1:0").unwrap()).unwrap();
        let get = |path: &str| asked(endpoint.address(), &format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n"));
        assert!(get("/metrics").starts_with("HTTP/1.1 503 "));
        endpoint.publish("# EOF\n".into());
        let answer = get("/metrics?x=1");
        assert!(
            answer.starts_with("HTTP/1.1 200 ") && answer.contains(CONTENT_TYPE) && answer.ends_with("\r\n\r\n# EOF\n"),
            "{answer}"
        );
        assert!(get("/").starts_with("HTTP/1.1 404 "));
        assert!(asked(endpoint.address(), "POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
        assert!(asked(endpoint.address(), "HEAD /metrics HTTP/1.1\r\n\r\n").ends_with("\r\n\r\n"));
        // Whoever says too much, or nothing, keeps nobody from asking.
        let silent = TcpStream::connect(endpoint.address()).unwrap();
        drop(silent);
        assert!(get("/metrics").starts_with("HTTP/1.1 200 "));
    }
}
