//! The watch of one kind: list, watch, and restart, forever.
//!
//! kube-runtime's watcher is not used, for four reasons:
//!
//! - It streams lists from the API server's cache at any version, so a relist may go back in time.
//! - It waits for a response without a limit.
//! - It reconnects without a pause if a server ends watches immediately.
//! - It hides bookmarks, the only sign of life of a quiet kind.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use supercargo_core::model::event::{Event, Kind};
use tokio::time::Instant;

use super::absent::is_absent;
use super::backoff::{self, Backoff, Budget};
use super::first::FirstLists;
use super::lines::{self, Events, Trouble, WatchEvent, page, watch};
use super::object::{self, Flaws, Object};
use super::state::KindState;
use super::trouble::Troubles;
use super::{Convert, Intake, RawObject, RawSink, WatchObserver, Written};
use super::{Onlooker, Relist};
use crate::retry::jittered;
use supercargo_objects::api::{Encoding, proto};
use supercargo_objects::input_text;

/// Requested lifetime of a watch. Resuming is cheap for the server, so it is short: a connection that died
/// silently shows stale state until the lifetime plus [`GRACE`] has passed.
const WATCH: Duration = Duration::from_secs(40);
/// Requested lifetime of a watch after a failure, until one delivered something: a quiet one delivers its end.
const TRIAL: Duration = Duration::from_secs(5);
/// Maximum jitter on the lifetime, as a fraction. With [`GRACE`], the sum stays below the time within which
/// every watch must make a new attempt ([`crate::watch::ATTEMPT_WITHIN`]).
const LIFE_JITTER: f64 = 0.25;
const _: () = assert!(
    WATCH.as_secs() as f64 * (1.0 + LIFE_JITTER) + (GRACE.as_secs() as f64)
        < super::ATTEMPT_WITHIN.as_secs() as f64,
    "a healthy watch must not count as stuck"
);
/// Lifetime of a watch that starts with a list, since large lists take long.
const LIST: Duration = Duration::from_secs(600);
/// Time limit of a paged list. Without it, a server that always names a next page would be asked forever.
const PAGES: Duration = LIST;
/// Maximum time between two events of a streamed list.
const LIST_SILENCE: Duration = Duration::from_secs(50);
/// How far a watch may exceed its lifetime.
const GRACE: Duration = Duration::from_secs(5);
/// A watch that ends sooner without a newer version is a failure, as in upstream's client. One with a newer
/// version is reopened after a pause.
const SHORT: Duration = Duration::from_secs(1);
/// Objects per page of a list, as in upstream's client.
pub(super) const PAGE: usize = 500;
/// Objects per page after a page exceeded the size limit; this many objects of maximum size always fit
/// ([`crate::client`]).
const PAGE_SMALL: usize = 50;
/// State and dependencies of the watch of one kind.
pub(super) struct Watch<K> {
    pub(super) client: kube::Client,
    pub(super) inbox: Arc<dyn Intake>,
    pub(super) state: Arc<KindState>,
    pub(super) metrics: Arc<dyn WatchObserver>,
    pub(super) troubles: Arc<Troubles>,
    pub(super) first: Arc<FirstLists>,
    /// Shared by all kinds.
    pub(super) budget: Arc<Budget>,
    pub(super) flaws: Arc<Flaws>,
    /// Encoding requested from the API server.
    pub(super) encoding: Encoding,
    /// Whether the next list is streamed.
    pub(super) streams: bool,
    /// Objects per page.
    pub(super) page: usize,
    /// Relist requests.
    pub(super) relist: Relist,
    /// Observer of the objects.
    pub(super) onlooker: Option<Arc<dyn Onlooker<K>>>,
    /// Receives the objects as JSON, if it wants them.
    pub(super) objects: Arc<dyn RawSink>,
    pub(super) object: std::marker::PhantomData<fn() -> K>,
}

/// A page of a list in JSON, with items not yet decoded.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct List<'a> {
    #[serde(default)]
    api_version: String,
    #[serde(default)]
    kind: String,
    #[serde(default)]
    metadata: ListMeta,
    // `null` is an empty list.
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ListMeta {
    resource_version: Option<String>,
    #[serde(rename = "continue")]
    more: Option<String>,
}

