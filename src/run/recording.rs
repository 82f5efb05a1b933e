//! Decision records, decision log and input recording of this process: setup and shutdown.

use super::Failure;
use crate::args::Args;
use crate::engine::recording::{Journal, Ring, Sink, SinkOptions, WhenFull};
use crate::engine::{Clock, InputRecorder};
use crate::telemetry::metrics::{Metrics, Record};
use anyhow::{Context as _, anyhow};
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use supercargo_config::{Effective, Settings};
use supercargo_core::collections::hash::HashSeed;
use supercargo_core::model::rng::Seed;
use supercargo_whatif::recording::header::Header;
use supercargo_whatif::recording::header::Mode;

/// Each cached signature is compared with a full evaluation once in this time. For the maximum of 8,192 signatures,
/// that takes two rounds at 27 comparisons a second. The help of `--verify-decisions`, the alert
/// SupercargoCacheUnchecked and its runbook quote this number.
const VERIFY_WITHIN: Duration = Duration::from_secs(300);

/// The journal, what it is made from, and its writer threads.
pub(super) struct Recordings {
    /// The engine's clock, started first.
    pub(super) clock: Clock,
    /// The engine's initial parameters, which head a recording.
    pub(super) beginning: Header,
    journal: Journal,
    pub(super) ring: Option<Arc<Ring>>,
    writers: Vec<JoinHandle<()>>,
}

impl Recordings {
    /// Sets up recording as the flags say. An engine whose version is not known starts as a standby.
    pub(super) fn begin(
        args: &Args,
        (effective, settings): (&Effective, &Settings),
        is_version_known: bool,
        metrics: &Metrics,
    ) -> Result<Self, Failure> {
        let (flags, clock) = (&args.keeping, Clock::start());
        let (now, seed) = (clock.now(), Seed(u64::from(std::process::id())));
        let wait = args.pod_max_in_unschedulable_pods_duration;
        let verify_every = args.verify_decisions.and_then(NonZeroU32::new);
        let mut beginning = Header::new(Mode::Scheduler, now, seed, (effective, settings), wait)
            .verifying(verify_every, (args.verify_decisions != Some(0)).then_some(VERIFY_WITHIN))
            .hashing_with(hash_seed())
            .compatible(args.compat);
        beginning.waits_for_lease |= !is_version_known;
        let (journal, writers) = (Journal::default(), Vec::new());
        let mut keeping = Self { clock, beginning, journal, ring: None, writers };
        if flags.decision_records > 0 {
            let ring = Arc::new(Ring::new(flags.decision_records, flags.decision_records_bytes));
            keeping.journal = keeping.journal.with_ring(Arc::clone(&ring));
            keeping.ring = Some(ring);
        }
        if let Some(path) = &flags.decision_log {
            tracing::warn!(
                "--decision-log is deprecated; use --record-to, whose `decided` lines hold the same JSON"
            );
            let bytes_max = flags.decision_log_max_bytes;
            let options =
                SinkOptions { path: path.clone(), bytes_max, when_full: WhenFull::Rotates, header: None };
            let sink = keeping.open("--decision-log", options, Record::Decisions, metrics)?;
            keeping.journal = keeping.journal.with_log(sink);
        }
        if let Some(path) = &flags.record_to {
            keeping.record(path, flags.record_max_bytes, metrics)?;
        }
        Ok(keeping)
    }

    fn record(&mut self, path: &Path, bytes_max: u64, metrics: &Metrics) -> Result<(), Failure> {
        let header = Some(self.beginning.to_line());
        let options = SinkOptions { path: path.to_owned(), bytes_max, when_full: WhenFull::Ends, header };
        let sink = self.open("--record-to", options, Record::Input, metrics)?;
        tracing::info!(path = %path.display(), bytes_max, "recording all inputs of scheduling decisions");
        self.journal = std::mem::take(&mut self.journal).with_recording(sink, self.beginning.began());
        Ok(())
    }

    fn open(
        &mut self,
        flag: &str,
        options: SinkOptions,
        record: Record,
        metrics: &Metrics,
    ) -> Result<Sink, Failure> {
        let path = options.path.clone();
        let opened = Sink::open(options, metrics.record_lines(record));
        let (sink, writer) = opened
            .with_context(|| format!("{flag}: cannot write {}", path.display()))
            .map_err(|cause| Failure { cause, code: 2 })?;
        self.writers.push(writer);
        Ok(sink)
    }

    /// Returns the tape for the driver, or `None` if nothing is recorded.
    pub(super) fn recorder(&mut self) -> Option<Box<dyn InputRecorder>> {
        let journal = std::mem::take(&mut self.journal);
        (!journal.is_idle()).then(|| Box::new(journal) as Box<dyn InputRecorder>)
    }

    /// Waits for the writer threads after the scheduling thread has ended, for at most `within`, since a disk may hang.
    pub(super) async fn end(self, within: Duration) -> anyhow::Result<()> {
        let writers = self.writers;
        let written = tokio::task::spawn_blocking(move || writers.into_iter().all(|it| it.join().is_ok()));
        match tokio::time::timeout(within, written).await {
            Ok(Ok(true)) => Ok(()),
            Ok(_) => Err(anyhow!("a thread that writes decision records panicked")),
            Err(_) => {
                tracing::warn!("stopping before all decision records were written");
                Ok(())
            }
        }
    }
}

/// Returns an unpredictable seed: std draws the keys of its hash maps from the operating system.
pub(crate) fn hash_seed() -> HashSeed {
    HashSeed(RandomState::new().build_hasher().finish())
}
