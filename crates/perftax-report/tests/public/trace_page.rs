//! The page of a trace: what a reader clicks is shown, and a million messages fit.

use crate::browser::Page;
use crate::samples::traced::{EVERY, picture};
use perftax_report::html;

/// A page with a script of the test's at its end; what the script finds it says in an element.
fn hooked(messages: u64, script: &str) -> Page {
    let page = html::trace(&picture(messages, false));
    let hook = format!(
        "<p id=\"test-said\"></p><script>(function () {{ var t = window.perftaxTrace, p = t.picture; function say(text) \
         {{ document.getElementById('test-said').textContent += text + ';'; }} {script} }})();</script></body>"
    );
    let name: String = format!("trace-{messages}-{}", script.len());
    Page::write(&name, &page.replacen("</body>", &hook, 1))
}

fn said(dom: &str) -> String {
    let from = dom.find("<p id=\"test-said\">").unwrap() + "<p id=\"test-said\">".len();
    dom[from..].split('<').next().unwrap().into()
}

/// The part of the page that shows a message in pieces.
fn waterfall(dom: &str) -> &str {
    let from = dom.find("id=\"trace-waterfall\"").unwrap();
    &dom[from..from + dom[from..].find("</section>").unwrap()]
}

/// A click where a message is on the canvas, as a pointer makes it.
const CLICK: &str = "function click(i) { var place = p.place(i), box = p.canvas.getBoundingClientRect(); \
    ['pointerdown', 'pointerup'].forEach(function (name) { p.canvas.dispatchEvent(new PointerEvent(name, { pointerId: 1, bubbles: true, \
    clientX: box.left + place.x, clientY: box.top + place.y })); }); } \
    function at(id) { for (var i = 0; i < t.points.count; i++) if (t.points.name(i) === id) return i; }";

#[test]
fn a_slow_message_is_clicked_and_its_waterfall_appears() {
    let id = 13 * EVERY;
    let script = format!("{CLICK} say(document.getElementById('trace-waterfall').dataset.message); click(at('{id}'));");
    let dom = hooked(20_000, &script).rendered();
    assert_ne!(said(&dom), format!("{id};"), "it must not be the first one shown");
    let shown = waterfall(&dom);
    assert!(shown.contains(&format!("data-message=\"{id}\"")), "{shown}");
    assert!(shown.contains(&format!("<h3>Message {id}</h3>")), "{shown}");
    // Its pieces: cause, which, thread, samples with the interval of their time.
    for wanted in [
        "steal",
        "worker (4711)",
        "worker (4712)",
        "vector: local timer",
        "answer [server] (2 samples, 1.00 ms to 1.40 ms)",
        &format!("perftax trace show slow.trace {id}"),
    ] {
        assert!(shown.contains(wanted), "{wanted} is not in {shown}");
    }
}

#[test]
fn the_list_and_the_address_choose_a_message_too() {
    let script = "var rows = document.querySelectorAll('[data-select]'); say(rows.length); rows[5].click(); \
        say(rows[5].dataset.select === document.getElementById('trace-waterfall').dataset.message); \
        say(document.querySelectorAll('tr.chosen').length);";
    assert_eq!(said(&hooked(20_000, script).rendered()), "20;true;1;");
    let id = 6 * EVERY;
    let dom = hooked(20_000, "say('');").rendered_at(&format!("#select={id}"));
    // Its label comes from the program, and is text.
    assert!(waterfall(&dom).contains(&format!("<h3>Message {id}: GET /{id}?&lt;b&gt;</h3>")), "{}", waterfall(&dom));
}

#[test]
fn every_message_is_read_back_and_painted() {
    let picture = picture(20_000, false);
    let wanted = |at: usize| {
        let point = &picture.points[at];
        format!("{} {} {} {}", point.id, point.begin_ns, point.cause, point.is_slow as u8)
    };
    let script = "var q = t.points; [0, 996, 12345, 19999].forEach(function (i) { say([q.name(i), q.begin[i], q.cause[i], q.isSlow[i]].join(' ')); }); \
        say(Math.abs(q.latency[996] / 1000 - 0)); \
        var c = p.canvas.getContext('2d'), b = p.area(), d = c.getImageData(b.x, b.y, b.width, b.height).data, seen = {}; \
        for (var i = 0; i < d.length; i += 4) if (d[i + 3] === 255) seen[d[i] + ',' + d[i + 1] + ',' + d[i + 2]] = 1; \
        say(['59,125,216', '139,148,158', '138,99,210', '194,71,155'].filter(function (k) { return seen[k]; }).length);";
    let said = said(&hooked(20_000, script).rendered());
    let all: Vec<&str> = said.split(';').collect();
    assert_eq!(all[..4], [wanted(0), wanted(996), wanted(12_345), wanted(19_999)]);
    let latency = all[4].parse::<f64>().unwrap() * 1000.0 / picture.points[996].latency_ns as f64;
    assert!((latency - 1.0).abs() < 0.0005, "{latency}");
    // On CPU, blocked, preempted, stolen: each in its colour.
    assert_eq!(all[5], "4");
}

