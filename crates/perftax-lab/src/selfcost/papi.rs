//! The same by PAPI, where it is installed.

use perftax_doc::{Price, PriceSection};
use perftax_pmu::event::Event;
use perftax_pmu::sys::libpapi::{Papi, PapiSet, PapiStatus};
use perftax_pmu::{Error, Result};

use super::book::{Book, Entry};
use super::{Bench, Set, timed};

/// The benches of a set: from two events on, for one is measured in turns with other ways ([`super::pairs`]).
pub fn benches(set: &Set, book: &mut Book) -> Vec<Box<dyn Bench>> {
    let mut all: Vec<Box<dyn Bench>> = Vec::new();
    for &count in set.counts.iter().filter(|count| **count > 1) {
        let events = set.take(count);
        match open(&events) {
            Ok(_) => all.push(Box::new(ByPapi::new(set, events, book))),
            Err(why) => {
                book.missing(Price::new(PriceSection::Measuring, "start, stop, read", "PAPI", set.name, count), &why);
                if Papi::get().is_err() {
                    break;
                }
            }
        }
    }
    all
}

/// An event set with these events.
///
/// # Errors
/// PAPI's words.
pub fn open(events: &[Event]) -> Result<PapiSet, String> {
    let papi = Papi::get()?;
    // PAPI counts user mode unless told otherwise, and has names of its own; with the prefix where it was told of another processor it knows none.
    let names = |prefix: &str| -> Vec<String> {
        events.iter().map(|event| format!("{prefix}{}", event.name.trim_end_matches(":u").to_uppercase())).collect()
    };
    let set = |names: Vec<String>| papi.set(&names.iter().map(String::as_str).collect::<Vec<_>>());
    set(names("perf::")).or_else(|_| set(names("")))
}

/// What must be known of PAPI here.
pub fn remark() -> Option<String> {
    let papi = Papi::get().ok()?;
    let (major, minor) = papi.version();
    let told = "libpfm knows no such processor, and PAPI then counts nothing: while it started it was told of another";
    Some(if papi.is_persuaded() { format!("PAPI {major}.{minor}; {told}") } else { format!("PAPI {major}.{minor}") })
}

/// An error of PAPI's, as ours.
pub fn failed(call: &str, words: String) -> Error {
    Error::System { call: format!("PAPI: {call}"), source: std::io::Error::other(words) }
}

/// Fails where PAPI did.
pub fn checked(set: &PapiSet, status: PapiStatus, call: &str) -> Result<()> {
    set.check(status, call).map_err(|words| failed(call, words))
}

struct ByPapi {
    events: Vec<Event>,
    start: Entry,
    read: Entry,
    stop: Entry,
    whole: Entry,
}

impl ByPapi {
    fn new(set: &Set, events: Vec<Event>, book: &mut Book) -> Self {
        let count = events.len() as u32;
        let mut open = |operation: &str| book.open(Price::new(PriceSection::Measuring, operation, "PAPI", set.name, count));
        let [start, stop, read, whole] = ["start", "stop", "read", "start, stop, read"].map(&mut open);
        Self { events, start, read, stop, whole }
    }
}

impl Bench for ByPapi {
    fn round(&mut self, book: &mut Book) -> Result<()> {
        let mut set = open(&self.events).map_err(|words| failed("an event set", words))?;
        for nth in 0..=book.runs {
            let (start, status) = timed(|| set.start());
            checked(&set, status, "PAPI_start")?;
            let (read, status) = timed(|| set.read());
            checked(&set, status, "PAPI_read")?;
            let (stop, status) = timed(|| set.stop());
            checked(&set, status, "PAPI_stop")?;
            for (entry, ticks) in [(self.start, start), (self.read, read), (self.stop, stop)] {
                book.nth(entry, nth, ticks);
            }
        }
        for nth in 0..=book.runs {
            let (whole, (started, stopped)) = timed(|| (set.start(), set.stop()));
            checked(&set, started, "PAPI_start")?;
            checked(&set, stopped, "PAPI_stop, which reads")?;
            book.nth(self.whole, nth, whole);
        }
        Ok(())
    }
}
