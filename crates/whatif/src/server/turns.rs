//! The order in which requests are answered: users take turns, so that many requests of one delay another by at most
//! one request for each user.

use super::User;
use std::collections::{BTreeMap, VecDeque};

/// Waiting requests. No clock, no thread.
#[derive(Debug)]
pub struct Turns<T> {
    per_user_max: usize,
    total_max: usize,
    waiting: BTreeMap<User, VecDeque<T>>,
    /// The users with waiting requests, in the order of their turns.
    order: VecDeque<User>,
    total: usize,
}

/// Why a request cannot wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Full {
    /// The user has too many waiting requests.
    User,
    /// All users together have too many.
    Server,
}

impl<T> Turns<T> {
    /// Returns an empty queue with room for so many requests of each user, and of all together.
    pub fn new(per_user_max: usize, total_max: usize) -> Self {
        Self { per_user_max, total_max, waiting: BTreeMap::new(), order: VecDeque::new(), total: 0 }
    }

    /// Adds a request of a user.
    ///
    /// # Errors
    /// Returns the request if there is no room for it.
    pub fn push(&mut self, user: &User, request: T) -> Result<(), (Full, T)> {
        if self.total >= self.total_max {
            return Err((Full::Server, request));
        }
        let own = self.waiting.get(user).map_or(0, VecDeque::len);
        if own >= self.per_user_max {
            return Err((Full::User, request));
        }
        if own == 0 {
            self.order.push_back(user.clone());
        }
        self.waiting.entry(user.clone()).or_default().push_back(request);
        self.total += 1;
        Ok(())
    }

    /// Takes the oldest request of the user whose turn it is. The user's next turn comes after that of all others.
    pub fn pop(&mut self) -> Option<T> {
        let user = self.order.pop_front()?;
        let own = self.waiting.get_mut(&user)?;
        let request = own.pop_front();
        if own.is_empty() {
            self.waiting.remove(&user);
        } else {
            self.order.push_back(user);
        }
        self.total -= usize::from(request.is_some());
        request
    }

    /// Returns the number of waiting requests.
    pub fn len(&self) -> usize {
        self.total
    }

    /// Whether no request waits.
    pub fn is_empty(&self) -> bool {
        self.total == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn user(name: &str) -> User {
        User { name: name.to_owned(), uid: String::new() }
    }

    #[test]
    fn each_user_with_requests_has_one_answer_before_a_second_of_another() {
        let mut turns = Turns::new(100, 1_000);
        for number in 0..100 {
            turns.push(&user("greedy"), format!("g{number}")).expect("there is room");
        }
        let mut order: Vec<String> = vec![turns.pop().expect("it is there")];
        turns.push(&user("modest"), "m0".to_owned()).expect("there is room");
        turns.push(&user("third"), "t0".to_owned()).expect("there is room");
        turns.push(&user("modest"), "m1".to_owned()).expect("there is room");
        order.extend((0..6).filter_map(|_| turns.pop()));
        assert_eq!(order, ["g0", "g1", "m0", "t0", "g2", "m1", "g3"]);
        assert_eq!(turns.len(), 96);
    }

    #[test]
    fn queue_is_bounded_for_each_user_and_for_all() {
        let mut turns = Turns::new(2, 3);
        let mut push = |name: &str| turns.push(&user(name), ()).map_err(|(full, ())| full);
        assert_eq!([push("a"), push("a"), push("a")], [Ok(()), Ok(()), Err(Full::User)]);
        assert_eq!([push("b"), push("b"), push("c")], [Ok(()), Err(Full::Server), Err(Full::Server)]);
        while turns.pop().is_some() {}
        assert!(turns.is_empty());
        assert_eq!(turns.push(&user("c"), ()), Ok(()));
    }
}
