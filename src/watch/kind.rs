//! The watch of one kind: list, follow, and begin again, for ever.
//!
//! Not kube-runtime's watcher, which does not fit here: it streams lists from whatever an API server has cached, so a
//! relist may go back in time; it waits without limit for a request to begin; it comes back without a pause when a server
//! ends watches at once; and it keeps bookmarks, the only sign of life of a quiet kind, to itself.

use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;
use serde_json::value::RawValue;
use supercargo_core::event::{Event, Kind};
use tokio::time::Instant;

use super::backoff::{self, Backoff, Budget};
use super::first::FirstLists;
use super::lines::{self, Events, Told, Trouble, page, watch};
use super::object::{self, Flaws, Object};
use super::state::KindState;
use super::trouble::Troubles;
use super::{Onlooker, Relist};
use crate::api::{Encoding, proto};
use crate::dispatch::pause::jittered;
use crate::driver::{Convert, Intake, Written};
use crate::extender::Objects;
use crate::journal;
use crate::metrics::WatchMetrics;

/// How long a watch lives before the server is to end it; a dead one is found out [`GRACE`] after that. Resuming costs
/// the server next to nothing, so this is short: a connection that died silently shows a cluster that is no more.
const WATCH: Duration = Duration::from_secs(40);
/// By how much of itself a watch's life may be longer. With [`GRACE`] it is less than the minute within which every watch must make a
/// new attempt ([`crate::watch::ATTEMPT_WITHIN`]).
const LIFE_JITTER: f64 = 0.25;
const _: () = assert!(
    WATCH.as_secs() as f64 * (1.0 + LIFE_JITTER) + (GRACE.as_secs() as f64)
        < super::ATTEMPT_WITHIN.as_secs() as f64,
    "a healthy watch is never taken for a stuck one"
);
/// How long a watch that begins with a list lives: a large list takes its time.
const LIST: Duration = Duration::from_secs(600);
/// How long a list by pages may take in all: a server that names a further page for ever must not be asked for ever.
const PAGES: Duration = LIST;
/// How long such a list may be silent.
const LIST_SILENCE: Duration = Duration::from_secs(50);
/// How much longer than it should a watch may live.
const GRACE: Duration = Duration::from_secs(5);
/// A watch that ends sooner and reached no newer version is a failure, as one that brought nothing is to upstream's client. One that
/// did is not reopened at once.
const SHORT: Duration = Duration::from_secs(1);
/// Objects on a page of a list, as upstream's client asks for them.
pub(super) const PAGE: usize = 500;
/// The same once a page was larger than is read: as many of the largest objects there are always fit ([`crate::client`]).
const PAGE_SMALL: usize = 50;
/// Everything the watch of one kind works with.
pub(super) struct Watch<K> {
    pub(super) client: kube::Client,
    pub(super) inbox: Arc<dyn Intake>,
    pub(super) state: Arc<KindState>,
    pub(super) metrics: WatchMetrics,
    pub(super) troubles: Arc<Troubles>,
    pub(super) first: Arc<FirstLists>,
    /// Shared by all kinds.
    pub(super) budget: Arc<Budget>,
    pub(super) flaws: Arc<Flaws>,
    /// What the API server is asked to write objects in.
    pub(super) encoding: Encoding,
    /// Whether the next list is to be a stream.
    pub(super) streams: bool,
    /// How many objects a page of a list is to have.
    pub(super) page: usize,
    /// Who may ask for a list.
    pub(super) relist: Relist,
    /// Who else sees the objects.
    pub(super) onlooker: Option<Arc<dyn Onlooker<K>>>,
    /// Where objects are kept as they were written, as far as extenders are sent them.
    pub(super) objects: Objects,
    pub(super) object: std::marker::PhantomData<fn() -> K>,
}

/// A page of a list in JSON, whose items have not been looked at.
#[derive(Deserialize)]
struct List<'a> {
    #[serde(default)]
    metadata: ListMeta,
    // `null` stands for an empty list.
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

/// How an attempt ended that did not fail.
enum Ended {
    /// The next may begin at once.
    Reopen,
    /// The server ended the watch. What [`Watch::run`] sees of these made progress, but did not live long.
    ByServer,
}

impl<K: Object> Watch<K> {
    /// Runs until the driver ends.
    pub(super) async fn run(mut self) {
        let mut version = None;
        let mut backoff = Backoff::new();
        for attempt in 0_u64.. {
            if attempt > 0 {
                self.metrics.restarted();
            }
            self.budget.request().await;
            self.state.attempted();
            let ended = match version.take() {
                Some(followed) => self.follow_or_relist(followed, &mut version, &mut backoff).await,
                None => self.list().await.map(|listed| {
                    version = Some(listed);
                    Ended::Reopen
                }),
            };
            match ended {
                Ok(Ended::Reopen) => {}
                Ok(Ended::ByServer) => tokio::time::sleep(Backoff::after_short_watch()).await,
                Err(Trouble::NobodyListens) => return,
                Err(trouble) => {
                    if trouble.needs_list() && version.take().is_some() {
                        backoff.relists();
                    }
                    self.pause(&trouble, &mut backoff).await;
                }
            }
        }
    }

