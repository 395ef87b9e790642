//! Every page opens in a browser without network, and every plot of it is drawn.

#![cfg(feature = "html")]
#![allow(clippy::unwrap_used)]

mod browser;
mod samples;

use browser::Page;
use perftax_report::{Document, html};

/// Fails unless every plot element holds a drawing with at least one mark in it.
fn assert_all_drawn(dom: &str, wanted: usize) {
    // The elements before the page's own scripts, each of which holds such words too.
    let body = &dom[dom.find("<body").unwrap()..dom.rfind("<noscript").unwrap()];
    let plots: Vec<&str> = body.split(" id=\"plot-").skip(1).collect();
    assert_eq!(plots.len(), wanted, "plots on the page");
    for plot in plots {
        let plot = &plot[..plot.find("<script type=\"application/json\"").unwrap_or(plot.len())];
        let id = format!("plot {}", plot.split('"').next().unwrap_or("?"));
        assert!(!plot.contains("could not be drawn"), "{id} failed: {}", &plot[..plot.len().min(300)]);
        assert!(plot.contains("main-svg"), "{id} has no drawing");
        assert!(plot.contains("class=\"point\"") || plot.contains("js-line"), "{id} has axes, but nothing between them");
    }
}

/// The page without plotly.js, which speaks of many things that our pages must not hold.
fn without_plotter(page: &str) -> String {
    let (start, end) = (page.find("<noscript").unwrap(), page.rfind("<script>").unwrap());
    format!("{}{}", &page[..start], &page[end..])
}

fn all_documents() -> Vec<Document> {
    vec![
        Document::Calibration(Box::new(samples::calibration())),
        Document::Prediction(Box::new(samples::prediction())),
        Document::Plan(Box::new(samples::plan())),
        Document::Plan(Box::new(samples::infeasible_plan())),
        Document::Verification(Box::new(samples::verification())),
        Document::Bill(Box::new(samples::bill())),
        Document::Simulation(Box::new(samples::simulation())),
        Document::Simulation(Box::new(samples::sweep())),
        Document::Sensitivity(Box::new(samples::sensitivity())),
        Document::Audit(Box::new(samples::audit())),
    ]
}

#[test]
fn every_plot_of_every_kind_is_drawn() {
    let page = Page::write("documents", &html::documents(&all_documents()));
    let plots_by_document = [4, 3, 2, 1, 5, 3, 1, 2, 1, 3];
    assert_all_drawn(&page.rendered(), plots_by_document.iter().sum());
}

#[test]
fn every_plot_of_a_comparison_is_drawn() {
    let both = [samples::calibration(), samples::other_calibration()].map(|c| Document::Calibration(Box::new(c)));
    let page = Page::write("comparison", &html::comparison(&both));
    assert_all_drawn(&page.rendered(), 3);
}

#[test]
fn a_page_refers_to_no_network_and_holds_one_copy_of_the_plotter() {
    let page = html::documents(&all_documents());
    let ours = without_plotter(&page);
    for forbidden in ["http://", "https://", "//cdn", "src=", "href=", "@import", "url("] {
        assert!(!ours.contains(forbidden), "{forbidden} stands in the page");
    }
    assert!(page.contains("default-src 'none'"), "the page must forbid itself to load anything");
    assert_eq!(page.matches("plotly.js v").count(), 1, "copies of plotly.js");
    assert!(page.len() < 8_000_000, "a page of {} bytes", page.len());
}

#[test]
fn names_from_a_document_cannot_become_markup() {
    let mut bill = samples::bill();
    bill.by_thread[0].key = "1/1 </script><img src=x onerror=alert(1)>".into();
    bill.events[0].event = "<a href='javascript:alert(1)'>x</a>".into();
    let page = without_plotter(&html::bill(&bill));
    assert!(!page.contains("<img src=x"), "a thread's name became an element");
    assert!(!page.contains("<a href"), "an event's name became a link");
    assert!(!page.contains("1/1 </script>"), "a thread's name ended a script");
}
