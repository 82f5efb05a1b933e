//! What a plan holds while it is carried out: the connection, the Lease, and the nodes that it has cordoned.

use crate::live::writes::{LEASE_SECONDS, Unwritten, Writer};
use crate::live::{LiveArgs, LiveError};
use crate::screen::complain;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// How often the Lease is renewed.
const RENEW_EVERY: Duration = Duration::from_secs(LEASE_SECONDS as u64 / 3);
/// How often a pause looks for reasons to end.
const TICK: Duration = Duration::from_millis(100);

/// A plan that is being carried out.
pub struct Session {
    /// Runs the requests.
    pub runtime: Runtime,
    /// The connection.
    pub writer: Writer,
    holder: String,
    /// Maximum time from an eviction until the replacement is ready.
    pub step_timeout: Duration,
    /// The nodes that this plan has cordoned.
    pub cordoned: BTreeSet<String>,
    is_interrupted: Arc<AtomicBool>,
    is_lease_lost: Arc<AtomicBool>,
    /// Ends the renewal of the Lease.
    ends: watch::Sender<bool>,
    keeper: Option<JoinHandle<()>>,
}

impl Session {
    /// Connects, takes the Lease, and uncordons what a plan that was killed left cordoned.
    ///
    /// # Errors
    /// Fails if the cluster does not answer, or if another plan holds the Lease.
    pub fn open(args: &LiveArgs, namespace: &str, step_timeout: Duration) -> Result<Self, LiveError> {
        let failed = LiveError::Cluster;
        let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(|error| failed(format!("cannot start the async runtime: {error}")))?;
        let writer = runtime.block_on(Writer::new(args, namespace.to_owned()))?;
        let holder =
            identity().map_err(|error| failed(format!("cannot name the holder of the Lease: {error}")))?;
        runtime.block_on(writer.take_lease(&holder)).map_err(|error| failed(error.into_text()))?;
        let [is_interrupted, is_lease_lost] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        let (ends, end) = watch::channel(false);
        let keeper =
            Keeper { writer: writer.clone(), holder: holder.clone(), is_lost: Arc::clone(&is_lease_lost) };
        let keeper = Some(runtime.spawn(keeper.keep(end)));
        runtime.spawn(note_signals(Arc::clone(&is_interrupted)));
        let mut session = Self {
            runtime,
            writer,
            holder,
            step_timeout,
            cordoned: BTreeSet::new(),
            is_interrupted,
            is_lease_lost,
            ends,
            keeper,
        };
        if let Err(error) = session.uncordon_leftovers() {
            session.close();
            return Err(failed(error));
        }
        Ok(session)
    }

    fn uncordon_leftovers(&mut self) -> Result<(), String> {
        for node in self.runtime.block_on(self.writer.marked_nodes()).map_err(Unwritten::into_text)? {
            self.uncordon(&node)?;
            complain(&format!("uncordoned {node}, which an interrupted plan left cordoned"));
        }
        Ok(())
    }

    /// Returns an error if the plan must not go on.
    pub fn check(&self) -> Result<(), String> {
        if self.is_interrupted.load(SeqCst) {
            return Err("interrupted".to_owned());
        }
        if self.is_lease_lost.load(SeqCst) {
            return Err("its Lease could not be renewed, so another plan may start".to_owned());
        }
        Ok(())
    }

    /// Sleeps, unless the plan must not go on.
    pub fn pause(&self, duration: Duration) -> Result<(), String> {
        let until = Instant::now() + duration;
        while Instant::now() < until {
            self.check()?;
            std::thread::sleep(TICK);
        }
        self.check()
    }

    /// Cordons a node, and remembers it if it was not cordoned before. Returns whether it was not.
    pub fn cordon(&mut self, node: &str) -> Result<bool, String> {
        if self.cordoned.contains(node) {
            return Ok(false);
        }
        let written = self.runtime.block_on(self.writer.cordon(node));
        // Without an answer, the node may be cordoned.
        if !matches!(written, Ok(false) | Err(Unwritten::Changed(_) | Unwritten::Later(_))) {
            self.cordoned.insert(node.to_owned());
        }
        written.map_err(Unwritten::into_text)
    }

