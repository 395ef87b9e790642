//! Objects of the heap in what is shown of transfers: text, page, table.

use perftax_doc::{Comm, CommObject};
use perftax_report::{csv, text};

/// Two objects in a line, of which the second may have gone.
fn document() -> Comm {
    let first = CommObject {
        bytes: 40,
        offset: 0x10,
        number: 1,
        times: 1,
        allocated_at: vec!["job_new (job.c:7)".into(), "main (counters.c:80)".into()],
        is_sure: true,
    };
    let second =
        CommObject { offset: -32, number: 4, allocated_at: vec!["log_new (log.c:9)".into()], is_sure: false, ..first.clone() };
    let mut doc = crate::samples::comm();
    let line = &mut doc.lines[1];
    line.name = format!("{}, {}", first.name(), second.name());
    line.allocated_at = first.allocated_at.clone();
    line.objects = vec![first, second];
    doc.evidence.allocations = 1_234;
    doc.evidence.lost_allocations = 7;
    doc.cost.as_mut().unwrap().probes = 3_702;
    doc
}

const ALLOCATED: [&str; 2] =
    ["job_new (job.c:7) < main (counters.c:80)", "beside it perhaps object #4 of 40 bytes, allocated at log_new (log.c:9)"];

#[test]
fn the_text_says_who_allocated_what_and_what_that_cost() {
    // Lines are broken where the terminal ends.
    let text = text::comm(&document()).split_whitespace().collect::<Vec<_>>().join(" ");
    for wanted in
        ["object of 40 bytes+0x10", "allocated at", "1,234 objects of the heap", "7 allocations lost", "3,702 hits of probes"]
    {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    for wanted in ALLOCATED {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    assert!(!text::comm(&crate::samples::comm()).contains("probes on the allocator"), "who asked for no heap is told of none");
}

#[test]
fn the_table_has_it_in_a_column() {
    let table = csv::comm_lines(&document(), "\t");
    assert!(table.contains(&format!("\t{}\t", ALLOCATED.join("; "))), "{table}");
}

#[cfg(feature = "html")]
#[test]
fn the_page_has_it_beside_the_line() {
    let page = perftax_report::html::comm(&document());
    for wanted in ["job_new (job.c:7)", "perhaps object #4 of 40 bytes", "3,702 hits"] {
        assert!(page.contains(wanted), "{wanted}");
    }
}

#[test]
fn documents_from_before_can_be_read() {
    let mut json = serde_json::to_value(document()).unwrap();
    for line in json["lines"].as_array_mut().unwrap() {
        line.as_object_mut().unwrap().remove("objects");
    }
    for (part, fields) in [("evidence", &["allocations", "lost_allocations"][..]), ("cost", &["probes"])] {
        fields.iter().for_each(|field| {
            json[part].as_object_mut().unwrap().remove(*field);
        });
    }
    let read: Comm = serde_json::from_value(json).unwrap();
    assert_eq!((read.evidence.allocations, read.cost.unwrap().probes, read.lines[1].objects.len()), (0, 0, 0));
}
