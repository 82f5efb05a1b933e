//! Reads the authorities of client certificates from the cluster: the ConfigMap
//! kube-system/extension-apiserver-authentication, which the API server writes.
//!
//! Upstream: `apiserver/pkg/server/options/authentication_dynamic_request_header.go`. Here the ConfigMap is read again
//! periodically instead of being watched.

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use supercargo_apiserver::request::{self, ANSWER_MAX, RequestError};

use super::clients::Clients;

const NAMESPACE: &str = "kube-system";
const NAME: &str = "extension-apiserver-authentication";

/// Interval of reading. Authorities are replaced long before the old ones become invalid.
const EVERY: Duration = Duration::from_secs(60);

/// Interval after a failure.
const AFTER_FAILURE: Duration = Duration::from_secs(10);

/// Time limit of one request.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Keeps the authorities of the cluster current.
pub struct Lookup {
    client: kube::Client,
    clients: Arc<Clients>,
}

impl Lookup {
    /// Returns a lookup by this client, which needs the Role extension-apiserver-authentication-reader.
    pub fn new(client: kube::Client, clients: Arc<Clients>) -> Self {
        Self { client, clients }
    }

    /// Reads the authorities once.
    ///
    /// # Errors
    /// If the ConfigMap cannot be read or used.
    pub async fn once(&self) -> Result<(), String> {
        let failed = |why: String| format!("cannot use the ConfigMap {NAMESPACE}/{NAME}: {why}");
        let read = tokio::time::timeout(TIMEOUT, self.read()).await;
        let read = read.map_err(|_| failed(format!("no answer within {} s", TIMEOUT.as_secs())))?;
        let data = read.map_err(|error| failed(error.to_string()))?.data.unwrap_or_default();
        self.clients.apply(&data).map_err(failed)
    }

    async fn read(&self) -> Result<ConfigMap, RequestError> {
        let request = http::Request::get(format!("/api/v1/namespaces/{NAMESPACE}/configmaps/{NAME}"));
        let request = request.body(Vec::new()).expect("the path is valid");
        request::send(&self.client, request, ANSWER_MAX).await?.object("v1", "ConfigMap")
    }

    /// Reads the authorities again and again. A failure is logged once, until reading succeeds.
    pub async fn run(self) {
        let mut is_failing = false;
        loop {
            let outcome = self.once().await;
            match &outcome {
                Ok(()) if is_failing => {
                    tracing::info!("client certificate authorities read from the cluster");
                }
                Err(error) if !is_failing => {
                    tracing::warn!(
                        error,
                        "failed to read client certificate authorities from the cluster; clients authenticate by token, or by the authorities read before"
                    );
                }
                Ok(()) | Err(_) => {}
            }
            is_failing = outcome.is_err();
            tokio::time::sleep(if is_failing { AFTER_FAILURE } else { EVERY }).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{Request, Response};
    use kube::client::Body;
    use serde_json::{Value, json};
    use std::convert::Infallible;
    use supercargo_config::flags::CommandLine;

    fn lookup(code: u16, answer: Value) -> Lookup {
        let service = tower::service_fn(move |request: Request<Body>| {
            assert_eq!(
                request.uri().path(),
                "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
            );
            let body = Body::from(answer.to_string().into_bytes());
            async move { Ok::<_, Infallible>(Response::builder().status(code).body(body).unwrap()) }
        });
        let line = CommandLine::read(&["--authentication-kubeconfig=file".into()], &[]);
        let clients = Arc::new(Clients::of(&line.values).unwrap());
        assert!(clients.look_up() && clients.ask());
        Lookup::new(kube::Client::new(service, "default"), clients)
    }

    #[tokio::test]
    async fn unusable_config_map_is_an_error_that_names_it() {
        let status = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403, "reason": "Forbidden",
            "message": "configmaps is forbidden"});
        let wrong =
            |data: Value| json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}, "data": data});
        for (code, answer, why) in [
            (403, status, "configmaps is forbidden"),
            (200, json!({"kind": "Pod", "apiVersion": "v1"}), "its body has an unexpected kind"),
            (
                200,
                wrong(json!({"client-ca-file": "no PEM"})),
                "client-ca-file: it contains no PEM certificate",
            ),
        ] {
            let error = lookup(code, answer).once().await.unwrap_err();
            let start = "cannot use the ConfigMap kube-system/extension-apiserver-authentication: ";
            assert!(error.starts_with(start) && error.contains(why), "{error}");
        }
    }

    #[tokio::test]
    async fn empty_config_map_means_no_authorities() {
        let empty = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {}});
        assert_eq!(lookup(200, empty).once().await, Ok(()));
    }
}
