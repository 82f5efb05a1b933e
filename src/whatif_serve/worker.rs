//! The thread with the engine: answers one request at a time, users taking turns, and follows the live cluster in
//! between.

use crate::serve::Reserved;
use crate::telemetry::metrics::WhatifMetrics;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use supercargo_whatif::cluster::Interrupt;
use supercargo_whatif::server::{Answer, Full, Limits, Problem, Request, Service, Turns};
use tokio::sync::oneshot;

/// Interval at which the live cluster is brought up to date, and expired forks are removed, while no request comes.
const FOLLOW_EVERY: Duration = Duration::from_millis(200);

/// A request that waits for its turn.
struct Job {
    request: Request,
    began: Instant,
    /// Whether no client waits for the answer any more.
    is_abandoned: Arc<AtomicBool>,
    answer: oneshot::Sender<Answer>,
    /// Accounts for the body.
    _reserved: Option<Reserved>,
}

/// The queues of waiting requests.
pub(super) struct Desk {
    state: Mutex<State>,
    arrived: Condvar,
    metrics: WhatifMetrics,
}

struct State {
    turns: Turns<Job>,
    is_stopping: bool,
}

/// Sets a flag when it is dropped.
struct Abandon(Arc<AtomicBool>);

impl Drop for Abandon {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Desk {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets a request wait for its turn, and returns its answer. If the future is dropped, the request is given up.
    pub(super) async fn ask(&self, request: Request, reserved: Option<Reserved>) -> Answer {
        let (path, began, _waiting) = (request.path.clone(), Instant::now(), self.metrics.waits());
        let answer = self.in_turn(request, reserved).await;
        self.metrics.answered(&path, answer.status, began.elapsed());
        answer
    }

    async fn in_turn(&self, request: Request, reserved: Option<Reserved>) -> Answer {
        let (answer, answered) = oneshot::channel();
        let is_abandoned = Arc::new(AtomicBool::new(false));
        let _abandon = Abandon(Arc::clone(&is_abandoned));
        let user = request.user.clone();
        let job = Job { request, began: Instant::now(), is_abandoned, answer, _reserved: reserved };
        let pushed = self.state().turns.push(&user, job).map_err(|(full, _)| full);
        if let Err(full) = pushed {
            let text = match full {
                Full::User => "too many requests of this user wait for their turn; retry",
                Full::Server => "too many requests wait for their turn; retry",
            };
            return Problem::Busy(text.to_owned()).into();
        }
        self.arrived.notify_one();
        let stopped = || Problem::Later("the server is stopping".to_owned()).into();
        answered.await.unwrap_or_else(|_| stopped())
    }

    /// Ends the thread after its current answer.
    pub(super) fn stop(&self) {
        self.state().is_stopping = true;
        self.arrived.notify_one();
    }

    /// Returns the next request, waiting for it at most this long; `Err` if the thread is to end.
    fn next(&self, within: Duration) -> Result<Option<Job>, ()> {
        let state = self.state();
        let (mut state, _) = self
            .arrived
            .wait_timeout_while(state, within, |state| state.turns.is_empty() && !state.is_stopping)
            .unwrap_or_else(PoisonError::into_inner);
        if state.is_stopping { Err(()) } else { Ok(state.turns.pop()) }
    }
}

/// The thread.
pub(super) struct Worker {
    service: Service,
    desk: Arc<Desk>,
    deadline: Duration,
    started: Instant,
}

impl Worker {
    /// Starts the thread. Returns where requests wait, and a future that completes when the thread ends.
    pub(super) fn start(
        service: Service,
        limits: Limits,
        metrics: WhatifMetrics,
    ) -> io::Result<(Arc<Desk>, impl Future<Output = ()>)> {
        let turns = Turns::new(limits.waiting_per_user, limits.waiting);
        let state = Mutex::new(State { turns, is_stopping: false });
        let desk = Arc::new(Desk { state, arrived: Condvar::new(), metrics });
        let worker =
            Self { service, desk: Arc::clone(&desk), deadline: limits.deadline, started: Instant::now() };
        let (end, ended) = oneshot::channel::<()>();
        std::thread::Builder::new().name("whatif".to_owned()).spawn(move || {
            worker.run();
            // The receiver may have ended already.
            let _ = end.send(());
        })?;
        Ok((desk, async move { drop(ended.await) }))
    }

    fn run(mut self) {
        let mut is_current = true;
        while let Ok(job) = self.desk.next(if is_current { FOLLOW_EVERY } else { Duration::ZERO }) {
            match job {
                Some(job) => self.answer(job),
                None => {
                    self.service.advance(self.started.elapsed());
                    is_current = self.service.follow();
                }
            }
            let (uploads, forks) = self.service.held();
            self.desk.metrics.holds(uploads, forks);
        }
    }

    fn answer(&mut self, job: Job) {
        let Job { request, began, is_abandoned, answer, _reserved } = job;
        if is_abandoned.load(Ordering::Relaxed) {
            return;
        }
        let deadline = self.deadline;
        let answered = if began.elapsed() >= deadline {
            Problem::Late("other requests took too long; retry".to_owned()).into()
        } else {
            let over = move || began.elapsed() >= deadline || is_abandoned.load(Ordering::Relaxed);
            self.service.answer(&request, self.started.elapsed(), &Interrupt::new(over))
        };
        // The client may have given up.
        let _ = answer.send(answered);
    }
}
