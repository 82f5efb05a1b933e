//! `supercargo report`: data, page, invalid input and large clusters.
//!
//! Expected data is in `report/shown`; `UPDATE_EXPECT=1` rewrites it. `tests/page` tests the page in a
//! browser, as part of `make release-check`.

#[path = "report/bad_input.rs"]
mod bad_input;
#[path = "report/cluster.rs"]
mod cluster;
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
