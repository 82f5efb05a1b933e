//! `supercargo explain`, `fit`, `drain-check` and `lint`: what they say of pods in every state, from files and from an API server, and what of
//! bad input.
//!
//! Whole answers are compared with what is written down in `explain/shown`, docs/explain.md, docs/lint.md and docs/what-if.md; `UPDATE_EXPECT=1` writes them
//! anew.

#[path = "explain/bad_input.rs"]
mod bad_input;
#[path = "explain/changes.rs"]
mod changes;
#[path = "explain/drain.rs"]
mod drain;
#[path = "explain/expired.rs"]
mod expired;
#[path = "explain/fit.rs"]
mod fit;
#[path = "explain/habits.rs"]
mod habits;
#[path = "explain/lint.rs"]
mod lint;
#[path = "explain/live.rs"]
mod live;
#[allow(dead_code, reason = "other tests use the rest of it")]
mod offline;
#[path = "explain/queue.rs"]
mod queue;
#[path = "explain/scale.rs"]
mod scale;
#[path = "explain/shown.rs"]
mod shown;
#[path = "explain/support.rs"]
mod support;
#[path = "explain/verdicts.rs"]
mod verdicts;
#[path = "explain/volumes.rs"]
mod volumes;
