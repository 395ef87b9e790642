//! Whether the recording says which build of each file it saw.

use super::check::{Check, Judgement, Rule, Unit, Whole};
use crate::recording::{SeenRecord, kind};

#[derive(Default)]
pub(super) struct BuildIds {
    /// Mappings of files.
    mappings: u64,
    /// Those with a build id.
    with_id: u64,
}

static RULE: Rule = Rule {
    name: "build-ids",
    measures: "recordings without build ids: 1",
    unit: Unit::Count,
    warning: Some(1.0),
    error: None,
    source: "HEADER_BUILD_ID (perf.data-file-format.txt), PERF_RECORD_MISC_MMAP_BUILD_ID (Linux 5.12)",
};

impl Check for BuildIds {
    fn rule(&self) -> &'static Rule {
        &RULE
    }

    fn sees_records(&self) -> bool {
        true
    }

    fn record(&mut self, record: &SeenRecord<'_>) {
        if record.kind == kind::MMAP || record.kind == kind::MMAP2 {
            self.mappings += 1;
            self.with_id += u64::from(record.kind == kind::MMAP2 && record.misc & kind::MISC_MMAP_BUILD_ID != 0);
        }
    }

    fn judge(&self, whole: &Whole<'_>) -> Judgement {
        let listed = whole.recording.features.build_ids.as_ref().map_or(0, std::collections::BTreeMap::len);
        if listed > 0 || self.with_id > 0 {
            return Judgement::none("files are told by their build ids");
        }
        if self.mappings == 0 || whole.samples() == 0 {
            return Judgement::none("no code mapped, or no samples to name");
        }
        let is_compressed =
            [kind::COMPRESSED, kind::COMPRESSED2].iter().any(|kind| whole.recording.counts.records.contains_key(kind));
        Judgement::measured(
            1.0,
            "no file has a build id in the recording",
            "functions are looked up by path: what was rebuilt or upgraded since gets wrong names, in silence",
            match is_compressed {
                true => "perf record without -z, or with --buildid-mmap",
                false => "perf record without -B; of a pipe: perf inject -b, on the machine that recorded",
            },
        )
    }
}
