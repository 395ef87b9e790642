//! No text makes the parser panic, and what it accepts is within the kernel's bounds.

use std::path::Path;

use perftax_pmu::event::{Catalog, Vendor, parse};
use proptest::prelude::*;

fn catalog() -> Catalog {
    Catalog::at(Path::new("/nonexistent"), None).with_vendor(Vendor::Intel).with_libpfm("libpfm-of-no-machine.so.9")
}

/// Texts put together from what events are made of: more get past the first check than of random letters.
fn fragments() -> impl Strategy<Value = String> {
    let fragment = prop_oneof![
        Just("cycles".to_string()),
        Just("cpu".into()),
        Just("event".into()),
        Just("umask".into()),
        Just("config1".into()),
        Just("mem:0x1".into()),
        Just("uprobe:".into()),
        Just("uretprobe:/proc/self/exe".into()),
        Just("+0x".into()),
        Just("skx::".into()),
        Just("sched:".into()),
        Just("L1-dcache".into()),
        Just("-load".into()),
        Just("-misses".into()),
        Just("r1c2".into()),
        Just("period".into()),
        Just("name".into()),
        Just("é".into()),
        "[/,:={}'\" ]",
        "[0-9a-fx]{1,18}",
        "[ukhGHpPDeSWb]{1,4}",
    ];
    proptest::collection::vec(fragment, 0..12).prop_map(|parts| parts.concat())
}

fn check(text: &str) -> Result<(), TestCaseError> {
    match parse(text, &catalog()) {
        Ok(events) => {
            prop_assert!(!events.is_empty());
            for event in events {
                prop_assert!(event.modifiers.precise <= 3);
                prop_assert!(!event.name.is_empty() || text.contains("name"));
            }
        }
        Err(error) => prop_assert!(!error.to_string().is_empty()),
    }
    Ok(())
}

proptest! {
    #[test]
    fn any_text(text in any::<String>()) {
        check(&text)?;
    }

    #[test]
    fn event_like_text(text in fragments()) {
        check(&text)?;
    }
}

#[test]
fn any_bytes() {
    bolero::check!().with_type::<Vec<u8>>().with_iterations(2000).for_each(|bytes| {
        let _ = parse(&String::from_utf8_lossy(bytes), &catalog());
    });
}
