//! The conversation with the API server: connections, credentials, proxies, name resolution, watches, and what an
//! answer means. Knows nothing of scheduling; the scheduling thread receives watched objects through
//! [`watch::Intake`].

pub mod answer;
pub mod client;
pub mod names;
pub mod request;
pub mod retry;
mod throttle;
pub mod version;
pub mod watch;

pub use throttle::Throttle;
