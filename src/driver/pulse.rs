//! Whether the scheduling thread still answers: it is asked once a second, and the seconds without an answer are counted.
//!
//! Counted and not measured: a process that was stopped for a minute has missed one beat, not sixty.

use std::time::Duration;

use tokio::sync::watch;

use super::inbox::Inbox;

/// Between an answer and the next question, and how finely its silence is counted.
const BEAT: Duration = Duration::from_secs(1);

/// Tells how long the scheduling thread has owed an answer. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Pulse {
    silence: watch::Receiver<Duration>,
}

impl Pulse {
    /// The pulse of the thread behind `inbox`, felt by a task of the runtime this is called on until that thread ends.
    pub fn of<E: 'static>(inbox: Inbox<E>) -> Self {
        let (tell, silence) = watch::channel(Duration::ZERO);
        tokio::spawn(feel(inbox, tell));
        Self { silence }
    }

    /// A pulse that is told, and by what.
    #[cfg(test)]
    pub(crate) fn told() -> (watch::Sender<Duration>, Self) {
        let (tell, silence) = watch::channel(Duration::ZERO);
        (tell, Self { silence })
    }

    /// How long it has not answered, in whole beats.
    pub fn silence(&self) -> Duration {
        *self.silence.borrow()
    }

    /// Whether it has answered within `limit`.
    ///
    /// # Errors
    /// When it has not, with how long it has been silent.
    pub fn check(&self, limit: Duration) -> Result<(), String> {
        let silence = self.silence();
        if silence < limit {
            return Ok(());
        }
        Err(format!("the scheduling thread has not answered for {} s", silence.as_secs()))
    }

    /// Waits until it has been silent for `limit`; for ever if it ends or always answers.
    pub async fn silent_for(&mut self, limit: Duration) {
        if self.silence.wait_for(|silence| *silence >= limit).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Waits until it answers; for ever if it ends.
    pub async fn back(&mut self) {
        if self.silence.wait_for(Duration::is_zero).await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

async fn feel<E: 'static>(inbox: Inbox<E>, tell: watch::Sender<Duration>) {
    loop {
        let mut answer = std::pin::pin!(inbox.ask(|_| ()));
        loop {
            tokio::select! {
                biased;
                answer = &mut answer => match answer {
                    Ok(()) => break,
                    Err(_) => return,
                },
                () = tokio::time::sleep(BEAT) => tell.send_modify(|silence| *silence += BEAT),
            }
        }
        tell.send_replace(Duration::ZERO);
        tokio::time::sleep(BEAT).await;
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Item, without_driver};
    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    #[tokio::test(start_paused = true)]
    async fn silence_is_counted_until_it_answers() {
        let (inbox, mut questions) = without_driver::<()>(1);
        let mut pulse = Pulse::of(inbox);
        let answer = |item| match item {
            Some(Item::Inspect(look)) => look(&()),
            _ => panic!("only questions are asked"),
        };
        answer(questions.recv().await);
        assert_eq!(pulse.check(LIMIT), Ok(()));
        let began = tokio::time::Instant::now();
        pulse.silent_for(LIMIT).await;
        assert!(began.elapsed() <= LIMIT + 2 * BEAT, "{:?}", began.elapsed());
        assert_eq!(pulse.check(LIMIT), Err("the scheduling thread has not answered for 30 s".to_owned()));
        answer(questions.recv().await);
        pulse.back().await;
        assert_eq!(pulse.check(LIMIT), Ok(()));
    }

    #[tokio::test(start_paused = true)]
    async fn a_channel_that_nobody_empties_is_silence() {
        let (inbox, questions) = without_driver::<()>(1);
        inbox.send(Item::Inspect(Box::new(|()| ()))).await.expect("there is room for one");
        let mut pulse = Pulse::of(inbox);
        pulse.silent_for(LIMIT).await;
        assert_eq!(questions.len(), 1, "the question had no room");
    }
}
