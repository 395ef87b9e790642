//! Starting, stopping and reading 1 to 16 events, by every way that the kernel has.

use perftax_doc::{Price, PriceSection};
use perftax_pmu::event::Event;
use perftax_pmu::sys::{SelfMonitor, self_monitor};
use perftax_pmu::{Error, Result};

use super::book::{Book, Entry};
use super::{Bench, Set, timed};

/// How events are arranged, started and read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    /// One ioctl and one read for all.
    Group,
    /// One for each.
    Singles,
    /// One prctl for all, one read for each.
    Prctl,
    /// RDPMC for each; they count all the time.
    UserMode,
}

impl Way {
    const ALL: [Self; 4] = [Self::Group, Self::Singles, Self::Prctl, Self::UserMode];

    fn open(self, events: &[Event]) -> Result<SelfMonitor> {
        let mut monitor = if self == Self::Group { SelfMonitor::group(events) } else { SelfMonitor::singles(events) }?;
        if self == Self::UserMode {
            monitor.map()?;
        }
        Ok(monitor)
    }
}

/// The benches of a set.
pub fn benches(set: &Set, book: &mut Book) -> Vec<Box<dyn Bench>> {
    let mut all: Vec<Box<dyn Bench>> = Vec::new();
    for way in Way::ALL {
        for &count in set.counts {
            let events = set.take(count);
            match Session::new(way, set.name, events, book) {
                Ok(session) => all.push(Box::new(session)),
                Err(why) if way == Way::UserMode => {
                    // Said once: what one event cannot have, more cannot.
                    book.missing(Price::new(PriceSection::Measuring, "read", "rdpmc", set.name, count), &why);
                    if count == 1 {
                        break;
                    }
                }
                Err(why) => {
                    // Each by itself can be had, as the next way shows.
                    let why = if way == Way::Group && count > 1 { format!("not all at once: {why}") } else { why };
                    let method = if way == Way::Group { "ioctl and read(), group" } else { "ioctl and read(), singles" };
                    book.missing(Price::new(PriceSection::Measuring, "start, stop, read", method, set.name, count), &why);
                }
            }
        }
    }
    all
}

/// Some events by one way.
struct Session {
    way: Way,
    events: Vec<Event>,
    start: Option<Entry>,
    read: Option<Entry>,
    stop: Option<Entry>,
    whole: Entry,
}

impl Session {
    fn new(way: Way, set: &str, events: Vec<Event>, book: &mut Book) -> Result<Self, String> {
        let first_line = |error: Error| error.headline();
        let mut monitor = way.open(&events).map_err(first_line)?;
        if way == Way::UserMode {
            monitor.start().map_err(first_line)?;
            if monitor.read_in_user_mode().is_none() {
                return Err(why_not_in_user_mode(&events, &monitor));
            }
        }
        let count = events.len() as u32;
        let mut open =
            |operation: &str, method: &str| book.open(Price::new(PriceSection::Measuring, operation, method, set, count));
        let whole = "start, stop, read";
        let (start, stop, read, whole) = match way {
            Way::Group => (
                Some(open("start", "ioctl, group")),
                Some(open("stop", "ioctl, group")),
                Some(open("read", "read(), group")),
                open(whole, "ioctl and read(), group"),
            ),
            Way::Singles => (
                Some(open("start", "ioctl, singles")),
                Some(open("stop", "ioctl, singles")),
                Some(open("read", "read(), singles")),
                open(whole, "ioctl and read(), singles"),
            ),
            Way::Prctl => (Some(open("start", "prctl")), Some(open("stop", "prctl")), None, open(whole, "prctl and read()")),
            Way::UserMode => (None, None, Some(open("read", "rdpmc")), open(whole, "rdpmc, twice")),
        };
        Ok(Self { way, events, start, read, stop, whole })
    }
}

