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
    ($($document:ident: $name:ident),* $(,)?) => {
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
                    $(Self::$document(document) => document.as_ref(),)*
                }
            }
        }
    };
}

render!(
    Calibration: calibration,
    Prediction: prediction,
    Plan: plan,
    Verification: verification,
    Bill: bill,
    Lint: lint,
    Simulation: simulation,
    Stat: stat,
    Sensitivity: sensitivity,
    Audit: audit,
    Selfcost: selfcost,
    Phase: phase,
    Matrix: matrix,
    Comm: comm,
    Recorded: recorded,
);

impl Render for FieldTest {
    fn text(&self) -> String {
        text::field_test(self)
    }

    fn csv(&self, separator: &str) -> String {
        csv::field_test(self, separator)
    }

    #[cfg(feature = "html")]
    fn html(&self) -> String {
        html::field_test(self)
    }
}

impl Render for ToolPrediction {
    fn text(&self) -> String {
        text::tool_prediction(self)
    }

    fn csv(&self, separator: &str) -> String {
        csv::tool_prediction(self, separator)
    }

    #[cfg(feature = "html")]
    fn html(&self) -> String {
        html::tool_prediction(self)
    }
}

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
