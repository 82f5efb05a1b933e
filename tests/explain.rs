//! Tests of `supercargo explain`, `fit`, `drain-check`, `plan`, `lint` and `cel`, with files and with an API server,
//! and their errors.
//!
//! Whole outputs are compared with `explain/shown`, docs/explain.md, docs/lint.md, docs/plan.md and docs/what-if.md;
//! `UPDATE_EXPECT=1` rewrites them.

#[path = "explain/bad_input.rs"]
mod bad_input;
#[path = "explain/cel.rs"]
mod cel;
#[path = "explain/changes.rs"]
mod changes;
#[path = "explain/devices.rs"]
mod devices;
#[path = "explain/drain.rs"]
mod drain;
#[path = "explain/errors.rs"]
mod errors;
#[path = "explain/expired.rs"]
mod expired;
#[path = "explain/fit.rs"]
mod fit;
#[path = "explain/groups.rs"]
mod groups;
#[path = "explain/habits.rs"]
mod habits;
#[path = "explain/lint.rs"]
mod lint;
#[path = "explain/lint_groups.rs"]
mod lint_groups;
#[path = "explain/live.rs"]
mod live;
#[allow(dead_code, reason = "other tests use the rest of it")]
mod offline;
#[path = "explain/plan.rs"]
mod plan;
#[path = "explain/queue.rs"]
mod queue;
#[path = "explain/scale.rs"]
mod scale;
#[path = "explain/shown.rs"]
mod shown;
#[path = "explain/support.rs"]
mod support;
#[path = "explain/top.rs"]
mod top;
#[path = "explain/verdicts.rs"]
mod verdicts;
#[path = "explain/volumes.rs"]
mod volumes;
#[path = "explain/workload.rs"]
mod workload;