#[test]
fn it_can_be_zoomed_moved_and_shown_otherwise() {
    let script = "function wheel(by) { var box = p.canvas.getBoundingClientRect(); p.canvas.dispatchEvent(new WheelEvent('wheel', { deltaY: by, \
        clientX: box.left + 500, clientY: box.top + 200, cancelable: true })); p.draw(); } \
        function span() { return p.view.to - p.view.from; } \
        var all = span(), i; for (i = 0; i < 20; i++) wheel(-300); say(span() < all / 1e3); say(p.nearest(500, 200, 2000) >= 0); \
        var from = p.view.from; p.canvas.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowRight', cancelable: true })); say(p.view.from > from); \
        for (i = 0; i < 60; i++) wheel(300); say(Math.abs(span() / all - 1) < 1e-6); \
        ['id', 'latency'].forEach(function (mode) { var s = document.getElementById('trace-y'); s.value = mode; s.dispatchEvent(new Event('change')); p.draw(); say(p.mode); }); \
        var s = document.getElementById('trace-colour'); s.value = 'function'; s.dispatchEvent(new Event('change')); p.draw(); \
        say(document.getElementById('trace-legend').textContent.indexOf('read_iter [kernel]') >= 0); \
        p.canvas.dispatchEvent(new KeyboardEvent('keydown', { key: 'n', cancelable: true })); \
        var first = document.getElementById('trace-waterfall').dataset.message; \
        p.canvas.dispatchEvent(new KeyboardEvent('keydown', { key: 'n', cancelable: true })); \
        say(first !== document.getElementById('trace-waterfall').dataset.message);";
    assert_eq!(said(&hooked(20_000, script).rendered()), "true;true;true;true;id;latency;true;true;");
}

#[test]
fn a_million_messages_fit_with_ids_of_any_length() {
    for spread in [false, true] {
        let page = html::trace(&picture(1_000_000, spread));
        assert!(page.len() <= 25_000_000, "a page of {} bytes", page.len());
        assert_eq!(page.contains("\"hasAllIds\":true"), !spread);
    }
    // Ids that need more than 53 bits are whole.
    let pictured = picture(2_000, true);
    let script = "say(t.points.name(3)); say(t.points.name(1999));";
    let hook = format!(
        "<p id=\"test-said\"></p><script>var t = window.perftaxTrace; function say(x) {{ document.getElementById('test-said').textContent += x + ';'; }} {script}</script></body>"
    );
    let page = Page::write("trace-spread", &html::trace(&pictured).replacen("</body>", &hook, 1));
    let wanted = [3, 1999].map(|at: usize| format!("{};", pictured.points[at].id)).concat();
    assert_eq!(said(&page.rendered()), wanted);
}

#[test]
fn what_comes_from_a_trace_cannot_become_markup_and_needs_no_network() {
    let mut picture = picture(2_000, false);
    let bad = "</script><img src=x onerror=alert(1)>";
    picture.functions[3] = bad.into();
    picture.report.slowest[0].label = Some(bad.into());
    picture.report.slowest[0].which = Some(bad.into());
    picture.waterfalls[0].label = Some(bad.into());
    picture.waterfalls[0].pieces[0].thread = bad.into();
    let page = html::trace(&picture);
    assert!(!page.contains("<img src=x") && !page.contains("GET /1994?<b>"));
    let (start, end) = (page.find("<script>/**").unwrap_or(0), page.rfind("<script>").unwrap());
    let ours = format!("{}{}", &page[..start], &page[end..]);
    for forbidden in ["http://", "https://", "//cdn", "src=\"", "href=", "@import", "url("] {
        assert!(!ours.contains(forbidden), "{forbidden} stands in the page");
    }
    let dom = Page::write("trace-bad", &page).rendered();
    assert!(!dom.contains("<img") && dom.contains("onerror=alert(1)"));
}

#[test]
fn an_empty_trace_has_a_page_too() {
    let mut picture = picture(10, false);
    picture.points.clear();
    picture.waterfalls.clear();
    picture.quantiles.clear();
    picture.noise = Default::default();
    (picture.report.slowest, picture.report.blames, picture.report.latency) = (Vec::new(), Vec::new(), None);
    let dom = Page::write("trace-empty", &html::trace(&picture)).rendered();
    assert!(dom.contains("data-trace-ready"), "the script failed");
}
