//! The signals that stop the program.

use anyhow::Context as _;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// SIGTERM and SIGINT. From its creation on, none is lost and none ends the process by itself.
///
/// Without a handler, the kernel discards them in a container, whose program is process 1. So register them before the
/// first step that may wait.
pub(crate) struct StopSignals {
    terminate: Signal,
    interrupt: Signal,
}

impl StopSignals {
    /// Registers the signals.
    ///
    /// # Errors
    /// If the operating system refuses.
    ///
    /// # Panics
    /// Outside a runtime.
    pub(crate) fn register() -> anyhow::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?,
            interrupt: signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?,
        })
    }

    /// Waits for a signal and returns its name.
    pub(crate) async fn received(&mut self) -> &'static str {
        tokio::select! {
            _ = self.terminate.recv() => "SIGTERM",
            _ = self.interrupt.recv() => "SIGINT",
        }
    }
}
