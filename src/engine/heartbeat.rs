//! Liveness heartbeat of the scheduling thread: a query once a second, and a count of seconds without an answer.
//!
//! Silence is counted in beats, not measured: after the whole process was suspended for a minute, one beat is missing.

use std::time::Duration;

use tokio::sync::watch;

use crate::engine::inbox::Inbox;

/// Interval between heartbeats, and the resolution of measured silence.
const BEAT: Duration = Duration::from_secs(1);

/// Reports how long the scheduling thread has not answered. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Heartbeat {
    silence: watch::Receiver<Duration>,
}

impl Heartbeat {
    /// Starts a heartbeat task on the current runtime. The task ends with the thread behind `inbox`.
    pub fn of<E: 'static>(inbox: Inbox<E>) -> Self {
        let (sender, silence) = watch::channel(Duration::ZERO);
        tokio::spawn(feel(inbox, sender));
        Self { silence }
    }

    /// A pulse set by a test, with its setter.
    #[cfg(test)]
    pub(crate) fn of_channel() -> (watch::Sender<Duration>, Self) {
        let (sender, silence) = watch::channel(Duration::ZERO);
        (sender, Self { silence })
    }

    /// Returns how long the thread has not answered, in whole beats.
    pub fn silence(&self) -> Duration {
        *self.silence.borrow()
    }

    /// Checks that the thread has answered within `limit`.
    ///
    /// # Errors
    /// A message with the length of the silence, if it reaches `limit`.
    pub fn check(&self, limit: Duration) -> Result<(), String> {
        let silence = self.silence();
        if silence < limit {
            return Ok(());
        }
        Err(format!("the scheduling thread has not answered for {} s", silence.as_secs()))
    }

    /// Waits until the silence reaches `limit`. Never returns if the thread ends or keeps answering.
    pub async fn silent_for(&mut self, limit: Duration) {
        if self.silence.wait_for(|silence| *silence >= limit).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Waits until the thread answers. Never returns if it ends.
    pub async fn back(&mut self) {
        if self.silence.wait_for(Duration::is_zero).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

async fn feel<E: 'static>(inbox: Inbox<E>, sender: watch::Sender<Duration>) {
    loop {
        let mut answer = std::pin::pin!(inbox.ask(|_| ()));
        loop {
            tokio::select! {
                biased;
                answer = &mut answer => match answer {
                    Ok(()) => break,
                    Err(_) => return,
                },
                () = tokio::time::sleep(BEAT) => sender.send_modify(|silence| *silence += BEAT),
            }
        }
        sender.send_replace(Duration::ZERO);
        tokio::time::sleep(BEAT).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::{Item, without_driver};

    const LIMIT: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn silence_grows_until_the_thread_answers() {
        let (inbox, mut questions) = without_driver::<()>(1);
        let mut heartbeat = Heartbeat::of(inbox);
        let answer = |item| match item {
            Some(Item::Inspect(look)) => look(&()),
            _ => panic!("only questions are asked"),
        };
        answer(questions.recv().await);
        assert_eq!(heartbeat.check(LIMIT), Ok(()));
        let began = tokio::time::Instant::now();
        heartbeat.silent_for(LIMIT).await;
        assert!(began.elapsed() <= LIMIT + 2 * BEAT, "{:?}", began.elapsed());
        assert_eq!(heartbeat.check(LIMIT), Err("the scheduling thread has not answered for 30 s".to_owned()));
        answer(questions.recv().await);
        heartbeat.back().await;
        assert_eq!(heartbeat.check(LIMIT), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn full_channel_counts_as_silence() {
        let (inbox, questions) = without_driver::<()>(1);
        inbox.send(Item::Inspect(Box::new(|()| ()))).await.expect("there is room for one");
        let mut heartbeat = Heartbeat::of(inbox);
        heartbeat.silent_for(LIMIT).await;
        assert_eq!(questions.len(), 1, "the heartbeat had no room");
    }
}
