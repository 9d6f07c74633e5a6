//! Owns which keyed requests run now, so that a repeat can wait for the first and never runs beside it.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::watch;

use crate::store::{RequestDigest, RequestKey};

/// The keyed requests that run. Cloning gives another handle on the same ones.
#[derive(Clone, Debug, Default)]
pub(in crate::http) struct Running {
    // Held for a few instructions, never across an await. One entry per request that is under way.
    requests: Arc<Mutex<HashMap<RequestKey, First>>>,
}

/// The request that runs under a key.
#[derive(Clone, Debug)]
pub(super) struct First {
    digest: RequestDigest,
    // Nothing is sent; it closes when the request has ended.
    ended: watch::Receiver<()>,
}

impl First {
    /// Waits for its end.
    pub(super) async fn ended(mut self) {
        while self.ended.changed().await.is_ok() {}
    }
}

/// Whether a key can be had.
#[derive(Debug)]
pub(super) enum Claimed {
    /// Nothing runs under the key; nothing will while the claim is held.
    New(Claim),
    /// The same request runs.
    Running(First),
    /// Another request runs under the key.
    Other,
}

/// The right to run the request with a key; dropping it lets repeats go on.
#[derive(Debug)]
pub(super) struct Claim {
    running: Running,
    key: RequestKey,
    digest: RequestDigest,
    _ended: watch::Sender<()>,
}

impl Running {
    /// Claims a key for a request.
    pub(super) fn claim(&self, key: &RequestKey, digest: RequestDigest) -> Claimed {
        match self.requests().entry(key.clone()) {
            Entry::Occupied(first) if first.get().digest == digest => Claimed::Running(first.get().clone()),
            Entry::Occupied(_) => Claimed::Other,
            Entry::Vacant(place) => {
                let (sender, ended) = watch::channel(());
                place.insert(First { digest, ended });
                Claimed::New(Claim {
                    running: self.clone(),
                    key: key.clone(),
                    digest,
                    _ended: sender,
                })
            }
        }
    }

    fn requests(&self) -> MutexGuard<'_, HashMap<RequestKey, First>> {
        // The map is whole at every instruction that can panic.
        self.requests.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Claim {
    pub(super) fn key(&self) -> &RequestKey {
        &self.key
    }

    pub(super) fn digest(&self) -> RequestDigest {
        self.digest
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        // Those who wait are woken after this, when the sender goes.
        self.running.requests().remove(&self.key);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(key: &str) -> RequestKey {
        RequestKey {
            method: "POST".to_owned(),
            path: "/v1/sessions".to_owned(),
            key: key.to_owned(),
        }
    }

    #[tokio::test]
    async fn a_key_has_one_holder_and_the_next_is_woken_by_its_end() {
        let running = Running::default();
        let Claimed::New(claim) = running.claim(&key("a"), [1; 32]) else {
            panic!("the key is free");
        };
        assert!(matches!(running.claim(&key("a"), [2; 32]), Claimed::Other));
        assert!(matches!(running.claim(&key("b"), [2; 32]), Claimed::New(_)));
        let Claimed::Running(first) = running.claim(&key("a"), [1; 32]) else {
            panic!("the same request runs");
        };
        let mut waits = Box::pin(first.ended());
        assert!(
            futures_util::FutureExt::now_or_never(&mut waits).is_none(),
            "it runs still"
        );
        drop(claim);
        waits.await;
        assert!(matches!(running.claim(&key("a"), [2; 32]), Claimed::New(_)));
        assert!(running.requests().is_empty(), "ended requests leave nothing");
    }
}
