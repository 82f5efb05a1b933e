//! A file that may change, be replaced, or be a name for another: a mounted ConfigMap is a link to a folder that is swapped.
//!
//! Looks at what the name leads to, and reads it only when that is another file, or was written. A file that is written in place is read once it
//! has stopped changing, so that no half of it is applied; a ConfigMap's swap is complete when it is seen. Says nothing of what the text means.

use futures::{Stream, stream};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::time::MissedTickBehavior;

/// How often the file is looked at. A kubelet takes up to a minute to bring a ConfigMap's change to its mount. A file that is written in place has
/// to look the same twice, so this is also how long a writer may pause without its half-written file being read.
const POLL: Duration = Duration::from_secs(3);

/// What tells one state of a file from another without reading it.
#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    leads_to: PathBuf,
    device: u64,
    inode: u64,
    /// Seconds and nanoseconds.
    written: (i64, i64),
    size: u64,
}

impl Stamp {
    fn of(path: &Path) -> io::Result<Self> {
        let leads_to = std::fs::canonicalize(path)?;
        let file = std::fs::metadata(&leads_to)?;
        Ok(Self {
            leads_to,
            device: file.dev(),
            inode: file.ino(),
            written: (file.mtime(), file.mtime_nsec()),
            size: file.size(),
        })
    }
}

/// A file, and what it held when it was looked at last.
#[derive(Debug)]
struct Source {
    path: PathBuf,
    /// Of the file when its text was read last.
    stamp: Option<Stamp>,
    /// Of a file that was seen to change and is read when it looks the same at the next look.
    changing: Option<Stamp>,
    text: Option<String>,
    /// The last look could not read it.
    is_unread: bool,
}

impl Source {
    /// A file that was not looked at yet: the first look finds it changed.
    fn new(path: PathBuf) -> Self {
        Self { path, stamp: None, changing: None, text: None, is_unread: false }
    }

    /// The text, if it is another one than at the last look, or could not be read then. That it cannot be read is told once.
    fn look(&mut self) -> Option<io::Result<String>> {
        match self.read() {
            Ok(text) => {
                if self.changing.is_some() {
                    return None;
                }
                let is_back = std::mem::take(&mut self.is_unread);
                text.or_else(|| self.text.clone().filter(|_| is_back)).map(Ok)
            }
            Err(error) => {
                (self.stamp, self.changing) = (None, None);
                let is_news = !std::mem::replace(&mut self.is_unread, true);
                is_news.then_some(Err(error))
            }
        }
    }

    fn read(&mut self) -> io::Result<Option<String>> {
        let stamp = Stamp::of(&self.path)?;
        if self.stamp.as_ref() == Some(&stamp) {
            self.changing = None;
            return Ok(None);
        }
        let is_swapped = self.stamp.as_ref().is_some_and(|before| before.leads_to != stamp.leads_to);
        if !is_swapped && self.changing.as_ref() != Some(&stamp) {
            self.changing = Some(stamp);
            return Ok(None);
        }
        let text = std::fs::read_to_string(&stamp.leads_to)?;
        let after = Stamp::of(&self.path)?;
        if after != stamp {
            // Written, or swapped again, while it was read.
            self.changing = Some(after);
            return Ok(None);
        }
        (self.stamp, self.changing) = (Some(stamp), None);
        if self.text.as_ref() == Some(&text) {
            return Ok(None);
        }
        self.text = Some(text.clone());
        Ok(Some(text))
    }
}

