//! Which document a JSON text holds, for commands that read documents back.

use perftax_doc::{
    Audit, Bill, Calibration, Comm, FieldTest, Lint, MachineProfile, Matrix, Origin, Phase, Plan, Prediction, Recorded, SCHEMA,
    Selfcost, Sensitivity, Simulation, Stat, ToolPrediction, Verification,
};
use serde::de::DeserializeOwned;

/// The kind of several documents that `report` put side by side.
pub(crate) const SEVERAL: &str = "report";

/// The documents with their kinds and the commands that write them.
macro_rules! documents {
    ($($variant:ident($document:ident): $kind:literal, $commands:literal;)*) => {
        /// Any document that perftax writes with `--json` and shows again.
        #[derive(Clone, Debug, PartialEq)]
        pub enum Document {
            $(
                #[doc = concat!("Of perftax ", $commands, ".")]
                $variant(Box<$document>),
            )*
        }

        impl Document {
            /// Every kind, as documents name it, with the commands that write it.
            pub const KINDS: &'static [(&'static str, &'static str)] = &[$(($kind, $commands),)*];

            /// The head of the document.
            pub fn origin(&self) -> &Origin {
                match self {
                    $(Self::$variant(document) => &document.origin,)*
                }
            }

            /// Its kind, as the document names it.
            pub fn kind(&self) -> &'static str {
                match self {
                    $(Self::$variant(_) => $kind,)*
                }
            }

            fn of(kind: &str, value: serde_json::Value) -> Result<Self, ReadError> {
                match kind {
                    $($kind => typed(kind, value).map(Self::$variant),)*
                    other => Err(ReadError::Foreign(format!("its kind is '{other}', not one that is put side by side"))),
                }
            }
        }

        impl serde::Serialize for Document {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    $(Self::$variant(document) => document.serialize(serializer),)*
                }
            }
        }
    };
}

documents! {
    Calibration(Calibration): "calibrate", "calibrate";
    Prediction(Prediction): "predict", "predict";
    Tool(ToolPrediction): "predict-tool", "predict --tool";
    Plan(Plan): "plan", "plan";
    Verification(Verification): "verify", "verify";
    Bill(Bill): "bill", "bill";
    Lint(Lint): "lint", "lint";
    Recorded(Recorded): "record", "record";
    Simulation(Simulation): "sim", "sim";
    Stat(Stat): "stat", "sim stat, vm stat";
    Sensitivity(Sensitivity): "sensitivity", "sensitivity";
    Audit(Audit): "audit", "audit";
    Selfcost(Selfcost): "selfcost", "selfcost";
    Phase(Phase): "phase", "phase";
    Matrix(Matrix): "matrix", "matrix";
    Comm(Comm): "comm", "comm, sim --comm";
    FieldTest(FieldTest): "field-test", "field-test";
}

/// Why a text holds no document that we can read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadError {
    /// It is not JSON at all.
    NotJson(String),
    /// It is JSON, but nothing that perftax writes.
    Foreign(String),
    /// A newer perftax wrote it.
    Newer {
        /// The document's schema.
        schema: u64,
    },
    /// It says what it is, but keys are missing or have other types.
    Malformed {
        /// What it says it is.
        kind: String,
        /// What is wrong.
        why: String,
    },
}

impl std::fmt::Display for ReadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotJson(why) => write!(f, "not JSON: {why}"),
            Self::Foreign(what) => {
                write!(f, "not a result of perftax: {what}")
            }
            Self::Newer { schema } => {
                write!(f, "schema is {schema}, this perftax reads up to {SCHEMA}: update perftax, or write the file anew with it")
            }
            Self::Malformed { kind, why } => write!(f, "says that it is '{kind}', but {why}"),
        }
    }
}

impl std::error::Error for ReadError {}

impl Document {
    /// The documents in a JSON text: one, each calibration of a machine profile, or those that `report` put side by side.
    ///
    /// # Errors
    /// Says which of the ways it is that the text is not a document that this version reads.
    pub fn read(text: &str) -> Result<Vec<Self>, ReadError> {
        let value: serde_json::Value = serde_json::from_str(text).map_err(|e| ReadError::NotJson(e.to_string()))?;
        Self::read_value(value)
    }

    fn read_value(mut value: serde_json::Value) -> Result<Vec<Self>, ReadError> {
        let object = value.as_object().ok_or_else(|| ReadError::Foreign("it is no JSON object".into()))?;
        let schema = object.get("schema").ok_or_else(|| ReadError::Foreign("it has no key 'schema'".into()))?;
        let schema = schema.as_u64().ok_or_else(|| ReadError::Foreign(format!("its schema is {schema}, no whole number")))?;
        if schema > u64::from(SCHEMA) {
            return Err(ReadError::Newer { schema });
        }
        let kind = match object.get("kind").and_then(|kind| kind.as_str()) {
            Some(kind) => kind.to_string(),
            None if object.contains_key("calibrations") && object.contains_key("machine") => {
                let profile: MachineProfile = typed("machine profile", value)?;
                return Ok(profile.calibrations.into_iter().map(|c| Self::Calibration(Box::new(c))).collect());
            }
            None => return Err(ReadError::Foreign("it has no key 'kind'".into())),
        };
        if kind == SEVERAL {
            let documents: Vec<serde_json::Value> = typed(&kind, value["documents"].take())?;
            let read: Vec<Vec<Self>> = documents.into_iter().map(Self::read_value).collect::<Result<_, _>>()?;
            return Ok(read.into_iter().flatten().collect());
        }
        Ok(vec![Self::of(&kind, value)?])
    }

    /// The calibrations in it.
    pub(crate) fn calibrations(&self) -> Vec<&Calibration> {
        match self {
            Self::Calibration(doc) => vec![doc],
            Self::FieldTest(doc) => doc.calibrations.iter().collect(),
            _ => Vec::new(),
        }
    }

    /// The price lists in it: one, or none.
    pub(crate) fn selfcosts(&self) -> Vec<&Selfcost> {
        match self {
            Self::Selfcost(doc) => vec![doc],
            Self::FieldTest(doc) => doc.selfcost.iter().collect(),
            _ => Vec::new(),
        }
    }

    /// The results of single commands that it holds: those of a field test, else itself.
    pub fn results(self) -> Vec<Self> {
        let Self::FieldTest(test) = self else { return vec![self] };
        let calibrations = test.calibrations.into_iter().map(|c| Self::Calibration(Box::new(c)));
        let audit = test.audit.map(|audit| Self::Audit(Box::new(audit)));
        let selfcost = test.selfcost.map(|selfcost| Self::Selfcost(Box::new(selfcost)));
        calibrations.chain(audit).chain(selfcost).collect()
    }
}

fn typed<T: DeserializeOwned>(kind: &str, value: serde_json::Value) -> Result<T, ReadError> {
    serde_json::from_value(value).map_err(|e| ReadError::Malformed { kind: kind.into(), why: e.to_string() })
}
