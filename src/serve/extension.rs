//! Pages that take request bodies and know their user, such as those of `supercargo whatif serve`.
//!
//! The routes authenticate the user and check the access to the path, and read the body only then.

use super::gate::{Resource, User};
use bytes::Bytes;
use futures::future::BoxFuture;
use http::Method;
use http_body_util::{BodyExt as _, Limited};
use std::any::Any;
use std::time::Duration;

/// Time limit for a request body to arrive: 256 MiB at 10 MiB/s, twice.
const BODY_WITHIN: Duration = Duration::from_secs(60);

/// A request of an authenticated user who may access the path.
#[derive(Clone, Debug)]
pub struct Asked {
    /// The user.
    pub user: User,
    /// The method.
    pub method: Method,
    /// The path after the prefix.
    pub path: String,
    /// The body.
    pub body: Bytes,
}

/// The answer to such a request.
#[derive(Clone, Debug)]
pub struct ExtensionAnswer {
    /// The HTTP status.
    pub status: u16,
    /// JSON; empty for 204.
    pub body: String,
    /// Seconds after which a retry may succeed.
    pub retry_after: Option<u32>,
}

/// Accounts for the bytes of a body until it is dropped.
pub type Reserved = Box<dyn Any + Send>;

/// Further pages below a path.
pub trait Extension: Send + Sync + 'static {
    /// The path below which the pages are; it ends with a slash.
    fn prefix(&self) -> &'static str;

    /// Accounts for a body of this size in bytes before it is read, until the result is dropped.
    ///
    /// # Errors
    /// Returns the answer if there is no room for it.
    fn reserve(&self, asked: &Asked, bytes: usize) -> Result<Reserved, ExtensionAnswer>;

    /// Returns the kinds of which the user must be allowed to list all objects of the cluster.
    fn needs(&self, asked: &Asked) -> &'static [Resource];

    /// Answers the request, with what [`Self::reserve`] returned for its body. If the client disconnects, the future is
    /// dropped.
    fn answer(&self, asked: Asked, reserved: Option<Reserved>) -> BoxFuture<'_, ExtensionAnswer>;
}

/// Reads a body of this size.
///
/// # Errors
/// Fails if it is longer, or does not arrive in time.
pub(super) async fn read<B>(body: B, length: usize) -> Result<Bytes, String>
where
    B: hyper::body::Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send,
{
    let collected = tokio::time::timeout(BODY_WITHIN, Limited::new(body, length).collect());
    match collected.await {
        Ok(Ok(body)) => Ok(body.to_bytes()),
        Ok(Err(error)) => Err(format!("the request body cannot be read: {error}")),
        Err(_) => Err(format!("the request body did not arrive within {} s", BODY_WITHIN.as_secs())),
    }
}

#[cfg(test)]
mod tests {
    use super::super::gate::{Access, Decision, Gate, ResourceAccess, ReviewError, Reviewer, Token};
    use super::super::{Checks, Routes};
    use super::*;
    use crate::telemetry::metrics::{Exposition, Metrics};
    use futures::FutureExt as _;
    use http::Request;
    use http::header::{AUTHORIZATION, CONTENT_LENGTH, RETRY_AFTER};
    use http_body_util::Full;
    use std::sync::Arc;

    /// Each token is a user name. `none` may access no path, and only `reader` may list pods.
    struct Fake;

    impl Reviewer for Fake {
        fn authenticate(&self, token: Token) -> BoxFuture<'static, Result<Option<User>, ReviewError>> {
            let user = User { name: token.secret().to_owned(), ..User::default() };
            std::future::ready(Ok(Some(user))).boxed()
        }

