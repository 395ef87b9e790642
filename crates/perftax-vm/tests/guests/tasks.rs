//! What threads and processes that come and go cost while `perf record` has them inherit its event, beside what perftax predicts of them. In this machine
//! nothing varies but what instructions take.

use perftax_doc::Prediction;

use crate::common;

/// Tasks of each kind: enough for a program that can be measured.
const KINDS: [(&str, u32); 2] = [("thread", 500), ("fork", 200)];
/// A clock that is due after all of it: what is measured is inheritance alone.
const PERIOD_NS: u64 = 1_000_000_007;

#[test]
fn tasks_that_inherit_cost_what_is_predicted() {
    let folder = common::compiled("churn.c");
    let mut script = format!(
        // In no order of real time: what the kernel puts off (giving memory up) is then done by somebody else.
        "{}export HOME=/tmp NO_COLOR=1; cp churn /tmp; cd /tmp\nperftax calibrate -e cpu-clock --quick --time 2 --spacing 0 >/tmp/err 2>&1 || cat /tmp/err\n",
        common::SHORT_PERF
    );
    for (kind, count) in KINDS {
        let program = format!("./churn {kind} {count} 3000");
        script += &format!(
            "perftax predict -e cpu-clock -c {PERIOD_NS} -r 2 --json p.json -o /dev/null -- {program} 2>err || cat err\n\
             echo @@@; cat p.json; echo @@; {program} 2>&1; perf record -q -e cpu-clock -c {PERIOD_NS} -o data -- {program} 2>&1 | grep each\n"
        );
    }
    std::fs::write(folder.path().join("script"), script).unwrap();
    let (output, errors, _) = common::boot(&["sh", "script"].map(String::from), |guest| {
        guest.share = Some(folder.path().into());
        guest.with = ["perf"].map(Into::into).to_vec();
    });
    let kinds: Vec<&str> = output.split("@@@\n").skip(1).collect();
    assert_eq!(kinds.len(), KINDS.len(), "{output}{errors}");
    for (text, (kind, count)) in kinds.into_iter().zip(KINDS) {
        let (json, took) = text.split_once("@@\n").unwrap_or_else(|| panic!("{text}{errors}"));
        let prediction: Prediction = serde_json::from_str(json).unwrap_or_else(|error| panic!("{error}: {output}{errors}"));
        let took_ns: Vec<f64> = took.lines().filter_map(|line| line.strip_prefix("each ")?.trim().parse().ok()).collect();
        let [alone_ns, recorded_ns] = took_ns[..] else { panic!("{took}{errors}") };
        let (workload, row) = (&prediction.workload, &prediction.rows[0]);
        assert_eq!(workload.tasks.as_ref().unwrap().created(), u64::from(count), "{kind}: {:?}", workload.tasks);
        assert_eq!(row.samples.round(), 0.0, "{kind}: {row:?}");
        let measured_ns = recorded_ns - alone_ns;
        let [low, middle, high] = [row.overhead.low, row.overhead.estimate, row.overhead.high]
            .map(|share| share * workload.elapsed_s.estimate * 1e9 / f64::from(count));
        println!("{kind}: predicted {middle:.0} ns a task [{low:.0}, {high:.0}], measured {measured_ns:.0}");
        assert!((low..high).contains(&measured_ns) && middle > 5_000.0, "{kind}: {measured_ns} {row:?}");
    }
}
