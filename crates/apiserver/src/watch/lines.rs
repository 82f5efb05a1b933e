//! Requests that read objects, pages of a list or a watch, with time limits.
//!
//! Requests protobuf if wanted, and decodes responses by their content type: protobuf comes in frames, JSON
//! in lines. This module handles the event envelope; [`super::object`] handles the objects.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use bytes::{Buf, Bytes, BytesMut};
use futures::StreamExt;
use futures::stream::BoxStream;
use http::header::{ACCEPT, CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, Request};
use http_body_util::BodyExt;
use kube::client::Body;
use kube::core::Status;
use kube::core::response::StatusDetails;
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout_at};

use super::object::Object;
use crate::client::TooLarge;
use supercargo_objects::api::{Encoding, proto};

/// Time limit for an API server to start its response. It may itself wait some seconds for a consistent
/// state.
const OPEN_WITHIN: Duration = Duration::from_secs(30);
/// Time limit of one page of a list.
const PAGE_WITHIN: Duration = Duration::from_secs(50);

/// Maximum size of a watch event in bytes, as in upstream's client (`runtime/serializer/streaming`). Objects
/// have some megabytes at most.
const EVENT_MAX: usize = 16 << 20;

/// Annotation of the bookmark that ends a streamed list (`meta/v1.InitialEventsAnnotationKey`).
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// Why a list or watch failed.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The scheduling thread has ended.
    NobodyListens,
    /// The API server responded with an error.
    Refused(Box<Status>),
    /// No response came, or it broke off.
    Lost(String),
    /// The server ended the response too early.
    Ended(&'static str),
    /// The response is invalid.
    Garbled(String),
    /// A page of a list exceeds the size limit.
    TooLarge(String),
    /// The followed resource version is newer than any the API server has.
    Ahead { followed: String, newest: String },
}

impl Trouble {
    /// Whether the known resource version is unusable, so that the kind must be relisted.
    pub(super) fn needs_list(&self) -> bool {
        match self {
            // 410: expired. 400 and 422: not understood. "Too large": the version lies in the server's
            // future, as after a restored backup.
            Self::Refused(status) => {
                matches!(status.code, 400 | 410 | 422)
                    || status.message.contains("Too large resource version")
            }
            Self::Garbled(_) | Self::Ahead { .. } => true,
            Self::NobodyListens | Self::Lost(_) | Self::Ended(_) | Self::TooLarge(_) => false,
        }
    }
}

impl Trouble {
    /// Returns the server's `Retry-After`, which is honored on 429 and 5xx only
    /// (`client-go/rest/with_retry.go#checkWait`).
    pub(super) fn retry_after(&self) -> Option<Duration> {
        let Self::Refused(status) = self else { return None };
        let seconds = status.details.as_ref()?.retry_after_seconds;
        let may_ask = status.code == 429 || status.code >= 500;
        (may_ask && seconds > 0).then(|| Duration::from_secs(seconds.into()))
    }
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NobodyListens => f.write_str("the scheduling thread has ended"),
            Self::Refused(status) if status.message.is_empty() => {
                write!(f, "the API server responded with status {}", status.code)
            }
            Self::Refused(status) => f.write_str(&status.message),
            Self::Lost(why) => write!(f, "no answer from the API server: {why}"),
            Self::Ended(what) => f.write_str(what),
            Self::TooLarge(why) => f.write_str(why),
            Self::Ahead { followed, newest } => write!(
                f,
                "the watch followed resource version {followed}, but the API server's newest is {newest}"
            ),
            Self::Garbled(why) => write!(f, "cannot decode the API server's response: {why}"),
        }
    }
}

/// Reads a complete response.
pub(super) async fn page(
    client: &kube::Client,
    uri: &str,
    wanted: Encoding,
) -> Result<(Encoding, Bytes), Trouble> {
    let limit = Instant::now() + PAGE_WITHIN;
    let (encoding, body) = open(client, uri, wanted.accept()).await?;
    match timeout_at(limit, body.collect()).await {
        Ok(Ok(body)) => Ok((encoding, body.to_bytes())),
        Ok(Err(error)) if causes(&error).any(|cause| cause.is::<TooLarge>()) => {
            Err(Trouble::TooLarge(innermost(&error)))
        }
        Ok(Err(error)) => Err(Trouble::Lost(innermost(&error))),
        Err(_) => Err(Trouble::Lost("timed out while reading a page of the list".to_owned())),
    }
}

