//! Answers of a server about hypothetical clusters, without sockets, clock and threads: `supercargo whatif serve`.
//!
//! A [`Service`] holds snapshots: the live cluster, kept current by a [`Store`], and uploaded ones. A fork is a list of
//! changes to a snapshot. To answer, the service makes them in the snapshot's only engine, and leaves them there until
//! a question about another fork comes. A fork of the live cluster is therefore always one of its current state.
//!
//! The caller authenticates users, decides who may read the cluster, and passes requests one by one, in the order of
//! [`Turns`]. `openapi.json` describes paths, requests and answers.

mod answer;
mod base;
mod configuration;
mod limits;
mod messages;
mod openapi;
mod questions;
mod sessions;
mod store;
#[cfg(test)]
mod tests;
mod turns;

pub use answer::{Answer, Problem};
pub use limits::{Bodies, Limits, Reserved};
pub use openapi::{DOCUMENT, check_answer};
pub use store::{Changed, Store};
pub use turns::{Full, Turns};

use crate::cluster::{Cluster, ClusterError, Interrupt, Setup};
use crate::load::input::InputLimit;
use base::{Action, Base, Change, late};
use messages::{
    AddNodesRequest, EvictRequest, ForkRequest, Items, PodsRequest, RemoveNodesRequest, SetConfigRequest,
    SnapshotAnswer, UndoRequest, read,
};
use serde_json::Value;
use sessions::{Fork, LIVE, Sessions, is_live};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// The path below which all paths are.
pub const PREFIX: &str = "/whatif/v1/";
/// Number of changed objects that are taken from the store at once.
const TAKEN: usize = 1_000;
/// The live cluster is built again once more objects have changed than it has, and this many: names of objects that are
/// gone are kept until then.
const REBUILT_AFTER: usize = 20_000;

/// The user of a request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct User {
    /// The user name.
    pub name: String,
    /// The unique id; may be empty.
    pub uid: String,
}

/// The method of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// GET.
    Get,
    /// POST.
    Post,
    /// DELETE.
    Delete,
}

/// A request of an authenticated user.
#[derive(Clone, Debug)]
pub struct Request {
    /// The user.
    pub user: User,
    /// The method.
    pub method: Method,
    /// The path after [`PREFIX`].
    pub path: String,
    /// The body.
    pub body: Vec<u8>,
    /// Whether the user may read the whole live cluster.
    pub reads_cluster: bool,
}

impl Request {
    /// Returns whether the answer is about the live cluster, so that the user must be allowed to read all of it.
    pub fn is_about_live(method: Method, path: &str, body: &[u8]) -> bool {
        match path.split('/').collect::<Vec<_>>().as_slice() {
            ["snapshots" | "forks", id, ..] => is_live(id),
            ["forks"] if method == Method::Post => {
                read::<ForkRequest>(body).is_ok_and(|request| is_live(&request.of))
            }
            _ => false,
        }
    }

    /// Returns whether the body is an uploaded snapshot, which may be large.
    pub fn is_upload(method: Method, path: &str) -> bool {
        (method, path) == (Method::Post, "snapshots")
    }
}

/// The live cluster.
pub struct Live {
    /// Its objects.
    pub store: Arc<Store>,
    /// Reports whether the watches have shown all objects, or what is missing.
    pub ready: Box<dyn Fn() -> Result<(), String> + Send>,
}

struct LiveBase {
    live: Live,
    base: Option<Base>,
    admission: Vec<Value>,
    /// Number of changes that were applied to the base.
    applied: usize,
}

/// Answers requests.
pub struct Service {
    setup: Setup,
    limits: Limits,
    live: Option<LiveBase>,
    sessions: Sessions,
    /// The number of changes so far.
    changes: u64,
}

impl Service {
    /// Returns a service without uploads; without `live`, there is no live cluster.
    ///
    /// # Errors
    /// Fails if the configuration is invalid.
    pub fn new(setup: Setup, limits: Limits, live: Option<Live>) -> Result<Self, ClusterError> {
        Cluster::from_objects(Vec::new(), &setup)?;
        let live = live.map(|live| LiveBase { live, base: None, admission: Vec::new(), applied: 0 });
        Ok(Self { setup, limits, live, sessions: Sessions::new(limits), changes: 0 })
    }

