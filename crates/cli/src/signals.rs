//! Signals that end a command which goes on until it is stopped.

use std::io;
use std::sync::mpsc::sync_channel;
use std::thread;
use tokio::signal::unix::{SignalKind, signal};

/// Calls `then` when the first SIGHUP, SIGINT, SIGQUIT or SIGTERM arrives, on a thread of its own. From then on, none
/// of them ends the process by itself.
///
/// # Errors
/// Fails if the signals cannot be received.
pub(crate) fn on_end(then: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let (ready, is_ready) = sync_channel(1);
    thread::Builder::new().name("signals".to_owned()).spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = match runtime {
            Ok(runtime) => runtime,
            Err(error) => return drop(ready.send(Err(error))),
        };
        runtime.block_on(async {
            let kinds =
                [SignalKind::hangup(), SignalKind::interrupt(), SignalKind::quit(), SignalKind::terminate()];
            let signals: io::Result<Vec<_>> = kinds.into_iter().map(signal).collect();
            let mut signals = match signals {
                Ok(signals) => signals,
                Err(error) => return drop(ready.send(Err(error))),
            };
            // The receiver waits for this.
            let _ = ready.send(Ok(()));
            std::future::poll_fn(|context| {
                let has_one = signals.iter_mut().any(|signal| signal.poll_recv(context).is_ready());
                if has_one { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
            })
            .await;
            then();
        });
    })?;
    is_ready.recv().map_err(io::Error::other)?
}
