//! Limits on response size, so that a misbehaving server cannot exhaust memory.
//!
//! Upstream's client limits only what it prints of an error. Streams (watches, followed logs) are not limited
//! here; their readers limit each event.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use tower::BoxError;

/// How much of an error's body is read, in bytes; the rest is dropped. A Status object takes a few kilobytes.
const ERROR_MAX: usize = 64 << 10;
/// Maximum size of any other complete response, in bytes; more is an error. A page of 50 objects of etcd's
/// maximum size (1.5 MiB) takes up to three times that in JSON: 225 MiB.
const ANSWER_MAX: usize = 256 << 20;

/// Error of a response larger than any the API server sends.
#[derive(Debug, thiserror::Error)]
#[error("the response exceeds {} MiB", .0 >> 20)]
pub struct TooLarge(
    /// The limit, in bytes.
    pub usize,
);

/// Limit on the size of a body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Limit {
    /// No limit.
    None,
    /// Truncate after this many bytes.
    CutOff(usize),
    /// Fail after this many bytes.
    Fail(usize),
}

/// Whether the response to a request is an endless stream.
pub(super) fn is_stream<B>(request: &Request<B>) -> bool {
    let on = ["watch=true", "watch=1", "follow=true"];
    request.uri().query().is_some_and(|query| query.split('&').any(|part| on.contains(&part)))
}

/// A response body with its limit.
#[derive(Debug)]
pub struct Limited<B = Incoming> {
    inner: B,
    limit: Limit,
    read: usize,
}

/// Limits the body of a response.
pub(super) fn limited<B>(answer: Response<B>, is_stream: bool) -> Response<Limited<B>> {
    let limit = match (answer.status().is_success(), is_stream) {
        (false, _) => Limit::CutOff(ERROR_MAX),
        (true, true) => Limit::None,
        (true, false) => Limit::Fail(ANSWER_MAX),
    };
    answer.map(|inner| Limited { inner, limit, read: 0 })
}

impl<B: Body<Data = Bytes, Error: Into<BoxError>> + Unpin> Body for Limited<B> {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        if let Limit::CutOff(limit) = self.limit
            && self.read >= limit
        {
            return Poll::Ready(None);
        }
        let frame = match std::task::ready!(Pin::new(&mut self.inner).poll_frame(context)) {
            Some(Ok(frame)) => frame,
            Some(Err(error)) => return Poll::Ready(Some(Err(error.into()))),
            None => return Poll::Ready(None),
        };
        let frame = match (frame.into_data(), self.limit) {
            (Ok(data), Limit::CutOff(limit)) => Frame::data(data.slice(..data.len().min(limit - self.read))),
            (Ok(data), Limit::Fail(limit)) if data.len() > limit - self.read => {
                return Poll::Ready(Some(Err(TooLarge(limit).into())));
            }
            (Ok(data), _) => Frame::data(data),
            (Err(other), _) => other,
        };
        self.read += frame.data_ref().map_or(0, Bytes::len);
        Poll::Ready(Some(Ok(frame)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        // The inner hint would be wrong for a truncated body.
        if self.limit == Limit::None { self.inner.size_hint() } else { SizeHint::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::{StreamExt as _, stream};
    use http_body_util::{BodyExt as _, StreamBody};

    /// An endless response in chunks of 1 MiB.
    fn endless(code: u16) -> Response<impl Body<Data = Bytes, Error = BoxError> + Unpin> {
        let chunk = Bytes::from(vec![b'x'; 1 << 20]);
        let body = stream::repeat_with(move || Ok(Frame::data(chunk.clone())));
        Response::builder().status(code).body(StreamBody::new(body)).unwrap()
    }

    #[tokio::test]
    async fn endless_error_is_truncated_and_endless_response_fails() {
        let error = limited(endless(500), false).into_body().collect().await.unwrap().to_bytes();
        assert_eq!(error.len(), ERROR_MAX);
        let error = limited(endless(403), true).into_body().collect().await.unwrap().to_bytes();
        assert_eq!(error.len(), ERROR_MAX, "an error response is never a stream");
        let answer = limited(endless(200), false).into_body();
        let (mut frames, mut read) = (answer.into_data_stream(), 0);
        let error = loop {
            match frames.next().await.expect("it has no end") {
                Ok(data) => read += data.len(),
                Err(error) => break error,
            }
        };
        assert_eq!((read, error.to_string().as_str()), (ANSWER_MAX, "the response exceeds 256 MiB"));
        assert!(error.is::<TooLarge>());
    }

    #[tokio::test]
    async fn stream_has_no_size_limit() {
        let frames = limited(endless(200), true).into_body().into_data_stream();
        let read = frames.take(300).fold(0, |read, data| async move { read + data.unwrap().len() }).await;
        assert!(read > ANSWER_MAX);
    }

    #[test]
    fn watches_and_followed_logs_are_streams() {
        for (uri, wanted) in [
            ("/a?watch=true&x=1", true),
            ("/a?x=1&follow=true", true),
            ("/a?watch=false", false),
            ("/a", false),
        ] {
            assert_eq!(is_stream(&Request::get(uri).body(()).unwrap()), wanted, "{uri}");
        }
    }
}
