//! TokenReview and SubjectAccessReview requests to the API server, each with a time limit.
//!
//! Failed reviews are not retried: the client's next request starts another one.

use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use k8s_openapi::api::authentication::v1::{TokenReview, TokenReviewSpec, UserInfo};
use k8s_openapi::api::authorization::v1::{
    NonResourceAttributes, ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use k8s_openapi::{ClusterResourceScope, Resource};
use serde::Serialize;
use serde::de::DeserializeOwned;
use supercargo_apiserver::request::{self, ANSWER_MAX, RequestError};
use tokio::sync::Semaphore;

use super::gate::{Access, Decision, ResourceAccess, ReviewError, Reviewer, Token, User};

/// Upstream's time limit of delegated reviews.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Maximum number of reviews in flight. Each uses its own connection to the API server, and anonymous clients
/// can cause them.
const IN_FLIGHT: usize = 16;

/// Reviews by a real API server. Needs the permissions of ClusterRole `system:auth-delegator`.
#[derive(Clone)]
pub struct KubeReviewer {
    /// Reviews tokens.
    tokens: kube::Client,
    /// Reviews access.
    access: kube::Client,
    timeout: Duration,
    permits: Arc<Semaphore>,
}

impl KubeReviewer {
    /// Returns a reviewer that uses `client`. Disable the client's own retries: a late response has no
    /// receiver.
    pub fn new(client: kube::Client) -> Self {
        Self {
            access: client.clone(),
            tokens: client,
            timeout: TIMEOUT,
            permits: Arc::new(Semaphore::new(IN_FLIGHT)),
        }
    }

    /// Reviews access with another client.
    #[must_use]
    pub fn with_access_by(mut self, client: kube::Client) -> Self {
        self.access = client;
        self
    }

    /// Sets the time limit; the default is 10 s.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// Sends one review within the time limit, the wait for a permit included. An error quotes neither the review nor
    /// an answer that is not a review: either may contain a token, and errors are logged.
    async fn ask<T>(&self, client: &kube::Client, question: &T) -> Result<T, ReviewError>
    where
        T: Resource<Scope = ClusterResourceScope> + Serialize + DeserializeOwned,
    {
        let review = T::KIND;
        let body = serde_json::to_vec(question).expect("a review is plain data");
        let request = http::Request::post(format!("/apis/{}/{}", T::API_VERSION, T::URL_PATH_SEGMENT));
        let request = request.body(body).expect("the path of a review is valid");
        let within = async {
            let _place = self.permits.acquire().await.map_err(|_| ReviewError::Interrupted)?;
            let answer = request::send(client, request, ANSWER_MAX).await;
            answer.and_then(|it| it.object(T::API_VERSION, T::KIND)).map_err(|error| failed(review, &error))
        };
        tokio::time::timeout(self.timeout, within)
            .await
            .unwrap_or(Err(ReviewError::TimedOut { review, after: self.timeout }))
    }

    async fn token_review(self, token: Token) -> Result<Option<User>, ReviewError> {
        let spec = TokenReviewSpec { token: token.secret().to_owned(), audiences: None };
        let question = TokenReview { spec, ..TokenReview::default() };
        let answer = self.ask(&self.tokens, &question).await?;
        let status = answer.status.ok_or_else(|| no_status(TokenReview::KIND))?;
        Ok(status.user.filter(|_| status.authenticated == Some(true)).map(user))
    }

    async fn subject_access_review(self, spec: SubjectAccessReviewSpec) -> Result<Decision, ReviewError> {
        let question = SubjectAccessReview { spec, ..SubjectAccessReview::default() };
        let answer = self.ask(&self.access, &question).await?;
        let status = answer.status.ok_or_else(|| no_status(SubjectAccessReview::KIND))?;
        // Upstream treats a response with both flags as an error; a denial is the safe choice.
        if status.allowed && status.denied != Some(true) {
            return Ok(Decision::Allowed);
        }
        Ok(Decision::Denied { reason: status.reason.unwrap_or_default() })
    }
}

impl Reviewer for KubeReviewer {
    fn authenticate(&self, token: Token) -> BoxFuture<'static, Result<Option<User>, ReviewError>> {
        self.clone().token_review(token).boxed()
    }

    fn authorize(&self, access: Access) -> BoxFuture<'static, Result<Decision, ReviewError>> {
        let Access { user, verb, path } = access;
        let attributes = NonResourceAttributes { path: Some(path), verb: Some(verb) };
        let spec = SubjectAccessReviewSpec { non_resource_attributes: Some(attributes), ..whose(user) };
        self.clone().subject_access_review(spec).boxed()
    }

    fn authorize_resource(
        &self,
        access: ResourceAccess,
    ) -> BoxFuture<'static, Result<Decision, ReviewError>> {
        let ResourceAccess { user, verb, resource, namespace } = access;
        let attributes = ResourceAttributes {
            // No namespace means all namespaces.
            namespace: (!namespace.is_empty()).then_some(namespace),
            group: (!resource.group.is_empty()).then(|| resource.group.to_owned()),
            resource: Some(resource.name.to_owned()),
            verb: Some(verb.to_owned()),
            version: Some("v1".to_owned()),
            ..ResourceAttributes::default()
        };
        let spec = SubjectAccessReviewSpec { resource_attributes: Some(attributes), ..whose(user) };
        self.clone().subject_access_review(spec).boxed()
    }
}

