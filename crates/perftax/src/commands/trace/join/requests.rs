//! Messages over services, as documents have them.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use perftax_doc::{BlamedCharge, Charged, JoinedRequests, JoinedTrace, RequestBlame, SlowRequest};
use perftax_pmu::Error;
use perftax_trace::services::{
    Charge, Charges, Flaw, OwnTime, Request, Requests, ServiceTrace, UsualRequests, blame_services, charge, gather,
};
use perftax_trace::{Cause, Detail, HostTrace, Latencies, Pair, TraceIdentity};

use super::super::describe::is_doubtful;
use super::super::reading::Reading;
use super::super::report::quantiles;
use super::super::show::Asked;
use super::{Args, waterfall};

/// Slow requests that are followed, at most: the slowest.
const MAX_SLOW: usize = 20_000;
/// Others that tell what is usual, by chance.
const MAX_USUAL: usize = 20_000;
/// Details of a charge that are told.
const DETAILS: usize = 5;

/// The service that requests begin in, and how many begin in which others.
type Entry = (usize, Vec<(String, u64)>);

/// What describes requests: the traces by service.
pub struct Services<'a> {
    pub readings: &'a [Reading],
    pub traces: &'a [JoinedTrace],
    pub pairs: &'a [Pair],
    pub requests: Requests,
}

/// Follows the requests of several traces; none where there are none.
pub fn follow(
    args: &Args,
    readings: &[Reading],
    hosts: Vec<HostTrace>,
    traces: &[JoinedTrace],
    pairs: &[Pair],
) -> Result<Option<JoinedRequests>> {
    let mut of_services = Vec::new();
    for (reading, host) in readings.iter().zip(hosts) {
        of_services.push(ServiceTrace::of(&reading.store, host)?);
    }
    let services = Services { readings, traces, pairs, requests: Requests::of(of_services) };
    let (entry, other_entries) = match services.entry(args)? {
        Some(entry) => entry,
        None if args.request.is_empty() => return Ok(None),
        None => return Err(unknown(&args.request[0])),
    };
    let mut roots: Vec<(usize, u64)> = services.requests.roots.iter().filter(|root| root.0 == entry).copied().collect();
    let latencies: Latencies = roots.iter().map(|root| services.requests.latency_ns(*root)).collect();
    let slow_ns = latencies.quantile_ns(args.slow_from);
    let asked = services.asked(args)?;
    // Those that were asked for first, then the slowest.
    roots.sort_by_key(|root| (!asked.contains(root), std::cmp::Reverse(services.requests.latency_ns(*root)), root.1));
    let slow_from = roots.iter().filter(|root| asked.contains(*root) || services.requests.latency_ns(**root) >= slow_ns).count();
    let (slow_roots, usual_roots) = roots.split_at(slow_from);
    let slow_left_out = slow_roots.len().saturating_sub(MAX_SLOW) as u64;
    let usual_roots = Requests::some(usual_roots, MAX_USUAL);
    let slow_roots = &slow_roots[..slow_roots.len().min(MAX_SLOW)];
    let requests: Vec<Request> =
        slow_roots.iter().chain(&usual_roots).filter_map(|root| services.requests.request(*root)).collect();
    let whole = (asked.len() + args.waterfalls).min(slow_roots.len());
    let stores: Vec<_> = readings.iter().map(|reading| (&reading.store, reading.meta.recorded[2] > 0)).collect();
    let gathered = gather(&requests, whole, &stores)?;
    let charges: Vec<Charges> =
        requests.iter().zip(&gathered.accounts).map(|(request, accounts)| charge(request, accounts)).collect();
    let mut usual = UsualRequests::default();
    charges[slow_roots.len()..].iter().for_each(|charges| usual.add(charges));
    let mut flaws: BTreeMap<String, u64> = BTreeMap::new();
    let mut slow = Vec::new();
    for (at, (request, charges)) in requests.iter().zip(&charges).take(slow_roots.len()).enumerate() {
        let partial = gathered.accounts[at]
            .iter()
            .zip(&request.parts)
            .filter(|(account, _)| account.as_ref().is_some_and(|account| account.is_partial));
        let unseen = gathered.accounts[at].iter().zip(&request.parts).filter(|(account, _)| account.is_none());
        let mut of_request: BTreeSet<Flaw> = request.flaws.iter().copied().collect();
        of_request.extend(partial.map(|(_, part)| Flaw::LeftOut(part.service)));
        of_request.extend(unseen.map(|(_, part)| Flaw::Unseen(part.service)));
        let lost = request.parts.iter().filter(|part| is_doubtful(&readings[part.service].meta, part.window_ns));
        of_request.extend(lost.map(|part| Flaw::Lost(part.service)));
        let told: Vec<String> = of_request.iter().map(|flaw| services.flaw(*flaw)).collect();
        told.iter().for_each(|flaw| *flaws.entry(flaw.clone()).or_default() += 1);
        slow.push(services.slow(request, charges, &usual, told));
    }
    // The bootstrap draws neighbours together: in order of time.
    let mut in_time: Vec<usize> = (0..slow.len()).filter(|at| requests[*at].latency_ns() >= slow_ns).collect();
    in_time.sort_by_key(|at| requests[*at].parts[0].window_ns);
    let blamed: Vec<&Charges> = in_time.iter().map(|at| &charges[*at]).collect();
    let blame = blame_services(&blamed, &usual).map(|blame| RequestBlame {
        requests: blame.requests as u64,
        extra_ns: blame.extra_ns,
        charges: blame
            .charges
            .iter()
            .map(|of| BlamedCharge {
                to: services.charged(of.charge),
                extra_ns: of.extra_ns,
                details: services.details(of.charge, &blamed),
            })
            .collect(),
    });
    let waterfalls = (0..whole)
        .map(|at| waterfall::describe(&services, &requests[at], &gathered.messages[at], &charges[at], slow[at].clone()))
        .collect();
    slow.sort_by_key(|request| std::cmp::Reverse(request.latency_ns));
    let Some(latency) = quantiles(&latencies) else { return Ok(None) };
    Ok(Some(JoinedRequests {
        entry: traces[entry].service.clone(),
        other_entries,
        latency,
        slow_from: args.slow_from,
        slow_ns,
        usual: usual.requests,
        usual_ns: usual.mean_latency_ns(),
        from_elsewhere: services.requests.from_elsewhere,
        repeated: services.requests.traces.iter().map(|trace| trace.repeated).sum(),
        blame,
        flaws: flaws.into_iter().collect(),
        slow,
        slow_left_out,
        waterfalls,
    }))
}

