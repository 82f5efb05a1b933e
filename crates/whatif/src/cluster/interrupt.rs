//! Ends questions early, between two decisions. This module has no clock: the caller decides when the time is over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Says when a question must end.
#[derive(Clone, Default)]
pub struct Interrupt {
    over: Option<Arc<dyn Fn() -> bool + Send + Sync>>,
    was_over: Arc<AtomicBool>,
}

impl Interrupt {
    /// Returns an interrupt that asks `over` before each decision.
    pub fn new(over: impl Fn() -> bool + Send + Sync + 'static) -> Self {
        Self { over: Some(Arc::new(over)), was_over: Arc::default() }
    }

    /// Asks whether the question must end now. Once it must, it stays so.
    pub(crate) fn is_over(&self) -> bool {
        if !self.was_over() && self.over.as_ref().is_some_and(|over| over()) {
            self.was_over.store(true, Ordering::Relaxed);
        }
        self.was_over()
    }

    /// Returns whether a question has ended early.
    pub fn was_over(&self) -> bool {
        self.was_over.load(Ordering::Relaxed)
    }
}