/// Opens a watch.
pub(super) async fn watch(client: &kube::Client, uri: &str, wanted: Encoding) -> Result<Events, Trouble> {
    let (encoding, body) = open(client, uri, wanted.accept_watch()).await?;
    let chunks = body.into_data_stream().map(|chunk| chunk.map_err(|error| innermost(&error))).boxed();
    Ok(Events { encoding, chunks, buffer: BytesMut::new() })
}

async fn open(client: &kube::Client, uri: &str, accept: &'static str) -> Result<(Encoding, Body), Trouble> {
    let limit = Instant::now() + OPEN_WITHIN;
    let request = Request::get(uri).header(ACCEPT, accept).body(Body::empty());
    let request = request.map_err(|error| Trouble::Garbled(error.to_string()))?;
    let answer = timeout_at(limit, client.send(request)).await;
    let response = match answer {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => return Err(Trouble::Lost(innermost(&error))),
        Err(_) => return Err(Trouble::Lost(format!("no response within {} s", OPEN_WITHIN.as_secs()))),
    };
    let (code, encoding) = (response.status(), encoding_of(response.headers()));
    let retry_after = retry_after(response.headers());
    if code.is_success() {
        return Ok((encoding, response.into_body()));
    }
    let body = timeout_at(limit, response.into_body().collect()).await;
    let body = body.ok().and_then(Result::ok).map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let reported = match encoding {
        Encoding::Json => serde_json::from_slice::<Status>(&body).ok(),
        Encoding::Protobuf => proto::raw_object(&body).and_then(proto::refusal).ok().as_ref().map(status),
    };
    let status = reported.unwrap_or_else(|| {
        let text = String::from_utf8_lossy(&body);
        Status::failure(text.trim(), "")
    });
    let mut status = status.with_code(code.as_u16());
    if let Some(seconds) = retry_after {
        status.details.get_or_insert_with(no_details).retry_after_seconds = seconds;
    }
    Err(Trouble::Refused(Box::new(status)))
}

fn no_details() -> StatusDetails {
    let (name, group, kind, uid) = Default::default();
    StatusDetails { name, group, kind, uid, causes: Vec::new(), retry_after_seconds: 0 }
}

/// Returns the seconds of `Retry-After`. HTTP dates, which no API server sends, are ignored
/// (`client-go/rest/request.go#retryAfterSeconds`).
fn retry_after(headers: &HeaderMap) -> Option<u32> {
    headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok()
}

/// Returns the encoding of a response.
fn encoding_of(headers: &HeaderMap) -> Encoding {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    Encoding::of(content_type.unwrap_or_default())
}

fn status(refusal: &proto::Refusal) -> Status {
    let code = u16::try_from(refusal.code).unwrap_or_default();
    Status::failure(&refusal.message, &refusal.reason).with_code(code)
}

/// Returns the innermost cause, which says what happened; outer errors only add where.
fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let mut io = causes(error).filter_map(|cause| cause.downcast_ref::<std::io::Error>());
    if io.any(|error| error.kind() == std::io::ErrorKind::UnexpectedEof) {
        return "the connection was closed".to_owned();
    }
    causes(error).last().map(ToString::to_string).unwrap_or_default()
}

/// Iterates over an error and its sources, outermost first.
fn causes<'a>(
    error: &'a (dyn std::error::Error + 'static),
) -> impl Iterator<Item = &'a (dyn std::error::Error + 'static)> {
    std::iter::successors(Some(error), |&error| error.source())
}

/// One event of a watch.
#[derive(Debug)]
pub(super) enum WatchEvent<K> {
    /// The object was added or modified.
    Applied(K),
    /// The object was deleted; holds its last state.
    Deleted(K),
    /// The state of `version` has been reached.
    Bookmark {
        version: String,
        /// Whether this bookmark ends the initial list.
        ends_list: bool,
    },
}

