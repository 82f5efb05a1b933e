//! Response bodies with faults: truncated, with a flipped bit, or frozen; and watches, frame by frame.
//!
//! Only bits whose corruption can be detected are flipped: the structural characters of JSON, any character of
//! a success Status, and the magic number, envelope and lengths at the beginning of protobuf. A flipped bit in
//! a value may result in another valid object, for example with smaller requests or another uid. No client can
//! detect that.

use std::time::Duration;

use anyhow::{Error, Result, anyhow};
use bytes::{Bytes, BytesMut};
use futures::{Stream, StreamExt, stream};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use tokio::sync::{mpsc, watch};

use super::fault::{Draw, Fault, SPELL};

pub(super) type Body = UnsyncBoxBody<Bytes, Error>;

/// The duration of a freeze: longer than the scheduler's timeout for writes (10 s).
pub(super) const FROZEN: Duration = Duration::from_secs(12);
/// The number of bytes of a protobuf body, or of a watch frame, that form the envelope: frame length, event
/// type, magic number, version and kind.
const ENVELOPE: usize = 24;

/// Creates a body from a stream of chunks.
pub(super) fn of(pieces: impl Stream<Item = Result<Bytes>> + Send + 'static) -> Body {
    StreamBody::new(pieces.map(|piece| piece.map(Frame::data))).boxed_unsync()
}

/// Creates a body from bytes.
pub(super) fn whole(bytes: Bytes) -> Body {
    of(stream::iter([Ok(bytes)]))
}

/// Returns the first part of a body, followed by a regular end or a broken connection.
pub(super) fn cut(bytes: &Bytes, draw: &mut Draw) -> Body {
    let part = bytes.slice(..draw.below(bytes.len()));
    let breaks = draw.percent(50).then(|| Err(anyhow!("cut off")));
    of(stream::iter([Ok(part)].into_iter().chain(breaks)))
}

/// Returns the first part of a body, then nothing until `thaw` completes, and then breaks the connection.
pub(super) fn frozen(
    bytes: &Bytes,
    draw: &mut Draw,
    thaw: impl Future<Output = Error> + Send + 'static,
) -> Body {
    let part = bytes.slice(..draw.below(bytes.len()));
    of(stream::iter([Ok(part)]).chain(stream::once(async { Err(thaw.await) })))
}

/// Returns the body with one bit flipped.
pub(super) fn flipped(bytes: &Bytes, is_protobuf: bool, draw: &mut Draw) -> Bytes {
    let places: Vec<usize> = if is_protobuf {
        (0..bytes.len().min(ENVELOPE)).collect()
    } else if is_success(bytes) {
        (0..bytes.len()).collect()
    } else {
        (0..bytes.len()).filter(|&at| b"{}[]:,\"".contains(&bytes[at])).collect()
    };
    let mut changed = bytes.to_vec();
    if !places.is_empty() {
        changed[draw.pick(&places)] ^= 1 << draw.below(7);
    }
    changed.into()
}

fn is_success(bytes: &Bytes) -> bool {
    let body: serde_json::Value = serde_json::from_slice(bytes).unwrap_or_default();
    (body["kind"].as_str(), body["status"].as_str()) == (Some("Status"), Some("Success"))
}

/// The frames of a watch: lines of JSON, or length-prefixed protobuf.
struct Frames<S> {
    pieces: S,
    buffer: BytesMut,
    is_protobuf: bool,
}

impl<S: Stream<Item = Result<Bytes>> + Unpin> Frames<S> {
    /// Returns the next frame including its delimiter or length; `None` at the end.
    async fn next(&mut self) -> Result<Option<Bytes>> {
        loop {
            if let Some(end) = self.end() {
                return Ok(Some(self.buffer.split_to(end).freeze()));
            }
            let Some(piece) = self.pieces.next().await.transpose()? else { return Ok(None) };
            self.buffer.extend_from_slice(&piece);
        }
    }

    fn end(&self) -> Option<usize> {
        if !self.is_protobuf {
            return self.buffer.iter().position(|&byte| byte == b'\n').map(|at| at + 1);
        }
        let length = u32::from_be_bytes(*self.buffer.first_chunk()?) as usize;
        (self.buffer.len() >= length + 4).then_some(length + 4)
    }
}