/// How an attempt ended without a failure.
enum Ended {
    /// Start the next attempt immediately.
    Reopen,
    /// The server ended the watch. [`Watch::run`] sees it only for short watches that made progress.
    ByServer,
}

/// Why a watch stopped.
pub(super) enum Stopped {
    /// The scheduling thread has ended.
    NobodyListens,
    /// The API server does not serve the kind.
    NotServed {
        /// Whether this watch has listed it before.
        was_served: bool,
    },
}

/// How often a kind that the API server does not serve is asked for again. An upgrade of the API server may add it.
pub(super) const ABSENT_FOR: Duration = Duration::from_secs(30);

/// Whether the API server may not know a kind that other versions have: those of `resource.k8s.io/v1`, before 1.34,
/// and those of `scheduling.k8s.io`.
fn may_be_absent<K: Object>(trouble: &Trouble) -> bool {
    const UNKNOWN: [&str; 2] = ["404 page not found", "the server could not find the requested resource"];
    let Trouble::Refused(status) = trouble else { return false };
    let is_optional = matches!(&*K::group(&()), "resource.k8s.io" | "scheduling.k8s.io");
    is_optional && status.code == 404 && UNKNOWN.contains(&&*status.message)
}

impl<K: Object> Watch<K> {
    /// Runs until the scheduling thread ends. A kind that the API server does not serve yet is empty; once it was
    /// listed, its absence is a failure.
    pub(super) async fn run(mut self) {
        let mut is_empty = false;
        while let Stopped::NotServed { .. } = self.run_until(|was_served| !was_served).await {
            if !is_empty && self.list_nothing().await.is_err() {
                return;
            }
            is_empty = true;
            self.rests(ABSENT_FOR).await;
        }
    }

    /// Runs until the scheduling thread ends or the API server does not serve the kind.
    pub(super) async fn run_while_served(&mut self) -> Stopped {
        self.run_until(|_| true).await
    }

    /// Pauses without a failure.
    pub(super) async fn rests(&self, pause: Duration) {
        self.delivered();
        self.state.pauses(pause);
        tokio::time::sleep(pause).await;
    }

    /// Runs until the scheduling thread ends, or until the API server does not serve the kind and `stops` returns true.
    /// The argument of `stops` is whether this watch has listed the kind before.
    async fn run_until(&mut self, stops: fn(bool) -> bool) -> Stopped {
        let mut version = None;
        let mut was_served = false;
        let mut backoff = Backoff::new();
        let mut is_first = true;
        loop {
            if !std::mem::take(&mut is_first) {
                self.metrics.restarted();
            }
            self.budget.request().await;
            self.state.attempted();
            let ended = match version.take() {
                Some(followed) => self.follow_or_relist(followed, &mut version, &mut backoff).await,
                None => self.list().await.map(|listed| {
                    version = Some(listed);
                    was_served = true;
                    Ended::Reopen
                }),
            };
            match ended {
                Ok(Ended::Reopen) => {}
                Ok(Ended::ByServer) => tokio::time::sleep(Backoff::after_short_watch()).await,
                Err(Trouble::NobodyListens) => return Stopped::NobodyListens,
                Err(trouble)
                    if stops(was_served)
                        && may_be_absent::<K>(&trouble)
                        && is_absent::<K>(&self.client, &self.budget).await =>
                {
                    return Stopped::NotServed { was_served };
                }
                Err(trouble) => {
                    if trouble.needs_list() && version.take().is_some() {
                        backoff.relists();
                    }
                    self.pause(&trouble, &mut backoff).await;
                }
            }
        }
    }

    /// Tells the engine that there are no objects, since the API server does not know the kind.
    pub(super) async fn list_nothing(&self) -> Result<(), Trouble> {
        tracing::info!(kind = %K::kind(&()), "the API server does not serve this kind; it is taken as empty");
        self.began().await?;
        self.ended().await
    }

    /// Waits after a failure, for the backoff or the server's `Retry-After`.
    async fn pause(&self, trouble: &Trouble, backoff: &mut Backoff) {
        self.state.failed(trouble.to_string());
        self.troubles.failed::<K>(trouble);
        let asked = backoff::asked_pause(trouble.retry_after());
        let pause = backoff.after_failure(asked);
        self.state.pauses(pause);
        // A newly elected leader waits no longer than the server asks. Elections are seconds apart.
        let elected = async {
            tokio::time::sleep(asked).await;
            self.state.wanted_anew().await;
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = elected => {}
        }
    }

