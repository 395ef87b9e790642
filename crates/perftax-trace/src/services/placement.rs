//! When the parts of a request were, by the clock of the service that it began in.

use super::request::{Enclosed, Request};

/// From when to when something was: each as a bound, ns after the request began.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// It began then, at least and at most.
    pub from_ns: (i64, i64),
    /// How long it went on, by its own service's clock.
    pub ns: u64,
}

/// When a request's parts were.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    /// Of each part.
    pub parts: Vec<Placed>,
    /// How long each call's way there took, at least and at most, ns; none where no trace tells of it.
    pub way_there_ns: Vec<Option<(u64, u64)>>,
    /// The way back, likewise.
    pub way_back_ns: Vec<Option<(u64, u64)>>,
    /// What the clocks of each call's services are known to be apart to, ns; none where that is not known, and a way is known by the call's length alone.
    pub known_to_ns: Vec<Option<u64>>,
}

/// Places a request's parts; `difference_ns` is the second service's clock less the first one's at a time of the first one: at least and at most, where that is known.
pub fn placement(request: &Request, difference_ns: impl Fn(usize, usize, u64) -> Option<(i128, i128)>) -> Placement {
    let root = Placed { from_ns: (0, 0), ns: request.latency_ns() };
    let mut placement = Placement {
        parts: vec![root; request.parts.len()],
        way_there_ns: vec![None; request.calls.len()],
        way_back_ns: vec![None; request.calls.len()],
        known_to_ns: vec![None; request.calls.len()],
    };
    for at in 0..request.parts.len() {
        let part = &request.parts[at];
        // What encloses it is before it in the list.
        let own = placement.parts[at];
        let after = |time_ns: u64| time_ns as i64 - part.window_ns.0 as i64;
        for enclosed in &part.encloses {
            match *enclosed {
                Enclosed::Part(inner) => {
                    let since = after(request.parts[inner].window_ns.0);
                    let from_ns = (own.from_ns.0 + since, own.from_ns.1 + since);
                    placement.parts[inner] = Placed { from_ns, ns: request.parts[inner].window_len_ns() };
                }
                Enclosed::Call(call) => {
                    let of = request.calls[call];
                    let Some(there) = of.there else { continue };
                    let served = &request.parts[there];
                    let ways_ns = (of.away_ns.1 - of.away_ns.0).saturating_sub(served.window_len_ns());
                    let known = difference_ns(part.service, served.service, of.away_ns.0);
                    let way = i128::from(served.window_ns.0) - i128::from(of.away_ns.0);
                    let within = |ns: i128| ns.clamp(0, i128::from(of.away_ns.1 - of.away_ns.0)) as u64;
                    let (least, most) = known.map_or((0, ways_ns), |(low, high)| (within(way - high), within(way - low)));
                    placement.way_there_ns[call] = Some((least, most));
                    let at_end = difference_ns(part.service, served.service, of.away_ns.1);
                    let back = i128::from(of.away_ns.1) - i128::from(served.window_ns.1);
                    let by_clocks = at_end.map(|(low, high)| (within(back + low), within(back + high)));
                    placement.way_back_ns[call] = Some(by_clocks.unwrap_or((0, ways_ns)));
                    placement.known_to_ns[call] = known.map(|(low, high)| u64::try_from(high - low).unwrap_or(u64::MAX));
                    let sent = after(of.away_ns.0);
                    let from_ns = (own.from_ns.0 + sent + least as i64, own.from_ns.1 + sent + most as i64);
                    placement.parts[there] = Placed { from_ns, ns: served.window_len_ns() };
                }
            }
        }
    }
    placement
}
