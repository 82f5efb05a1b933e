//! The engine in a browser. A [`Session`] holds one cluster, and answers requests in JSON; `exports` makes it callable
//! from WebAssembly. It has no clock, and sends nothing anywhere.
//!
//! ```
//! use supercargo_web::Session;
//!
//! let objects = br#"
//! apiVersion: v1
//! kind: Node
//! metadata: {name: a}
//! status: {allocatable: {cpu: "4", memory: 8Gi, pods: "110"}}
//! ---
//! apiVersion: v1
//! kind: Pod
//! metadata: {name: web}
//! spec: {containers: [{name: c, image: i, resources: {requests: {cpu: "1"}}}]}
//! "#;
//! let mut session = Session::default();
//! let mut read = |_: usize| -> Box<dyn std::io::Read> { Box::new(&objects[..]) };
//! session.answer(br#"{"do": "load", "inputs": ["pasted objects"]}"#, &mut read);
//! let outcome = session.answer(br#"{"do": "ask"}"#, &mut read);
//! assert_eq!(outcome["placed"], 1);
//! let pods = session.answer(br#"{"do": "pods", "limit": 10}"#, &mut read);
//! assert_eq!(pods["rows"][0]["node"], "a");
//! ```

#[cfg(target_arch = "wasm32")]
mod exports;
mod groups;
mod protocol;
mod rows;
mod session;
mod simulation;
#[cfg(test)]
mod tests;

pub use protocol::{Change, Question, Request};
pub use session::{Inputs, Session};
