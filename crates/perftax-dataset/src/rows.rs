//! What stands in each table, a type a table.

use parquet::data_type::ByteArray;

use crate::schema::{Column, Kind, Table};

/// A text of which copies share the bytes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Text(pub(crate) ByteArray);

impl<T: AsRef<str>> From<T> for Text {
    fn from(text: T) -> Self {
        Self(ByteArray::from(text.as_ref().as_bytes().to_vec()))
    }
}

impl std::fmt::Display for Text {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&String::from_utf8_lossy(self.0.data()))
    }
}

/// A cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// An integer, or NULL.
    Int(Option<i64>),
    /// A text, or NULL.
    Text(Option<ByteArray>),
    /// A double, or NULL.
    Double(Option<f64>),
}

/// What a cell may be made of.
trait Cell {
    const KIND: Kind;
    const IS_NULLABLE: bool;
    fn value(self) -> Value;
}

impl Cell for i64 {
    const KIND: Kind = Kind::Int;
    const IS_NULLABLE: bool = false;
    fn value(self) -> Value {
        Value::Int(Some(self))
    }
}

impl Cell for Option<i64> {
    const KIND: Kind = Kind::Int;
    const IS_NULLABLE: bool = true;
    fn value(self) -> Value {
        Value::Int(self)
    }
}

impl Cell for Text {
    const KIND: Kind = Kind::Text;
    const IS_NULLABLE: bool = false;
    fn value(self) -> Value {
        Value::Text(Some(self.0))
    }
}

impl Cell for Option<Text> {
    const KIND: Kind = Kind::Text;
    const IS_NULLABLE: bool = true;
    fn value(self) -> Value {
        Value::Text(self.map(|text| text.0))
    }
}

impl Cell for f64 {
    const KIND: Kind = Kind::Double;
    const IS_NULLABLE: bool = false;
    fn value(self) -> Value {
        Value::Double(Some(self))
    }
}

impl Cell for Option<f64> {
    const KIND: Kind = Kind::Double;
    const IS_NULLABLE: bool = true;
    fn value(self) -> Value {
        Value::Double(self)
    }
}

/// A row of a table.
pub trait Row {
    /// The table.
    const TABLE: Table;
    /// Its columns.
    const COLUMNS: &'static [Column];
    /// The moment whose day it belongs to, ns since 1970.
    fn moment_ns(&self) -> i64;
    /// Its cells, in the order of the columns.
    fn cells(self) -> Vec<Value>;
}

