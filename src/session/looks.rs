//! Owns the looks at files that people and agents name. They are taken where blocking is allowed, and are bounded: a disk may
//! be slow, or hang.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::sync::Semaphore;

/// How many look at files at a time. On a disk that hangs so many threads wait, and no more.
const MOST_LOOKS: usize = 16;
/// How many of these look at the same place: one that hangs leaves some to the others.
const MOST_LOOKS_AT_ONE: usize = 4;
/// How long a look may take before its place counts as one that can't be read.
const PATIENCE: Duration = Duration::from_secs(10);

/// Why nothing is known of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unseen {
    /// The disk did not answer in time.
    #[error("it cannot be read in time")]
    Late,
    /// The runtime is shutting down.
    #[error("the daemon is shutting down")]
    Closing,
}

/// The looks that are taken just now, by the place that each is about.
#[derive(Debug)]
pub struct Looks {
    free: Arc<Semaphore>,
    /// The free looks at each place that somebody looks at just now.
    free_of_each: Mutex<HashMap<PathBuf, Arc<Semaphore>>>,
    patience: Duration,
}

impl Default for Looks {
    fn default() -> Self {
        Self {
            free: Arc::new(Semaphore::new(MOST_LOOKS)),
            free_of_each: Mutex::default(),
            patience: PATIENCE,
        }
    }
}

impl Looks {
    /// Runs `work`, which looks at a place.
    ///
    /// # Errors
    /// It took too long, or the daemon ends.
    pub async fn at<T: Send + 'static>(
        &self,
        place: &Path,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, Unseen> {
        let free_of_it = self.free_of(place);
        let looked = async {
            // Neither is ever closed. A look at a place that hangs takes nothing from the others.
            let look_at_it = free_of_it.acquire_owned().await.ok();
            let look = Arc::clone(&self.free).acquire_owned().await.ok();
            let work = move || {
                let _looks = (look_at_it, look);
                work()
            };
            tokio::task::spawn_blocking(work).await
        };
        match tokio::time::timeout(self.patience, looked).await {
            Ok(Ok(found)) => Ok(found),
            Ok(Err(error)) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            Ok(Err(_)) => Err(Unseen::Closing),
            Err(_) => Err(Unseen::Late),
        }
    }

    fn free_of(&self, place: &Path) -> Arc<Semaphore> {
        let mut all = self.free_of_each.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, free| Arc::strong_count(free) > 1);
        let free = all
            .entry(place.to_owned())
            .or_insert_with(|| Arc::new(Semaphore::new(MOST_LOOKS_AT_ONE)));
        Arc::clone(free)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    impl Looks {
        /// As many as ever, with this patience.
        pub(in crate::session) fn with_patience(patience: Duration) -> Self {
            Self {
                patience,
                ..Self::default()
            }
        }

        /// Has all looks at a place hang until what is given back is dropped.
        pub(in crate::session) async fn hang(&self, place: &Path) -> Vec<mpsc::Sender<()>> {
            let mut gates = Vec::new();
            for _ in 0..MOST_LOOKS_AT_ONE {
                let (gate, opened) = mpsc::channel::<()>();
                gates.push(gate);
                let hanging = self.at(place, move || {
                    // A test that fails ends all the same.
                    opened.recv_timeout(Duration::from_secs(20)).ok();
                });
                assert_eq!(hanging.await, Err(Unseen::Late));
            }
            gates
        }
    }

    /// Looks that hang until the test has seen that they hold up nobody but those who need what they look at.
    #[tokio::test]
    async fn looks_that_hang_hold_up_no_task_and_are_bounded() {
        let looks = Looks {
            free: Arc::new(Semaphore::new(2)),
            ..Looks::with_patience(Duration::from_millis(200))
        };
        let began = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let mut gates = Vec::new();
        let look = |gates: &mut Vec<mpsc::Sender<()>>| {
            let (gate, opened) = mpsc::channel();
            gates.push(gate);
            let began = Arc::clone(&began);
            move || {
                began.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                // A test that fails ends all the same.
                opened.recv_timeout(Duration::from_secs(20)).ok();
            }
        };
        let [first, second, third] = [(); 3].map(|()| look(&mut gates));
        let dir = Path::new("/slow");
        // All of them and this test are on one thread.
        let (first, second, third) =
            tokio::join!(looks.at(dir, first), looks.at(dir, second), looks.at(dir, third));
        assert_eq!([first, second, third], [Err(Unseen::Late); 3]);
        assert_eq!(began.load(std::sync::atomic::Ordering::SeqCst), 2);
        // Once the disk answers, all goes on.
        drop(gates);
        let patient = Looks {
            patience: Duration::from_secs(20),
            ..looks
        };
        patient.at(dir, || ()).await.unwrap();
    }

    #[tokio::test]
    async fn a_place_that_hangs_leaves_looks_to_the_others() {
        let looks = Looks::with_patience(Duration::from_millis(50));
        let mut gates = Vec::new();
        for _ in 0..MOST_LOOKS / MOST_LOOKS_AT_ONE {
            gates.extend(looks.hang(Path::new("/slow")).await);
        }
        let patient = Looks {
            patience: Duration::from_secs(10),
            ..looks
        };
        patient.at(Path::new("/fast"), || ()).await.unwrap();
        drop(gates);
    }
}
