//! The pages below `/whatif/v1/`: translates requests for the service, and says which rights they need.

use super::worker::Desk;
use crate::serve::{Asked, Extension, ExtensionAnswer, Reserved, Resource};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use http::Method as HttpMethod;
use std::sync::Arc;
use supercargo_whatif::server::{Answer, Bodies, Limits, Method, PREFIX, Problem, Request, User};

/// The kinds whose objects answers name. A user who asks about the live cluster must be allowed to list all of them.
const NAMED: [Resource; 8] = [
    Resource { group: "", name: "pods" },
    Resource { group: "", name: "nodes" },
    Resource { group: "", name: "namespaces" },
    Resource { group: "", name: "persistentvolumes" },
    Resource { group: "", name: "persistentvolumeclaims" },
    Resource { group: "policy", name: "poddisruptionbudgets" },
    Resource { group: "resource.k8s.io", name: "resourceclaims" },
    Resource { group: "resource.k8s.io", name: "resourceslices" },
];

pub(super) struct WhatifPages {
    desk: Arc<Desk>,
    bodies: Bodies,
}

impl WhatifPages {
    pub(super) fn new(desk: Arc<Desk>, limits: Limits) -> Self {
        Self { desk, bodies: Bodies::new(limits) }
    }
}

impl Extension for WhatifPages {
    fn prefix(&self) -> &'static str {
        PREFIX
    }

    fn reserve(&self, asked: &Asked, bytes: usize) -> Result<Reserved, ExtensionAnswer> {
        let is_upload = Request::is_upload(Method::Post, &asked.path);
        match self.bodies.reserve(&user(asked), bytes, is_upload) {
            Ok(reserved) => Ok(Box::new(reserved)),
            Err(problem) => Err(sent(problem.into())),
        }
    }

    fn needs(&self, asked: &Asked) -> &'static [Resource] {
        let method = method(&asked.method);
        let is_live = method.is_some_and(|it| Request::is_about_live(it, &asked.path, &asked.body));
        if is_live { &NAMED } else { &[] }
    }

    fn answer(&self, asked: Asked, reserved: Option<Reserved>) -> BoxFuture<'_, ExtensionAnswer> {
        let Some(method) = method(&asked.method) else {
            return std::future::ready(sent(Problem::Method.into())).boxed();
        };
        // The routes have checked these rights.
        let reads_cluster = !self.needs(&asked).is_empty();
        let user = user(&asked);
        let request = Request { user, method, path: asked.path, body: asked.body.into(), reads_cluster };
        async move { sent(self.desk.ask(request, reserved).await) }.boxed()
    }
}

fn user(asked: &Asked) -> User {
    User { name: asked.user.name.clone(), uid: asked.user.uid.clone() }
}

fn method(method: &HttpMethod) -> Option<Method> {
    Some(match *method {
        HttpMethod::GET => Method::Get,
        HttpMethod::POST => Method::Post,
        HttpMethod::DELETE => Method::Delete,
        _ => return None,
    })
}

fn sent(answer: Answer) -> ExtensionAnswer {
    let Answer { status, body, retry_after } = answer;
    ExtensionAnswer { status, body, retry_after }
}
