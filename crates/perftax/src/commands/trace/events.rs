//! Events that were counted by message, as documents have them.

use perftax_doc::{self as doc, BlamedPlace, MessageEvents, TraceEvent};
use perftax_trace::{Brief, Cause, Detail, Spot, Usual, blame_events};

use super::reading::Reading;

/// How many of each event slow messages had more than the others.
pub fn blamed(reading: &Reading, slow: &[&Brief], usual: &Usual) -> Vec<doc::BlamedEvents> {
    let counted = &reading.meta.counted;
    let described = blame_events(slow, usual, counted.len()).into_iter().filter_map(|blamed| {
        let TraceEvent { name, period, .. } = counted.get(blamed.event as usize)?;
        let each = *period as f64;
        let places = blamed.spots.iter().map(|(spot, extra)| BlamedPlace {
            function: function(reading, spot),
            object: object(reading, spot),
            extra_events: extra.scaled(each),
        });
        Some(doc::BlamedEvents {
            event: name.clone(),
            usual_events: blamed.usual * each,
            extra_events: blamed.extra.scaled(each),
            with_many: blamed.with_many,
            each_ns: blamed.each_ns.map(|ns| ns.scaled(1.0 / each)),
            places: places.collect(),
        })
    });
    described.collect()
}

/// What one message had of them.
pub fn of_message(reading: &Reading, brief: &Brief, usual: &Usual) -> Vec<MessageEvents> {
    let described = brief.of_events().into_iter().filter_map(|of| {
        let TraceEvent { name, period, .. } = reading.meta.counted.get(of.event as usize)?;
        let (spot, samples_there) = of.most;
        Some(MessageEvents {
            event: name.clone(),
            samples: of.samples,
            between_events: of.between(*period),
            usual_events: usual.samples_of(of.event) * *period as f64,
            are_many: of.are_many(usual),
            function: function(reading, &spot),
            object: object(reading, &spot),
            samples_there,
        })
    });
    described.collect()
}

fn function(reading: &Reading, spot: &Spot) -> Option<String> {
    reading.names.detail(Cause::OnCpu, Detail::Function(spot.function), &reading.store.symbols).filter(|_| spot.function != 0)
}

fn object(reading: &Reading, spot: &Spot) -> Option<String> {
    reading.store.objects.get((spot.object as usize).checked_sub(1)?).cloned()
}
