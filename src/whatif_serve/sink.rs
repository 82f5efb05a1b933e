//! Passes watched objects to the store as JSON. Nothing decodes them here.

use futures::FutureExt as _;
use futures::future::BoxFuture;
use std::sync::{Arc, Mutex, PoisonError};
use supercargo_apiserver::watch::{Convert, Ended, Intake, RawObject, RawSink, Written};
use supercargo_core::model::event::Kind;
use supercargo_core::model::intern::Tables;
use supercargo_whatif::server::Store;

/// The store as the receiver of JSON.
#[derive(Clone)]
pub(super) struct Sink(pub(super) Arc<Store>);

impl RawSink for Sink {
    fn wants(&self, _kind: Kind) -> bool {
        true
    }

    fn list_began(&self, kind: Kind) {
        self.0.list_began(kind);
    }

    fn note(&self, object: RawObject<'_>, is_gone: bool) {
        self.0.note(object.kind, object.api_version, object.text, is_gone);
    }

    fn list_ended(&self, kind: Kind) {
        self.0.list_ended(kind);
    }
}

/// Number of conversions with the same tables, which gain ids with each.
const CONVERSIONS: usize = 10_000;

/// Receives the decoded objects. They are converted, so that the watch reports malformed ones and counts its lists as
/// complete, and dropped.
#[derive(Default)]
pub(super) struct Discard(Mutex<(Tables, usize)>);

impl Intake for Discard {
    fn wants_text(&self) -> bool {
        false
    }

    fn take(&self, convert: Convert, _text: Written) -> BoxFuture<'_, Result<(), Ended>> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if state.1 == CONVERSIONS {
            *state = (Tables::new(), 0);
        }
        state.1 += 1;
        drop(convert(&mut state.0));
        std::future::ready(Ok(())).boxed()
    }
}