#[derive(Deserialize)]
struct Envelope<'a> {
    #[serde(rename = "type", borrow)]
    change: Cow<'a, str>,
    #[serde(borrow)]
    object: &'a RawValue,
}

#[derive(Deserialize)]
struct Mark {
    metadata: MarkMeta,
}

/// What an object in JSON says it is.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct TypeMeta<'a> {
    #[serde(borrow)]
    api_version: Cow<'a, str>,
    #[serde(borrow)]
    kind: Cow<'a, str>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MarkMeta {
    resource_version: String,
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
}

/// An undecoded event.
pub(super) struct RawEvent {
    pub(super) encoding: Encoding,
    pub(super) bytes: BytesMut,
}

impl RawEvent {
    /// Decodes the event.
    pub(super) fn read<K: Object>(&self) -> Result<WatchEvent<K>, Trouble> {
        let decoded = match self.encoding {
            Encoding::Json => read_line(&self.bytes).map_err(|error| Trouble::Garbled(error.to_string()))?,
            Encoding::Protobuf => {
                read_frame(&self.bytes).map_err(|flaw| Trouble::Garbled(flaw.to_string()))?
            }
        };
        match decoded {
            // A watch from no version begins with the objects there are, and never tells which are gone.
            Ok(WatchEvent::Bookmark { version, .. }) if version.is_empty() => {
                Err(Trouble::Garbled("a bookmark without a version".to_owned()))
            }
            decoded => decoded,
        }
    }
}

/// Passes the raw object of a JSON event, and whether it was deleted. Skips events without an object.
pub(super) fn each_object(line: &[u8], each: impl FnOnce(&str, bool)) {
    if let Ok(Envelope { change, object }) = serde_json::from_slice(line)
        && matches!(&*change, "ADDED" | "MODIFIED" | "DELETED")
    {
        each(object.get(), change == "DELETED");
    }
}

/// Decodes a JSON event. Accepts its fields in any order, since a proxy may reorder them.
fn read_line<K: Object>(line: &[u8]) -> Result<Result<WatchEvent<K>, Trouble>, serde_json::Error> {
    let Envelope { change, object } = serde_json::from_slice(line)?;
    let object = object.get();
    let TypeMeta { api_version, kind } = serde_json::from_str(object)?;
    let is_expected = match &*change {
        "ERROR" => is_refusal(api_version.as_bytes(), kind.as_bytes()),
        "ADDED" | "MODIFIED" | "DELETED" | "BOOKMARK" => {
            is_of::<K>(api_version.as_bytes(), kind.as_bytes(), "")
        }
        _ => Ok(()),
    };
    if let Err(trouble) = is_expected {
        return Ok(Err(trouble));
    }
    Ok(Ok(match &*change {
        "ADDED" | "MODIFIED" => WatchEvent::Applied(serde_json::from_str(object)?),
        "DELETED" => WatchEvent::Deleted(serde_json::from_str(object)?),
        "BOOKMARK" => {
            let Mark { metadata } = serde_json::from_str(object)?;
            let ends_list = metadata.annotations.is_some_and(|notes| notes.contains_key(INITIAL_EVENTS_END));
            WatchEvent::Bookmark { version: metadata.resource_version, ends_list }
        }
        "ERROR" => return Ok(Err(Trouble::Refused(serde_json::from_str(object)?))),
        other => return Ok(Err(unknown_change(other))),
    }))
}

fn read_frame<K: Object>(frame: &[u8]) -> Result<Result<WatchEvent<K>, Trouble>, proto::Flaw> {
    let proto::WatchEvent { change, type_meta, object } = proto::WatchEvent::read(frame)?;
    let proto::TypeMeta { api_version, kind } = type_meta;
    let is_expected = match change {
        proto::Change::Error => is_refusal(api_version, kind),
        proto::Change::Unknown(_) => Ok(()),
        _ => is_of::<K>(api_version, kind, ""),
    };
    if let Err(trouble) = is_expected {
        return Ok(Err(trouble));
    }
    Ok(Ok(match change {
        proto::Change::Applied => WatchEvent::Applied(K::from_protobuf(object)),
        proto::Change::Deleted => WatchEvent::Deleted(K::from_protobuf(object)),
        proto::Change::Bookmark => {
            let (version, ends_list) = proto::bookmark(object)?;
            WatchEvent::Bookmark { version, ends_list }
        }
        proto::Change::Error => {
            return Ok(Err(Trouble::Refused(Box::new(status(&proto::refusal(object)?)))));
        }
        proto::Change::Unknown(other) => return Ok(Err(unknown_change(&other))),
    }))
}

