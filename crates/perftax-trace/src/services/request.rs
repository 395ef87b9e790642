//! Which messages of which services belong together.

use std::hash::BuildHasher as _;

use rustc_hash::{FxBuildHasher, FxHashMap, FxHashSet};

use perftax_pmu::Result;

use crate::join::HostTrace;
use crate::mark::TraceIdentity;
use crate::store::Store;

/// Parts of one request, at most; what goes beyond is left out, and said.
const MAX_PARTS: usize = 4096;
/// Parts within parts.
const MAX_DEPTH: usize = 64;

/// A service's trace, as far as others have to do with it.
#[derive(Debug)]
pub struct ServiceTrace {
    /// What it sent and received, and its host's clocks.
    pub host: HostTrace,
    /// When each message began and ended; of those alone whose number occurs once.
    spans: FxHashMap<u64, (u64, u64)>,
    /// What others call its messages.
    identities: FxHashMap<u64, TraceIdentity>,
    /// Messages that are part of one.
    parts: FxHashMap<u64, Vec<u64>>,
    /// Those that are.
    has_parent: FxHashSet<u64>,
    /// Messages whose number occurs again: which of them is meant is not known.
    pub repeated: u64,
}

impl ServiceTrace {
    /// Of a trace, by its marks and what its program said.
    ///
    /// # Errors
    /// Where the marks cannot be read.
    pub fn of(store: &Store, host: HostTrace) -> Result<Self> {
        let (mut spans, mut again) = (FxHashMap::default(), FxHashSet::default());
        store.spans(|id, span| {
            if spans.insert(id, span).is_some() {
                again.insert(id);
            }
        })?;
        spans.retain(|id, _| !again.contains(id));
        let mut trace = Self {
            host,
            spans,
            identities: FxHashMap::default(),
            parts: FxHashMap::default(),
            has_parent: FxHashSet::default(),
            repeated: again.len() as u64,
        };
        for (id, relation) in store.relations.all() {
            if relation.identity != TraceIdentity::default() {
                trace.identities.insert(id, relation.identity);
            }
            if relation.parent != 0 && relation.parent != id {
                trace.parts.entry(relation.parent).or_default().push(id);
                trace.has_parent.insert(id);
            }
        }
        Ok(trace)
    }

    /// What others call a message; zeros: nothing.
    pub fn identity(&self, id: u64) -> TraceIdentity {
        self.identities.get(&id).copied().unwrap_or_default()
    }

    /// When a message was sent and had back, by this host's clock.
    fn away(&self, id: u64) -> Option<(u64, u64)> {
        let passed = self.host.passed.get(&self.identity(id)).filter(|passed| passed.sent_id == id && !passed.is_repeated)?;
        passed.sent_ns.zip(passed.received_ns).filter(|(sent, received)| sent <= received)
    }

    /// When a message came and was answered, by this host's clock.
    fn served(&self, identity: TraceIdentity) -> Option<(u64, (u64, u64))> {
        let passed = self.host.passed.get(&identity).filter(|passed| !passed.is_repeated)?;
        let (received, sent) = passed.received_ns.zip(passed.sent_ns).filter(|(received, sent)| received <= sent)?;
        Some((passed.received_id, (received, sent)))
    }

    /// Whether a message came from elsewhere.
    fn is_from_elsewhere(&self, id: u64) -> bool {
        let passed = self.host.passed.get(&self.identity(id)).filter(|passed| passed.received_id == id);
        passed.is_some_and(|passed| match (passed.received_ns, passed.sent_ns) {
            (Some(received), Some(sent)) => received <= sent,
            (received, _) => received.is_some(),
        })
    }
}

/// A call: a message was away from its service.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// What both call it.
    pub identity: TraceIdentity,
    /// When it was sent and had back, by the caller's clock.
    pub away_ns: (u64, u64),
    /// The part that it was there; none where no trace has it.
    pub there: Option<usize>,
}

/// What a part of a request encloses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enclosed {
    /// Another message of the same service, by the part's number.
    Part(usize),
    /// Another service's, by the call's number.
    Call(usize),
}

/// A message of one service, as part of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The service, from 0.
    pub service: usize,
    /// The message.
    pub id: u64,
    /// The part that it is enclosed by.
    pub parent: Option<usize>,
    /// From when to when it counts, by its own service's clock: from its beginning to its end; of a message that another service sent, from when it came until it was answered.
    pub window_ns: (u64, u64),
    /// Of that what goes to none of the parts that it encloses in its own service: pieces of the window, in order of time.
    pub own_ns: Vec<(u64, u64)>,
    /// What it encloses, in order of time.
    pub encloses: Vec<Enclosed>,
}

impl Part {
    fn of(service: usize, id: u64, parent: Option<usize>, window_ns: (u64, u64)) -> Self {
        Self { service, id, parent, window_ns, own_ns: vec![window_ns], encloses: Vec::new() }
    }

