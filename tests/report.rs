//! `supercargo report`: what its model says, what its page holds, and what becomes of bad input and of large clusters.
//!
//! Whole models are compared with what is written down in `report/shown`; `UPDATE_EXPECT=1` writes them anew. The page in a browser is
//! `tests/page`, part of `make release-check`.

#[path = "report/bad_input.rs"]
mod bad_input;
#[path = "report/model.rs"]
mod model;
#[allow(dead_code, reason = "other tests use the rest of it")]
mod offline;
#[path = "report/page.rs"]
mod page;
#[path = "report/scale.rs"]
mod scale;
#[path = "report/support.rs"]
mod support;
#[path = "report/town.rs"]
mod town;
