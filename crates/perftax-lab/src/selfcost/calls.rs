//! What else is asked of the kernel: opening, mapping, changing.

use std::os::fd::AsFd;

use perftax_doc::{Price, PriceSection};
use perftax_pmu::event::{Catalog, Event, parse};
use perftax_pmu::sampler::{Sampling, modify};
use perftax_pmu::sys::self_monitor::{id_of, raw_getppid, raw_reset, set_period};
use perftax_pmu::sys::{CounterPage, OpenEvent, SelfMonitor, Target};
use perftax_pmu::{Error, Result};

use super::book::{Book, Entry};
use super::{Bench, Set, timed};

/// Pages of the ring that is mapped: perf record's 512 KiB.
const RING_PAGES: usize = 128;
/// Seldom enough never to come.
const PERIOD: u64 = 1 << 40;

/// The calls on one event.
pub struct Calls {
    event: Event,
    open: Entry,
    close: Entry,
    map: [Entry; 2],
    unmap: [Entry; 2],
    /// Mapping an event that was mapped before.
    again: Entry,
    reset: Entry,
    id: Entry,
    period: Option<Entry>,
    breakpoint: Option<Breakpoint>,
}

/// Breakpoints are the only events whose attributes can be modified.
struct Breakpoint {
    /// At two addresses.
    events: [Event; 2],
    watched: Box<[u64; 2]>,
    open: Entry,
    modify: Entry,
    close: Entry,
}

impl Calls {
    /// On a set's first event, and with the software ones on a breakpoint.
    ///
    /// # Errors
    /// Where a name of ours cannot be read.
    pub fn new(set: &Set, catalog: &Catalog, book: &mut Book) -> Result<Self> {
        let event = set.events[0].clone();
        let price = |operation: &str, method: &str| Price::new(PriceSection::Call, operation, method, set.name, 1);
        let rings = ["the event's page", "page and ring of 512 KiB"];
        let [open, close] = ["open", "close"].map(|call| book.open(price(call, &event.name)));
        let map = rings.map(|what| book.open(price("mmap", what)));
        let again = book.open(price("mmap", "the event's page, again"));
        let unmap = rings.map(|what| book.open(price("munmap", what)));
        let [reset, id] = ["ioctl RESET", "ioctl ID"].map(|call| book.open(price(call, "")));
        let period = match sampling(&event) {
            Ok(_) => Some(book.open(price("ioctl PERIOD", ""))),
            Err(error) => {
                book.missing(price("ioctl PERIOD", ""), &error.headline());
                None
            }
        };
        let breakpoint = if set.name == "software" { Breakpoint::new(catalog, &price, book)? } else { None };
        Ok(Self { event, open, close, map, unmap, again, reset, id, period, breakpoint })
    }
}

fn sampling(event: &Event) -> Result<OpenEvent> {
    OpenEvent::open(event, &Sampling::every(PERIOD, RING_PAGES * rustix::param::page_size()), Target::ThisThread, None)
}

fn failed(call: &str) -> impl FnOnce(std::io::Error) -> Error {
    let call = format!("ioctl {call}");
    move |source| Error::System { call, source }
}

