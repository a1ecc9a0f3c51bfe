//! What answers teach of a pair's widths, from one run of the program to the next.

use std::{
    io,
    path::PathBuf,
    sync::mpsc::{RecvTimeoutError, Sender, channel},
    thread::{Builder, JoinHandle},
    time::Duration,
};

use clap::{Args, builder::FalseyValueParser};
use mlxcel_core::speculative::width::{EvidenceStore, PairKey, SharedEvidence};

/// Where it is kept.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct EvidenceArgs {
    /// Folder where costs and acceptance are kept from one run to the next [default: mlxcel/widths in the user's cache].
    #[arg(long, value_name = "FOLDER", env = "MLXCEL_DRAFT_EVIDENCE", hide_env_values = true)]
    draft_evidence: Option<PathBuf>,

    /// Start without evidence of earlier runs, and keep none.
    #[arg(long, env = "MLXCEL_NO_DRAFT_EVIDENCE", value_parser = FalseyValueParser::new())]
    no_draft_evidence: bool,
}

/// What is known of a pair, and where it is kept.
pub(crate) struct Learning {
    store: EvidenceStore,
    key: Option<PairKey>,
}

impl Learning {
    /// Reads what earlier runs learned; `key` is that of the pair, if there is one.
    pub(crate) fn open(args: &EvidenceArgs, key: Option<PairKey>) -> Self {
        let folder = args.draft_evidence.clone().or_else(EvidenceStore::user_folder);
        Self { store: EvidenceStore::new(folder.filter(|_| !args.no_draft_evidence)), key }
    }

    /// What is known, for answers to use and to add to.
    pub(crate) fn evidence(&mut self) -> SharedEvidence {
        self.key.as_ref().map(|key| self.store.evidence(key)).unwrap_or_default()
    }

    /// Keeps what was learned since the last time. Evidence that cannot be kept is no reason to fail.
    pub(crate) fn keep(&mut self) {
        if let Some(key) = &self.key
            && let Err(error) = self.store.keep(key)
        {
            tracing::debug!("what was learned of block widths is not kept: {error}");
        }
    }
}

/// Keeps what is learned now and then, and once more when it is dropped.
pub(crate) struct Keeper {
    words: Sender<Word>,
    thread: Option<JoinHandle<()>>,
}

enum Word {
    /// The models are loaded: this is to be kept from now on.
    Learning(Box<Learning>),
    End,
}

/// Hands a [`Learning`] to a [`Keeper`].
pub(crate) struct Handover(Sender<Word>);

impl Handover {
    /// From now on `learning` is kept.
    pub(crate) fn hand_over(self, learning: Learning) {
        // A keeper that has ended has nothing to keep: the program ends.
        let _ = self.0.send(Word::Learning(Box::new(learning)));
    }
}

impl Keeper {
    /// Starts a thread that keeps what it is handed, each time that `every` has passed.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub(crate) fn start(every: Duration) -> io::Result<(Self, Handover)> {
        let (words, heard) = channel();
        let body = move || {
            let mut learning: Option<Box<Learning>> = None;
            loop {
                let end = match heard.recv_timeout(every) {
                    Ok(Word::Learning(new)) => {
                        learning = Some(new);
                        continue;
                    }
                    Err(RecvTimeoutError::Timeout) => false,
                    Ok(Word::End) | Err(RecvTimeoutError::Disconnected) => true,
                };
                if let Some(learning) = &mut learning {
                    learning.keep();
                }
                if end {
                    return;
                }
            }
        };
        let thread = Builder::new().name("evidence".to_owned()).spawn(body)?;
        Ok((Self { words: words.clone(), thread: Some(thread) }, Handover(words)))
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        let _ = self.words.send(Word::End);
        if let Some(thread) = self.thread.take() {
            // A panic in it was reported, and loses what was learned, not an answer.
            let _ = thread.join();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        path::Path,
        time::{Duration, Instant},
    };

    use super::*;

    fn learning(folder: &Path) -> Learning {
        let args = EvidenceArgs { draft_evidence: Some(folder.to_owned()), no_draft_evidence: false };
        let (target, drafter, machine) = ("t".to_owned(), "d".to_owned(), "m".to_owned());
        Learning::open(&args, Some(PairKey { target, drafter, machine }))
    }

    fn teach(shared: &SharedEvidence) {
        for _ in 0..3 {
            shared.lock().verified(1, 0.01);
        }
    }

    fn files(folder: &Path) -> Vec<Vec<u8>> {
        let entries = fs::read_dir(folder).into_iter().flatten();
        entries.filter_map(|entry| fs::read(entry.unwrap().path()).ok()).collect()
    }

    fn wait_until(what: &str, done: impl Fn() -> bool) {
        let start = Instant::now();
        while !done() {
            assert!(start.elapsed() < Duration::from_secs(20), "{what} did not come");
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    #[test]
    fn what_is_learned_is_kept_now_and_then() {
        let folder = tempfile::tempdir().unwrap();
        let (keeper, handover) = Keeper::start(Duration::from_millis(5)).unwrap();
        let mut learning = learning(folder.path());
        let shared = learning.evidence();
        handover.hand_over(learning);
        teach(&shared);
        wait_until("the first file", || files(folder.path()).len() == 1);
        let first = files(folder.path());
        teach(&shared);
        wait_until("another content", || files(folder.path()).len() == 1 && files(folder.path()) != first);
        drop(keeper);
    }

    #[test]
    fn what_is_learned_last_is_kept_at_the_end() {
        let folder = tempfile::tempdir().unwrap();
        let (keeper, handover) = Keeper::start(Duration::from_hours(1)).unwrap();
        let mut learning = learning(folder.path());
        let shared = learning.evidence();
        handover.hand_over(learning);
        teach(&shared);
        assert!(files(folder.path()).is_empty());
        drop(keeper);
        assert_eq!(files(folder.path()).len(), 1);
        assert!(
            format!("{:?}", super::tests::learning(folder.path()).evidence().lock())
                .contains("classic_rounds: 3")
        );
    }

    #[test]
    fn a_keeper_that_is_handed_nothing_ends() {
        let (keeper, handover) = Keeper::start(Duration::from_hours(1)).unwrap();
        drop(keeper);
        let folder = tempfile::tempdir().unwrap();
        handover.hand_over(learning(folder.path()));
        assert!(files(folder.path()).is_empty());
    }
}
