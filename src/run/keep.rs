//! What is kept of this process at work: where, and until when it is written.

use super::Failure;
use crate::args::Args;
use crate::config::{Effective, Settings};
use crate::driver::{Clock, Tape};
use crate::journal::{Beginning, Journal, Mode, Ring, Sink, SinkOptions, WhenFull};
use crate::metrics::{Metrics, Record};
use anyhow::{Context as _, anyhow};
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::num::NonZeroU32;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use supercargo_core::hash::HashSeed;
use supercargo_core::rng::Seed;

/// Each cached signature is compared with a full evaluation once in this time. Of 8,192 signatures, as many as there can be, that takes
/// two rounds of 27 comparisons a second. The help of `--verify-decisions`, the alert SupercargoCacheUnchecked and its runbook name it.
const VERIFY_WITHIN: Duration = Duration::from_secs(300);

/// What is kept, for whom, and who writes it.
pub(super) struct Keeping {
    /// When all began.
    pub(super) clock: Clock,
    /// What the engine is made of.
    pub(super) beginning: Beginning,
    journal: Journal,
    pub(super) ring: Option<Arc<Ring>>,
    writers: Vec<JoinHandle<()>>,
}

impl Keeping {
    /// As the flags say.
    pub(super) fn begin(
        args: &Args,
        (effective, settings): (&Effective, &Settings),
        metrics: &Metrics,
    ) -> Result<Self, Failure> {
        let (flags, clock) = (&args.keeping, Clock::start());
        let (now, seed) = (clock.now(), Seed(u64::from(std::process::id())));
        let wait = args.pod_max_in_unschedulable_pods_duration;
        let verify_every = args.verify_decisions.and_then(NonZeroU32::new);
        let beginning = Beginning::new(Mode::Scheduler, now, seed, (effective, settings), wait)
            .verifying(verify_every, (args.verify_decisions != Some(0)).then_some(VERIFY_WITHIN))
            .hashing_with(hash_seed());
        let (journal, writers) = (Journal::default(), Vec::new());
        let mut keeping = Self { clock, beginning, journal, ring: None, writers };
        if flags.decision_records > 0 {
            let ring = Arc::new(Ring::new(flags.decision_records, flags.decision_records_bytes));
            keeping.journal = keeping.journal.with_ring(Arc::clone(&ring));
            keeping.ring = Some(ring);
        }
        if let Some(path) = &flags.decision_log {
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
        tracing::info!(path = %path.display(), bytes_max, "recording all that decisions are made from");
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

    /// What the driver is to tell, if anybody listens.
    pub(super) fn tape(&mut self) -> Option<Box<dyn Tape>> {
        let journal = std::mem::take(&mut self.journal);
        (!journal.is_idle()).then(|| Box::new(journal) as Box<dyn Tape>)
    }

    /// Waits until all is written, once the scheduling thread has ended, for at most `within`: a disk may hang.
    pub(super) async fn end(self, within: Duration) -> anyhow::Result<()> {
        let writers = self.writers;
        let written = tokio::task::spawn_blocking(move || writers.into_iter().all(|it| it.join().is_ok()));
        match tokio::time::timeout(within, written).await {
            Ok(Ok(true)) => Ok(()),
            Ok(_) => Err(anyhow!("a thread that writes what is kept panicked")),
            Err(_) => {
                tracing::warn!("stopping before everything that is kept was written");
                Ok(())
            }
        }
    }
}

/// A seed that nobody outside can guess: std draws the keys of its maps from the operating system.
pub(crate) fn hash_seed() -> HashSeed {
    HashSeed(RandomState::new().build_hasher().finish())
}