fn unknown(asked: &Asked) -> anyhow::Error {
    let needed = "a request of these traces: none of their messages is called so".into();
    Error::Argument { argument: "--request", value: asked.to_string(), needed }.into()
}

impl Services<'_> {
    /// The service that requests begin in, and how many begin in others; none where there are no requests.
    fn entry(&self, args: &Args) -> Result<Option<Entry>> {
        let mut counts = vec![0u64; self.traces.len()];
        self.requests.roots.iter().for_each(|(service, _)| counts[*service] += 1);
        let entry = match &args.entry {
            None => (0..counts.len()).rev().max_by_key(|service| counts[*service]).filter(|service| counts[*service] > 0),
            Some(name) => {
                let named = self.traces.iter().position(|trace| trace.service == *name).filter(|service| counts[*service] > 0);
                let having =
                    (0..counts.len()).filter(|service| counts[*service] > 0).map(|service| self.traces[service].service.as_str());
                let needed = format!("a service that requests begin in: {}", having.collect::<Vec<_>>().join(", "));
                Some(named.ok_or(Error::Argument { argument: "--entry", value: name.clone(), needed })?)
            }
        };
        let others = |entry: usize| {
            let others = counts.iter().enumerate().filter(|(service, n)| *service != entry && **n > 0);
            others.map(|(service, n)| (self.traces[service].service.clone(), *n)).collect()
        };
        Ok(entry.map(|entry| (entry, others(entry))))
    }

    /// The requests that were asked for.
    fn asked(&self, args: &Args) -> Result<BTreeSet<(usize, u64)>> {
        let mut all = BTreeSet::new();
        for asked in &args.request {
            let found = match asked {
                Asked::Number(id) => self.requests.roots.iter().filter(|root| root.1 == *id).copied().collect(),
                Asked::Trace { trace, span, .. } => self.requests.roots_of(*trace, *span),
            };
            if found.is_empty() {
                return Err(unknown(asked));
            }
            all.extend(found);
        }
        Ok(all)
    }

    pub fn host(&self, service: usize) -> Option<String> {
        self.traces[service].host.as_ref().map(|host| host.name.clone())
    }

    /// Where time went, by names.
    pub fn charged(&self, charge: Charge) -> Charged {
        let (service, cause, to) = match charge {
            Charge::Service { service, cause } => (service, cause.name(), None),
            Charge::Between { from, to } => (from, "network or queue", Some(self.traces[to].service.clone())),
            Charge::Untraced(service) => (service, "not traced", None),
            Charge::Unseen(service) => (service, "not recorded", None),
        };
        Charged { service: self.traces[service].service.clone(), host: self.host(service), cause: cause.into(), to }
    }

    fn flaw(&self, flaw: Flaw) -> String {
        let name = |service: usize| &self.traces[service].service;
        match flaw {
            Flaw::Untraced(service) => {
                format!("a call of {} is in no trace: the service that it went to is missing, or marks were lost", name(service))
            }
            Flaw::Unseen(service) => format!("a message of {} is there by its marks alone, or did not end", name(service)),
            Flaw::Lost(service) => format!("records of {} were lost meanwhile", name(service)),
            Flaw::LeftOut(service) => format!("{} has more pieces or parts than are kept", name(service)),
        }
    }

    fn detail(&self, service: usize, own: OwnTime) -> Option<String> {
        let reading = &self.readings[service];
        reading.names.detail(own.cause, own.detail?, &reading.store.symbols)
    }

    /// The time of a service's cause by what it was in particular, ns. Names are made once for each detail, however many requests there are.
    fn by_name(&self, (service, cause): (usize, Cause), all: &[&Charges]) -> BTreeMap<String, f64> {
        let mut sums: BTreeMap<OwnTime, f64> = BTreeMap::new();
        let own = all.iter().flat_map(|charges| &charges.details);
        for ((_, own), ns) in own.filter(|((of, own), _)| *of == service && own.cause == cause) {
            *sums.entry(*own).or_default() += ns;
        }
        let mut by_name: BTreeMap<String, f64> = BTreeMap::new();
        for (own, ns) in sums {
            self.detail(service, own).into_iter().for_each(|name| *by_name.entry(name).or_default() += ns);
        }
        by_name
    }

    /// The detail of a service's cause that a request spent most on, and the function with most samples.
    fn foremost_detail(&self, (service, cause): (usize, Cause), charges: &Charges) -> (Option<String>, Option<String>) {
        let by_name = self.by_name((service, cause), &[charges]);
        let which = by_name.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).map(|(name, _)| name);
        let samples = charges.samples.iter().filter(|((of, own, _), _)| *of == service && *own == cause);
        let function = samples
            .max_by_key(|(_, n)| **n)
            .and_then(|((.., function), _)| self.detail(service, OwnTime { cause, detail: Some(Detail::Function(*function)) }));
        (which, function)
    }

    fn slow(&self, request: &Request, charges: &Charges, usual: &UsualRequests, flaws: Vec<String>) -> SlowRequest {
        let root = &request.parts[0];
        let (foremost, beyond_ns) = usual.foremost(charges).unwrap_or((Charge::Unseen(root.service), 0.0));
        let (which, function) = match foremost {
            Charge::Service { service, cause } => self.foremost_detail((service, cause), charges),
            _ => (None, None),
        };
        // Its own name; where it has none, that of the first part that has one.
        let identities = request.parts.iter().map(|part| self.requests.traces[part.service].identity(part.id));
        let identity = identities.into_iter().find(|identity| *identity != TraceIdentity::default());
        SlowRequest {
            identity: identity.map(|identity| identity.to_string()),
            id: root.id,
            label: self.readings[root.service].store.labels.get(&root.id).cloned(),
            latency_ns: request.latency_ns(),
            foremost: self.charged(foremost),
            beyond_ns,
            which,
            function,
            flaws,
        }
    }

    /// What a charge's time of slow requests was in particular: mean of each, the largest first.
    fn details(&self, charge: Charge, slow: &[&Charges]) -> Vec<(String, f64)> {
        let Charge::Service { service, cause } = charge else { return Vec::new() };
        let by_name = self.by_name((service, cause), slow);
        let mut details: Vec<(String, f64)> =
            by_name.into_iter().map(|(name, ns)| (name, ns / slow.len().max(1) as f64)).collect();
        details.sort_by(|a, b| b.1.total_cmp(&a.1));
        details.truncate(DETAILS);
        details
    }
}