/// Checks that a response is of kind `K` or a list of it. A proxy that mixes up responses may send another kind's;
/// as a list of pods, it would free every node.
pub(super) fn is_of<K: Object>(api_version: &[u8], kind: &[u8], suffix: &str) -> Result<(), Trouble> {
    let (wanted_version, wanted) = (K::api_version(&()), K::kind(&()));
    let is_kind = kind.strip_suffix(suffix.as_bytes()).is_some_and(|kind| kind == wanted.as_bytes());
    if is_kind && api_version == wanted_version.as_bytes() {
        return Ok(());
    }
    let [api_version, kind] = [api_version, kind].map(String::from_utf8_lossy);
    Err(Trouble::Garbled(format!(
        "{wanted_version} {wanted}{suffix} was asked for, {api_version} {kind} came"
    )))
}

fn is_refusal(api_version: &[u8], kind: &[u8]) -> Result<(), Trouble> {
    let is_status = (api_version, kind) == (b"v1", b"Status");
    if is_status { Ok(()) } else { Err(Trouble::Garbled("an error without a Status".to_owned())) }
}

fn unknown_change(change: &str) -> Trouble {
    Trouble::Garbled(format!("unknown watch event type {change:?}"))
}

/// The events of a watch response.
pub(super) struct Events {
    encoding: Encoding,
    chunks: BoxStream<'static, Result<Bytes, String>>,
    buffer: BytesMut,
}

impl Events {
    /// Returns the next event, or `None` when the server ended the response. Fails if none comes before
    /// `limit`.
    pub(super) async fn next(&mut self, limit: Instant) -> Result<Option<RawEvent>, Trouble> {
        let mut searched = 0;
        loop {
            let whole = match self.encoding {
                Encoding::Json => self.line(searched),
                Encoding::Protobuf => self.frame()?,
            };
            if let Some(bytes) = whole {
                return Ok(Some(RawEvent { encoding: self.encoding, bytes }));
            }
            searched = self.buffer.len();
            if searched > EVENT_MAX + FRAME_HEAD {
                return Err(too_large());
            }
            match timeout_at(limit, self.chunks.next()).await {
                Ok(Some(Ok(chunk))) => self.buffer.extend_from_slice(&chunk),
                Ok(Some(Err(error))) => return Err(Trouble::Lost(error)),
                // A remainder is a truncated event, which the next watch delivers again.
                Ok(None) => return Ok(None),
                Err(_) => return Err(Trouble::Lost("the watch timed out without an event".to_owned())),
            }
        }
    }

    /// Returns the next complete line without its newline. No newline occurs before `searched`.
    fn line(&mut self, searched: usize) -> Option<BytesMut> {
        let end = searched + self.buffer[searched..].iter().position(|&byte| byte == b'\n')?;
        let line = self.buffer.split_to(end);
        self.buffer.advance(1);
        Some(line)
    }

    /// Returns the next complete frame without its length (`apimachinery/pkg/util/framer`).
    fn frame(&mut self) -> Result<Option<BytesMut>, Trouble> {
        let Some(length) = self.buffer.first_chunk().map(|length| u32::from_be_bytes(*length) as usize)
        else {
            return Ok(None);
        };
        if length > EVENT_MAX {
            return Err(too_large());
        }
        if self.buffer.len() - FRAME_HEAD < length {
            return Ok(None);
        }
        self.buffer.advance(FRAME_HEAD);
        Ok(Some(self.buffer.split_to(length)))
    }
}

/// Size of a frame's length prefix, in bytes.
const FRAME_HEAD: usize = size_of::<u32>();

fn too_large() -> Trouble {
    Trouble::Garbled(format!("a watch event exceeds {} MiB", EVENT_MAX >> 20))
}