    /// Removes what has expired at this time, which is counted from any fixed start.
    pub fn advance(&mut self, now: Duration) {
        self.sessions.advance(now);
    }

    /// Returns the number of uploaded snapshots, and of forks.
    pub fn held(&self) -> (usize, usize) {
        self.sessions.held()
    }

    /// Brings the live cluster up to date while there is no request, so that the next one need not wait for it.
    /// Returns whether that is done.
    pub fn follow(&mut self) -> bool {
        let Some(of) = &mut self.live else { return true };
        let is_ready = (of.live.ready)().is_ok();
        if !is_ready || of.base.is_some() && of.live.store.changes() == 0 {
            return true;
        }
        let setup = self.setup.clone();
        let caught = catch_unwind(AssertUnwindSafe(|| of.current(&setup, TAKEN)));
        if caught.is_err() {
            of.base = None;
        }
        of.live.store.changes() == 0
    }

    /// Answers a request. `interrupt` ends it early.
    pub fn answer(&mut self, request: &Request, now: Duration, interrupt: &Interrupt) -> Answer {
        self.advance(now);
        let answered = catch_unwind(AssertUnwindSafe(|| self.answered(request, interrupt)));
        let answer = match answered {
            Ok(Ok(answer)) => answer,
            Ok(Err(problem)) => problem.into(),
            Err(panic) => {
                // An upload without its cluster is removed; the live one is built again.
                self.live.iter_mut().for_each(|of| of.base = None);
                let text = supercargo_core::scheduler::panic_text(panic.as_ref());
                Problem::Internal(format!("a bug in supercargo: {text}; the snapshot is loaded again")).into()
            }
        };
        debug_assert_eq!(check_answer(request.method, &request.path, &answer), Ok(()), "{request:?}");
        answer
    }

    fn answered(&mut self, request: &Request, interrupt: &Interrupt) -> Result<Answer, Problem> {
        let Request { user, method, path, body, reads_cluster } = request;
        if !reads_cluster && Request::is_about_live(*method, path, body) {
            let text = "the live cluster is read with the permission to list all its objects only";
            return Err(Problem::Forbidden(text.to_owned()));
        }
        let segments: Vec<&str> = path.split('/').collect();
        match (*method, segments.as_slice()) {
            (Method::Get, ["openapi.json"]) => {
                Ok(Answer { status: 200, body: DOCUMENT.to_owned(), retry_after: None })
            }
            (Method::Get, ["snapshots"]) => self.snapshots(user),
            (Method::Post, ["snapshots"]) => self.upload(user, body),
            (Method::Get, ["snapshots", id]) => Ok(Answer::of(200, &self.snapshot(user, id)?)),
            (Method::Delete, ["snapshots", id]) => {
                self.sessions.remove_snapshot(user, id)?;
                Ok(Answer::empty())
            }
            (Method::Get, ["forks"]) => {
                let forks = self.sessions.forks_of(user);
                let items =
                    forks.iter().map(|id| self.sessions.describe(id)).collect::<Result<Vec<_>, _>>()?;
                Ok(Answer::of(200, &Items { items }))
            }
            (Method::Post, ["forks"]) => {
                let ForkRequest { of } = read(body)?;
                self.exists(&of)?;
                let id = self.sessions.fork(user, &of)?;
                Ok(Answer::of(201, &self.sessions.describe(&id)?))
            }
            (Method::Get, ["forks", id]) => {
                self.sessions.of_fork(user, id)?;
                Ok(Answer::of(200, &self.sessions.describe(id)?))
            }
            (Method::Delete, ["forks", id]) => {
                self.sessions.remove_fork(user, id)?;
                Ok(Answer::empty())
            }
            (Method::Get, ["forks", id, "diff"]) => self.diff(user, id, interrupt),
            (Method::Post, ["forks", id, "undo"]) => {
                let UndoRequest { changes } = read(body)?;
                let fork = self.sessions.of_fork(user, id)?;
                let left = fork.changes.len().checked_sub(changes);
                let left = left.ok_or_else(|| {
                    Problem::Invalid(format!(
                        "changes: expected at most {}, the fork's changes",
                        fork.changes.len()
                    ))
                })?;
                fork.changes.truncate(left);
                Ok(Answer::of(200, &self.sessions.describe(id)?))
            }
            (
                Method::Post,
                ["forks", id, change @ ("place" | "evict" | "removeNodes" | "addNodes" | "setConfig")],
            ) => self.change((user, id), action(change, body, self.limits)?, body.len(), interrupt),
            (Method::Post, [kind @ ("snapshots" | "forks"), id, question @ ..]) if !question.is_empty() => {
                questions::answer(self, (user, kind, id), (question, body), interrupt)
            }
            (_, segments) => Err(not_found(segments)),
        }
    }

