//! Requests that read objects: a page of a list, or the lines of a watch, each with a limit to how long it is waited.
//!
//! Knows of a line what sort of change it tells, and of the object in it nothing.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use futures::StreamExt;
use futures::stream::BoxStream;
use http::Request;
use http::header::ACCEPT;
use http_body_util::BodyExt;
use kube::client::Body;
use kube::core::Status;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::value::RawValue;
use tokio::time::{Instant, timeout_at};

/// How long an API server may take to begin an answer. It waits some seconds itself for a consistent state.
const OPEN_WITHIN: Duration = Duration::from_secs(30);
/// How long it may take for a page of a list.
const PAGE_WITHIN: Duration = Duration::from_secs(50);

/// What marks the bookmark at the end of a list that came as a stream (`meta/v1.InitialEventsAnnotationKey`).
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// Why a list or watch broke off.
#[derive(Debug)]
pub(super) enum Trouble {
    /// The driver has ended; there is nobody to tell.
    NobodyListens,
    /// The API server answered with an error.
    Refused(Box<Status>),
    /// No answer came, or it broke off.
    Lost(String),
    /// The server ended the answer where it should not have.
    Ended(&'static str),
    /// What came makes no sense.
    Garbled(String),
}

impl Trouble {
    /// Whether the state that was known is of no use for going on: it must be listed anew.
    pub(super) fn needs_list(&self) -> bool {
        match self {
            // 410: too old. 400 and 422: not understood. Too large: from a time the server has not reached, as after
            // a restored backup.
            Self::Refused(status) => {
                matches!(status.code, 400 | 410 | 422)
                    || status.message.contains("Too large resource version")
            }
            Self::Garbled(_) => true,
            Self::NobodyListens | Self::Lost(_) | Self::Ended(_) => false,
        }
    }
}

impl std::fmt::Display for Trouble {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NobodyListens => f.write_str("the scheduling thread has ended"),
            Self::Refused(status) if status.message.is_empty() => {
                write!(f, "the API server answered with status {}", status.code)
            }
            Self::Refused(status) => f.write_str(&status.message),
            Self::Lost(why) => write!(f, "no answer from the API server: {why}"),
            Self::Ended(what) => f.write_str(what),
            Self::Garbled(why) => write!(f, "the API server's answer cannot be read: {why}"),
        }
    }
}

/// A whole answer.
pub(super) async fn page(client: &kube::Client, uri: &str) -> Result<Vec<u8>, Trouble> {
    let limit = Instant::now() + PAGE_WITHIN;
    let body = open(client, uri).await?;
    match timeout_at(limit, body.collect()).await {
        Ok(Ok(body)) => Ok(body.to_bytes().into()),
        Ok(Err(error)) => Err(Trouble::Lost(innermost(&error))),
        Err(_) => Err(Trouble::Lost("a page of the list did not come in time".to_owned())),
    }
}

/// An answer line by line.
pub(super) async fn watch(client: &kube::Client, uri: &str) -> Result<Lines, Trouble> {
    let chunks = open(client, uri).await?.into_data_stream();
    Ok(Lines {
        chunks: chunks.map(|chunk| chunk.map_err(|error| innermost(&error))).boxed(),
        buffer: BytesMut::new(),
    })
}

async fn open(client: &kube::Client, uri: &str) -> Result<Body, Trouble> {
    let limit = Instant::now() + OPEN_WITHIN;
    let request = Request::get(uri).header(ACCEPT, "application/json").body(Body::empty());
    let request = request.map_err(|error| Trouble::Garbled(error.to_string()))?;
    let answer = timeout_at(limit, client.send(request)).await;
    let response = match answer {
        Ok(Ok(response)) => response,
        Ok(Err(error)) => return Err(Trouble::Lost(innermost(&error))),
        Err(_) => return Err(Trouble::Lost(format!("nothing came within {} s", OPEN_WITHIN.as_secs()))),
    };
    let code = response.status();
    if code.is_success() {
        return Ok(response.into_body());
    }
    let body = timeout_at(limit, response.into_body().collect()).await;
    let body = body.ok().and_then(Result::ok).map(http_body_util::Collected::to_bytes).unwrap_or_default();
    let status = serde_json::from_slice::<Status>(&body).unwrap_or_else(|_| {
        let text = String::from_utf8_lossy(&body);
        Status::failure(text.trim(), "")
    });
    Err(Trouble::Refused(Box::new(status.with_code(code.as_u16()))))
}

/// The innermost cause of an error, which says what happened where the outer ones say to whom.
fn innermost(error: &(dyn std::error::Error + 'static)) -> String {
    let causes = || std::iter::successors(Some(error), |&error| error.source());
    let mut io = causes().filter_map(|cause| cause.downcast_ref::<std::io::Error>());
    if io.any(|error| error.kind() == std::io::ErrorKind::UnexpectedEof) {
        return "the connection was closed".to_owned();
    }
    causes().last().map(ToString::to_string).unwrap_or_default()
}

/// One line of a watch.
#[derive(Debug)]
pub(super) enum Line<K> {
    /// The object as it is now.
    Applied(K),
    /// The object as it was last.
    Deleted(K),
    /// Nothing happened up to a version.
    Bookmark {
        version: String,
        /// All objects there were when the watch began have come.
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

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MarkMeta {
    resource_version: String,
    #[serde(default)]
    annotations: Option<BTreeMap<String, String>>,
}

/// Reads a line. Whatever comes first in it, as a proxy may change that.
pub(super) fn read<K: DeserializeOwned>(line: &[u8]) -> Result<Line<K>, Trouble> {
    let garbled = |error: serde_json::Error| Trouble::Garbled(error.to_string());
    let Envelope { change, object } = serde_json::from_slice(line).map_err(garbled)?;
    let object = object.get();
    match &*change {
        "ADDED" | "MODIFIED" => Ok(Line::Applied(serde_json::from_str(object).map_err(garbled)?)),
        "DELETED" => Ok(Line::Deleted(serde_json::from_str(object).map_err(garbled)?)),
        "BOOKMARK" => {
            let Mark { metadata } = serde_json::from_str(object).map_err(garbled)?;
            let ends_list = metadata.annotations.is_some_and(|notes| notes.contains_key(INITIAL_EVENTS_END));
            Ok(Line::Bookmark { version: metadata.resource_version, ends_list })
        }
        "ERROR" => Err(Trouble::Refused(serde_json::from_str(object).map_err(garbled)?)),
        other => Err(Trouble::Garbled(format!("a change of the unknown type {other:?}"))),
    }
}

/// The lines of an answer that goes on.
pub(super) struct Lines {
    chunks: BoxStream<'static, Result<bytes::Bytes, String>>,
    buffer: BytesMut,
}

impl Lines {
    /// The next line, without its end; nothing when the server ended the answer. Must come before `limit`.
    pub(super) async fn next(&mut self, limit: Instant) -> Result<Option<BytesMut>, Trouble> {
        let mut searched = 0;
        loop {
            if let Some(end) = self.buffer[searched..].iter().position(|&byte| byte == b'\n') {
                let line = self.buffer.split_to(searched + end);
                self.buffer.advance(1);
                return Ok(Some(line));
            }
            searched = self.buffer.len();
            match timeout_at(limit, self.chunks.next()).await {
                Ok(Some(Ok(chunk))) => self.buffer.extend_from_slice(&chunk),
                Ok(Some(Err(error))) => return Err(Trouble::Lost(error)),
                // What is left is a line that was cut off; it comes again.
                Ok(None) => return Ok(None),
                Err(_) => return Err(Trouble::Lost("the watch fell silent".to_owned())),
            }
        }
    }
}
