#![allow(clippy::unwrap_used)] // tests may

use super::*;
use crate::cause::Cause;
use crate::kernel::KernelEvent;
use crate::kernel::What;
use crate::mark::{Kind, Mark};
use crate::record::Still;
use crate::row::SampleRow;

const S: u64 = 1_000_000_000;
const TID: u32 = 7;

/// A program of one thread that is followed in slices of a second, of which five are now.
struct Followed {
    live: Live,
    still: Still,
    now_ns: u64,
    id: u64,
}

impl Followed {
    fn new() -> Self {
        let following = Following { slice_ns: S, window_ns: 5 * S, slow_from: 0.9 };
        let mut still = Still::marked();
        still.names.threads.insert(TID, "worker".into());
        Self { live: Live::new(following, 0), still, now_ns: 0, id: 0 }
    }

    fn kernel(&mut self, what: What) {
        let event = KernelEvent { time_ns: self.now_ns, cpu: 0, tid: TID, what };
        self.live.row(&Row::Kernel(event)).unwrap();
    }

    fn mark(&mut self, kind: Kind) {
        let mark = Mark { time_ns: self.now_ns, tid: TID, id: self.id, kind };
        self.live.row(&Row::Mark(mark)).unwrap();
    }

    /// A message that runs for so long, then waits in a system call for so long.
    fn message(&mut self, text: Option<&str>, runs_ns: u64, waits_ns: u64) {
        self.id += 1;
        text.into_iter().for_each(|text| self.still.say(self.id, text));
        self.mark(Kind::Begin);
        self.now_ns += runs_ns;
        if waits_ns > 0 {
            self.kernel(What::SyscallEnter(35));
            self.kernel(What::Switch { is_runnable: false, next: 0 });
            self.now_ns += waits_ns;
            let event = KernelEvent { time_ns: self.now_ns, cpu: 0, tid: 0, what: What::Switch { is_runnable: true, next: TID } };
            self.live.row(&Row::Kernel(event)).unwrap();
            self.kernel(What::SyscallExit(35));
        }
        self.mark(Kind::End);
        self.now_ns += 1000;
        self.live.looked(&mut self.still.at(self.now_ns)).unwrap();
        if self.live.is_due(self.now_ns) {
            self.live.turn(self.now_ns, &mut self.still.at(self.now_ns));
        }
    }
}

#[test]
fn now_is_the_last_window_and_all_is_all() {
    let mut followed = Followed::new();
    while followed.now_ns < 10 * S {
        followed.message(None, 2_000_000, 0);
    }
    while followed.now_ns < 20 * S {
        followed.message(None, 1_000_000, 0);
    }
    let view = followed.live.view();
    assert!((5 * S..7 * S).contains(&(view.to_ns - view.from_ns)), "{} to {}", view.from_ns, view.to_ns);
    let is = |ns: u64, expected: u64| ns.abs_diff(expected) <= expected / 500;
    assert!(is(view.population.latency.quantile_ns(1.0), 1_000_000) && is(followed.live.latency.max_ns(), 2_000_000));
    assert_eq!(followed.live.latency.len(), followed.id);
    assert_eq!(followed.live.watched, followed.id);
    assert!(is(followed.live.causes.of(Cause::OnCpu), followed.live.latency.sum_ns() as u64));
}

#[test]
fn slow_ones_are_blamed_by_kind_and_cause() {
    let mut followed = Followed::new();
    let mut waited = 0;
    while followed.now_ns < 8 * S {
        match followed.id % 20 {
            7 => {
                waited += 1;
                followed.message(Some(&format!("GET /slow?n={waited}")), 1_000_000, 9_000_000);
            }
            n => followed.message(Some("PUT /fast"), 1_000_000 + 1000 * n, 0),
        }
    }
    let view = followed.live.view();
    assert!(view.slow_ns < 2_000_000 && view.slow.len() as u64 > view.population.latency.len() / 20, "{}", view.slow_ns);
    let slowest = view.slow[0];
    assert!(slowest.text.as_deref().unwrap().starts_with("GET /slow?n="), "{slowest:?}");
    let [slow, fast] = &view.kinds[..] else { panic!("{} kinds", view.kinds.len()) };
    assert_eq!((slow.name, slow.mostly, fast.name), ("GET /slow?n=?", Some(Cause::Blocked), "PUT /fast"));
    assert!(slow.beyond_ns > 50 * fast.beyond_ns && slow.latency.len() == slow.slow);
    let blame = view.blame().unwrap();
    let foremost = &blame.causes[0];
    assert_eq!(foremost.cause, Cause::Blocked);
    // Of the slow ones, the tenth of all or a little less, half have waited for 9 ms.
    assert!((4e6..5.5e6).contains(&foremost.extra_ns.estimate), "{foremost:?}");
    // The kernel has its say on those of late first.
    let texts = [&followed.live.labels.young, &followed.live.labels.old].map(|texts| texts.len());
    assert!(texts[0] <= 20 && texts[1] == 0, "{texts:?}");
}

#[test]
fn what_is_over_takes_no_room() {
    let mut followed = Followed::new();
    for round in 0..200u64 {
        // Texts that differ, texts of messages that nobody begins, addresses that come once, slow ones by the thousand.
        for i in 0..100 {
            let text: String =
                format!("{round} {i}").chars().map(|c| if c == ' ' { c } else { char::from(b'a' + c as u8 - b'0') }).collect();
            followed.message(Some(&text), 100_000 + round * 1000 + i, 0);
            followed.still.say(1_000_000_000 + followed.id, "nobody begins it");
        }
        for i in 0..1000 {
            let ip = 0x1000 + round * 1000 + i;
            let row = SampleRow { time_ns: followed.now_ns, cpu: 0, pid: 1, tid: TID, ip, tag: 0 };
            followed.live.row(&Row::Sample(row)).unwrap();
        }
        followed.now_ns += S / 2;
        followed.still.ended.push_back((followed.now_ns, 1, 1000 + round as u32));
        followed.still.names.threads.insert(1000 + round as u32, "short".into());
    }
    let Followed { live, still, .. } = &followed;
    assert!(live.slices.len() <= 12, "{} slices", live.slices.len());
    assert!(live.slices.iter().all(|slice| slice.kinds.len() <= 32) && live.unnamed.is_empty());
    assert!(live.labels.young.len() + live.labels.old.len() <= 3000, "{}", live.labels.young.len());
    assert!(live.addresses.len() <= 4000 && live.symbols.addresses() <= MAX_ADDRESSES && live.unplaced == 0);
    assert!(still.names.threads.len() <= 80 && still.ended.len() <= 80, "{}", still.names.threads.len());
}
