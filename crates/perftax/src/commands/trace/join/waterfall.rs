//! A request, part by part.

use perftax_doc::{Charged, RequestHop, RequestPart, RequestWaterfall, SlowRequest, WaterfallPiece};
use perftax_trace::services::{Charges, Enclosed, Request, placement};
use perftax_trace::store::realtime_ns;
use perftax_trace::{Message, Pair};

use super::super::describe::waterfall_pieces;
use super::requests::Services;

/// A request with all that is known of its parts.
pub fn describe(
    services: &Services<'_>,
    request: &Request,
    messages: &[Option<Message>],
    charges: &Charges,
    slow: SlowRequest,
) -> RequestWaterfall {
    let difference = |from, to, time_ns| services.pairs.iter().find_map(|pair: &Pair| pair.difference_ns(from, to, time_ns));
    let placed = placement(request, difference);
    let mut depths = vec![0; request.parts.len()];
    let mut parts = Vec::new();
    for (at, part) in request.parts.iter().enumerate() {
        depths[at] = part.parent.map_or(0, |parent| depths[parent] + 1);
        let hop = request.calls.iter().position(|call| call.there == Some(at)).and_then(|call| {
            let away_ns = request.calls[call].away_ns.1 - request.calls[call].away_ns.0;
            let (least, most) = placed.way_there_ns[call]?;
            let ways_ns = away_ns.saturating_sub(part.window_len_ns());
            Some(RequestHop {
                away_ns,
                ways_ns,
                there_ns: (least, most),
                back_ns: placed.way_back_ns[call].unwrap_or((0, ways_ns)),
                clocks_known_to_ns: placed.known_to_ns[call],
                is_shorter_than_known: placed.known_to_ns[call].is_none_or(|known_ns| ways_ns <= known_ns),
            })
        });
        parts.push(RequestPart {
            service: services.traces[part.service].service.clone(),
            host: services.host(part.service),
            id: part.id,
            label: services.readings[part.service].store.labels.get(&part.id).cloned(),
            depth: depths[at],
            parent: part.parent,
            from_ns: placed.parts[at].from_ns,
            ns: part.window_len_ns(),
            hop,
            pieces: messages
                .get(at)
                .and_then(Option::as_ref)
                .map(|message| clipped(services, part.service, message, part.window_ns)),
        });
    }
    let mut charged: Vec<(Charged, f64)> = charges.ns.iter().map(|(charge, ns)| (services.charged(*charge), *ns)).collect();
    charged.sort_by(|a, b| b.1.total_cmp(&a.1));
    // What encloses it comes first, and beside each other what began first.
    let order = order(request);
    let place: Vec<usize> = (0..parts.len()).map(|at| order.iter().position(|part| *part == at).unwrap_or(at)).collect();
    parts.iter_mut().for_each(|part| part.parent = part.parent.map(|parent| place[parent]));
    let mut ordered: Vec<Option<RequestPart>> = parts.into_iter().map(Some).collect();
    let parts = order.iter().filter_map(|at| ordered[*at].take()).collect();
    let root = &request.parts[0];
    let clocks = &services.requests.traces[root.service].host.clocks;
    let begin_unix_ns = realtime_ns(clocks, root.window_ns.0).and_then(|unix_ns| u64::try_from(unix_ns).ok());
    RequestWaterfall { request: slow, begin_unix_ns, parts, charges: charged }
}

fn order(request: &Request) -> Vec<usize> {
    let (mut order, mut next) = (Vec::new(), vec![0]);
    while let Some(at) = next.pop() {
        order.push(at);
        let inner = request.parts[at].encloses.iter().rev().filter_map(|enclosed| match *enclosed {
            Enclosed::Part(part) => Some(part),
            Enclosed::Call(call) => request.calls[call].there,
        });
        next.extend(inner);
    }
    order
}

/// A message's pieces within a window, from its beginning on.
fn clipped(services: &Services<'_>, service: usize, message: &Message, (from_ns, to_ns): (u64, u64)) -> Vec<WaterfallPiece> {
    let shift_ns = message.begin_ns as i64 - from_ns as i64;
    let all = waterfall_pieces(&services.readings[service], message);
    let within = all.into_iter().filter_map(|piece| {
        let begin_ns = (piece.from_ns as i64 + shift_ns).max(0);
        let end_ns = (piece.from_ns as i64 + piece.ns as i64 + shift_ns).min((to_ns - from_ns) as i64);
        (begin_ns < end_ns).then(|| WaterfallPiece { from_ns: begin_ns as u64, ns: (end_ns - begin_ns) as u64, ..piece })
    });
    within.collect()
}
