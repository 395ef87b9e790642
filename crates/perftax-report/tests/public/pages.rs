//! Every page opens in a browser without network, and every plot of it is drawn.

use crate::browser::Page;
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
        assert!(
            ["class=\"point\"", "js-line", "class=\"hm\""].iter().any(|mark| plot.contains(mark)),
            "{id} has axes, but nothing between them"
        );
    }
}

/// Of every kind of table: whoever draws one cannot forget it.
#[test]
fn a_page_carries_no_more_rows_than_open_fast_and_says_how_many_more_there_are() {
    let mut doc = crate::samples::sensitivity();
    let run = doc.runs[0].clone();
    doc.runs = std::iter::repeat_n(run, 2345).collect();
    let page = html::documents(&[Document::Sensitivity(Box::new(doc))]);
    assert!(page.contains("345 further rows are in the --json file."));
}

/// The page without plotly.js, which speaks of many things that our pages must not hold.
fn without_plotter(page: &str) -> String {
    let (start, end) = (page.find("<noscript").unwrap(), page.rfind("<script>").unwrap());
    format!("{}{}", &page[..start], &page[end..])
}

fn all_documents() -> Vec<Document> {
    vec![
        Document::Calibration(Box::new(crate::samples::calibration())),
        Document::Prediction(Box::new(crate::samples::prediction())),
        Document::Plan(Box::new(crate::samples::plan())),
        Document::Plan(Box::new(crate::samples::infeasible_plan())),
        Document::Verification(Box::new(crate::samples::verification())),
        Document::Bill(Box::new(crate::samples::bill())),
        Document::Lint(Box::new(crate::samples::lint())),
        Document::Simulation(Box::new(crate::samples::simulation())),
        Document::Stat(Box::new(crate::samples::compared_stat())),
        Document::Simulation(Box::new(crate::samples::sweep())),
        Document::Sensitivity(Box::new(crate::samples::sensitivity())),
        Document::Audit(Box::new(crate::samples::audit())),
        Document::Selfcost(Box::new(crate::samples::selfcost())),
        Document::Phase(Box::new(crate::samples::phase())),
        Document::Recorded(Box::new(crate::samples::recorded())),
        Document::Phase(Box::new(crate::samples::phase_by_time())),
        Document::Matrix(Box::new(crate::samples::matrix())),
        Document::Comm(Box::new(crate::samples::comm())),
        Document::Comm(Box::new(crate::samples::comm_every())),
        Document::Comm(Box::new(crate::samples::comm_watched())),
        Document::Comm(Box::new(crate::samples::comm_many())),
    ]
}

#[test]
fn every_plot_of_every_kind_is_drawn() {
    let page = Page::write("documents", &html::documents(&all_documents()));
    let plots_by_document = [4, 3, 2, 1, 5, 3, 0, 1, 2, 1, 3, 10, 3, 3, 3, 7, 4, 3, 2, 3];
    assert_all_drawn(&page.rendered(), plots_by_document.iter().sum());
}

#[test]
fn every_plot_of_a_comparison_is_drawn() {
    let both = [crate::samples::calibration(), crate::samples::other_calibration()].map(|c| Document::Calibration(Box::new(c)));
    let page = Page::write("comparison", &html::comparison(&both));
    assert_all_drawn(&page.rendered(), 3);
}

#[test]
fn every_plot_of_two_price_lists_is_drawn() {
    let both = [crate::samples::selfcost(), crate::samples::other_selfcost()].map(|doc| Document::Selfcost(Box::new(doc)));
    let page = Page::write("price-lists", &html::comparison(&both));
    assert_all_drawn(&page.rendered(), 5);
}

#[test]
fn two_runs_under_the_same_events_are_two_curves() {
    let both = [crate::samples::phase(), crate::samples::phase_by_time()].map(|phase| Document::Phase(Box::new(phase)));
    let page = Page::write("phases", &html::comparison(&both));
    assert_all_drawn(&page.rendered(), 2);
}