impl Bench for Calls {
    fn round(&mut self, book: &mut Book) -> Result<()> {
        let events = std::slice::from_ref(&self.event);
        // Another one stays open, so that opening does not have to switch perf's hooks on in the whole kernel.
        let standing = SelfMonitor::singles(events)?;
        for nth in 0..=book.runs {
            let (ticks, opened) = timed(|| SelfMonitor::singles(events));
            let opened = opened?;
            book.nth(self.open, nth, ticks);
            let (ticks, ()) = timed(|| drop(opened));
            book.nth(self.close, nth, ticks);
            let (ticks, id) = timed(|| id_of(standing.descriptors()[0].as_fd()));
            id.map_err(failed("ID"))?;
            book.nth(self.id, nth, ticks);
            let (ticks, done) = timed(|| raw_reset(standing.descriptors()[0].as_fd()));
            done.map_err(failed("RESET"))?;
            book.nth(self.reset, nth, ticks);
        }
        for (at, pages) in [0, RING_PAGES].into_iter().enumerate() {
            for nth in 0..=book.runs {
                // A fresh one each time: see `again`.
                let fresh = SelfMonitor::singles(events)?;
                let (ticks, page) = timed(|| CounterPage::map_ring(&fresh.descriptors()[0], pages));
                let page = page?;
                book.nth(self.map[at], nth, ticks);
                let (ticks, ()) = timed(|| drop(page));
                book.nth(self.unmap[at], nth, ticks);
            }
        }
        // The second time the kernel waits until no CPU can be writing into the first mapping any more (kernel/events/core.c,
        // ring_buffer_attach: cond_synchronize_rcu): milliseconds, so it is done once a round.
        drop(CounterPage::map(&standing.descriptors()[0])?);
        let (ticks, page) = timed(|| CounterPage::map(&standing.descriptors()[0]));
        drop(page?);
        book.run(self.again, ticks);
        if let Some(entry) = self.period {
            let sampling = sampling(&self.event)?;
            for nth in 0..=book.runs {
                let (ticks, done) = timed(|| set_period(sampling.as_fd(), PERIOD + nth as u64));
                done.map_err(failed("PERIOD"))?;
                book.nth(entry, nth, ticks);
            }
        }
        self.breakpoint.as_ref().map_or(Ok(()), |breakpoint| breakpoint.round(book))
    }
}

impl Breakpoint {
    fn new(catalog: &Catalog, price: &impl Fn(&str, &str) -> Price, book: &mut Book) -> Result<Option<Self>> {
        let watched = Box::new([0u64; 2]);
        let event = |at: usize| -> Result<Event> {
            let text = format!("mem:{:#x}/8:w:u", std::ptr::from_ref(&watched[at]) as usize);
            parse(&text, catalog)?.pop().ok_or_else(|| Error::EventSyntax { text, why: "names no event".into() })
        };
        let events = [event(0)?, event(1)?];
        let method = "a breakpoint";
        if let Err(error) = SelfMonitor::singles(&events[..1]) {
            let why = error.headline();
            ["open", "ioctl MODIFY_ATTRIBUTES", "close"].iter().for_each(|call| book.missing(price(call, method), &why));
            return Ok(None);
        }
        let [open, modify, close] = ["open", "ioctl MODIFY_ATTRIBUTES", "close"].map(|call| book.open(price(call, method)));
        Ok(Some(Self { events, watched, open, modify, close }))
    }

    fn round(&self, book: &mut Book) -> Result<()> {
        std::hint::black_box(&self.watched);
        for nth in 0..=book.runs {
            let (ticks, opened) = timed(|| SelfMonitor::singles(&self.events[..1]));
            let opened = opened?;
            book.nth(self.open, nth, ticks);
            let (ticks, done) = timed(|| modify(opened.descriptors()[0].as_fd(), &self.events[1]));
            done.map_err(failed("MODIFY_ATTRIBUTES"))?;
            book.nth(self.modify, nth, ticks);
            let (ticks, ()) = timed(|| drop(opened));
            book.nth(self.close, nth, ticks);
        }
        Ok(())
    }
}

/// The least that any call takes: what all others are to be held against.
pub struct Nothing(Entry);

impl Nothing {
    /// A system call that does nothing.
    pub fn new(book: &mut Book) -> Self {
        Self(book.open(Price::new(PriceSection::Call, "a call that does nothing", "getppid()", "", 0)))
    }
}

impl Bench for Nothing {
    fn round(&mut self, book: &mut Book) -> Result<()> {
        for nth in 0..=book.runs {
            book.nth(self.0, nth, timed(raw_getppid).0);
        }
        Ok(())
    }
}