macro_rules! rows {
    ($($(#[doc = $doc:literal])* $row:ident of $table:ident by $moment:ident {
        $($(#[doc = $about:literal])* $column:ident: $cell:ty $(, since $since:literal)?;)*
    })*) => {
        $(
            $(#[doc = $doc])*
            #[derive(Clone, Debug, PartialEq)]
            pub struct $row { $($(#[doc = $about])* pub $column: $cell,)* }

            impl Row for $row {
                const TABLE: Table = Table::$table;
                const COLUMNS: &'static [Column] = &[$(Column {
                    name: stringify!($column),
                    kind: <$cell as Cell>::KIND,
                    is_nullable: <$cell as Cell>::IS_NULLABLE,
                    since: { #[allow(unused_mut, unused_assignments)] let mut since = 1; $(since = $since;)? since },
                },)*];

                fn moment_ns(&self) -> i64 {
                    self.$moment
                }

                fn cells(self) -> Vec<Value> {
                    vec![$(self.$column.value(),)*]
                }
            }
        )*

        impl Table {
            /// Its columns.
            pub fn columns(self) -> &'static [Column] {
                match self { $(Self::$table => $row::COLUMNS,)* }
            }
        }
    };
}

rows! {
    /// A message that is kept whole.
    MessageRow of Messages by minute_ns {
        /// The host's name.
        host: Text;
        /// The publication.
        recording: Text;
        /// 32 digits.
        message: Text;
        /// The beginning of the minute in which it began.
        minute_ns: i64;
        /// When it began.
        begin_ns: i64;
        /// From begin to end.
        latency_ns: i64;
        /// Its number in the trace, 16 digits.
        number: Text;
        /// What the program calls it.
        label: Option<Text>;
        /// The trace's id, 32 digits.
        trace: Option<Text>;
        /// The span's id, 16 digits.
        span: Option<Text>;
        /// 1: among the slowest.
        is_slow: i64;
        /// 1: chosen by its trace id.
        is_sampled: i64;
        /// The version of the service.
        revision: Option<Text>, since 2;
    }
    /// Where time went.
    CauseRow of Causes by minute_ns {
        /// The host's name.
        host: Text;
        /// The publication.
        recording: Text;
        /// The minute.
        minute_ns: i64;
        /// The message; none of those that are not slow together.
        message: Option<Text>;
        /// The cause's name.
        cause: Text;
        /// What of it in particular.
        detail: Option<Text>, since 2;
        /// The time.
        ns: i64;
        /// How many messages.
        messages: i64;
        /// The version of the service.
        revision: Option<Text>, since 2;
    }
    /// Latencies of a minute, a bucket.
    HistogramRow of Histograms by minute_ns {
        /// The host's name.
        host: Text;
        /// The publication.
        recording: Text;
        /// The minute.
        minute_ns: i64;
        /// The version of the service.
        revision: Option<Text>, since 2;
        /// From.
        low_ns: i64;
        /// To below.
        high_ns: i64;
        /// How many.
        messages: i64;
    }
    /// Where a message went or came from.
    HopRow of Hops by time_ns {
        /// The host's name.
        host: Text;
        /// The publication.
        recording: Text;
        /// The message.
        message: Text;
        /// When.
        time_ns: i64;
        /// The trace's id.
        trace: Text;
        /// The span's id.
        span: Text;
        /// `sent`, `received`.
        way: Text;
    }
    /// Samples of a minute in a function.
    ProfileRow of Profiles by minute_ns {
        /// The host's name.
        host: Text;
        /// The publication.
        recording: Text;
        /// The minute.
        minute_ns: i64;
        /// The version of the service.
        revision: Option<Text>, since 2;
        /// 1: of slow messages.
        is_slow: i64;
        /// The cause's name.
        cause: Text;
        /// The function.
        function: Text;
        /// How many.
        samples: i64;
        /// What they stand for.
        ns: Option<i64>;
    }
    /// A trace.
    RecordingRow of Recordings by from_ns {
        /// The host's name.
        host: Text;
        /// The publication.
        recording: Text;
        /// The version of the service.
        revision: Option<Text>, since 2;
        /// Which start of the host.
        boot: Text;
        /// The machine's.
        fingerprint: Text;
        /// When its first message began.
        from_ns: i64;
        /// When its last one ended.
        to_ns: i64;
        /// All that ended.
        messages: i64;
        /// From which latency on messages are slow.
        slow_ns: i64;
        /// What found no room.
        lost: i64;
        /// What weakens it.
        weakened: Option<Text>;
        /// How wrong the clock is at most.
        clock_error_ns: Option<i64>;
        /// What recording took, a share: at least.
        overhead_low: Option<f64>;
        /// At most.
        overhead_high: Option<f64>;
        /// The version of perftax.
        perftax: Text;
    }
    /// A machine that something was published from.
    HostRow of Hosts by time_ns {
        /// The host's name.
        host: Text;
        /// The publication.
        recording: Text;
        /// When.
        time_ns: i64;
        /// The machine's.
        fingerprint: Text;
        /// The CPU's model.
        cpu: Text;
        /// Its microcode.
        microcode: Text;
        /// The kernel's release.
        kernel: Text;
        /// What slows interrupts.
        mitigations: Text;
        /// The hypervisor.
        virtualisation: Text;
        /// Online logical CPUs.
        cpus: i64;
    }
    /// What an event's sample costs, a term.
    PriceRow of Prices by time_ns {
        /// The host's name.
        host: Text;
        /// The publication.
        recording: Text;
        /// The machine's.
        fingerprint: Text;
        /// The CPU's model.
        cpu: Text;
        /// Its microcode.
        microcode: Text;
        /// The kernel's release.
        kernel: Text;
        /// What slows interrupts.
        mitigations: Text;
        /// The hypervisor.
        virtualisation: Text;
        /// When it was measured.
        time_ns: i64;
        /// What measured it.
        source: Text;
        /// How samples are taken.
        mechanism: Text;
        /// As perf names it.
        event: Text;
        /// Which term.
        term: Text;
        /// `ns`, `share`.
        unit: Text;
        /// The estimate.
        value: f64;
        /// The interval's lower end.
        low: f64;
        /// Its upper end.
        high: f64;
        /// Its confidence.
        confidence: f64;
    }
    /// How true samples are, a number.
    AuditRow of Audits by time_ns {
        /// The host's name.
        host: Text;
        /// The publication.
        recording: Text;
        /// The machine's.
        fingerprint: Text;
        /// The CPU's model.
        cpu: Text;
        /// The kernel's release.
        kernel: Text;
        /// When.
        time_ns: i64;
        /// How samples are taken.
        mechanism: Text;
        /// As perf names it.
        event: Text;
        /// What was found.
        finding: Text;
        /// Of what.
        unit: Text;
        /// The number.
        value: Option<f64>;
        /// At least.
        low: Option<f64>;
        /// At most.
        high: Option<f64>;
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)] // tests may

    use super::*;

    /// What the page says of a table: name, kind, nullable, since.
    fn documented(page: &str, table: Table) -> Vec<Column> {
        let (_, part) = page.split_once(&format!("**{}**", table.name())).unwrap();
        let rows = part.lines().skip_while(|line| !line.starts_with("|---")).skip(1).take_while(|line| line.starts_with('|'));
        let mut columns = Vec::new();
        for row in rows {
            let cells: Vec<&str> = row.trim_matches('|').splitn(2, '|').map(str::trim).collect();
            for name in cells[0].split(", ") {
                let is_new = name.ends_with('²');
                let name = name.trim_end_matches('²');
                let of_table = table.columns().iter().find(|column| column.name == name);
                let column = of_table.unwrap_or_else(|| panic!("{table:?} has no {name}"));
                let says = cells[1];
                let is_nullable = says.contains("NULL") || is_new;
                let same = ["as above", ""].iter().any(|prefix| says == *prefix || says.starts_with("as above"));
                let is_double = says.contains("(double)");
                columns.push(Column {
                    name: column.name,
                    kind: column.kind,
                    is_nullable: if same { column.is_nullable } else { is_nullable },
                    since: if is_new {
                        2
                    } else if same {
                        column.since
                    } else {
                        1
                    },
                });
                assert_eq!(is_double, column.kind == Kind::Double, "{table:?}.{name}");
            }
        }
        columns
    }

    #[test]
    fn tables_have_the_columns_of_the_page() {
        let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/reference/dataset.md")).unwrap();
        assert!(page.contains(&format!("Schema version: **{}**", crate::schema::VERSION)));
        for table in Table::ALL {
            let mut said = documented(&page, table);
            let mut own = table.columns().to_vec();
            // The page puts those together that are alike.
            said.sort_by_key(|column| column.name);
            own.sort_by_key(|column| column.name);
            assert_eq!(said, own, "{table:?}");
        }
    }
}
