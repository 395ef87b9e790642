//! Who follows: what there is is shown, published and sent at each interval.

use std::io::Write;

use perftax_doc::TraceTop;
use perftax_pmu::{Error, Result};
use perftax_report::{openmetrics, text};
use perftax_trace::record::Row;
use perftax_trace::{Audience, Live, Moment};

use super::spans::Spans;
use super::view::{About, document};
use crate::endpoint::Endpoint;

/// Where what there is is shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shown {
    /// On a terminal, over what was there.
    InPlace,
    /// In a pipe, or a file.
    OneBelowTheOther,
    /// Nowhere before the end.
    AtTheEnd,
}

/// Who follows.
pub struct Screen {
    live: Live,
    about: About,
    shown: Shown,
    endpoint: Option<Endpoint>,
    spans: Option<Spans>,
    last: Option<TraceTop>,
}

/// Clears what is behind the place where it stands.
const TO_THE_TOP: &str = "\x1b[H\x1b[J";

impl Screen {
    pub fn new(live: Live, about: About, shown: Shown, endpoint: Option<Endpoint>, spans: Option<Spans>) -> Self {
        Self { live, about, shown, endpoint, spans, last: None }
    }

    /// The end: what there was.
    pub fn finish(mut self) -> TraceTop {
        let sent = self.spans.take().map(|spans| spans.finish(super::LAST));
        let mut last = self.last.take().unwrap_or_else(|| self.about.empty());
        last.sent = sent.or(last.sent);
        last
    }

    fn turn(&mut self, moment: &mut Moment<'_>) -> Result<()> {
        self.live.turn(moment.now_ns, moment);
        let Self { live, about, spans, .. } = self;
        let view = live.view();
        if let Some(spans) = spans {
            spans.send(live, &view, moment.names());
        }
        let mut document = document(about, live, &view, moment);
        document.sent = spans.as_ref().map(Spans::sent);
        if let Some(endpoint) = &self.endpoint {
            endpoint.publish(openmetrics::trace_top(&document));
        }
        let shown = match self.shown {
            _ if moment.is_over => Ok(()),
            Shown::AtTheEnd => Ok(()),
            Shown::OneBelowTheOther => show(&format!("{}\n", text::trace_top(&document))),
            Shown::InPlace => show(&format!("{TO_THE_TOP}{}", fitting(&text::trace_top(&document)))),
        };
        self.last = Some(document);
        match shown {
            // A program of ours goes on though nobody looks any more.
            Err(error) if error.kind() == std::io::ErrorKind::BrokenPipe && self.about.is_command => {
                self.shown = Shown::AtTheEnd;
                Ok(())
            }
            shown => shown.map_err(Error::file("stdout")),
        }
    }
}

/// As much as a terminal has room for.
fn fitting(text: &str) -> String {
    let rows = terminal_size::terminal_size().map_or(usize::MAX, |(_, terminal_size::Height(rows))| usize::from(rows));
    let lines: Vec<&str> = text.lines().take(rows.saturating_sub(1)).collect();
    lines.join("\n") + "\n"
}

fn show(text: &str) -> std::io::Result<()> {
    let mut out = anstream::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

impl Audience for Screen {
    fn row(&mut self, row: &Row) -> Result<()> {
        self.live.row(row)
    }

    fn looked(&mut self, moment: &mut Moment<'_>) -> Result<()> {
        self.live.looked(moment)?;
        if self.live.is_due(moment.now_ns) || moment.is_over { self.turn(moment) } else { Ok(()) }
    }
}