        fn authorize(&self, access: Access) -> BoxFuture<'static, Result<Decision, ReviewError>> {
            std::future::ready(Ok(decision(access.user.name != "none" && access.path.starts_with("/ask/"))))
                .boxed()
        }

        fn authorize_resource(
            &self,
            access: ResourceAccess,
        ) -> BoxFuture<'static, Result<Decision, ReviewError>> {
            std::future::ready(Ok(decision((access.user.name.as_str(), access.verb) == ("reader", "list"))))
                .boxed()
        }
    }

    fn decision(is_allowed: bool) -> Decision {
        if is_allowed { Decision::Allowed } else { Decision::Denied { reason: String::new() } }
    }

    /// Repeats what it is asked; the path `pods` needs the right to list pods.
    struct Echo;

    impl Extension for Echo {
        fn prefix(&self) -> &'static str {
            "/ask/"
        }

        fn reserve(&self, _asked: &Asked, bytes: usize) -> Result<Reserved, ExtensionAnswer> {
            let full = || ExtensionAnswer { status: 429, body: "{}".to_owned(), retry_after: Some(7) };
            if bytes > 10 { Err(full()) } else { Ok(Box::new(())) }
        }

        fn needs(&self, asked: &Asked) -> &'static [Resource] {
            if asked.path == "pods" { &[Resource { group: "", name: "pods" }] } else { &[] }
        }

        fn answer(&self, asked: Asked, reserved: Option<Reserved>) -> BoxFuture<'_, ExtensionAnswer> {
            let body = String::from_utf8_lossy(&asked.body);
            let body =
                format!("{} {} {} {body} {}", asked.user.name, asked.method, asked.path, reserved.is_some());
            std::future::ready(ExtensionAnswer { status: 200, body, retry_after: None }).boxed()
        }
    }

    /// Returns status, body and the header Retry-After.
    async fn ask(
        token: &str,
        method: Method,
        path: &str,
        body: &str,
        is_sized: bool,
    ) -> (u16, String, String) {
        let exposition = Exposition::new(Arc::new(Metrics::new()));
        let routes = Routes::new(Arc::new(Checks::new()), exposition, Gate::new(Fake)).with_extension(Echo);
        let mut request = Request::builder().method(method).uri(path).header("host", "localhost");
        if !token.is_empty() {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        if is_sized {
            request = request.header(CONTENT_LENGTH, body.len());
        }
        let request = request.body(Full::new(Bytes::from(body.to_owned()))).unwrap();
        let response = routes.answer(request).await;
        let status = response.status().as_u16();
        let retry = response.headers().get(RETRY_AFTER).map(|value| value.to_str().unwrap().to_owned());
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8_lossy(&body).into_owned(), retry.unwrap_or_default())
    }

    #[tokio::test]
    async fn page_is_answered_for_users_with_the_rights_that_it_needs() {
        let answered = |body: &str| (200, body.to_owned(), String::new());
        assert_eq!(ask("ann", Method::POST, "/ask/x", "hi", true).await, answered("ann POST x hi true"));
        assert_eq!(ask("ann", Method::GET, "/ask/x", "", false).await, answered("ann GET x  false"));
        assert_eq!(ask("reader", Method::GET, "/ask/pods", "", false).await.0, 200);
        let (status, body, _) = ask("ann", Method::GET, "/ask/pods", "", false).await;
        assert!(status == 403 && body.contains("cannot list resource"), "{status} {body}");
        assert_eq!(ask("none", Method::GET, "/ask/x", "", false).await.0, 403);
        assert_eq!(ask("", Method::GET, "/ask/x", "", false).await.0, 401);
        assert_eq!(ask("ann", Method::POST, "/elsewhere", "", true).await.0, 405);
    }

    #[tokio::test]
    async fn body_needs_a_length_for_which_there_is_room() {
        assert_eq!(ask("ann", Method::POST, "/ask/x", "hi", false).await.0, 411);
        let (status, _, retry) = ask("ann", Method::POST, "/ask/x", "more than ten bytes", true).await;
        assert_eq!((status, retry.as_str()), (429, "7"));
        assert_eq!(ask("none", Method::POST, "/ask/x", "more than ten bytes", true).await.0, 403);
    }
}
