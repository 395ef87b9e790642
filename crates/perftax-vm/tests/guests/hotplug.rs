//! A processor that goes offline while a program is measured.

use perftax_doc::Prediction;

use crate::common;

/// It goes while the program runs for the fifth time: two look at it, and two are measured before.
const SCRIPT: &str = "\
export HOME=/tmp NO_COLOR=1
cat >/tmp/step <<'END'
n=$(cat /tmp/runs 2>/dev/null || echo 1); echo $((n + 1)) >/tmp/runs
[ \"$n\" != 5 ] || echo 0 >/sys/devices/system/cpu/cpu1/online
exec ./burn
END
perftax predict --machine broadwell -e UOPS_RETIRED.ALL --count-of 1e8 -r 6 -c 1000003 --json /tmp/p -o /tmp/o -- sh /tmp/step 2>&1; echo \"exit $?\"
cat /sys/devices/system/cpu/online; echo @@@; cat /tmp/p
";

#[test]
#[ignore = "a machine of two processors is slow: part of make acceptance"]
fn a_run_that_loses_a_processor_is_left_out() {
    let folder = common::compiled("burn.c");
    std::fs::write(folder.path().join("script"), SCRIPT).unwrap();
    let (output, errors, _) = common::boot(&["sh", "script"].map(String::from), |guest| {
        guest.share = Some(folder.path().into());
        guest.processor.count = 2;
    });
    let (said, document) = output.split_once("@@@\n").unwrap_or_else(|| panic!("{output}{errors}"));
    assert!(said.ends_with("exit 0\n0\n"), "{said}{errors}");
    let prediction: Prediction = serde_json::from_str(document).unwrap_or_else(|error| panic!("{error}: {document}"));
    let discarded: Vec<&str> = prediction.workload.runs.iter().filter_map(|run| run.discarded.as_deref()).collect();
    assert_eq!(discarded, ["the CPUs that are online changed from 0, 1 to 0"], "{document}");
}
