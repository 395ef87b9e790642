//! Writes the page of a generated trace: `cargo run --release -p perftax-report --example trace_page -- MESSAGES FILE [spread]`; with
//! `spread` its ids have all 62 bits. What `scripts/trace-page` measures.

#[path = "../tests/public/samples/mod.rs"]
mod samples;

use perftax_report::html;

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let messages = arguments.first().and_then(|text| text.parse().ok()).unwrap_or(1_000_000);
    let page = html::trace(&samples::traced::picture(messages, arguments.get(2).is_some_and(|word| word == "spread")));
    std::fs::write(arguments.get(1).map_or("trace.html", String::as_str), page)
}
