//! Lists that take little more room than what is in them: there are many, or they are long, and they seldom grow once a cluster is known.

/// Adds to a list, which grows by a quarter where `Vec::push` doubles it.
pub(crate) fn push_tightly<T>(list: &mut Vec<T>, item: T) {
    if list.len() == list.capacity() {
        list.reserve_exact((list.len() / 4).max(4));
    }
    list.push(item);
}
