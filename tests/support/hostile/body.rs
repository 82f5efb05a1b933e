//! Bodies of answers: whole, cut off, with a flipped bit, frozen; and watches, frame by frame.
//!
//! Bits are flipped in what holds a body together: the structural characters of JSON, any character of the Status that confirms a success, and the
//! magic number, envelope and lengths at the beginning of protobuf. Such a flip can always be noticed. A bit flipped in a value may give
//! another valid object, with less to request or another uid: nobody behind the proxy can tell that from the truth, so no promise can hold there.

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

/// How long a frozen connection is held: longer than the scheduler waits for an answer to a write (10 s).
pub(super) const FROZEN: Duration = Duration::from_secs(12);
/// Bytes of a protobuf body, or of a frame of a watch, that are envelope: the length of the frame, the type of the event, the magic number, version
/// and kind.
const ENVELOPE: usize = 24;

/// A body of these pieces.
pub(super) fn of(pieces: impl Stream<Item = Result<Bytes>> + Send + 'static) -> Body {
    StreamBody::new(pieces.map(|piece| piece.map(Frame::data))).boxed_unsync()
}

/// A body of these bytes.
pub(super) fn whole(bytes: Bytes) -> Body {
    of(stream::iter([Ok(bytes)]))
}

/// The first part of a body: it ends there as if that were all, or the connection breaks.
pub(super) fn cut(bytes: &Bytes, draw: &mut Draw) -> Body {
    let part = bytes.slice(..draw.below(bytes.len()));
    let breaks = draw.percent(50).then(|| Err(anyhow!("cut off")));
    of(stream::iter([Ok(part)].into_iter().chain(breaks)))
}

/// The first part of a body; the rest does not come before `thaw` ends, and neither does it then.
pub(super) fn frozen(
    bytes: &Bytes,
    draw: &mut Draw,
    thaw: impl Future<Output = Error> + Send + 'static,
) -> Body {
    let part = bytes.slice(..draw.below(bytes.len()));
    of(stream::iter([Ok(part)]).chain(stream::once(async { Err(thaw.await) })))
}

/// The body with one bit flipped.
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

/// Frames of a watch: lines of JSON, or protobuf behind its length.
struct Frames<S> {
    pieces: S,
    buffer: BytesMut,
    is_protobuf: bool,
}

impl<S: Stream<Item = Result<Bytes>> + Unpin> Frames<S> {
    /// The next frame with what delimits it; nothing at the end.
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

/// How a watch goes.
pub(super) struct Watched {
    pub(super) fault: Option<Fault>,
    pub(super) draw: Draw,
    pub(super) is_protobuf: bool,
    /// Changes when the proxy becomes hostile or honest: watches break off then.
    pub(super) weather: watch::Receiver<Option<std::time::Instant>>,
}

/// The body of a watch; `injected` is called when the fault is carried out.
pub(super) fn watched(
    plan: Watched,
    pieces: impl Stream<Item = Result<Bytes>> + Send + Unpin + 'static,
    injected: impl FnOnce() + Send + 'static,
) -> Body {
    // Of one frame: a client that does not read holds up the API server, as without a proxy.
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

/// Passes frames on until the fault is due: after some frames or some time, since most kinds are quiet.
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
    // In hostile times no watch lives longer than a spell: its successor meets another one.
    let limit = if is_faulty { wait } else { SPELL };
    let due_at = is_hostile.then(|| tokio::time::Instant::now() + limit);
    loop {
        let frame = match due_at {
            Some(due) => match tokio::time::timeout_at(due, frames.next()).await {
                Ok(frame) => frame?,
                Err(_) if is_faulty => break,
                // The API server ends it.
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
    // Of a quiet kind a frame that says too little.
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
