#![allow(clippy::unwrap_used)] // tests may

use std::collections::BTreeMap;
use std::path::Path;

use super::*;
use crate::cause::Cause;
use crate::join::{HostTrace, pairs};
use crate::mark::{Kind, Mark, TraceIdentity};
use crate::marked::{Hop, Relation};
use crate::store::{Store, StoreWriter, write_relations};

/// What a service did, by the true time; written by its own clock.
#[derive(Default)]
struct Planted {
    ahead_ns: i64,
    marks: Vec<(u64, u64, Kind)>,
    relations: BTreeMap<u64, Relation>,
    hops: Vec<Hop>,
}

impl Planted {
    fn message(&mut self, id: u64, (begin, end): (u64, u64), parent: u64, span: u64) {
        self.marks.extend([(begin, id, Kind::Begin), (end, id, Kind::End)]);
        self.relations.insert(id, Relation { parent, identity: TraceIdentity { trace: 9, span } });
    }

    fn hop(&mut self, time_ns: u64, id: u64, is_sent: bool) {
        self.hops.push(Hop { time_ns: self.own(time_ns), id, tid: 1, is_sent });
    }

    fn own(&self, time_ns: u64) -> u64 {
        time_ns.wrapping_add_signed(self.ahead_ns)
    }

    fn write(mut self, folder: &Path) -> (Store, HostTrace) {
        std::fs::create_dir(folder).unwrap();
        self.marks.sort_by_key(|mark| mark.0);
        let mut writer = StoreWriter::create(folder).unwrap();
        for (time_ns, id, kind) in &self.marks {
            writer.mark(&Mark { time_ns: self.own(*time_ns), tid: 1, id: *id, kind: *kind }).unwrap();
        }
        writer.finish(&BTreeMap::new(), &[]).unwrap();
        self.hops.sort_by_key(|hop| hop.time_ns);
        write_relations(folder, &self.relations, &self.hops).unwrap();
        let store = Store::open(folder).unwrap();
        let host = HostTrace::new(&store.relations, Vec::new(), None);
        (store, host)
    }
}

/// A message of the front (100 µs) calls the app, by a part of its own (at 20, for 70 µs), which is there for 50 µs and calls the store for 30 µs, which is there for 10.
fn three_services(n: u64) -> [Planted; 3] {
    let [mut front, mut app, mut store] =
        [0, 5_000_000_000, -3_000_000_000].map(|ahead_ns| Planted { ahead_ns, ..Planted::default() });
    let us = 1000;
    for i in 1..=n {
        let at = 10_000_000_000 + i * 1_000_000;
        let (own, part, span) = (i * 10, i * 10 + 1, i * 10);
        front.message(own, (at, at + 100 * us), 0, 0);
        front.message(part, (at + 20 * us, at + 90 * us), own, span);
        front.hop(at + 20 * us, part, true);
        front.hop(at + 90 * us, part, false);
        app.hop(at + 28 * us, own, false);
        app.message(own, (at + 28 * us, at + 80 * us), 0, span);
        app.message(part, (at + 40 * us, at + 71 * us), own, span + 1);
        app.hop(at + 40 * us, part, true);
        app.hop(at + 70 * us, part, false);
        app.hop(at + 78 * us, own, true);
        if i != 7 {
            store.message(i, (at + 50 * us, at + 60 * us), 0, span + 1);
            store.hop(at + 50 * us, i, false);
            store.hop(at + 60 * us, i, true);
        }
    }
    [front, app, store]
}