    /// Fails if the live cluster is asked for and there is none.
    fn exists(&self, id: &str) -> Result<(), Problem> {
        if id == LIVE && self.live.is_none() {
            return Err(Problem::NotFound("this server has no live cluster; upload a snapshot".to_owned()));
        }
        Ok(())
    }

    fn snapshots(&mut self, user: &User) -> Result<Answer, Problem> {
        let ids = self.sessions.snapshots_of(user);
        let items = ids.iter().map(|id| self.snapshot(user, id)).collect::<Result<Vec<_>, _>>()?;
        Ok(Answer::of(200, &Items { items }))
    }

    fn upload(&mut self, user: &User, body: &[u8]) -> Result<Answer, Problem> {
        self.sessions.may_upload(user)?;
        let limit = InputLimit::of_bytes(u64::try_from(self.limits.upload_bytes).unwrap_or(u64::MAX));
        let cluster = Cluster::from_text(body, limit, &self.setup)?;
        let id = self.sessions.upload(user, Base::new(cluster), body.len());
        Ok(Answer::of(201, &self.snapshot(user, &id)?))
    }

    fn snapshot(&mut self, user: &User, id: &str) -> Result<SnapshotAnswer, Problem> {
        let never = Interrupt::default();
        self.with_base(user, id, &[], &never, |base| {
            let Base { cluster, .. } = base;
            let (nodes, pods, pending) =
                (cluster.nodes().len(), cluster.pods().count(), cluster.pending().count());
            Ok(SnapshotAnswer { id: id.to_owned(), nodes, pods, pending, bytes: 0, expires_in_seconds: None })
        })
        .and_then(|answer| {
            let (bytes, expires_in_seconds) = match &self.live {
                Some(of) if id == LIVE => (of.live.store.bytes(), None),
                _ => {
                    let bytes = self.sessions.snapshot(user, id)?.bytes;
                    (bytes, Some(self.limits.idle.as_secs()))
                }
            };
            Ok(SnapshotAnswer { bytes, expires_in_seconds, ..answer })
        })
    }

    /// Returns the snapshot of a question and the changes of its fork.
    fn target(&mut self, user: &User, kind: &str, id: &str) -> Result<(String, Vec<Arc<Change>>), Problem> {
        if kind == "snapshots" {
            return Ok((id.to_owned(), Vec::new()));
        }
        let Fork { of, changes, .. } = self.sessions.of_fork(user, id)?;
        Ok((of.clone(), changes.clone()))
    }

    /// Answers a question about a snapshot with these changes.
    fn with_base<T>(
        &mut self,
        user: &User,
        id: &str,
        changes: &[Arc<Change>],
        interrupt: &Interrupt,
        ask: impl FnOnce(&mut Base) -> Result<T, Problem>,
    ) -> Result<T, Problem> {
        self.exists(id)?;
        let mut base = match &mut self.live {
            Some(of) if id == LIVE => {
                (of.live.ready)().map_err(Problem::Later)?;
                // Built again, if it must be. What changes meanwhile can wait for the next question.
                if of.base.as_ref().is_some_and(|base| base.is_worn(self.limits.ids)) {
                    of.base = None;
                }
                of.current(&self.setup, 0)?;
                for _ in 0..=of.live.store.changes() / TAKEN {
                    of.current(&self.setup, TAKEN)?;
                    if interrupt.is_over() {
                        return Err(late());
                    }
                }
                of.base.take()
            }
            _ => self.sessions.snapshot(user, id)?.base.take(),
        }
        .ok_or_else(|| Problem::Internal("the snapshot is in use".to_owned()))?;
        let asked = base.bring(changes, interrupt).and_then(|()| {
            base.cluster.set_interrupt(interrupt.clone());
            let answer = ask(&mut base)?;
            if interrupt.was_over() { Err(late()) } else { Ok(answer) }
        });
        match &mut self.live {
            Some(of) if id == LIVE => of.base = Some(base),
            _ if base.is_worn(self.limits.ids) => self.sessions.remove_snapshot(user, id)?,
            _ => self.sessions.snapshot(user, id)?.base = Some(base),
        }
        asked
    }

