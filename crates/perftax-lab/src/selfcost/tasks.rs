//! What creating and ending a thread costs while events are open: a copy of each inherited event is made, and given up.

use perftax_doc::{Price, PriceSection};
use perftax_pmu::Result;
use perftax_pmu::event::Event;
use perftax_pmu::sys::{OpenEvent, Target};

use super::book::{Book, Entry};
use super::switches::{AGAIN, NONE};
use super::{Bench, Set, Setting, timed};
use perftax_pmu::sampler::Sampling;

const OPERATION: &str = "a thread, created and joined";
/// Threads before the timed ones.
const WARM_UP: usize = 4;

/// What is open meanwhile.
#[derive(Clone, Debug)]
struct Condition {
    name: &'static str,
    set: &'static str,
    events: Vec<Event>,
    is_inherited: bool,
}

/// The bench.
pub struct Tasks {
    cpu: u32,
    random: fastrand::Rng,
    conditions: Vec<(Condition, Entry)>,
}

impl Tasks {
    /// Every condition that can be had here.
    pub fn new(setting: &Setting, sets: &[Set], book: &mut Book) -> Self {
        let none = |name| Condition { name, set: "", events: Vec::new(), is_inherited: false };
        let mut all = vec![none(NONE), none(AGAIN)];
        for set in sets.iter().filter(|set| set.missing.is_none()) {
            let of_set = |name, count, is_inherited| Condition { name, set: set.name, events: set.take(count), is_inherited };
            all.extend([
                of_set("counting, inherited", 1, true),
                of_set("counting, inherited", 4, true),
                of_set("counting, per CPU", 1, false),
            ]);
        }
        let mut conditions = Vec::new();
        let mut base = None;
        for condition in all {
            let price = Price::new(PriceSection::Task, OPERATION, condition.name, condition.set, condition.events.len() as u32);
            if let Err(error) = condition.open(setting.cpu) {
                book.missing(price, &error.headline());
                continue;
            }
            let entry = book.open(price);
            base.into_iter().for_each(|base| book.compare(entry, base, None));
            base = base.or((condition.name == NONE).then_some(entry));
            conditions.push((condition, entry));
        }
        Self { cpu: setting.cpu, random: fastrand::Rng::with_seed(setting.seed ^ 0x7461), conditions }
    }
}

impl Condition {
    /// Fails where it cannot be had: watching a CPU takes more rights than watching oneself.
    fn open(&self, cpu: u32) -> Result<Vec<OpenEvent>> {
        let sampling = Sampling { inherit: self.is_inherited, ..Sampling::COUNTING };
        let own = rustix::thread::gettid().as_raw_nonzero().get();
        let target = if self.is_inherited { Target::Thread(own) } else { Target::Cpu(cpu) };
        let open = |event: &Event| {
            let opened = OpenEvent::open(event, &sampling, target, None)?;
            opened.enable()?;
            Ok(opened)
        };
        self.events.iter().map(open).collect()
    }
}

impl Bench for Tasks {
    fn round(&mut self, book: &mut Book) -> Result<()> {
        self.random.shuffle(&mut self.conditions);
        for (condition, entry) in &self.conditions {
            let opened = condition.open(self.cpu)?;
            for nth in 0..WARM_UP + book.runs {
                // What the thread returns is nothing, and it does nothing that may panic.
                let (ticks, _) = timed(|| std::thread::spawn(|| ()).join().is_ok());
                if nth >= WARM_UP {
                    book.run(*entry, ticks);
                }
            }
            drop(opened);
        }
        Ok(())
    }
}
