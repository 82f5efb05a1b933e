//! Requests with small answers: sends one, reads its whole answer up to a limit, and decodes it.
//!
//! kube's own methods log a successful answer that they cannot decode, and put the body of an error into their own
//! error. Here, no error quotes a body that is not the API server's: it may be long, and may repeat a token that was
//! sent. Time limits and retries are the caller's.

use std::time::Duration;

use bytes::Bytes;
use http::header::{ACCEPT, CONTENT_TYPE, HeaderValue};
use http::{Request, StatusCode};
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use kube::client::Body;
use serde::de::DeserializeOwned;

use crate::answer::{self, Failure};
use crate::retry::retry_after;

/// Maximum size of an answer with one object, in bytes. A review, `/version` and the ConfigMap with the authorities of
/// client certificates take some kilobytes; etcd's default limit for an object is 1.5 MiB.
pub const ANSWER_MAX: usize = 1 << 20;
/// Maximum length of a message of the API server, in bytes. Longer ones are truncated, since they are logged.
const MESSAGE_MAX: usize = 1 << 10;
/// The API server's text for a path that it does not serve (`apiserver/pkg/server/handler.go`).
const NO_SUCH_PATH: &str = "404 page not found";

/// Why a request has no usable answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RequestError {
    /// The API server refused the request, or failed to carry it out.
    #[error("{message}")]
    Refused {
        /// The status code.
        code: u16,
        /// The API server's message.
        message: String,
        /// The pause that the server asks for.
        retry_after: Option<Duration>,
    },
    /// The answer is not the API server's, or not the expected one.
    #[error("the answer with status {code} is not the API server's: {why}")]
    Foreign {
        /// The status code.
        code: u16,
        /// The reason, without parts of the body.
        why: &'static str,
        /// The pause that the server, or a proxy in front of it, asks for.
        retry_after: Option<Duration>,
    },
    /// The answer is larger than expected.
    #[error("the answer exceeds {max} bytes")]
    TooLarge {
        /// The limit, in bytes.
        max: usize,
    },
    /// No complete answer came.
    #[error("no answer from the API server: {0}")]
    Lost(String),
}

impl RequestError {
    /// Returns whether RBAC denied the request.
    pub fn is_forbidden(&self) -> bool {
        matches!(self, Self::Refused { code: 403, .. })
    }

    /// Returns whether the API server does not serve the requested path.
    pub fn is_not_served(&self) -> bool {
        matches!(self, Self::Refused { code: 404, .. })
    }

    /// Returns the pause that the server asks for with `Retry-After`.
    pub fn retry_after(&self) -> Option<Duration> {
        match self {
            Self::Refused { retry_after, .. } | Self::Foreign { retry_after, .. } => *retry_after,
            Self::TooLarge { .. } | Self::Lost(_) => None,
        }
    }
}

/// A successful answer.
pub struct Answer {
    status: StatusCode,
    body: Bytes,
}

/// Sends a request with a JSON body, or none, and returns its answer if it is successful and has at most `max` bytes.
///
/// # Errors
/// If the request is refused, or its answer is too large, incomplete or not the API server's.
pub async fn send(
    client: &kube::Client,
    mut request: Request<Vec<u8>>,
    max: usize,
) -> Result<Answer, RequestError> {
    let json = HeaderValue::from_static("application/json");
    request.headers_mut().insert(ACCEPT, json.clone());
    if !request.body().is_empty() {
        request.headers_mut().insert(CONTENT_TYPE, json);
    }
    let response = client.send(request.map(Body::from)).await.map_err(|error| lost(&error))?;
    let (status, retry_after) = (response.status(), retry_after(&response));
    let body = Limited::new(response.into_body(), max).collect().await.map_err(|error| {
        if error.is::<LengthLimitError>() { RequestError::TooLarge { max } } else { lost(&*error) }
    })?;
    let body = body.to_bytes();
    if status.is_success() {
        return Ok(Answer { status, body });
    }
    let code = status.as_u16();
    if status == StatusCode::NOT_FOUND && body.trim_ascii() == NO_SUCH_PATH.as_bytes() {
        return Err(RequestError::Refused { code, message: NO_SUCH_PATH.to_owned(), retry_after });
    }
    match answer::refusal(status, &body) {
        Ok(Failure { reason, message, .. }) => {
            let mut message = if message.is_empty() { reason } else { message };
            message.truncate(message.floor_char_boundary(MESSAGE_MAX));
            Err(RequestError::Refused { code, message, retry_after })
        }
        Err(why) => Err(RequestError::Foreign { code, why, retry_after }),
    }
}

