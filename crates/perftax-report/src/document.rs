//! Which document a JSON text holds, for commands that read documents back.

use perftax_doc::{
    Audit, Bill, Calibration, Comm, FieldTest, Lint, MachineProfile, Matrix, Origin, Phase, Plan, Prediction, Recorded, SCHEMA,
    Selfcost, Sensitivity, Simulation, Stat, Verification,
};
use serde::de::DeserializeOwned;

/// Any document that perftax writes with `--json`.
#[derive(Clone, Debug, PartialEq)]
pub enum Document {
    /// `perftax calibrate`.
    Calibration(Box<Calibration>),
    /// `perftax predict`.
    Prediction(Box<Prediction>),
    /// `perftax plan`.
    Plan(Box<Plan>),
    /// `perftax verify`.
    Verification(Box<Verification>),
    /// `perftax bill`.
    Bill(Box<Bill>),
    /// `perftax lint`.
    Lint(Box<Lint>),
    /// `perftax sim`.
    Simulation(Box<Simulation>),
    /// `perftax sim stat`, `perftax vm stat`.
    Stat(Box<Stat>),
    /// `perftax sensitivity`.
    Sensitivity(Box<Sensitivity>),
    /// `perftax audit`.
    Audit(Box<Audit>),
    /// `perftax selfcost`.
    Selfcost(Box<Selfcost>),
    /// `perftax phase`.
    Phase(Box<Phase>),
    /// `perftax matrix`.
    Matrix(Box<Matrix>),
    /// `perftax comm`, `perftax sim --comm`.
    Comm(Box<Comm>),
    /// `perftax record`.
    Recorded(Box<Recorded>),
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
    /// The documents in a JSON text: one, each calibration of a machine profile, or all that a field test has.
    ///
    /// # Errors
    /// Says which of the ways it is that the text is not a document that this version reads.
    pub fn read(text: &str) -> Result<Vec<Self>, ReadError> {
        let value: serde_json::Value = serde_json::from_str(text).map_err(|e| ReadError::NotJson(e.to_string()))?;
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
        if kind == "field-test" {
            let test: FieldTest = typed(&kind, value)?;
            let calibrations = test.calibrations.into_iter().map(|c| Self::Calibration(Box::new(c)));
            let audit = test.audit.map(|audit| Self::Audit(Box::new(audit)));
            let selfcost = test.selfcost.map(|selfcost| Self::Selfcost(Box::new(selfcost)));
            return Ok(calibrations.chain(audit).chain(selfcost).collect());
        }
        let document = match kind.as_str() {
            "calibrate" => Self::Calibration(typed(&kind, value)?),
            "predict" => Self::Prediction(typed(&kind, value)?),
            "plan" => Self::Plan(typed(&kind, value)?),
            "verify" => Self::Verification(typed(&kind, value)?),
            "bill" => Self::Bill(typed(&kind, value)?),
            "lint" => Self::Lint(typed(&kind, value)?),
            "sim" => Self::Simulation(typed(&kind, value)?),
            "stat" => Self::Stat(typed(&kind, value)?),
            "sensitivity" => Self::Sensitivity(typed(&kind, value)?),
            "audit" => Self::Audit(typed(&kind, value)?),
            "selfcost" => Self::Selfcost(typed(&kind, value)?),
            "phase" => Self::Phase(typed(&kind, value)?),
            "matrix" => Self::Matrix(typed(&kind, value)?),
            "comm" => Self::Comm(typed(&kind, value)?),
            "record" => Self::Recorded(typed(&kind, value)?),
            other => return Err(ReadError::Foreign(format!("its kind is '{other}', not one that is put side by side"))),
        };
        Ok(vec![document])
    }

    /// The head of the document.
    pub fn origin(&self) -> &Origin {
        match self {
            Self::Calibration(doc) => &doc.origin,
            Self::Prediction(doc) => &doc.origin,
            Self::Plan(doc) => &doc.origin,
            Self::Verification(doc) => &doc.origin,
            Self::Bill(doc) => &doc.origin,
            Self::Lint(doc) => &doc.origin,
            Self::Simulation(doc) => &doc.origin,
            Self::Stat(doc) => &doc.origin,
            Self::Sensitivity(doc) => &doc.origin,
            Self::Audit(doc) => &doc.origin,
            Self::Selfcost(doc) => &doc.origin,
            Self::Phase(doc) => &doc.origin,
            Self::Matrix(doc) => &doc.origin,
            Self::Comm(doc) => &doc.origin,
            Self::Recorded(doc) => &doc.origin,
        }
    }

    /// The name of the command that writes such a document.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Calibration(_) => "calibrate",
            Self::Prediction(_) => "predict",
            Self::Plan(_) => "plan",
            Self::Verification(_) => "verify",
            Self::Bill(_) => "bill",
            Self::Lint(_) => "lint",
            Self::Simulation(_) => "sim",
            Self::Stat(_) => "stat",
            Self::Sensitivity(_) => "sensitivity",
            Self::Audit(_) => "audit",
            Self::Selfcost(_) => "selfcost",
            Self::Phase(_) => "phase",
            Self::Matrix(_) => "matrix",
            Self::Comm(_) => "comm",
            Self::Recorded(_) => "record",
        }
    }
}

impl serde::Serialize for Document {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Calibration(doc) => doc.serialize(serializer),
            Self::Prediction(doc) => doc.serialize(serializer),
            Self::Plan(doc) => doc.serialize(serializer),
            Self::Verification(doc) => doc.serialize(serializer),
            Self::Bill(doc) => doc.serialize(serializer),
            Self::Lint(doc) => doc.serialize(serializer),
            Self::Simulation(doc) => doc.serialize(serializer),
            Self::Stat(doc) => doc.serialize(serializer),
            Self::Sensitivity(doc) => doc.serialize(serializer),
            Self::Audit(doc) => doc.serialize(serializer),
            Self::Selfcost(doc) => doc.serialize(serializer),
            Self::Phase(doc) => doc.serialize(serializer),
            Self::Matrix(doc) => doc.serialize(serializer),
            Self::Comm(doc) => doc.serialize(serializer),
            Self::Recorded(doc) => doc.serialize(serializer),
        }
    }
}

fn typed<T: DeserializeOwned>(kind: &str, value: serde_json::Value) -> Result<T, ReadError> {
    serde_json::from_value(value).map_err(|e| ReadError::Malformed { kind: kind.into(), why: e.to_string() })
}
