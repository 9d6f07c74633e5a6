//! Owns the reasons to look at a session that no record tells of: the lobby finds silence and an edit that nobody was asked
//! about, and webhooks are told.

use std::{collections::HashMap, time::Duration};

use tokio::{sync::watch, time::sleep};

use crate::{
    domain::{AttentionReason, SessionId, Timestamp, WebhookEvent},
    store::{Store, StoreError},
    supervisor::{Lobby, LobbyEntry, LobbyEvent, LobbyFilter, LobbyNews, LobbyWatch},
    telemetry,
};

/// From a failure to the next try.
const PAUSE: Duration = Duration::from_secs(5);

/// Watches the lobby while a webhook wants to be told.
pub(super) async fn run(store: Store, lobby: Lobby, mut changed: watch::Receiver<()>) {
    loop {
        changed.mark_unchanged();
        match is_wanted(&store).await {
            Ok(true) => {}
            Ok(false) => {
                if changed.changed().await.is_err() {
                    return;
                }
                continue;
            }
            Err(StoreError::Closed) => return,
            Err(_) => {
                sleep(PAUSE).await;
                continue;
            }
        }
        let filter = LobbyFilter {
            needs_person: Some(true),
            ..LobbyFilter::default()
        };
        let watched = match lobby.watch(filter, None).await {
            Ok(watch) => follow(&store, watch, &mut changed).await,
            Err(error) => Err(telemetry::chain(&error)),
        };
        if let Err(error) = watched {
            tracing::warn!(error, "webhooks are not told of silent sessions yet");
            sleep(PAUSE).await;
        }
    }
}

async fn is_wanted(store: &Store) -> Result<bool, StoreError> {
    let webhooks = store.webhooks().await?;
    Ok(webhooks
        .iter()
        .any(|webhook| webhook.enabled && webhook.spec.wants(WebhookEvent::NeedsAttention)))
}

/// Tells of what the lobby finds, until a webhook changes.
async fn follow(
    store: &Store,
    mut watch: LobbyWatch,
    changed: &mut watch::Receiver<()>,
) -> Result<(), String> {
    let mut told = HashMap::new();
    loop {
        // Both are cancel-safe.
        let news = tokio::select! {
            news = watch.next() => news,
            _ = changed.changed() => {
                changed.mark_changed();
                return Ok(());
            }
        };
        let found: Vec<(SessionId, Option<(AttentionReason, Timestamp)>)> = match news {
            LobbyNews::Snapshot(_, sessions) => {
                let found: Vec<_> = sessions.iter().map(reason_of).collect();
                let still = found.iter().filter(|(_, reason)| reason.is_some());
                let still = still.map(|(session, _)| *session).collect();
                // A reason that ended while nobody watched may begin again.
                told.clear();
                let cleared = store.clear_other_attention(still).await;
                cleared.map_err(|error| telemetry::chain(&error))?;
                found
            }
            LobbyNews::Events(events) => {
                let reasons = events.iter().map(|(_, event)| match event {
                    LobbyEvent::Made(entry) | LobbyEvent::Changed(entry, _) => reason_of(entry),
                    LobbyEvent::Left(_) | LobbyEvent::Deleted(_) => (event.session(), None),
                });
                reasons.collect()
            }
        };
        for (session, reason) in found {
            note(store, &mut told, session, reason)
                .await
                .map_err(|error| telemetry::chain(&error))?;
        }
    }
}

fn reason_of(entry: &std::sync::Arc<LobbyEntry>) -> (SessionId, Option<(AttentionReason, Timestamp)>) {
    let attention = entry.attention.filter(|attention| {
        matches!(
            attention.reason,
            AttentionReason::Silent | AttentionReason::UnaskedEdit
        )
    });
    (
        entry.view.row.id,
        attention.map(|attention| (attention.reason, attention.since)),
    )
}

async fn note(
    store: &Store,
    told: &mut HashMap<SessionId, AttentionReason>,
    session: SessionId,
    reason: Option<(AttentionReason, Timestamp)>,
) -> Result<(), StoreError> {
    match reason {
        Some((reason, since)) if told.get(&session) != Some(&reason) => {
            store.note_attention(session, reason, since).await?;
            told.insert(session, reason);
        }
        None if told.remove(&session).is_some() => store.clear_attention(session).await?,
        Some(_) | None => {}
    }
    Ok(())
}
