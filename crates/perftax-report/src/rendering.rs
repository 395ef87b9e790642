//! Documents in all their forms, whichever they are.

#[cfg(feature = "html")]
use crate::html;
use crate::{Document, csv, text};
use perftax_doc::{
    Audit, Bill, Calibration, Comm, FieldTest, Lint, Matrix, Phase, Plan, Prediction, Recorded, Selfcost, Sensitivity,
    Simulation, Stat, ToolPrediction, Verification,
};

/// A document that can be shown.
pub trait Render {
    /// For people, with ANSI colour.
    fn text(&self) -> String;

    /// Its main table as separated values, below a line of names.
    fn csv(&self, separator: &str) -> String;

    /// A page with plots that needs no network.
    #[cfg(feature = "html")]
    fn html(&self) -> String;
}

macro_rules! render {
    ($($variant:ident($document:ident): $name:ident),* $(,)?) => {
        $(impl Render for $document {
            fn text(&self) -> String {
                text::$name(self)
            }

            fn csv(&self, separator: &str) -> String {
                csv::$name(self, separator)
            }

            #[cfg(feature = "html")]
            fn html(&self) -> String {
                html::$name(self)
            }
        })*

        impl Document {
            fn shown(&self) -> &dyn Render {
                match self {
                    $(Self::$variant(document) => document.as_ref(),)*
                }
            }
        }
    };
}

render!(
    Calibration(Calibration): calibration,
    Prediction(Prediction): prediction,
    Tool(ToolPrediction): tool_prediction,
    Plan(Plan): plan,
    Verification(Verification): verification,
    Bill(Bill): bill,
    Lint(Lint): lint,
    Recorded(Recorded): recorded,
    Simulation(Simulation): simulation,
    Stat(Stat): stat,
    Sensitivity(Sensitivity): sensitivity,
    Audit(Audit): audit,
    Selfcost(Selfcost): selfcost,
    Phase(Phase): phase,
    Matrix(Matrix): matrix,
    Comm(Comm): comm,
    FieldTest(FieldTest): field_test,
);

impl Render for Document {
    fn text(&self) -> String {
        self.shown().text()
    }

    fn csv(&self, separator: &str) -> String {
        self.shown().csv(separator)
    }

    #[cfg(feature = "html")]
    fn html(&self) -> String {
        self.shown().html()
    }
}