    /// Waits after a failure, as the backoff and the server say.
    async fn pause(&self, trouble: &Trouble, backoff: &mut Backoff) {
        self.state.failed(trouble.to_string());
        self.troubles.tell::<K>(trouble);
        let retry_after = trouble.retry_after();
        let pause = backoff.after_failure(retry_after);
        self.state.pauses(pause);
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            // A replica that was just elected cannot wait. Elections are seconds apart, and what the server asks comes first.
            () = self.state.wanted_anew(), if retry_after.is_none() => {}
        }
    }

    /// Follows from `followed` on. Where it got to is in `version` afterwards, unless somebody asked for a list meanwhile.
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
        // Longer than the longest pause: pausing longer would make no difference to the server.
        if progressed || lived >= backoff::LONGEST {
            backoff.progressed();
        }
        *version = Some(followed);
        match ended? {
            Ended::ByServer if lived >= SHORT => Ok(Ended::Reopen),
            Ended::ByServer if !progressed => Err(Trouble::Ended("the API server ended the watch at once")),
            ended => Ok(ended),
        }
    }

    /// The kind's first list, or one anew; the version it is of.
    async fn list(&mut self) -> Result<String, Trouble> {
        if std::mem::replace(&mut self.streams, true) {
            match self.list_stream().await {
                Err(Trouble::Refused(status)) if matches!(status.code, 400 | 422) => {
                    tracing::debug!(kind = %K::kind(&()), message = %status.message, "the API server does not stream lists");
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

    /// Lists by a watch that begins with all objects. Without a version, so that it is of the newest state and never of
    /// one that is older than what is known already.
    async fn list_stream(&mut self) -> Result<String, Trouble> {
        let query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan";
        let mut events = watch(&self.client, &self.watch_uri(LIST, query), self.encoding()).await?;
        self.alive();
        // What breaks off once may do so again: the next list is by pages, and the one after that by a stream again.
        self.streams = false;
        self.began().await?;
        while let Some(event) = self.event(&mut events, Instant::now() + LIST_SILENCE).await? {
            match event {
                Told::Applied(object) => self.applied(object).await?,
                Told::Deleted(object) => self.gone(object).await?,
                Told::Bookmark { ends_list: false, .. } => {}
                Told::Bookmark { version, ends_list: true } => {
                    self.streams = true;
                    self.ended().await?;
                    return Ok(version);
                }
            }
        }
        Err(Trouble::Ended("the list broke off before its end"))
    }

    async fn list_pages(&self) -> Result<String, Trouble> {
        let mut more: Option<String> = None;
        let give_up = Instant::now() + PAGES;
        while Instant::now() < give_up {
            self.budget.request().await;
            self.state.attempted();
            let (encoding, body) =
                page(&self.client, &self.list_uri(more.as_deref()), self.encoding()).await?;
            self.alive();
            self.metrics.received(encoding, body.len());
            if more.is_none() {
                self.began().await?;
            }
            if encoding == Encoding::Json && self.objects.wants(K::KIND) {
                lines::each_item(&body, |object| self.objects.note(K::KIND, object, false));
            }
            let (version, further) = match encoding {
                Encoding::Json => self.page_of_json(&body).await?,
                Encoding::Protobuf => self.page_of_protobuf(&body).await?,
            };
            more = Some(further).filter(|more| !more.is_empty());
            if more.is_none() {
                if version.is_empty() {
                    return Err(Trouble::Garbled("a list without a version".to_owned()));
                }
                self.ended().await?;
                return Ok(version);
            }
        }
        Err(Trouble::Ended("the list by pages had no end"))
    }

    /// Hands on the objects of a page, each decoded only when there is room for it; the list's version, and how it goes on.
    async fn page_of_json(&self, body: &[u8]) -> Result<(String, String), Trouble> {
        let garbled = |error: serde_json::Error| Trouble::Garbled(error.to_string());
        let List { metadata, items } = serde_json::from_slice(body).map_err(garbled)?;
        for item in items.into_iter().flatten() {
            self.applied(serde_json::from_str(item.get()).map_err(garbled)?).await?;
        }
        Ok((metadata.resource_version.unwrap_or_default(), metadata.more.unwrap_or_default()))
    }

    /// The same of protobuf.
    async fn page_of_protobuf(&self, body: &[u8]) -> Result<(String, String), Trouble> {
        let list = proto::list(body).map_err(|flaw| Trouble::Garbled(flaw.to_string()))?;
        for item in list.items {
            self.applied(K::from_protobuf(item)).await?;
        }
        Ok((list.version, list.more))
    }

    /// Follows what happens after `version`, and moves it on, until the server ends the watch or somebody wants it anew.
    async fn follow(&self, version: &mut String) -> Result<Ended, Trouble> {
        let life = jittered(WATCH, LIFE_JITTER);
        let opened = Instant::now();
        let uri = self.watch_uri(life, &format!("resourceVersion={version}"));
        let mut events = watch(&self.client, &uri, self.encoding()).await?;
        self.alive();
        loop {
            let event = tokio::select! {
                event = self.event(&mut events, opened + life + GRACE) => event?,
                () = self.state.wanted_anew() => return Ok(Ended::Reopen),
            };
            let Some(event) = event else { return Ok(Ended::ByServer) };
            match event {
                Told::Applied(object) => {
                    let moved = moved_to(&object)?;
                    self.applied(object).await?;
                    *version = moved;
                }
                Told::Deleted(object) => {
                    let moved = moved_to(&object)?;
                    self.gone(object).await?;
                    *version = moved;
                }
                Told::Bookmark { version: reached, .. } => *version = reached,
            }
        }
    }

    /// The next event of a watch.
    async fn event(&self, events: &mut Events, limit: Instant) -> Result<Option<Told<K>>, Trouble> {
        let Some(event) = events.next(limit).await? else { return Ok(None) };
        self.metrics.heard();
        self.metrics.received(event.encoding, event.bytes.len());
        self.state.attempted();
        if event.encoding == Encoding::Json && self.objects.wants(K::KIND) {
            lines::each_object(&event.bytes, |object, is_gone| self.objects.note(K::KIND, object, is_gone));
        }
        event.read().map(Some)
    }

    /// The API server has answered.
    fn alive(&self) {
        self.metrics.heard();
        self.state.attempted();
        if self.state.succeeded() {
            self.troubles.over::<K>();
        }
    }

    async fn applied(&self, object: K) -> Result<(), Trouble> {
        self.tell(|onlooker| onlooker.applied(&object));
        let text = self.inbox.wants_text().then(|| journal::applied(&object));
        self.send(object::applied(object, &self.flaws), text).await
    }

    async fn gone(&self, object: K) -> Result<(), Trouble> {
        self.tell(|onlooker| onlooker.gone(&object));
        let text = self.inbox.wants_text().then(|| journal::gone(&object));
        self.send(object::gone(object), text).await
    }

    fn tell(&self, what: impl FnOnce(&dyn Onlooker<K>)) {
        if let Some(onlooker) = &self.onlooker {
            what(onlooker.as_ref());
        }
    }

    /// Objects that extenders are sent are kept as they were written, which only JSON is.
    fn encoding(&self) -> Encoding {
        if self.objects.wants(K::KIND) { Encoding::Json } else { self.encoding }
    }

    async fn began(&self) -> Result<(), Trouble> {
        self.tell(|onlooker| onlooker.list_began());
        self.objects.list_began(K::KIND);
        let text = self.inbox.wants_text().then(|| journal::list_began(K::KIND));
        self.send(Box::new(|_| Event::ListBegan(K::KIND)), text).await
    }

    async fn ended(&self) -> Result<(), Trouble> {
        self.tell(|onlooker| onlooker.list_ended());
        self.objects.list_ended(K::KIND);
        let (state, first) = (Arc::clone(&self.state), Arc::clone(&self.first));
        // In sync when the engine is told so, not when we have read it.
        let convert = Box::new(move |_: &mut _| {
            if state.synced() {
                first.ended(K::KIND);
            }
            Event::ListEnded(K::KIND)
        });
        let text = self.inbox.wants_text().then(|| journal::list_ended(K::KIND));
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

/// What of a kind is watched: of pods those that have not ended (`pkg/scheduler/scheduler.go#NewInformerFactory`).
fn selector(kind: Kind) -> &'static str {
    if kind == Kind::Pod {
        "&fieldSelector=status.phase%21%3DSucceeded%2Cstatus.phase%21%3DFailed"
    } else {
        ""
    }
}

fn moved_to<K: Object>(object: &K) -> Result<String, Trouble> {
    object::version(object).ok_or_else(|| Trouble::Garbled("an object without a version".to_owned()))
}

/// Percent-encodes what is not surely harmless in a query.
fn escaped(text: &str) -> String {
    text.bytes()
        .map(|byte| match byte {
            b'0'..=b'9' | b'A'..=b'Z' | b'a'..=b'z' | b'-' | b'_' | b'.' => char::from(byte).to_string(),
            _ => format!("%{byte:02X}"),
        })
        .collect()
}
