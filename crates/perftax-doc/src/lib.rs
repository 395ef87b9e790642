//! The documents that perftax writes and reads (`--json`): one file per command, one type per document. And what they are made of: raw observations
//! ([`observation`]) and estimates ([`Estimate`]), which are different types on purpose; mechanisms; warnings. Nothing is estimated here.
//!
//! Keys carry base SI units; every document starts with its [`Origin`].

mod arm_name;
mod audit;
mod bill;
mod calibration;
pub mod code;
mod comm;
mod comm_likeness;
mod estimate;
mod field_test;
pub mod left_out;
mod lint;
mod matrix;
pub mod mechanism;
pub mod observation;
mod origin;
mod payload_term;
mod phase;
mod plan;
mod prediction;
mod profile;
mod published;
mod quantiles;
mod recorded;
mod selfcost;
mod sensitivity;
mod series;
mod simulation;
mod stat;
pub mod steps;
mod tag;
pub mod tasks;
mod tool_prediction;
mod trace;
mod trace_events;
mod trace_execution;
mod trace_host;
mod trace_join;
mod trace_message;
mod trace_picture;
mod trace_requests;
mod trace_top;
mod verification;
mod waker;
mod warning;
pub mod words;
mod workload;

pub use arm_name::ArmName;
pub use audit::{Audit, AuditRow, AuditedExperiment, Comparison, ComparisonVerdict, MeasuredOn, Verdict};
pub use bill::{Bill, BilledEvent, BilledSwitches, BilledTasks, SampleCount, SpanOf, Untold};
pub use calibration::{
    Calibration, Control, CrossCheck, Decomposition, DirectCost, Line, Linearity, PeriodCost, PublishedSlope, RecordCost,
    StopReason,
};
pub use comm::{
    Comm, CommAdvice, CommCost, CommEvidence, CommExact, CommLine, CommObject, CommPair, CommPlace, CommRest, CommShare,
    CommSite, CommThread, CommWay,
};
pub use comm_likeness::CommLikeness;
pub use estimate::{CONFIDENCE, Estimate};
pub use field_test::{ClaimVerdict, FieldClaim, FieldStep, FieldTest, StepOutcome};
pub use left_out::LeftOut;
pub use lint::{Lint, LintCheck, LintUnit, LintVerdict};
pub use matrix::{
    Jump, MULTIPLEXED_BELOW, Matrix, MatrixCell, MatrixControl, MatrixEvent, MatrixImpossible, MatrixKey, MatrixMode, MatrixPair,
    MatrixPilot, MatrixPlacement, MatrixPlan, MatrixRun, MatrixSet, MatrixSetEvent, MatrixSkipped,
};
pub use mechanism::Mechanism;
pub use origin::{MachineId, Origin, SCHEMA};
pub use payload_term::PayloadTerm;
pub use phase::{Phase, PhaseInterval, PhaseStretch};
pub use plan::{Plan, Reason, Work};
pub use prediction::{Prediction, PredictionRow, busiest_tells, cpu_time_tells};
pub use profile::MachineProfile;
pub use published::{AddedResult, CorruptFile, DatasetAdd, DatasetCheck, DatasetCompact, PublishedTrace, TracePublish};
pub use quantiles::{BoxOf, median, quantile};
pub use recorded::{EventsOn, Expense, ExpenseOn, RateUse, Recorded, Stretch, Witnessed};
pub use selfcost::{Cost, CostUnit, EventSet, Price, PriceFit, PriceRatio, PriceSection, Selfcost};
pub use sensitivity::{Sensitivity, SensitivityRow, SensitivityRun};
pub use series::Series;
pub use simulation::{AddressSamples, BufferAdvice, BufferCost, SimulatedCore, SimulatedRun, Simulation, TermsS, ThreadSamples};
pub use stat::{Stat, StatComparison, StatCount, StatDifference, StatFile, StatFixed, StatFunction, StatFunctionDifference};
pub use tag::{ContextSight, Interrupts, LabelLatencies, ProbeSight, RegisterSight, SocketSight};
pub use tool_prediction::{
    PriceSource, ToolPrediction, ToolSampler, ToolTerm, ToolTrial, TrialPlacement, TrialRun, TrialStage, Unpriced,
};
pub use trace::{
    BlamedCause, BlamedDetail, Change, CostPart, KeptSlow, Latencies, LatencyChange, PriceChecked, SampledFunction, SlowMessage,
    TailBlame, ThreadCost, TraceCost, TraceDiff, TraceLock, TraceMeta, TraceReport, TraceSpent,
};
pub use trace_events::{BlamedEvents, BlamedPlace, MessageEvents, TraceEvent};
pub use trace_execution::{BlamedExecution, ExecutionSight, LongerExecution, MessageExecution};
pub use trace_host::TraceHost;
pub use trace_join::{
    CausalDifference, JoinedPair, JoinedTrace, LyingClock, RoundTrips, SlowRoundTrip, StatedDifference, TraceJoin,
};
pub use trace_message::{
    AmongParts, BetweenHops, LastPart, MessageHop, Neighbour, PathStep, Place, RelatedMessage, TraceMessage, Waterfall,
    WaterfallPiece,
};
pub use trace_picture::{Noise, Point, TracePicture};
pub use trace_requests::{
    BlamedCharge, Charged, JoinedRequests, RequestBlame, RequestHop, RequestPart, RequestWaterfall, SlowRequest,
};
pub use trace_top::{LatencyBucket, SpansSent, TopBudget, TopKind, TopNow, TraceTop};
pub use verification::{
    ArmShift, Cell, Fit, LeftOutRun, Pollution, Regression, Totals, Verification, WorkloadControl, WorkloadReferenceLoop,
};
pub use waker::{Meanwhile, Waker};
pub use warning::Warning;
pub use workload::WorkloadProfile;

/// Whether a number is left out of a document, where that means the same: serde asks by reference.
#[allow(clippy::trivially_copy_pass_by_ref)]
pub(crate) fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// The same of what is not so.
#[allow(clippy::trivially_copy_pass_by_ref)]
pub(crate) fn is_false(holds: &bool) -> bool {
    !*holds
}