fn whose(user: User) -> SubjectAccessReviewSpec {
    SubjectAccessReviewSpec {
        user: Some(user.name),
        uid: (!user.uid.is_empty()).then_some(user.uid),
        groups: Some(user.groups),
        extra: (!user.extra.is_empty()).then_some(user.extra),
        ..SubjectAccessReviewSpec::default()
    }
}

fn user(info: UserInfo) -> User {
    User {
        name: info.username.unwrap_or_default(),
        uid: info.uid.unwrap_or_default(),
        groups: info.groups.unwrap_or_default(),
        extra: info.extra.unwrap_or_default(),
    }
}

fn failed(review: &'static str, error: &RequestError) -> ReviewError {
    let reason = match error {
        error if error.is_forbidden() => {
            format!("{error}; bind ClusterRole system:auth-delegator to this service account")
        }
        error => error.to_string(),
    };
    ReviewError::Failed { review, reason }
}

fn no_status(review: &'static str) -> ReviewError {
    ReviewError::Failed { review, reason: "the response has no status".to_owned() }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Mutex;

    use bytes::Bytes;
    use http::{Request, Response};
    use http_body_util::{BodyExt as _, Full};
    use hyper::body::Incoming;
    use hyper::service::service_fn;
    use hyper_util::rt::TokioIo;
    use k8s_openapi::Resource as _;
    use serde_json::{Value, json};
    use tokio::net::TcpListener;

    use super::super::gate::Resource;
    use super::*;

    type Script = Arc<dyn Fn(&Value) -> Option<(u16, Value)> + Send + Sync>;

    /// A fake API server: its script, and the requests it received.
    #[derive(Clone)]
    struct Api {
        answer: Script,
        asked: Arc<Mutex<Vec<(String, Value)>>>,
    }

    impl Api {
        /// Serves until the test's runtime ends. A script result of `None` means no response.
        async fn start(
            answer: impl Fn(&Value) -> Option<(u16, Value)> + Send + Sync + 'static,
        ) -> (Self, KubeReviewer) {
            let api = Self { answer: Arc::new(answer), asked: Arc::default() };
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
            let serving = api.clone();
            tokio::spawn(async move {
                while let Ok((stream, _)) = listener.accept().await {
                    let api = serving.clone();
                    let service = service_fn(move |request| api.clone().reply(request));
                    let connection = hyper::server::conn::http1::Builder::new();
                    tokio::spawn(connection.serve_connection(TokioIo::new(stream), service));
                }
            });
            let mut config = kube::Config::new(url);
            config.default_retry = false;
            (api, KubeReviewer::new(kube::Client::try_from(config).unwrap()))
        }

        async fn reply(self, request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
            let line = format!("{} {}", request.method(), request.uri().path());
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let body: Value = serde_json::from_slice(&body).unwrap();
            let answer = (self.answer)(&body);
            self.asked.lock().unwrap().push((line, body));
            let Some((code, answer)) = answer else { return std::future::pending().await };
            let response = Response::builder().status(code).header("content-type", "application/json");
            Ok(response.body(Full::from(answer.to_string())).unwrap())
        }

        fn asked(&self) -> Vec<(String, Value)> {
            self.asked.lock().unwrap().clone()
        }
    }

    fn with_status(question: &Value, status: Value) -> (u16, Value) {
        let mut answer = question.clone();
        answer["metadata"] = json!({});
        answer["status"] = status;
        (201, answer)
    }

    fn token(secret: &str) -> Token {
        Token::for_tests(secret)
    }

    #[tokio::test]
    async fn token_review_returns_the_user() {
        let (api, reviewer) = Api::start(|question| {
            let user = json!({"username": "u", "uid": "1", "groups": ["g"], "extra": {"k": ["v"]}});
            let known = question["spec"]["token"] == "good";
            let status = if known {
                json!({"authenticated": true, "user": user})
            } else {
                json!({"user": user, "error": "invalid bearer token"})
            };
            Some(with_status(question, status))
        })
        .await;
        let user = User {
            name: "u".to_owned(),
            uid: "1".to_owned(),
            groups: vec!["g".to_owned()],
            extra: [("k".to_owned(), vec!["v".to_owned()])].into(),
        };
        assert_eq!(reviewer.authenticate(token("good")).await, Ok(Some(user)));
        assert_eq!(reviewer.authenticate(token("bad")).await, Ok(None));
        let (line, body) = api.asked().remove(0);
        assert_eq!(line, "POST /apis/authentication.k8s.io/v1/tokenreviews");
        assert_eq!(body["spec"], json!({"token": "good"}));
    }

    #[tokio::test]
    async fn path_access_is_reviewed_as_non_resource_attributes() {
        let (api, reviewer) = Api::start(|question| {
            let status = match question["spec"]["nonResourceAttributes"]["path"].as_str() {
                Some("/metrics") => json!({"allowed": true}),
                Some("/both") => json!({"allowed": true, "denied": true, "reason": "both"}),
                _ => json!({"allowed": false}),
            };
            Some(with_status(question, status))
        })
        .await;
        let access = |path: &str| Access {
            user: User { name: "u".to_owned(), groups: vec!["g".to_owned()], ..User::default() },
            verb: "get".to_owned(),
            path: path.to_owned(),
        };
        let denied = |reason: &str| Ok(Decision::Denied { reason: reason.to_owned() });
        assert_eq!(reviewer.authorize(access("/metrics")).await, Ok(Decision::Allowed));
        assert_eq!(reviewer.authorize(access("/other")).await, denied(""));
        assert_eq!(reviewer.authorize(access("/both")).await, denied("both"));
        let (line, body) = api.asked().remove(0);
        assert_eq!(line, "POST /apis/authorization.k8s.io/v1/subjectaccessreviews");
        let spec = json!({
            "user": "u",
            "groups": ["g"],
            "nonResourceAttributes": {"path": "/metrics", "verb": "get"},
        });
        assert_eq!(body["spec"], spec);
    }

    #[tokio::test]
    async fn pod_access_is_reviewed_per_namespace_or_cluster_wide() {
        let (api, reviewer) = Api::start(|question| {
            let one = question["spec"]["resourceAttributes"]["namespace"] == "team";
            Some(with_status(question, json!({"allowed": one})))
        })
        .await;
        let access = |namespace: &str| ResourceAccess {
            user: User { name: "u".to_owned(), groups: vec!["g".to_owned()], ..User::default() },
            verb: "get",
            resource: Resource { group: "", name: "pods" },
            namespace: namespace.to_owned(),
        };
        assert_eq!(reviewer.authorize_resource(access("team")).await, Ok(Decision::Allowed));
        let denied = Decision::Denied { reason: String::new() };
        assert_eq!(reviewer.authorize_resource(access("")).await, Ok(denied));
        let attributes = |mut more: Value| {
            more["resource"] = json!("pods");
            more["verb"] = json!("get");
            more["version"] = json!("v1");
            json!({"user": "u", "groups": ["g"], "resourceAttributes": more})
        };
        let asked: Vec<Value> = api.asked().into_iter().map(|(_, body)| body["spec"].clone()).collect();
        assert_eq!(asked, [attributes(json!({"namespace": "team"})), attributes(json!({}))]);
    }

    #[tokio::test]
    async fn missing_review_permission_error_names_the_cluster_role() {
        let (_api, reviewer) = Api::start(|_| {
            let message =
                "tokenreviews.authentication.k8s.io is forbidden: User \"s\" cannot create resource";
            let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": message, "reason": "Forbidden", "code": 403});
            Some((403, status))
        })
        .await;
        let error = reviewer.authenticate(token("any")).await.unwrap_err().to_string();
        assert_eq!(
            error,
            "a TokenReview failed: tokenreviews.authentication.k8s.io is forbidden: User \"s\" cannot create \
             resource; bind ClusterRole system:auth-delegator to this service account"
        );
    }

    #[tokio::test]
    async fn response_without_a_status_or_review_is_an_error() {
        let (_api, reviewer) = Api::start(|question| match question["spec"]["token"].as_str() {
            Some("bare") => Some((201, question.clone())),
            _ => Some((500, json!("broken"))),
        })
        .await;
        let bare = reviewer.authenticate(token("bare")).await.unwrap_err().to_string();
        assert_eq!(bare, "a TokenReview failed: the response has no status");
        assert!(matches!(reviewer.authenticate(token("x")).await, Err(ReviewError::Failed { .. })));
    }

    /// Returns a reviewer whose API server gives every request the same successful answer.
    fn always_answered(body: Vec<u8>) -> KubeReviewer {
        let service = tower::service_fn(move |_: Request<kube::client::Body>| {
            let body = kube::client::Body::from(body.clone());
            async move { Ok::<_, Infallible>(Response::new(body)) }
        });
        KubeReviewer::new(kube::Client::new(service, "default"))
    }

    #[tokio::test]
    async fn error_about_a_foreign_answer_quotes_neither_it_nor_the_token() {
        let page = "<html>proxy s3cret</html>".to_owned();
        let other = json!({"apiVersion": "v1", "kind": "Other", "spec": {"token": "s3cret"}}).to_string();
        let echo = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": "s3cret"});
        for (answer, why) in [
            (page, "its body is not an API object"),
            (other, "its body has an unexpected kind"),
            (echo.to_string(), "its body is not an API object"),
        ] {
            let error = always_answered(answer.into()).authenticate(token("s3cret")).await.unwrap_err();
            let start = "a TokenReview failed: the answer with status 200 is not the API server's: ";
            assert_eq!(error.to_string(), format!("{start}{why}"));
        }
    }

    #[tokio::test]
    async fn review_above_one_mebibyte_is_an_error() {
        let review = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
            "spec": {"token": "t"}, "status": {"error": "x".repeat(1 << 20)}});
        let error = always_answered(review.to_string().into()).authenticate(token("t")).await.unwrap_err();
        assert_eq!(error.to_string(), "a TokenReview failed: the answer exceeds 1048576 bytes");
    }

    #[tokio::test]
    async fn silent_api_server_times_out() {
        let (_api, reviewer) = Api::start(|_| None).await;
        let after = Duration::from_millis(20);
        let reviewer = reviewer.with_timeout(after);
        let expected = ReviewError::TimedOut { review: TokenReview::KIND, after };
        assert_eq!(reviewer.authenticate(token("any")).await, Err(expected));
    }
}
