//! placeholder until the harness stands
fn main() {}