    /// How long it counts.
    pub fn window_len_ns(&self) -> u64 {
        self.window_ns.1 - self.window_ns.0
    }
}

/// What is not known of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Flaw {
    /// A call of this service is in nobody's trace: that service was not recorded, or lost the marks.
    Untraced(usize),
    /// A message of this service is there by name alone: recording was off, or it was not kept.
    Unseen(usize),
    /// Records of this service were lost while it was at it.
    Lost(usize),
    /// More pieces than are kept, or more parts.
    LeftOut(usize),
}

/// A message that no other one encloses, with all that it called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    /// Its parts; the first one encloses all.
    pub parts: Vec<Part>,
    /// Its calls.
    pub calls: Vec<Call>,
    /// What is not known of it by its marks.
    pub flaws: Vec<Flaw>,
}

impl Request {
    /// From its beginning to its end.
    pub fn latency_ns(&self) -> u64 {
        self.parts[0].window_len_ns()
    }

    /// Its calls that a part waits for itself, by their numbers.
    pub fn calls_of(&self, part: usize) -> impl Iterator<Item = usize> {
        let call = |enclosed: &Enclosed| match *enclosed {
            Enclosed::Call(call) => Some(call),
            Enclosed::Part(_) => None,
        };
        self.parts[part].encloses.iter().filter_map(call)
    }

    /// The parts of its own service that a part encloses, by their numbers.
    pub fn parts_of(&self, part: usize) -> impl Iterator<Item = usize> {
        let inner = |enclosed: &Enclosed| match *enclosed {
            Enclosed::Part(inner) => Some(inner),
            Enclosed::Call(_) => None,
        };
        self.parts[part].encloses.iter().filter_map(inner)
    }

    /// Each moment goes to the innermost part of a service that was under way; of several beside each other to the one that ended last.
    fn share_out(&mut self) {
        // What encloses a part stands before it.
        for at in 0..self.parts.len() {
            let inner: Vec<(usize, (u64, u64))> = self.parts_of(at).map(|part| (part, self.parts[part].window_ns)).collect();
            if inner.is_empty() {
                continue;
            }
            let mut shared: FxHashMap<usize, Vec<(u64, u64)>> = inner.iter().map(|(part, _)| (*part, Vec::new())).collect();
            let mut own = Vec::new();
            for (from_ns, to_ns) in std::mem::take(&mut self.parts[at].own_ns) {
                let mut at_ns = from_ns;
                while at_ns < to_ns {
                    let is_under_way = |(_, (begin, end)): &&(usize, (u64, u64))| *begin <= at_ns && at_ns < *end;
                    let last = inner.iter().filter(is_under_way).max_by_key(|(_, (_, end))| *end);
                    let changes = inner.iter().flat_map(|(_, (begin, end))| [*begin, *end]).filter(|time_ns| *time_ns > at_ns);
                    let next_ns = changes.min().map_or(to_ns, |next_ns| next_ns.min(to_ns));
                    let to = last.and_then(|(part, _)| shared.get_mut(part)).unwrap_or(&mut own);
                    match to.last_mut() {
                        Some(last) if last.1 == at_ns => last.1 = next_ns,
                        _ => to.push((at_ns, next_ns)),
                    }
                    at_ns = next_ns;
                }
            }
            self.parts[at].own_ns = own;
            for (part, windows) in shared {
                self.parts[part].own_ns = windows;
            }
        }
    }

    /// When it begins and ends what it encloses, by the clock of the part's service.
    pub fn enclosed_ns(&self, enclosed: Enclosed) -> (u64, u64) {
        match enclosed {
            Enclosed::Part(part) => self.parts[part].window_ns,
            Enclosed::Call(call) => self.calls[call].away_ns,
        }
    }
}

/// All requests of several traces.
#[derive(Debug)]
pub struct Requests {
    /// The traces.
    pub traces: Vec<ServiceTrace>,
    /// The messages that requests begin with: service and number, in order of both.
    pub roots: Vec<(usize, u64)>,
    /// Messages that came from a service of which no trace tells; they are roots where there are no others.
    pub from_elsewhere: u64,
}

impl Requests {
    /// Looks for those messages that others name, or that have parts, and that no other one encloses.
    pub fn of(traces: Vec<ServiceTrace>) -> Self {
        let mut own: Vec<(usize, u64)> = Vec::new();
        let mut elsewhere = Vec::new();
        for (service, trace) in traces.iter().enumerate() {
            let is_root = |id: &&u64| {
                let has_to_do = trace.identities.contains_key(id) || trace.parts.contains_key(id);
                has_to_do && !trace.has_parent.contains(id)
            };
            for id in trace.spans.keys().filter(is_root) {
                if !trace.is_from_elsewhere(*id) {
                    own.push((service, *id));
                } else if !is_called(&traces, service, trace.identity(*id)) {
                    elsewhere.push((service, *id));
                }
            }
        }
        let from_elsewhere = elsewhere.len() as u64;
        let mut roots = if own.is_empty() { elsewhere } else { own };
        roots.sort_unstable();
        Self { traces, roots, from_elsewhere }
    }