impl Answer {
    /// Decodes an object of this kind.
    ///
    /// # Errors
    /// If the answer is another object, or none.
    pub fn object<T: DeserializeOwned>(&self, api_version: &str, kind: &str) -> Result<T, RequestError> {
        match answer::is_of_kind(&self.body, api_version, kind) {
            Ok(true) => self.decoded(),
            Ok(false) => Err(self.foreign("its body has an unexpected kind")),
            Err(why) => Err(self.foreign(why)),
        }
    }

    /// Decodes a body that has no kind.
    ///
    /// # Errors
    /// If the answer has other fields.
    pub fn decoded<T: DeserializeOwned>(&self) -> Result<T, RequestError> {
        answer::read(&self.body).map_err(|why| self.foreign(why))
    }

    /// Returns the error of an answer that is not the API server's for this reason.
    pub fn foreign(&self, why: &'static str) -> RequestError {
        RequestError::Foreign { code: self.status.as_u16(), why, retry_after: None }
    }

    /// Returns the size of the body, in bytes.
    pub fn size(&self) -> usize {
        self.body.len()
    }
}

/// Returns the error of a request without a complete answer: its innermost cause names the connection's problem.
fn lost(error: &(dyn std::error::Error + 'static)) -> RequestError {
    let causes = std::iter::successors(Some(error), |&error| error.source());
    RequestError::Lost(causes.last().map(ToString::to_string).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::Response;
    use serde_json::{Value, json};
    use std::convert::Infallible;

    async fn answered(code: u16, body: impl Into<Vec<u8>>) -> Result<Value, RequestError> {
        let body: Vec<u8> = body.into();
        let service = tower::service_fn(move |request: Request<Body>| {
            assert_eq!(request.headers()[ACCEPT], "application/json");
            let response = Response::builder().status(code).header("retry-after", "7");
            let response = response.body(Body::from(body.clone())).unwrap();
            async move { Ok::<_, Infallible>(response) }
        });
        let client = kube::Client::new(service, "default");
        let request = Request::get("/x").body(Vec::new()).unwrap();
        send(&client, request, ANSWER_MAX).await?.object("v1", "ConfigMap")
    }

    #[tokio::test]
    async fn answer_is_decoded_only_if_it_has_the_expected_kind() {
        let map =
            |kind: &str| json!({"apiVersion": "v1", "kind": kind, "metadata": {"name": "a"}}).to_string();
        assert_eq!(answered(200, map("ConfigMap")).await.unwrap()["metadata"]["name"], "a");
        for body in [map("Secret"), "<html>secret</html>".to_owned(), String::new(), "{}".to_owned()] {
            let error = answered(200, body).await.unwrap_err();
            assert!(matches!(error, RequestError::Foreign { code: 200, .. }), "{error:?}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }

    #[tokio::test]
    async fn only_a_status_object_or_a_known_text_is_a_refusal() {
        let status = |code: u16, message: &str| {
            json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": message})
                .to_string()
        };
        let refused = answered(403, status(403, "forbidden")).await.unwrap_err();
        assert!(refused.is_forbidden() && refused.to_string() == "forbidden");
        assert_eq!(refused.retry_after(), None, "it is honored on 429 and 5xx only");
        assert!(answered(404, status(404, "unknown")).await.unwrap_err().is_not_served());
        assert!(answered(404, "404 page not found\n").await.unwrap_err().is_not_served());
        for (code, body) in [(404, "<html>".to_owned()), (403, status(404, "unknown")), (302, String::new())]
        {
            let error = answered(code, body).await.unwrap_err();
            assert!(matches!(error, RequestError::Foreign { .. }), "{error:?}");
        }
        let busy = answered(503, "<html>").await.unwrap_err();
        assert_eq!(busy.retry_after(), Some(Duration::from_secs(7)));
        let long = answered(500, status(500, &"é".repeat(MESSAGE_MAX))).await.unwrap_err().to_string();
        assert_eq!(long.len(), MESSAGE_MAX);
    }

    #[tokio::test]
    async fn answer_above_the_limit_is_an_error() {
        let error = answered(200, vec![b' '; ANSWER_MAX + 1]).await.unwrap_err();
        assert_eq!(error, RequestError::TooLarge { max: ANSWER_MAX });
    }
}
