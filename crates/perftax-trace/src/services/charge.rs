//! What a request's time went to, over all of its parts.

use std::collections::BTreeMap;

use super::account::{Account, OwnTime};
use super::request::Request;
use crate::cause::Cause;

/// Where a piece of a request's time went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Charge {
    /// To a service's own cause.
    Service {
        /// Which, from 0.
        service: usize,
        /// For what.
        cause: Cause,
    },
    /// To the ways between two services, there and back: the network, and queues of either host.
    Between {
        /// Who called.
        from: usize,
        /// Who was called.
        to: usize,
    },
    /// To a call that no trace tells of; by the service that called.
    Untraced(usize),
    /// To a message of this service of which marks alone are known.
    Unseen(usize),
}

/// A request's time by charge, ns. All of it adds up to its latency.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Charges {
    /// By charge.
    pub ns: BTreeMap<Charge, f64>,
    /// Services' own times in particular.
    pub details: BTreeMap<(usize, OwnTime), f64>,
    /// Samples of services by cause and function.
    pub samples: BTreeMap<(usize, Cause, u32), u64>,
}

impl Charges {
    /// All of it.
    pub fn total_ns(&self) -> f64 {
        self.ns.values().sum()
    }
}

/// Shares a request's time out; `accounts` are of its parts, in their order, where they are known.
///
/// While a part's threads wait and a call is away, the call's time counts instead: first what it was there for by the other service's clock, and what is left of the waiting is the ways
/// there and back. A call that was there for longer than it was waited for (its caller did other things meanwhile) counts in proportion.
pub fn charge(request: &Request, accounts: &[Option<Account>]) -> Charges {
    let mut charges = Charges::default();
    charges.add(request, accounts, 0, 1.0);
    charges
}

impl Charges {
    /// Adds so much of a part's window.
    fn add(&mut self, request: &Request, accounts: &[Option<Account>], at: usize, share: f64) {
        let part = &request.parts[at];
        let service = part.service;
        let Some(account) = accounts.get(at).and_then(Option::as_ref) else {
            // What it encloses is not known to have been waited for, either.
            return self.charge(Charge::Unseen(service), share * part.window_len_ns() as f64);
        };
        for (own, ns) in &account.own_ns {
            let ns = share * *ns as f64;
            self.charge(Charge::Service { service, cause: own.cause }, ns);
            *self.details.entry((service, *own)).or_default() += ns;
        }
        for ((cause, function), samples) in &account.samples {
            *self.samples.entry((service, *cause, *function)).or_default() += samples;
        }
        for inner in request.parts_of(at) {
            self.add(request, accounts, inner, share);
        }
        for (call, waited_ns) in request.calls_of(at).zip(&account.waited_ns) {
            let waited_ns = *waited_ns as f64;
            let Some(there) = request.calls[call].there else {
                self.charge(Charge::Untraced(service), share * waited_ns);
                continue;
            };
            let there_ns = request.parts[there].window_len_ns() as f64;
            let of_there = if there_ns > 0.0 { (waited_ns / there_ns).min(1.0) } else { 0.0 };
            self.add(request, accounts, there, share * of_there);
            let to = request.parts[there].service;
            self.charge(Charge::Between { from: service, to }, share * (waited_ns - of_there * there_ns));
        }
    }

    fn charge(&mut self, to: Charge, ns: f64) {
        if ns > 0.0 {
            *self.ns.entry(to).or_default() += ns;
        }
    }
}
