//! Events that a trace counts by message, in words.

use itertools::Itertools as _;
use perftax_doc::{BlamedEvents, BlamedPlace, MessageEvents, TraceEvent};

use crate::printable::printable;
use crate::table::Table;
use crate::units;

/// What was counted: `l3-misses: 639 samples, one in 11; at 12 nothing is known to lie`.
pub fn counted(event: &TraceEvent) -> String {
    let samples =
        format!("{}: {} samples, one in {}", printable(&event.name), units::count(event.samples), units::count(event.period));
    let unplaced = (event.unplaced > 0).then(|| format!("at {} nothing is known to lie", units::count(event.unplaced)));
    let share = event.in_turns().map(|share| format!("counted for {} of the time", units::share(share)));
    std::iter::once(samples).chain(unplaced).chain(share).join("; ")
}

/// What one message had of an event: `512 to 534 l3-misses, usually 3.1; most in lookup [flows], routes [flows]`.
pub fn of_message(events: &MessageEvents) -> String {
    let (low, high) = events.between_events;
    let place = place(events.function.as_deref(), events.object.as_deref());
    format!(
        "{} to {} {}, usually {}{}",
        units::count(low),
        units::count(high),
        printable(&events.event),
        units::about(events.usual_events),
        place.map_or_else(String::new, |place| format!("; most in {place}"))
    )
}

/// What of it is worth a word beside a slow message: events of which it surely had many.
pub fn worth_a_word(events: &[MessageEvents]) -> Option<String> {
    let many = events.iter().filter(|events| events.are_many).map(of_message).join("; ");
    (!many.is_empty()).then_some(many)
}

/// How many of an event the slow messages had more: `l3-misses: 231 ± 3 more a message than the usual 3.1; 50 messages have many, and 52 ns ± 1 more on CPU for each of them`.
pub fn blamed(events: &BlamedEvents) -> String {
    let extra = &events.extra_events;
    let more = match (extra.low > 0.0, extra.high < 0.0) {
        (true, _) => format!("{} more a message than", units::estimate_number(extra)),
        (_, true) => format!("{} fewer a message than", units::estimate_number(&extra.scaled(-1.0))),
        _ => format!("not surely more a message ({} more) than", units::estimate_number(extra)),
    };
    let each = events.each_ns.as_ref().map(|ns| {
        let with_many = units::count(events.with_many);
        format!("; {with_many} messages have many, and {} more on CPU for each of them", units::estimate_ns(ns))
    });
    format!("{}: {more} the usual {}{}", printable(&events.event), units::about(events.usual_events), each.unwrap_or_default())
}

/// Less than this share of what there is more is not worth a line.
const WORTH: f64 = 0.02;

/// Where there were more of an event, the most first.
pub fn places(events: &BlamedEvents) -> Option<Table> {
    let mut table = Table::default().left("").left("").right("a message").right("of what is more");
    let all = events.extra_events.estimate;
    let is_worth = |at: &&BlamedPlace| at.extra_events.low > 0.0 && at.extra_events.estimate >= WORTH * all;
    let mut is_empty = true;
    for at in events.places.iter().filter(is_worth).filter(|_| events.extra_events.low > 0.0) {
        is_empty = false;
        table.row(vec![
            format!("  {}", at.function.as_deref().map_or_else(|| "in a function without a name".into(), printable)),
            at.object.as_deref().map_or_else(String::new, printable),
            units::estimate_number(&at.extra_events),
            units::share(at.extra_events.estimate / all),
        ]);
    }
    (!is_empty).then_some(table)
}

fn place(function: Option<&str>, object: Option<&str>) -> Option<String> {
    let words: Vec<String> = [function, object].into_iter().flatten().map(printable).collect();
    (!words.is_empty()).then(|| words.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;
    use perftax_doc::Estimate;

    #[test]
    fn events_are_told_with_their_place() {
        let events = MessageEvents {
            event: "l3-misses".into(),
            samples: 3,
            between_events: (202, 404),
            usual_events: 3.25,
            are_many: true,
            function: Some("lookup [flows]".into()),
            object: Some("routes [flows]".into()),
            samples_there: 3,
        };
        let said = "202 to 404 l3-misses, usually 3.25; most in lookup [flows], routes [flows]";
        assert_eq!(of_message(&events), said);
        let few = MessageEvents { are_many: false, function: None, object: None, ..events.clone() };
        assert_eq!((worth_a_word(&[few.clone(), events]).as_deref(), worth_a_word(&[few])), (Some(said), None));
        let blame = |extra: Estimate| BlamedEvents {
            event: "m".into(),
            usual_events: 3.0,
            extra_events: extra,
            with_many: 50,
            each_ns: (extra.low > 0.0).then(|| Estimate::new(52.0, 51.0, 53.0)),
            places: vec![BlamedPlace { function: None, object: None, extra_events: extra }],
        };
        let more = blame(Estimate::new(231.0, 228.0, 234.0));
        assert_eq!(
            blamed(&more),
            "m: 231 ± 3 more a message than the usual 3; 50 messages have many, and 52.0 ns ± 1.0 more on CPU for each of them"
        );
        assert!(places(&more).is_some());
        let same = blame(Estimate::new(0.0, -2.0, 2.0));
        assert!(blamed(&same).starts_with("m: not surely more a message (") && places(&same).is_none(), "{}", blamed(&same));
        let fewer = blamed(&blame(Estimate::new(-2.0, -2.5, -1.5)));
        assert!(fewer.contains("fewer a message than the usual 3"), "{fewer}");
    }
}