/// What [`Source::look`] tells of a file for as long as it is followed, beginning with the text that is there.
pub(super) fn follow(path: PathBuf) -> impl Stream<Item = io::Result<String>> + Send {
    let mut looks = tokio::time::interval(POLL);
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    stream::unfold((Source::new(path), looks), |(mut source, mut looks)| async move {
        loop {
            looks.tick().await;
            // Where the file is mounted from is not known: a look may take its time.
            let looked = tokio::task::spawn_blocking(move || {
                let looked = source.look();
                (source, looked)
            });
            let (same, looked) = looked.await.ok()?;
            source = same;
            if let Some(text) = looked {
                return Some((text, (source, looks)));
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use futures::StreamExt as _;
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::pin::pin;

    fn told(source: &mut Source) -> Option<String> {
        source.look().map(|text| text.expect("it can be read"))
    }

    /// What the first looks find: a file that was never looked at may be half written.
    fn first(source: &mut Source) -> Option<String> {
        assert_eq!(told(source), None, "it has to look the same twice");
        told(source)
    }

    /// A ConfigMap as the kubelet mounts it: the file is a link through `..data`, which is swapped for another folder.
    struct Mount(tempfile::TempDir);

    impl Mount {
        fn new(text: &str) -> Self {
            let mount = Self(tempfile::tempdir().expect("a scratch folder"));
            mount.swap("first", text);
            symlink("..data/config.yaml", mount.0.path().join("config.yaml")).expect("a link");
            mount
        }

        fn swap(&self, version: &str, text: &str) {
            let folder = self.0.path();
            fs::create_dir(folder.join(version)).expect("a folder");
            fs::write(folder.join(version).join("config.yaml"), text).expect("a file");
            symlink(version, folder.join("..data_tmp")).expect("a link");
            fs::rename(folder.join("..data_tmp"), folder.join("..data")).expect("it is swapped at once");
        }

        fn source(&self) -> Source {
            Source::new(self.0.path().join("config.yaml"))
        }
    }

    #[test]
    fn a_config_map_that_is_swapped_is_seen_once() {
        let mount = Mount::new("one");
        let mut source = mount.source();
        assert_eq!(first(&mut source).as_deref(), Some("one"));
        assert_eq!(told(&mut source), None);
        mount.swap("second", "two");
        assert_eq!(told(&mut source).as_deref(), Some("two"));
        assert_eq!(told(&mut source), None);
    }

    #[test]
    fn a_swap_that_brings_the_same_text_is_no_change() {
        let mount = Mount::new("one");
        let mut source = mount.source();
        assert_eq!(first(&mut source).as_deref(), Some("one"));
        mount.swap("second", "one");
        assert_eq!(told(&mut source), None);
    }

    #[test]
    fn a_file_written_in_place_is_read_once_it_looks_the_same_twice() {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let path = folder.path().join("config.yaml");
        let whole = "profiles: [{schedulerName: a}]\npodMaxBackoffSeconds: 30\n";
        fs::write(&path, "one").expect("a file");
        let mut source = Source::new(path.clone());
        assert_eq!(first(&mut source).as_deref(), Some("one"));
        // Each prefix is seen by one look: emptied, then written piece by piece. Some of them are valid configurations.
        for end in 0..=whole.len() {
            fs::write(&path, &whole[..end]).expect("a file");
            assert_eq!(told(&mut source), None, "{end} bytes of it are there");
        }
        assert_eq!(told(&mut source).as_deref(), Some(whole));
        assert_eq!(told(&mut source), None);
    }

    #[test]
    fn a_file_replaced_by_a_rename_is_read_once_it_looks_the_same_twice() {
        let folder = tempfile::tempdir().expect("a scratch folder");
        let (path, other) = (folder.path().join("config.yaml"), folder.path().join("other"));
        fs::write(&path, "one").expect("a file");
        let mut source = Source::new(path.clone());
        assert_eq!(first(&mut source).as_deref(), Some("one"));
        fs::write(&other, "two").expect("a file");
        fs::rename(&other, &path).expect("it is replaced");
        assert_eq!((told(&mut source), told(&mut source).as_deref()), (None, Some("two")));
    }

    #[test]
    fn a_file_that_is_gone_is_told_once_and_seen_again_when_it_is_back() {
        let mount = Mount::new("one");
        let mut source = mount.source();
        assert_eq!(first(&mut source).as_deref(), Some("one"));
        fs::remove_file(mount.0.path().join("..data")).expect("it was there");
        assert!(source.look().is_some_and(|look| look.is_err()));
        assert!(source.look().is_none());
        mount.swap("second", "one");
        assert_eq!(first(&mut source).as_deref(), Some("one"));
        assert_eq!(told(&mut source), None);
        mount.swap("third", "two");
        assert_eq!(told(&mut source).as_deref(), Some("two"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_file_is_followed_through_what_cannot_be_read() {
        let mount = Mount::new("one");
        let mut texts = pin!(follow(mount.0.path().join("config.yaml")));
        let mut next = async || texts.next().await.expect("it is followed on").ok();
        assert_eq!(next().await.as_deref(), Some("one"));
        fs::remove_file(mount.0.path().join("..data")).expect("it was there");
        assert_eq!(next().await, None);
        mount.swap("second", "two");
        assert_eq!(next().await.as_deref(), Some("two"));
    }
}