    /// So many of some roots at most, by chance, the same ones each time: of every so-many-th one what comes again and again would be met or missed.
    pub fn some(roots: &[(usize, u64)], at_most: usize) -> Vec<(usize, u64)> {
        let mut some = roots.to_vec();
        if some.len() > at_most {
            let chance = FxBuildHasher;
            some.sort_by_key(|root| chance.hash_one(root));
            some.truncate(at_most);
        }
        some
    }

    /// How long a root took, by its marks.
    pub fn latency_ns(&self, (service, id): (usize, u64)) -> u64 {
        self.traces[service].spans.get(&id).map_or(0, |(begin, end)| end - begin)
    }

    /// A root with all that it called.
    pub fn request(&self, (service, id): (usize, u64)) -> Option<Request> {
        let window_ns = *self.traces.get(service)?.spans.get(&id)?;
        let mut request = Request { parts: Vec::new(), calls: Vec::new(), flaws: Vec::new() };
        self.enclose(&mut request, Part::of(service, id, None, window_ns), 0);
        request.share_out();
        request.flaws.sort_unstable();
        request.flaws.dedup();
        Some(request)
    }

    /// The root that a message belongs to, by what others call it: of a trace, or of one of its spans.
    pub fn roots_of(&self, trace: u128, span: Option<u64>) -> Vec<(usize, u64)> {
        let is = |identity: TraceIdentity| identity.trace == trace && span.is_none_or(|span| identity.span == span);
        let is_within = |root: &&(usize, u64)| {
            let request = self.request(**root);
            let mut parts = request.iter().flat_map(|request| &request.parts);
            parts.any(|part| is(self.traces[part.service].identity(part.id)))
        };
        self.roots.iter().filter(is_within).copied().collect()
    }

    fn enclose(&self, request: &mut Request, part: Part, depth: usize) -> Option<usize> {
        let service = part.service;
        let is_known = request.parts.iter().any(|other| (other.service, other.id) == (service, part.id));
        if is_known || request.parts.len() >= MAX_PARTS || depth > MAX_DEPTH {
            request.flaws.push(Flaw::LeftOut(service));
            return None;
        }
        let trace = &self.traces[service];
        let (id, (from_ns, to_ns)) = (part.id, part.window_ns);
        // What it was itself away for, unless it is what came.
        let own = trace.away(id);
        let at = request.parts.len();
        request.parts.push(part);
        let mut encloses = Vec::new();
        if let Some(away_ns) = own {
            let identity = trace.identity(id);
            let call = request.calls.len();
            request.calls.push(Call { identity, away_ns, there: None });
            let there = self
                .serving(service, identity)
                .and_then(|(other, id, window_ns)| self.enclose(request, Part::of(other, id, Some(at), window_ns), depth + 1));
            request.calls[call].there = there;
            if there.is_none() {
                request.flaws.push(Flaw::Untraced(service));
            }
            encloses.push(Enclosed::Call(call));
        }
        for child in trace.parts.get(&id).into_iter().flatten() {
            // Of one that is not over, or goes on after it, what is within counts.
            let Some((begin_ns, end_ns)) = trace.spans.get(child).copied() else {
                request.flaws.push(Flaw::Unseen(service));
                continue;
            };
            let window_ns = (begin_ns.clamp(from_ns, to_ns), end_ns.clamp(from_ns, to_ns));
            if window_ns.0 == window_ns.1 {
                continue;
            }
            let child = Part::of(service, *child, Some(at), window_ns);
            encloses.extend(self.enclose(request, child, depth + 1).map(Enclosed::Part));
        }
        encloses.sort_by_key(|enclosed| request.enclosed_ns(*enclosed));
        request.parts[at].encloses = encloses;
        Some(at)
    }

    /// The message that was served under a name: its service, its number, from when to when.
    fn serving(&self, caller: usize, identity: TraceIdentity) -> Option<(usize, u64, (u64, u64))> {
        let others = self.traces.iter().enumerate().filter(|(service, _)| *service != caller);
        let mut found = others.filter_map(|(service, trace)| trace.served(identity).map(|(id, ns)| (service, id, ns)));
        // Where several say that they had it, which of them did is not known.
        found.next().filter(|_| found.next().is_none())
    }
}

/// Whether anybody else sent what this one received.
fn is_called(traces: &[ServiceTrace], service: usize, identity: TraceIdentity) -> bool {
    let sent = |trace: &ServiceTrace| trace.host.passed.get(&identity).is_some_and(|passed| passed.sent_ns.is_some());
    traces.iter().enumerate().any(|(other, trace)| other != service && sent(trace))
}