#[test]
fn a_request_is_followed_over_three_services_whatever_their_clocks_show() {
    let folder = tempfile::tempdir().unwrap();
    let mut stores = Vec::new();
    let mut hosts = Vec::new();
    for (at, planted) in three_services(20).into_iter().enumerate() {
        let (store, host) = planted.write(&folder.path().join(at.to_string()));
        hosts.push(host);
        stores.push(store);
    }
    let pairs = pairs(&hosts);
    let traces: Vec<ServiceTrace> =
        stores.iter().zip(hosts).map(|(store, host)| ServiceTrace::of(store, host).unwrap()).collect();
    let requests = Requests::of(traces);
    assert_eq!((requests.roots.len(), requests.from_elsewhere), (20, 0));
    let all: Vec<Request> = requests.roots.iter().map(|root| requests.request(*root).unwrap()).collect();
    let parts = |request: &Request| request.parts.iter().map(|part| (part.service, part.window_len_ns())).collect::<Vec<_>>();
    assert_eq!(parts(&all[0]), [(0, 100_000), (0, 70_000), (1, 50_000), (1, 31_000), (2, 10_000)]);
    // One whose call nobody tells of.
    assert_eq!((parts(&all[6]).len(), all[6].flaws.as_slice()), (4, &[Flaw::Untraced(1)][..]));
    assert_eq!(requests.roots_of(9, Some(71)), [(0, 70)], "the app's call to the store");
    assert_eq!(requests.roots_of(9, Some(70)), [(0, 70)]);

    let gathered = gather(&all, 1, &stores.iter().map(|store| (store, false)).collect::<Vec<_>>()).unwrap();
    assert!(gathered.messages.len() == 1 && gathered.messages[0].iter().all(Option::is_some));
    let charges: Vec<Charges> = all.iter().zip(&gathered.accounts).map(|(request, accounts)| charge(request, accounts)).collect();
    for charges in &charges {
        assert!((charges.total_ns() - 100_000.0).abs() < 1e-3, "{charges:?}");
    }
    // Of the front's 100 µs 30 are its own and the part's is the call; of the app's 50 the same part takes 31, of which the call 30 and the store 10.
    let of = |charge| charges[0].ns.get(&charge).copied().unwrap_or(0.0);
    let on_cpu = |service| of(Charge::Service { service, cause: Cause::OnCpu });
    assert_eq!((on_cpu(0), of(Charge::Between { from: 0, to: 1 })), (30_000.0, 20_000.0), "{charges:?}");
    // From when it came to when it began and was marked no thread is at it; here both are at once.
    assert_eq!((on_cpu(1), of(Charge::Between { from: 1, to: 2 }), on_cpu(2)), (20_000.0, 20_000.0, 10_000.0), "{charges:?}");
    assert_eq!(charges[6].ns[&Charge::Untraced(1)], 30_000.0);

    // When they were: within the ways, whatever the clocks show.
    let difference = |from, to, time_ns| pairs.iter().find_map(|pair| pair.difference_ns(from, to, time_ns));
    let placed = placement(&all[0], difference);
    let truths = [0, 20_000, 28_000, 40_000, 50_000];
    for (placed, truth) in placed.parts.iter().zip(truths) {
        let (least, most) = placed.from_ns;
        assert!(least <= truth && truth <= most && most - least <= 40_300, "{placed:?} {truth}");
    }
    assert_eq!(placed.way_there_ns.len(), 2);
    let unknown = placement(&all[0], |_, _, _| None);
    assert_eq!(
        (unknown.way_there_ns.as_slice(), unknown.known_to_ns.as_slice()),
        (&[Some((0, 20_000)), Some((0, 20_000))][..], &[None, None][..])
    );
}

/// Where the front is not among the traces the app's messages are where requests begin.
#[test]
fn without_the_first_service_requests_begin_in_the_next_one() {
    let folder = tempfile::tempdir().unwrap();
    let [_, app, store] = three_services(5);
    let traces: Vec<ServiceTrace> = [app, store]
        .into_iter()
        .enumerate()
        .map(|(at, planted)| {
            let (store, host) = planted.write(&folder.path().join(at.to_string()));
            ServiceTrace::of(&store, host).unwrap()
        })
        .collect();
    let requests = Requests::of(traces);
    assert_eq!((requests.roots.len(), requests.from_elsewhere), (5, 5));
    let request = requests.request(requests.roots[0]).unwrap();
    assert_eq!(request.parts.iter().map(|part| part.window_len_ns()).collect::<Vec<_>>(), [52_000, 31_000, 10_000]);
}

