//! Single requests to the API server, for commands that evaluate the answers. Writes nothing: it only creates
//! access reviews, which the API server does not store.

use crate::live::certificates::{self, Certificates};
use crate::live::port::page;
use crate::live::{LiveArgs, LiveError, TRUST, connection, reach};
use http::header::{HeaderName, HeaderValue};
use http::{Method, Request};
use kube::client::Body;
use serde_json::Value;
use std::time::Duration;
use supercargo_apiserver::client;
use tokio::time::{Instant, timeout_at};

/// Maximum duration of all requests together.
const ALL_TIMEOUT: Duration = Duration::from_secs(60);

/// Header that makes the API server take a request as another user's.
const IMPERSONATE_USER: HeaderName = HeaderName::from_static("impersonate-user");

/// The user that the requests are sent as, instead of the kubeconfig's.
#[derive(Clone, Copy, Debug)]
pub struct ActAs<'a> {
    /// Name of the user.
    pub user: &'a str,
    /// Groups of the user; if empty, the API server sets those that each user has.
    pub groups: &'a [String],
}

/// A connection to the API server.
pub struct Api {
    client: kube::Client,
    deadline: Instant,
    one: Duration,
    /// URL of the API server.
    pub server: String,
    /// Certificates of the API server and the kubeconfig.
    pub certificates: Certificates,
}

/// Status code and body of a response: an object or a text.
pub struct Answer {
    /// HTTP status.
    pub status: u16,
    /// The body: an object, or a text.
    pub body: Value,
    /// The Date header.
    pub date: Option<String>,
}

impl Answer {
    /// Returns the object, or the message of an error response.
    pub fn object(self) -> Result<Value, String> {
        if self.status < 300 { Ok(self.body) } else { Err(self.message()) }
    }

    fn message(&self) -> String {
        let message = self.body["message"].as_str().or(self.body.as_str());
        format!("{}: {}", self.status, message.unwrap_or_default())
    }
}

impl Api {
    /// Gets a path.
    pub async fn get(&self, path: &str) -> Result<Answer, LiveError> {
        self.ask(path, page(&self.client, Request::get(path), Body::empty())).await
    }

    /// Creates a review and returns it with its status. With `user`, the API server is asked to take the request as
    /// this user's.
    pub async fn review(&self, path: &str, review: &Value, user: Option<&str>) -> Result<Answer, LiveError> {
        let mut request = Request::builder().method(Method::POST).uri(path);
        if let Some(user) = user.and_then(|user| HeaderValue::from_str(user).ok()) {
            request = request.header(IMPERSONATE_USER, user);
        }
        let body = Body::from(review.to_string().into_bytes());
        self.ask(path, page(&self.client, request, body)).await
    }

    async fn ask(
        &self,
        path: &str,
        asked: impl Future<Output = Result<crate::live::port::Page, LiveError>>,
    ) -> Result<Answer, LiveError> {
        let by = self.deadline.min(Instant::now() + self.one);
        let silent = |why: String| {
            LiveError::Cluster(format!("{} does not answer: {why}; {}", self.server, reach(&why, TRUST)))
        };
        let page = timeout_at(by, asked)
            .await
            .map_err(|_| silent(format!("no response for {path} within {:?}", self.one)))?;
        let page = page.map_err(|error| silent(error.into_text()))?;
        let body = serde_json::from_str(&page.body).unwrap_or(Value::String(page.body));
        Ok(Answer { status: page.status, body, date: page.date })
    }
}

/// Runs `talk` with a connection to the kubeconfig's API server, as the kubeconfig's user or as another.
pub fn with_api<T>(
    args: &LiveArgs,
    act_as: Option<ActAs<'_>>,
    talk: impl AsyncFnOnce(&Api) -> Result<T, LiveError>,
) -> Result<T, LiveError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|error| LiveError::Cluster(format!("cannot start the async runtime: {error}")))?;
    let talked = runtime.block_on(async {
        let mut config = connection(args).await?;
        if let Some(other) = act_as {
            let auth = &mut config.auth_info;
            auth.impersonate = Some(other.user.to_owned());
            auth.impersonate_groups = Some(other.groups.to_vec()).filter(|groups| !groups.is_empty());
        }
        let builder = client::builder_that_forwards_tokens(&config);
        let client = builder.map_err(|error| LiveError::Settings(format!("{error:#}")))?.build();
        let server = config.cluster_url.to_string();
        let (deadline, one) = (Instant::now() + ALL_TIMEOUT, args.request_timeout);
        let certificates = certificates::found(&config, one).await;
        talk(&Api { client, deadline, one, server, certificates }).await
    });
    // Do not wait for a blocked DNS lookup.
    runtime.shutdown_background();
    talked
}