fn is_bookmark(frame: &Bytes) -> bool {
    let head = &frame[..frame.len().min(ENVELOPE)];
    head.windows(b"BOOKMARK".len()).any(|part| part == b"BOOKMARK")
}

/// The parameters of a watch.
pub(super) struct Watched {
    pub(super) fault: Option<Fault>,
    pub(super) draw: Draw,
    pub(super) is_protobuf: bool,
    /// Changes when the proxy becomes hostile or honest; watches then break.
    pub(super) weather: watch::Receiver<Option<std::time::Instant>>,
}

/// Creates the body of a watch. `injected` is called when the fault occurs.
pub(super) fn watched(
    plan: Watched,
    pieces: impl Stream<Item = Result<Bytes>> + Send + Unpin + 'static,
    injected: impl FnOnce() + Send + 'static,
) -> Body {
    // A capacity of one frame, so that a client that does not read blocks the API server as without a proxy.
    let (sender, receiver) = mpsc::channel(1);
    let frames = Frames { pieces, buffer: BytesMut::new(), is_protobuf: plan.is_protobuf };
    tokio::spawn(async move {
        let mut weather = plan.weather.clone();
        let gone = sender.clone();
        tokio::select! {
            end = play(plan, frames, &sender, injected) => {
                if let Err(error) = end {
                    let _ = sender.send(Err(error)).await;
                }
            }
            _ = weather.changed() => {
                let _ = sender.try_send(Err(anyhow!("the weather changed")));
            }
            () = gone.closed() => {}
        }
    });
    of(stream::unfold(receiver, |mut receiver| async move { Some((receiver.recv().await?, receiver)) }))
}

type Frameful = mpsc::Sender<Result<Bytes>>;

/// Forwards frames until the fault is due: after some frames or some time, since most kinds have few changes.
async fn play<S: Stream<Item = Result<Bytes>> + Unpin>(
    Watched { fault, mut draw, is_protobuf, weather }: Watched,
    mut frames: Frames<S>,
    to: &Frameful,
    injected: impl FnOnce(),
) -> Result<()> {
    let is_hostile = weather.borrow().is_some();
    let (mut left, wait) = (draw.below(12), Duration::from_millis(100 + draw.below(2_500) as u64));
    let mut next = None;
    let is_faulty =
        matches!(fault, Some(Fault::Truncated | Fault::Flipped | Fault::FrozenAfter | Fault::Reset));
    // In hostile mode no watch outlasts a spell, so that the next watch is subject to another one.
    let limit = if is_faulty { wait } else { SPELL };
    let due_at = is_hostile.then(|| tokio::time::Instant::now() + limit);
    loop {
        let frame = match due_at {
            Some(due) => match tokio::time::timeout_at(due, frames.next()).await {
                Ok(frame) => frame?,
                Err(_) if is_faulty => break,
                // The API server ends the watch.
                Err(_) => return Ok(()),
            },
            None => frames.next().await?,
        };
        let Some(frame) = frame else { return Ok(()) };
        if is_faulty && left == 0 {
            next = Some(frame);
            break;
        }
        left = left.saturating_sub(1);
        let is_end = fault == Some(Fault::OneBookmark) && is_bookmark(&frame);
        to.send(Ok(frame)).await?;
        if is_end {
            injected();
            return Ok(());
        }
    }
    injected();
    // On a kind without changes, inject an incomplete frame.
    let quiet = if is_protobuf { &b"\0\0\0\x07\x0a\x05ADDED"[..] } else { b"{\"type\":\"ADDED\"}\n" };
    let frame = next.unwrap_or_else(|| Bytes::from_static(quiet));
    match fault {
        Some(Fault::Flipped) => {
            to.send(Ok(flipped(&frame, is_protobuf, &mut draw))).await?;
            while let Some(frame) = frames.next().await? {
                to.send(Ok(frame)).await?;
            }
            Ok(())
        }
        Some(Fault::Reset) => Err(anyhow!("reset")),
        _ => {
            to.send(Ok(frame.slice(..draw.below(frame.len())))).await?;
            if fault == Some(Fault::FrozenAfter) {
                tokio::time::sleep(FROZEN).await;
            }
            if draw.percent(50) { Ok(()) } else { Err(anyhow!("cut off")) }
        }
    }
}