/// A call that was there for longer than its caller waited counts in proportion, and all adds up.
#[test]
fn what_a_caller_did_meanwhile_is_its_own() {
    let part = |service, window_ns, encloses| Part { service, id: 1, parent: None, window_ns, own_ns: vec![window_ns], encloses };
    let call = Call { identity: TraceIdentity::default(), away_ns: (10, 90), there: Some(1) };
    let request = Request {
        parts: vec![part(0, (0, 100), vec![Enclosed::Call(0)]), part(1, (1000, 1060), Vec::new())],
        calls: vec![call],
        flaws: Vec::new(),
    };
    let own = |cause, ns| BTreeMap::from([(OwnTime { cause, detail: None }, ns)]);
    let there = Account { own_ns: own(Cause::PageFault, 60), ..Account::default() };
    for (waited_ns, at_it, between) in [(80, 60.0, 20.0), (60, 60.0, 0.0), (30, 30.0, 0.0), (0, 0.0, 0.0)] {
        let front = Account { own_ns: own(Cause::OnCpu, 100 - waited_ns), waited_ns: vec![waited_ns], ..Account::default() };
        let charges = charge(&request, &[Some(front), Some(there.clone())]);
        let of = |charge| charges.ns.get(&charge).copied().unwrap_or(0.0);
        assert_eq!(of(Charge::Service { service: 1, cause: Cause::PageFault }), at_it);
        assert_eq!(of(Charge::Between { from: 0, to: 1 }), between);
        assert_eq!(charges.total_ns(), 100.0);
    }
    let unseen = charge(&request, &[None, Some(there)]);
    assert_eq!(unseen.ns, BTreeMap::from([(Charge::Unseen(0), 100.0)]));
}

#[test]
fn what_slow_requests_spent_beyond_the_others_adds_up() {
    let of = |all: &[(Charge, f64)]| Charges { ns: all.iter().copied().collect(), ..Charges::default() };
    let (app, way) = (Charge::Service { service: 1, cause: Cause::Blocked }, Charge::Between { from: 0, to: 1 });
    let mut usual = UsualRequests::default();
    (0..100).for_each(|i| usual.add(&of(&[(app, 100.0 + f64::from(i % 2)), (way, 50.0)])));
    let slow: Vec<Charges> = (0..40).map(|i| of(&[(app, 1100.0 + f64::from(i)), (way, 50.0)])).collect();
    let blame = blame_services(&slow.iter().collect::<Vec<_>>(), &usual).unwrap();
    assert_eq!((blame.requests, blame.charges[0].charge), (40, app));
    assert!(blame.extra_ns.contains(1019.0) && blame.charges[0].extra_ns.contains(1019.0), "{blame:?}");
    let sum: f64 = blame.charges.iter().map(|blamed| blamed.extra_ns.estimate).sum();
    assert!((sum - blame.extra_ns.estimate).abs() < 1e-6);
    assert_eq!(usual.foremost(&slow[3]), Some((app, 1103.0 - 100.5)));
    assert_eq!(blame_services(&[], &usual), None);
}

/// Parts beside each other: each moment goes to the one that ends last, and all of them to one.
#[test]
fn parts_beside_each_other_share_their_time_once() {
    let folder = tempfile::tempdir().unwrap();
    let mut front = Planted::default();
    front.message(1, (1000, 2000), 0, 5);
    front.message(2, (1100, 1500), 1, 0);
    front.message(3, (1200, 1700), 1, 0);
    front.message(4, (1600, 1650), 3, 0);
    // One that goes on after it, and one that is part of itself.
    front.message(5, (1900, 2500), 1, 0);
    front.message(6, (100, 200), 6, 0);
    front.relations.get_mut(&6).unwrap().identity = TraceIdentity::default();
    let (store, host) = front.write(&folder.path().join("front"));
    let requests = Requests::of(vec![ServiceTrace::of(&store, host).unwrap()]);
    assert_eq!(requests.roots, [(0, 1)], "what is part of itself alone has nothing to do with others");
    let request = requests.request((0, 1)).unwrap();
    let own: BTreeMap<u64, Vec<(u64, u64)>> = request.parts.iter().map(|part| (part.id, part.own_ns.clone())).collect();
    let expected = [
        (1, vec![(1000, 1100), (1700, 1900)]),
        (2, vec![(1100, 1200)]),
        (3, vec![(1200, 1600), (1650, 1700)]),
        (4, vec![(1600, 1650)]),
        (5, vec![(1900, 2000)]),
    ];
    assert_eq!(own, BTreeMap::from(expected));
}
