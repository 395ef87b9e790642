//! What the page of a trace draws: plain numbers, many of them, so not a document that is written as JSON.

use crate::{TraceReport, Waterfall};

/// A trace for a page.
#[derive(Clone, Debug, PartialEq)]
pub struct TracePicture {
    /// What `trace report` says.
    pub report: TraceReport,
    /// How the trace's folder is called in commands.
    pub folder: String,
    /// Names of the causes, as [`Point::cause`] numbers them.
    pub causes: Vec<String>,
    /// Names of functions, as [`Point::function`] numbers them.
    pub functions: Vec<String>,
    /// Messages that ended, in order of their beginnings.
    pub points: Vec<Point>,
    /// Messages that ended and are not among the points; none of them is slow.
    pub left_out: u64,
    /// From which latency on a message counts as slow, ns.
    pub slow_ns: u64,
    /// Quantiles of the latency (0 to 1) and the latencies, ns; each is some message's.
    pub quantiles: Vec<(f64, u64)>,
    /// The slowest messages in pieces, slowest first.
    pub waterfalls: Vec<Waterfall>,
    /// What kept CPUs from the program.
    pub noise: Noise,
}

/// One message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// As the program named it.
    pub id: u64,
    /// When it began, from the first message on, ns.
    pub begin_ns: u64,
    /// From its beginning to its end.
    pub latency_ns: u64,
    /// What it spent most on; where it is slow, most beyond the median message.
    pub cause: u8,
    /// The function in which most samples of that were taken; none without samples.
    pub function: Option<u32>,
    /// Whether it is slow.
    pub is_slow: bool,
}

/// What ran on CPUs instead of the program, in bins of equal time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Noise {
    /// When the first bin begins, from the first message on, ns.
    pub from_ns: i64,
    /// How long a bin is.
    pub bin_ns: u64,
    /// Names of what is told apart.
    pub kinds: Vec<String>,
    /// By CPU, in order of their numbers: ns of each kind in each bin, all kinds of a bin side by side.
    pub cpus: Vec<(u32, Vec<u64>)>,
}
