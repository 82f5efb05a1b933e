//! Drives the engine without an API server.
