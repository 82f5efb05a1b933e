//! Growth of lists with little spare capacity, for lists that are many or long and seldom grow after the
//! first sync.

/// Pushes an item; a full list grows by a quarter, while `Vec::push` doubles it.
pub(crate) fn push_tightly<T>(list: &mut Vec<T>, item: T) {
    if list.len() == list.capacity() {
        list.reserve_exact((list.len() / 4).max(4));
    }
    list.push(item);
}