#[test]
fn grids_of_several_machines_are_one() {
    let both = [crate::samples::matrix(), crate::samples::other_matrix()].map(|matrix| Document::Matrix(Box::new(matrix)));
    let page = Page::write("grids", &html::comparison(&both));
    let dom = page.rendered();
    assert_all_drawn(&dom, 4);
    assert!(dom.contains("Xeon E5-2695 v2") && dom.contains("cells of two machines or more"), "the table of all machines");
}

#[test]
fn transfers_side_by_side_say_how_far_apart_they_are() {
    let both = [crate::samples::comm_every(), crate::samples::comm()].map(|doc| Document::Comm(Box::new(doc)));
    let dom = Page::write("transfers", &html::comparison(&both)).rendered();
    assert_all_drawn(&dom, 1);
    assert!(dom.contains("total variation distance") && dom.contains("4 of 4"), "the distance, and the lines in common");
}

#[test]
fn a_line_unfolds_to_its_instructions() {
    let dom = Page::write("lines", &html::comm(&crate::samples::comm())).rendered();
    let table = &dom[dom.find("Lines and their instructions").unwrap()..];
    let table = &table[..table.find("</section>").unwrap()];
    assert_eq!(table.matches("<details").count(), 4, "a line each");
    for wanted in ["counters.c:17", "alignas(64)", "allocated at queue_new queue.c:12", "take [counters]", "8–15"] {
        assert!(table.contains(wanted), "{wanted} is not in the table");
    }
}

/// What must be said of every cell.
#[test]
fn every_cell_of_a_grid_has_its_pairs_interval_samples_and_whether_it_is_excluded() {
    let doc = crate::samples::matrix();
    let dom = Page::write("grid", &html::matrix(&doc)).rendered();
    let table = &dom[dom.find("Every cell").unwrap()..];
    let rows: Vec<Vec<String>> = table[..table.find("</table>").unwrap()]
        .split("<tr")
        .skip(2)
        .map(|row| {
            row.split("<td").skip(1).map(|cell| cell[cell.find('>').unwrap() + 1..cell.find("</td").unwrap()].into()).collect()
        })
        .collect();
    assert_eq!(rows.len(), doc.cells.len());
    for (row, cell) in rows.iter().zip(&doc.cells) {
        assert_eq!(row.len(), 17, "{row:?}");
        assert_eq!((row[5].as_str(), row[6].as_str()), ("9", "1"), "pairs, discarded: {row:?}");
        assert!(row[8].contains('±') || row[8].contains('['), "an interval: {row:?}");
        assert_eq!(row[16] == "no", cell.excluded.is_none(), "{row:?}");
        if cell.key.mode.samples() {
            let numbers: Vec<u64> = row[11..15].iter().map(|number| number.replace(',', "").parse().unwrap()).collect();
            assert_eq!(numbers, [cell.expected_samples as u64, cell.samples, cell.lost, cell.throttled]);
        }
    }
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
    let mut bill = crate::samples::bill();
    bill.by_thread[0].key = "1/1 </script><img src=x onerror=alert(1)>".into();
    bill.events[0].event = "<a href='javascript:alert(1)'>x</a>".into();
    let mut comm = crate::samples::comm();
    comm.threads[1].name = "<img src=x onerror=alert(2)>".into();
    comm.lines[0].name = "</script><img src=x>".into();
    comm.lines[1].sites[0].function = "<a href='javascript:alert(1)'>x</a>".into();
    let page = without_plotter(&html::documents(&[Document::Bill(Box::new(bill)), Document::Comm(Box::new(comm))]));
    assert!(!page.contains("<img src=x"), "a thread's name became an element");
    assert!(!page.contains("<a href"), "an event's name became a link");
    assert!(!page.contains("1/1 </script>"), "a thread's name ended a script");
}