/// What the page of the first event that cannot be read says.
fn why_not_in_user_mode(events: &[Event], monitor: &SelfMonitor) -> String {
    let refusing = monitor.pages().iter().zip(events).find(|(page, _)| page.read().is_none());
    match refusing {
        Some((page, event)) if page.is_readable() => {
            format!("{} is on no hardware counter: the index on its page is {}", event.name, page.index())
        }
        Some((_, event)) => format!("the page of {} has no cap_user_rdpmc: no hardware counter, or not allowed", event.name),
        None => "no page is mapped".into(),
    }
}

fn system(call: &str) -> impl FnOnce(std::io::Error) -> Error {
    let call = call.to_string();
    move |source| Error::System { call, source }
}

impl Bench for Session {
    fn round(&mut self, book: &mut Book) -> Result<()> {
        let mut monitor = self.way.open(&self.events)?;
        match self.way {
            Way::UserMode => self.in_user_mode(&mut monitor, book),
            Way::Prctl => self.by_prctl(&mut monitor, book),
            Way::Group | Way::Singles => self.by_ioctl(&mut monitor, book),
        }
    }
}

impl Session {
    fn by_ioctl(&self, monitor: &mut SelfMonitor, book: &mut Book) -> Result<()> {
        for nth in 0..=book.runs {
            let (start, done) = timed(|| monitor.start());
            done?;
            let (read, done) = timed(|| monitor.read().map(|_| ()));
            done?;
            let (stop, done) = timed(|| monitor.stop());
            done?;
            for (entry, ticks) in [(self.start, start), (self.read, read), (self.stop, stop)] {
                entry.into_iter().for_each(|entry| book.nth(entry, nth, ticks));
            }
        }
        for nth in 0..=book.runs {
            let (whole, done) = timed(|| {
                monitor.start()?;
                monitor.stop()?;
                monitor.read().map(|_| ())
            });
            done?;
            book.nth(self.whole, nth, whole);
        }
        self.remark_sharing(monitor, book)
    }

    fn by_prctl(&self, monitor: &mut SelfMonitor, book: &mut Book) -> Result<()> {
        for nth in 0..=book.runs {
            let (start, done) = timed(self_monitor::start_all_of_this_thread);
            done.map_err(system("prctl PR_TASK_PERF_EVENTS_ENABLE"))?;
            let (stop, done) = timed(self_monitor::stop_all_of_this_thread);
            done.map_err(system("prctl PR_TASK_PERF_EVENTS_DISABLE"))?;
            for (entry, ticks) in [(self.start, start), (self.stop, stop)] {
                entry.into_iter().for_each(|entry| book.nth(entry, nth, ticks));
            }
        }
        for nth in 0..=book.runs {
            let (whole, done) = timed(|| {
                self_monitor::start_all_of_this_thread().map_err(system("prctl"))?;
                self_monitor::stop_all_of_this_thread().map_err(system("prctl"))?;
                monitor.read().map(|_| ())
            });
            done?;
            book.nth(self.whole, nth, whole);
        }
        self.remark_sharing(monitor, book)
    }

    fn in_user_mode(&self, monitor: &mut SelfMonitor, book: &mut Book) -> Result<()> {
        monitor.start()?;
        for nth in 0..=book.runs {
            let (read, there) = timed(|| monitor.read_in_user_mode().is_some());
            // Two: an event that counts all the time starts at no zero, so what lies between is a difference.
            let (whole, both) = timed(|| {
                monitor.read_in_user_mode().is_some() && std::hint::black_box(&mut *monitor).read_in_user_mode().is_some()
            });
            // An event that shares its counter is on none now and then: that run read nothing, and is not entered.
            if there && both {
                self.read.into_iter().for_each(|entry| book.nth(entry, nth, read));
                book.nth(self.whole, nth, whole);
            }
        }
        self.remark_sharing(monitor, book)
    }

    fn remark_sharing(&self, monitor: &SelfMonitor, book: &mut Book) -> Result<()> {
        // Being switched on and off takes a little of either time.
        const WHOLE: f64 = 0.99;
        if monitor.share()? < WHOLE {
            for entry in [self.start, self.read, self.stop, Some(self.whole)].into_iter().flatten() {
                book.remark(entry, "multiplexed: there are not so many counters");
            }
        }
        Ok(())
    }
}