    /// Watches from `followed` on. Stores the version reached in `version`, unless a relist was requested.
    async fn follow_or_relist(
        &self,
        mut followed: String,
        version: &mut Option<String>,
        backoff: &mut Backoff,
    ) -> Result<Ended, Trouble> {
        let (opened, from) = (Instant::now(), followed.clone());
        let ended = tokio::select! {
            ended = self.follow(&mut followed) => ended,
            () = self.relist.requested() => return Ok(Ended::Reopen),
        };
        let (lived, progressed) = (opened.elapsed(), object::is_newer(&followed, &from));
        // A watch that lived longer than the longest pause counts as progress: a pause would not help the
        // server.
        if progressed || lived >= backoff::LONGEST {
            backoff.progressed();
        }
        *version = Some(followed);
        match ended? {
            Ended::ByServer if lived >= SHORT => {
                self.delivered();
                if lived >= backoff::LONGEST && !progressed {
                    self.check_reached(&from).await?;
                }
                Ok(Ended::Reopen)
            }
            Ended::ByServer if !progressed => Err(Trouble::Ended("the server ended the watch immediately")),
            ended => Ok(ended),
        }
    }

    /// Fails if `version` lies in the API server's future: after a backup of etcd was restored, or if a proxy changed
    /// it. The API server accepts such a version and sends nothing until its counter reaches it.
    ///
    /// A list without a version is a consistent read, so its version is at least as new as any sent before. A failed
    /// read says nothing; the next watch meets its cause.
    async fn check_reached(&self, version: &str) -> Result<(), Trouble> {
        self.budget.request().await;
        self.state.attempted();
        let uri = format!("{}?limit=1{}", K::url_path(&(), None), selector(K::KIND));
        let Ok((encoding, body)) = page(&self.client, &uri, self.encoding()).await else { return Ok(()) };
        self.state.attempted();
        self.metrics.received(encoding, body.len());
        let newest = match encoding {
            Encoding::Json => serde_json::from_slice::<List<'_>>(&body).ok().and_then(|list| {
                lines::is_of::<K>(list.api_version.as_bytes(), list.kind.as_bytes(), "List").ok()?;
                list.metadata.resource_version
            }),
            Encoding::Protobuf => proto::list(&body).ok().and_then(|list| {
                lines::is_of::<K>(list.type_meta.api_version, list.type_meta.kind, "List").ok()?;
                Some(list.version)
            }),
        };
        let newest = newest.filter(|newest| !newest.is_empty());
        match newest.filter(|newest| object::is_newer(version, newest) && !object::is_newer(newest, version))
        {
            Some(newest) => Err(Trouble::Ahead { followed: version.to_owned(), newest }),
            None => Ok(()),
        }
    }

    /// Lists all objects and returns the list's resource version.
    async fn list(&mut self) -> Result<String, Trouble> {
        if std::mem::replace(&mut self.streams, true) {
            match self.list_stream().await {
                Err(Trouble::Refused(status)) if matches!(status.code, 400 | 422) => {
                    tracing::debug!(kind = %K::kind(&()), message = %status.message, "API server does not stream lists");
                }
                outcome => return outcome,
            }
        }
        let listed = self.list_pages().await;
        if let Err(Trouble::TooLarge(_)) = listed {
            (self.page, self.streams) = (PAGE_SMALL, false);
        }
        listed
    }

    /// Lists with a watch that starts with all objects. Omits the version, so the list is of the newest state
    /// and never older than what is known.
    async fn list_stream(&mut self) -> Result<String, Trouble> {
        let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
        let give_up = Instant::now() + LIST + GRACE;
        let mut events = watch(&self.client, &self.watch_uri(LIST, query), self.encoding()).await?;
        self.state.accepted();
        // A stream that broke off may break off again, so the next list is paged, and the one after it
        // streamed.
        self.streams = false;
        self.began().await?;
        while let Some(event) = self.event(&mut events, give_up.min(Instant::now() + LIST_SILENCE)).await? {
            match event {
                WatchEvent::Applied(object) => self.applied(object).await?,
                WatchEvent::Deleted(object) => self.gone(object).await?,
                WatchEvent::Bookmark { ends_list: false, .. } => {}
                WatchEvent::Bookmark { version, ends_list: true } => {
                    self.streams = true;
                    self.delivered();
                    self.ended().await?;
                    return Ok(version);
                }
            }
        }
        Err(Trouble::Ended("the list ended before it was complete"))
    }

    async fn list_pages(&self) -> Result<String, Trouble> {
        let mut more: Option<String> = None;
        let give_up = Instant::now() + PAGES;
        while Instant::now() < give_up {
            self.budget.request().await;
            self.state.attempted();
            let (encoding, body) =
                page(&self.client, &self.list_uri(more.as_deref()), self.encoding()).await?;
            self.state.accepted();
            self.metrics.received(encoding, body.len());
            if more.is_none() {
                self.began().await?;
            }
            let (version, further) = match encoding {
                Encoding::Json => self.page_of_json(&body).await?,
                Encoding::Protobuf => self.page_of_protobuf(&body).await?,
            };
            more = Some(further).filter(|more| !more.is_empty());
            if more.is_none() {
                if version.is_empty() {
                    return Err(Trouble::Garbled("a list without a resourceVersion".to_owned()));
                }
                self.delivered();
                self.ended().await?;
                return Ok(version);
            }
        }
        Err(Trouble::Ended("the paged list did not end in time"))
    }

    /// Forwards the objects of a page, and decodes each only when the channel has room. Returns the list's
    /// version and its continue token.
    async fn page_of_json(&self, body: &[u8]) -> Result<(String, String), Trouble> {
        let garbled = |error: serde_json::Error| Trouble::Garbled(error.to_string());
        let List { api_version, kind, metadata, items } = serde_json::from_slice(body).map_err(garbled)?;
        lines::is_of::<K>(api_version.as_bytes(), kind.as_bytes(), "List")?;
        if self.objects.wants(K::KIND) {
            items.iter().flatten().for_each(|item| self.note(item.get(), false));
        }
        for item in items.into_iter().flatten() {
            self.applied(serde_json::from_str(item.get()).map_err(garbled)?).await?;
        }
        Ok((metadata.resource_version.unwrap_or_default(), metadata.more.unwrap_or_default()))
    }

    /// Like [`Self::page_of_json`], for protobuf.
    async fn page_of_protobuf(&self, body: &[u8]) -> Result<(String, String), Trouble> {
        let list = proto::list(body).map_err(|flaw| Trouble::Garbled(flaw.to_string()))?;
        lines::is_of::<K>(list.type_meta.api_version, list.type_meta.kind, "List")?;
        for item in list.items {
            self.applied(K::from_protobuf(item)).await?;
        }
        Ok((list.version, list.more))
    }

    /// Watches changes after `version`, and advances it, until the server ends the watch or a reopening is
    /// requested.
    async fn follow(&self, version: &mut String) -> Result<Ended, Trouble> {
        let life = jittered(if self.state.is_failing() { TRIAL } else { WATCH }, LIFE_JITTER);
        let (opened, from) = (Instant::now(), version.clone());
        let mut has_delivered = false;
        let uri = self.watch_uri(life, &format!("resourceVersion={version}"));
        let mut events = watch(&self.client, &uri, self.encoding()).await?;
        self.state.accepted();
        loop {
            let event = tokio::select! {
                event = self.event(&mut events, opened + life + GRACE) => event?,
                () = self.state.wanted_anew() => return Ok(Ended::Reopen),
            };
            let Some(event) = event else { return Ok(Ended::ByServer) };
            match event {
                WatchEvent::Applied(object) => {
                    let moved = moved_to(&object)?;
                    self.applied(object).await?;
                    *version = moved;
                }
                WatchEvent::Deleted(object) => {
                    let moved = moved_to(&object)?;
                    self.gone(object).await?;
                    *version = moved;
                }
                WatchEvent::Bookmark { version: reached, .. } => *version = reached,
            }
            if !has_delivered && object::is_newer(version, &from) {
                has_delivered = true;
                self.delivered();
            }
        }
    }

    /// Returns the next event of a watch.
    async fn event(&self, events: &mut Events, limit: Instant) -> Result<Option<WatchEvent<K>>, Trouble> {
        let Some(event) = events.next(limit).await? else { return Ok(None) };
        self.metrics.received(event.encoding, event.bytes.len());
        self.state.attempted();
        let decoded = event.read()?;
        self.metrics.heard();
        if event.encoding == Encoding::Json && self.objects.wants(K::KIND) {
            lines::each_object(&event.bytes, |object, is_gone| self.note(object, is_gone));
        }
        Ok(Some(decoded))
    }

    /// Records that the watch works: the API server sent a newer version or a whole list, or ended a watch that lived
    /// for a while. The head of a response is no sign of that, since a proxy may send it.
    fn delivered(&self) {
        self.metrics.heard();
        self.state.attempted();
        if self.state.delivered() {
            self.troubles.over::<K>();
        }
    }

    async fn applied(&self, object: K) -> Result<(), Trouble> {
        self.notify(|onlooker| onlooker.applied(&object));
        let text = self.inbox.wants_text().then(|| input_text::applied(&object));
        self.send(object::applied(object, &self.flaws), text).await
    }

    async fn gone(&self, object: K) -> Result<(), Trouble> {
        self.notify(|onlooker| onlooker.gone(&object));
        let text = self.inbox.wants_text().then(|| input_text::gone(&object));
        self.send(object::gone(object), text).await
    }

    fn notify(&self, what: impl FnOnce(&dyn Onlooker<K>)) {
        if let Some(onlooker) = &self.onlooker {
            what(onlooker.as_ref());
        }
    }

    /// Passes on an object as JSON.
    fn note(&self, text: &str, is_gone: bool) {
        let api_version = K::api_version(&());
        self.objects.note(RawObject { kind: K::KIND, api_version: &api_version, text }, is_gone);
    }

    /// Kinds that are wanted as JSON are requested as JSON.
    fn encoding(&self) -> Encoding {
        if self.objects.wants(K::KIND) { Encoding::Json } else { self.encoding }
    }

    async fn began(&self) -> Result<(), Trouble> {
        self.notify(|onlooker| onlooker.list_began());
        self.objects.list_began(K::KIND);
        let text = self.inbox.wants_text().then(|| input_text::list_began(K::KIND));
        self.send(Box::new(|_| Event::ListBegan(K::KIND)), text).await
    }

    async fn ended(&self) -> Result<(), Trouble> {
        self.notify(|onlooker| onlooker.list_ended());
        self.objects.list_ended(K::KIND);
        let (state, first) = (Arc::clone(&self.state), Arc::clone(&self.first));
        // The kind is synced when the engine processes this event, not when the list has been read.
        let convert = Box::new(move |_: &mut _| {
            if state.synced() {
                first.ended(K::KIND);
            }
            Event::ListEnded(K::KIND)
        });
        let text = self.inbox.wants_text().then(|| input_text::list_ended(K::KIND));
        self.send(convert, text).await
    }

    async fn send(&self, convert: Convert, text: Written) -> Result<(), Trouble> {
        self.inbox.take(convert, text).await.map_err(|_| Trouble::NobodyListens)
    }

    fn watch_uri(&self, life: Duration, query: &str) -> String {
        let (path, seconds) = (K::url_path(&(), None), life.as_secs());
        format!(
            "{path}?watch=true&allowWatchBookmarks=true&timeoutSeconds={seconds}&{query}{}",
            selector(K::KIND)
        )
    }

    fn list_uri(&self, more: Option<&str>) -> String {
        let more = more.map(|more| format!("&continue={}", escaped(more))).unwrap_or_default();
        format!("{}?limit={}{more}{}", K::url_path(&(), None), self.page, selector(K::KIND))
    }
}

/// Returns the field selector of a kind: pods that have not ended
/// (`pkg/scheduler/scheduler.go#NewInformerFactory`).
fn selector(kind: Kind) -> &'static str {
    if kind == Kind::Pod {
        "&fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed"
    } else {
        ""
    }
}

fn moved_to<K: Object>(object: &K) -> Result<String, Trouble> {
    object::version(object).ok_or_else(|| Trouble::Garbled("an object without a resourceVersion".to_owned()))
}

/// Percent-encodes a query value.
fn escaped(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' | b'_' | b'.' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect()
}