    /// Uncordons a node, and waits until it can get pods again: the next plan would take it as infeasible otherwise.
    pub fn uncordon(&mut self, node: &str) -> Result<(), String> {
        self.runtime.block_on(self.writer.uncordon(node)).map_err(Unwritten::into_text)?;
        self.cordoned.remove(node);
        let until = Instant::now() + self.step_timeout;
        while self.runtime.block_on(self.writer.is_cordoned(node)).map_err(Unwritten::into_text)? {
            if Instant::now() >= until {
                return Err(format!("node {node} is uncordoned, but keeps its taint"));
            }
            self.pause(TICK)?;
        }
        Ok(())
    }

    /// Uncordons the nodes, or only removes their marks if they are `kept`. Returns those that are cordoned still.
    ///
    /// Without the Lease, another plan may have cordoned the same nodes. It uncordons what it does not need.
    pub fn end(&mut self, kept: bool) -> Vec<String> {
        let nodes = std::mem::take(&mut self.cordoned);
        if self.is_lease_lost.load(SeqCst)
            && let Err(error) = self.runtime.block_on(self.writer.take_lease(&self.holder))
        {
            complain(&format!(
                "error: {}; the next plan with --apply uncordons the nodes",
                error.into_text()
            ));
            return nodes.into_iter().collect();
        }
        let mut stay = Vec::new();
        for node in nodes {
            let written = if kept {
                self.runtime.block_on(self.writer.unmark(&node))
            } else {
                self.runtime.block_on(self.writer.uncordon(&node))
            };
            let failed = written.err().map(Unwritten::into_text);
            if let Some(error) = &failed {
                complain(&format!("error: {error}; the next plan with --apply uncordons it"));
            }
            if kept || failed.is_some() {
                stay.push(node);
            }
        }
        stay
    }

    /// Gives the Lease back.
    pub fn close(&mut self) {
        let _ = self.ends.send(true);
        if let Some(keeper) = self.keeper.take() {
            let _ = self.runtime.block_on(keeper);
        }
        // After it was lost, the keeper has ended; it may have been taken again since.
        if self.is_lease_lost.load(SeqCst) {
            let _ = self.runtime.block_on(self.writer.renew_lease(&self.holder, true));
        }
    }
}

/// Returns `<host>_<uuid>`, as the scheduler's own elections do: a restarted process is another holder.
fn identity() -> std::io::Result<String> {
    let [host, uuid] = ["hostname", "random/uuid"].map(|name| format!("/proc/sys/kernel/{name}"));
    Ok(format!("{}_{}", std::fs::read_to_string(host)?.trim(), std::fs::read_to_string(uuid)?.trim()))
}

/// Renews the Lease.
struct Keeper {
    writer: Writer,
    holder: String,
    is_lost: Arc<AtomicBool>,
}

impl Keeper {
    /// Renews the Lease until `end` is true, and gives it back then. Notes when another may take it.
    async fn keep(self, mut end: watch::Receiver<bool>) {
        let mut valid_until = Instant::now() + Duration::from_secs(LEASE_SECONDS.into());
        loop {
            let is_end = tokio::select! {
                () = tokio::time::sleep(RENEW_EVERY) => false,
                _ = end.wait_for(|is_end| *is_end) => true,
            };
            let asked = Instant::now();
            match self.writer.renew_lease(&self.holder, is_end).await {
                _ if is_end => return,
                Ok(()) => valid_until = asked + Duration::from_secs(LEASE_SECONDS.into()),
                Err(Unwritten::Changed(_)) => break,
                Err(_) if Instant::now() + RENEW_EVERY >= valid_until => break,
                Err(_) => {}
            }
        }
        self.is_lost.store(true, SeqCst);
    }
}

/// Notes an interrupt, so that the plan ends in good order.
async fn note_signals(is_interrupted: Arc<AtomicBool>) {
    let signals = (signal(SignalKind::interrupt()), signal(SignalKind::terminate()));
    let (Ok(mut interrupt), Ok(mut terminate)) = signals else { return };
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    is_interrupted.store(true, SeqCst);
    complain("stopping after the current request");
}
