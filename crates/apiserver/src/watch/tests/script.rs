//! The scripted API server in tests of watches.

use super::*;

/// The API server's reaction to a request.
#[derive(Clone)]
pub(super) enum Reply {
    /// Sends the lines of a watch, then ends it.
    Lines(Vec<Value>),
    /// Sends the lines of a watch, then stays silent.
    Open(Vec<Value>),
    /// Sends the lines of a watch, and ends it after this time.
    Quiet(Duration, Vec<Value>),
    /// Sends the same line of a watch at this interval, without end.
    Endless(Duration, Value),
    /// Sends the lines of a watch in chunks of this many bytes, then breaks the connection.
    Pieces(usize, Vec<Value>),
    /// Sends a complete response.
    Json(u16, Value),
    /// Sends the bytes of a protobuf watch in chunks of this many bytes, then stays silent.
    Frames(usize, Vec<u8>),
    /// Sends a complete protobuf response.
    Protobuf(u16, Vec<u8>),
    /// Refuses the request, with a `Retry-After` in seconds.
    Later(u16, u32),
    /// A watch with one change of a new version, which then ends.
    News(&'static str),
    /// A watch with one such change, then an error.
    NewsThen(Value),
    /// A response above the size limit.
    Huge,
    /// Never responds.
    Silence,
    /// Refuses the connection.
    Away,
}

type Answer = Response<UnsyncBoxBody<Bytes, tower::BoxError>>;

#[derive(Default)]
pub(super) struct Script {
    pub(super) replies: Mutex<VecDeque<Reply>>,
    pub(super) asked: Mutex<Vec<String>>,
    pub(super) accepts: Mutex<Vec<String>>,
    /// Repeated forever after `replies`.
    pub(super) cycle: Vec<Reply>,
}

impl Script {
    pub(super) async fn reply(self: Arc<Self>, request: Request<Body>) -> Result<Answer, tower::BoxError> {
        self.asked.lock().unwrap().push(request.uri().to_string());
        let accepts = request.headers()["accept"].to_str().unwrap().to_owned();
        self.accepts.lock().unwrap().push(accepts);
        let asked = self.asked.lock().unwrap().len();
        let reply = self.replies.lock().unwrap().pop_front();
        let reply = reply.or_else(|| self.cycle.get((asked - 1) % self.cycle.len().max(1)).cloned());
        let body = match reply {
            Some(Reply::Lines(lines)) => pieces(vec![text(&lines)], false),
            Some(Reply::Open(lines)) => {
                let first = stream::iter([Ok(Frame::data(text(&lines)))]);
                StreamBody::new(first.chain(stream::pending())).boxed_unsync()
            }
            Some(Reply::Quiet(life, lines)) => {
                let first = stream::iter([Ok(Frame::data(text(&lines)))]);
                let end = stream::once(tokio::time::sleep(life)).filter_map(|()| std::future::ready(None));
                StreamBody::new(first.chain(end)).boxed_unsync()
            }
            Some(Reply::Endless(every, line)) => {
                let lines = stream::unfold(line, move |line| async move {
                    tokio::time::sleep(every).await;
                    Some((Ok(Frame::data(text(std::slice::from_ref(&line)))), line))
                });
                StreamBody::new(lines).boxed_unsync()
            }
            Some(Reply::Pieces(size, lines)) => {
                pieces(text(&lines).chunks(size).map(Bytes::copy_from_slice).collect(), true)
            }
            Some(Reply::Json(code, value)) => {
                let body = Full::from(value.to_string()).map_err(|never| match never {}).boxed_unsync();
                return Ok(Response::builder().status(code).body(body)?);
            }
            Some(Reply::Later(code, seconds)) => {
                let body = Full::from("").map_err(|never| match never {}).boxed_unsync();
                return Ok(Response::builder().status(code).header("retry-after", seconds).body(body)?);
            }
            Some(Reply::News("BOOKMARK")) => {
                pieces(vec![text(&[bookmark(&(100 + asked).to_string(), false)])], false)
            }
            Some(Reply::News(change)) => {
                pieces(vec![text(&[node(change, "a", &(100 + asked).to_string())])], false)
            }
            Some(Reply::NewsThen(error)) => {
                let news = node("MODIFIED", "a", &(100 + asked).to_string());
                pieces(vec![text(&[news, json!({ "type": "ERROR", "object": error })])], false)
            }
            Some(Reply::Huge) => {
                let cut = stream::iter([Err(crate::client::TooLarge(1 << 20).into())]);
                StreamBody::new(cut).boxed_unsync()
            }
            Some(Reply::Frames(size, bytes)) => {
                let chunks: Vec<_> =
                    bytes.chunks(size).map(|chunk| Ok(Frame::data(Bytes::copy_from_slice(chunk)))).collect();
                let body = StreamBody::new(stream::iter(chunks).chain(stream::pending())).boxed_unsync();
                let kind = "application/vnd.kubernetes.protobuf;stream=watch";
                return Ok(Response::builder().header("content-type", kind).body(body)?);
            }
            Some(Reply::Protobuf(code, bytes)) => {
                let body = Full::from(bytes).map_err(|never| match never {}).boxed_unsync();
                let kind = "application/vnd.kubernetes.protobuf";
                return Ok(Response::builder().status(code).header("content-type", kind).body(body)?);
            }
            Some(Reply::Away) => {
                return Err(std::io::Error::from(std::io::ErrorKind::ConnectionRefused).into());
            }
            // After the script the server stays silent.
            Some(Reply::Silence) | None => std::future::pending().await,
        };
        Ok(Response::new(body))
    }
}

pub(super) fn text(lines: &[Value]) -> Bytes {
    lines.iter().map(|line| format!("{line}\n")).collect::<String>().into()
}

pub(super) fn pieces(pieces: Vec<Bytes>, breaks: bool) -> UnsyncBoxBody<Bytes, tower::BoxError> {
    let broken = breaks.then(|| Err("unexpected EOF".into()));
    StreamBody::new(stream::iter(pieces.into_iter().map(|piece| Ok(Frame::data(piece))).chain(broken)))
        .boxed_unsync()
}