    fn diff(&mut self, user: &User, id: &str, interrupt: &Interrupt) -> Result<Answer, Problem> {
        let (of, changes) = self.target(user, "forks", id)?;
        self.with_base(user, &of, &changes, interrupt, |base| {
            Ok(Answer::of(200, &base.cluster.diff_of_all()))
        })
    }

    fn change(
        &mut self,
        (user, id): (&User, &str),
        action: Action,
        bytes: usize,
        interrupt: &Interrupt,
    ) -> Result<Answer, Problem> {
        let (of, changes) = self.target(user, "forks", id)?;
        let expected = |nodes: usize| match &action {
            Action::Place(pods) => pods.expected(nodes),
            Action::AddNodes(request) => request.count,
            Action::Evict(_) | Action::RemoveNodes(_) | Action::SetConfig(_) => 0,
        };
        self.changes += 1;
        let serial = self.changes;
        // DaemonSets make a pod for each node, whose number is known only once the changes are made.
        let room = self.sessions.may_change(user, id, bytes, expected(0))?;
        let (answer, added) = self.with_base(user, &of, &changes, interrupt, |base| {
            if expected(base.cluster.nodes().len()) > room {
                return Err(base::too_many(room));
            }
            base.change((&action, serial), room, interrupt)
        })?;
        let fork = self.sessions.of_fork(user, id)?;
        fork.changes.push(Arc::new(Change { serial, action, bytes, added }));
        Ok(Answer::of(200, &answer))
    }
}

/// Reads a change.
fn action(name: &str, body: &[u8], limits: Limits) -> Result<Action, Problem> {
    Ok(match name {
        "place" => Action::Place(read::<PodsRequest>(body)?.pods()?),
        "evict" => Action::Evict(read::<EvictRequest>(body)?.pods),
        "removeNodes" => Action::RemoveNodes(read::<RemoveNodesRequest>(body)?.nodes),
        "setConfig" => {
            Action::SetConfig(configuration::text(&read::<SetConfigRequest>(body)?.config, limits)?)
        }
        _ => {
            let request: AddNodesRequest = read(body)?;
            request.template()?;
            Action::AddNodes(request)
        }
    })
}

fn not_found(segments: &[&str]) -> Problem {
    match openapi::has_path(segments) {
        true => Problem::Method,
        false => Problem::NotFound(format!("path {} not found; see openapi.json", segments.join("/"))),
    }
}

impl LiveBase {
    /// Applies up to `max` changes of the store.
    fn current(&mut self, setup: &Setup, max: usize) -> Result<(), Problem> {
        let store = &self.live.store;
        if self.base.is_none() || self.applied > REBUILT_AFTER + store.len() {
            self.base = Some(Base::new(Cluster::from_objects(Vec::new(), setup)?));
            self.applied = 0;
            store.begin_again();
            if let Some(base) = &mut self.base {
                base.cluster.set_admission(self.admission.clone());
            }
        }
        let Some(base) = &mut self.base else { return Ok(()) };
        if let Some(objects) = store.take_admission() {
            base.close();
            self.admission = objects;
            base.cluster.set_admission(self.admission.clone());
        }
        let taken = store.take(max);
        if !taken.is_empty() {
            base.close();
        }
        self.applied += taken.len();
        for changed in taken {
            let applied = match changed {
                Changed::Applied(object) => base.cluster.apply(object),
                Changed::Gone(object) => base.cluster.remove(&object),
            };
            // The watch has logged and counted it.
            if let Err(error) = applied {
                tracing::debug!(%error, "ignoring an invalid object of the live cluster");
            }
        }
        Ok(())
    }
}
