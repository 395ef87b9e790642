//! One event, started, read and stopped in turns by our library, by the bare system calls, by PAPI and in user mode: what each costs against
//! the others.

use std::os::fd::AsFd;

use perftax_doc::{Price, PriceSection};
use perftax_pmu::event::Event;
use perftax_pmu::sys::SelfMonitor;
use perftax_pmu::sys::self_monitor::{raw_read, raw_start, raw_stop};
use perftax_pmu::{Error, Result};

use super::book::{Book, Entry};
use super::{Bench, Set, papi, timed};

/// Our library may be more expensive than the bare call by this.
const LIBRARY_AGAINST_CALL: f64 = 1.05;
/// And must be cheaper than PAPI.
const LIBRARY_AGAINST_PAPI: f64 = 1.0;

/// Who does it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum By {
    Library,
    Call,
    Papi,
    UserMode,
}

/// What starting, reading, stopping by one of them is entered as.
#[derive(Clone, Copy, Debug)]
struct Entries {
    start: Entry,
    read: Entry,
    stop: Entry,
}

/// The bench.
pub struct Pairs {
    event: Event,
    random: fastrand::Rng,
    ways: Vec<By>,
    library: Entries,
    call: Entries,
    papi: Option<Entries>,
    papi_whole: Option<Entry>,
    library_whole: Entry,
    user_mode: Entry,
}

impl Pairs {
    /// Of a set's first event.
    ///
    /// # Errors
    /// Where the event cannot be opened after all.
    pub fn new(set: &Set, seed: u64, book: &mut Book) -> Result<Self> {
        let events = set.take(1);
        let (name, event) = (set.name, events[0].clone());
        let price = |operation: &str, method: &str| Price::new(PriceSection::Measuring, operation, method, name, 1);
        let entries = |book: &mut Book, method: &str| {
            let [start, read, stop] = ["start", "read", "stop"].map(|operation| book.open(price(operation, method)));
            Entries { start, read, stop }
        };
        let library = entries(book, "in turns: our library");
        let call = entries(book, "in turns: bare system call");
        let library_whole = book.open(price("reset, start, stop, read", "in turns: our library"));
        for (ours, bare) in [(library.read, call.read), (library.start, call.start), (library.stop, call.stop)] {
            book.compare(ours, bare, Some(LIBRARY_AGAINST_CALL));
        }
        let mut ways = vec![By::Library, By::Call];
        let (mut papi, mut papi_whole) = (None, None);
        match papi::open(&events) {
            Err(why) => book.missing(price("reset, start, stop, read", "in turns: PAPI"), &why),
            Ok(_) => {
                ways.push(By::Papi);
                let by = entries(book, "in turns: PAPI");
                let whole = book.open(price("reset, start, stop, read", "in turns: PAPI"));
                papi::remark().into_iter().for_each(|remark| book.remark(by.read, &remark));
                book.compare(library_whole, whole, Some(LIBRARY_AGAINST_PAPI));
                (papi, papi_whole) = (Some(by), Some(whole));
            }
        }
        let mut monitor = SelfMonitor::singles(&events)?;
        monitor.map()?;
        monitor.start()?;
        ways.push(By::UserMode);
        let user_mode = if monitor.read_in_user_mode().is_some() {
            let entry = book.open(price("read", "in turns: rdpmc"));
            book.compare(entry, library.read, None);
            // PAPI reads in user mode, too, where it can.
            papi.into_iter().for_each(|papi: Entries| book.compare(entry, papi.read, Some(LIBRARY_AGAINST_PAPI)));
            entry
        } else {
            papi.into_iter().for_each(|papi: Entries| book.compare(library.read, papi.read, Some(LIBRARY_AGAINST_PAPI)));
            // Not read() under another name: what a program pays that looks at the page before it asks the kernel.
            book.open(price("read", "in turns: the page, then read()"))
        };
        Ok(Self {
            event,
            random: fastrand::Rng::with_seed(seed ^ 0x7061_6972),
            ways,
            library,
            call,
            papi,
            papi_whole,
            library_whole,
            user_mode,
        })
    }
}

impl Bench for Pairs {
    fn round(&mut self, book: &mut Book) -> Result<()> {
        let events = [self.event.clone()];
        let mut ours = SelfMonitor::singles(&events)?;
        let mut theirs =
            self.papi.map(|_| papi::open(&events).map_err(|words| papi::failed("an event set", words))).transpose()?;
        let mut mapped = SelfMonitor::singles(&events)?;
        mapped.map()?;
        let failed = |source| Error::System { call: "a bare system call on a counter".into(), source };
        for nth in 0..=book.runs {
            self.random.shuffle(&mut self.ways);
            for by in self.ways.clone() {
                match by {
                    By::Library => {
                        let (start, done) = timed(|| ours.start());
                        done?;
                        let (read, done) = timed(|| ours.read().map(|_| ()));
                        done?;
                        let (stop, done) = timed(|| ours.stop());
                        done?;
                        self.library.enter(book, nth, [start, read, stop]);
                        // PAPI_start sets every count to 0 first (perf_event.c, _pe_start), so ours does likewise.
                        let (whole, done) = timed(|| {
                            ours.reset()?;
                            ours.start()?;
                            ours.stop()?;
                            ours.read().map(|_| ())
                        });
                        done?;
                        book.nth(self.library_whole, nth, whole);
                    }
                    By::Call => {
                        let fd = ours.descriptors()[0].as_fd();
                        let mut words = [0u64; 3];
                        let (start, done) = timed(|| raw_start(fd));
                        done.map_err(failed)?;
                        let (read, done) = timed(|| raw_read(fd, &mut words));
                        done.map_err(failed)?;
                        let (stop, done) = timed(|| raw_stop(fd));
                        done.map_err(failed)?;
                        self.call.enter(book, nth, [start, read, stop]);
                    }
                    By::Papi => {
                        let (Some(set), Some(entries), Some(entry)) = (&mut theirs, self.papi, self.papi_whole) else { continue };
                        let (start, status) = timed(|| set.start());
                        papi::checked(set, status, "PAPI_start")?;
                        let (read, status) = timed(|| set.read());
                        papi::checked(set, status, "PAPI_read")?;
                        let (stop, status) = timed(|| set.stop());
                        papi::checked(set, status, "PAPI_stop")?;
                        entries.enter(book, nth, [start, read, stop]);
                        let (whole, (started, stopped)) = timed(|| (set.start(), set.stop()));
                        papi::checked(set, started, "PAPI_start")?;
                        papi::checked(set, stopped, "PAPI_stop, which reads")?;
                        book.nth(entry, nth, whole);
                    }
                    By::UserMode => {
                        // Not on while others have their turn: it would hold a counter that theirs then cannot have.
                        mapped.start()?;
                        let (ticks, done) = timed(|| match mapped.read_in_user_mode() {
                            Some(_) => Ok(()),
                            None => mapped.read().map(|_| ()),
                        });
                        done?;
                        mapped.stop()?;
                        book.nth(self.user_mode, nth, ticks);
                    }
                }
            }
        }
        Ok(())
    }
}

impl Entries {
    fn enter(&self, book: &mut Book, nth: usize, [start, read, stop]: [u64; 3]) {
        for (entry, ticks) in [(self.start, start), (self.read, read), (self.stop, stop)] {
            book.nth(entry, nth, ticks);
        }
    }
}
