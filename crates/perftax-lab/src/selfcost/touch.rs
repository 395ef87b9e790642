//! What memory that was never touched adds: the reason why the first reading of a counter is so much more expensive than those behind it.

use std::os::fd::AsFd;

use perftax_doc::{Price, PriceSection};
use perftax_pmu::event::Event;
use perftax_pmu::sys::self_monitor::raw_read;
use perftax_pmu::sys::{CounterPage, FaultArea, SelfMonitor};
use perftax_pmu::{Error, Result};

use super::book::{Book, Entry};
use super::{Bench, Set, timed};

/// Reading one event into memory, and looking at its page.
pub struct FirstTouch {
    event: Event,
    area: FaultArea,
    read: [Entry; 2],
    look: [Entry; 2],
}

impl FirstTouch {
    /// Of a set's first event.
    ///
    /// # Errors
    /// Where there is no memory.
    pub fn new(set: &Set, book: &mut Book) -> Result<Self> {
        let mut open =
            |operation: &str, method: &str| book.open(Price::new(PriceSection::FirstTouch, operation, method, set.name, 1));
        let read = ["an untouched page", "a touched page"].map(|into| open("read", &format!("read() into {into}")));
        let look = ["first", "second"].map(|which| open("look at the event's page", &format!("{which} time after mmap")));
        book.compare(read[0], read[1], None);
        book.compare(look[0], look[1], None);
        Ok(Self { event: set.events[0].clone(), area: FaultArea::new(1)?, read, look })
    }
}

impl Bench for FirstTouch {
    fn round(&mut self, book: &mut Book) -> Result<()> {
        let monitor = SelfMonitor::singles(std::slice::from_ref(&self.event))?;
        let fd = monitor.descriptors()[0].as_fd();
        monitor.start()?;
        let failed = |source| Error::System { call: "read of a counter".into(), source };
        for nth in 0..=book.runs {
            self.area.forget()?;
            for entry in self.read {
                // Three words: the count, and the two times.
                let (ticks, done) = timed(|| raw_read(fd, &mut self.area.words(0)[..3]));
                done.map_err(failed)?;
                book.nth(entry, nth, ticks);
            }
            // Of a fresh event: one that was mapped before makes mmap wait for milliseconds, after which everything is cold.
            let fresh = SelfMonitor::singles(std::slice::from_ref(&self.event))?;
            let page = CounterPage::map(&fresh.descriptors()[0])?;
            for entry in self.look {
                let (ticks, _) = timed(|| std::hint::black_box(page.index()));
                book.nth(entry, nth, ticks);
            }
        }
        Ok(())
    }
}
