//! Owns the delivery of what is queued: one event at a time to each webhook, so that one that hangs holds up itself alone.

use std::{collections::HashMap, time::Duration};

use tokio::{
    task::{Id, JoinSet},
    time::{Instant, sleep},
};

use super::{TIMEOUT, target};
use crate::{
    domain::{Clock, Timestamp, WebhookId},
    metrics::WebhookMetrics,
    outbound::{Delivery, Outbound, Untold},
    store::{DeliveryAttempt, DeliveryEnd, Store, StoreError, WebhookDelivery},
    telemetry,
};

/// How often an event is sent at most.
const MOST_ATTEMPTS: u64 = 30;
/// How old an event may get that was sent and not taken.
const LONGEST_MS: u64 = 24 * 60 * 60 * 1_000;
/// The pause after the first attempt is at most this; it doubles with each one.
const FIRST_PAUSE: Duration = Duration::from_secs(1);
/// The longest pause, also of those that receivers ask for.
const LONGEST_PAUSE: Duration = Duration::from_secs(60 * 60);

/// The longest sleep: clocks are set, machines are suspended.
const LONGEST_SLEEP: Duration = Duration::from_secs(60);
/// From a store that failed to the next try.
const STORE_PAUSE: Duration = Duration::from_secs(1);

/// The receiver wants no more.
const GONE: u16 = 410;

/// Delivers for ever.
pub(super) async fn run(store: Store, outbound: Outbound, metrics: WebhookMetrics) {
    // Dropped with the future, and the attempts with it: what they did not get to say is sent again.
    let mut attempts = JoinSet::new();
    let mut busy: HashMap<Id, WebhookId> = HashMap::new();
    loop {
        let pause = match store.next_deliveries().await {
            Ok(next) => {
                let now = Clock.now();
                let mut pause = LONGEST_SLEEP;
                for delivery in next {
                    if busy.values().any(|webhook| *webhook == delivery.webhook) {
                        continue;
                    }
                    let left = wait(delivery.next_at, now);
                    if left > Duration::ZERO {
                        pause = pause.min(left);
                        continue;
                    }
                    let webhook = delivery.webhook;
                    let attempt = attempt(store.clone(), outbound.clone(), metrics.clone(), delivery);
                    busy.insert(attempts.spawn(attempt).id(), webhook);
                }
                pause
            }
            Err(StoreError::Closed) => return,
            Err(error) => {
                tracing::warn!(
                    error = telemetry::chain(&error),
                    "events for webhooks cannot be read yet"
                );
                STORE_PAUSE
            }
        };
        // Notifications, a timer and a set of tasks: all are cancel-safe.
        tokio::select! {
            () = store.outbox_changed() => {}
            () = sleep(pause) => {}
            Some(ended) = attempts.join_next_with_id() => {
                let id = match ended {
                    Ok((id, ())) => id,
                    Err(error) => error.id(),
                };
                busy.remove(&id);
            }
        }
    }
}

/// The wait for a time of day. One that no pause explains was made by another clock.
fn wait(at: Timestamp, now: Timestamp) -> Duration {
    let left = Duration::from_millis(at.millis_since(now));
    if left > LONGEST_PAUSE {
        Duration::ZERO
    } else {
        left
    }
}

async fn attempt(store: Store, outbound: Outbound, metrics: WebhookMetrics, delivery: WebhookDelivery) {
    let number = delivery.attempts + 1;
    let sent = outbound
        .notify(
            &target(&delivery.spec, &delivery.secret),
            Delivery {
                id: *delivery.id.as_uuid(),
                session: Some(delivery.session),
                event: &delivery.event,
                body: &delivery.body,
            },
            u8::try_from(number).unwrap_or(u8::MAX),
            Instant::now() + TIMEOUT,
        )
        .await;
    let now = Clock.now();
    let (status, error, end) = match sent {
        Ok(status) => (Some(status.as_u16()), None, DeliveryEnd::Delivered),
        Err(untold) => {
            let end = end_of(&untold, number, &delivery, now);
            (untold.status(), Some(telemetry::chain(&untold.error)), end)
        }
    };
    let outcome = match end {
        DeliveryEnd::Delivered => "delivered",
        DeliveryEnd::Later(_) => "failed",
        DeliveryEnd::GivenUp => "given_up",
        DeliveryEnd::Gone => "gone",
    };
    metrics.attempted(&delivery.event, outcome);
    say(&delivery, number, &end, error.as_deref());
    let attempt = DeliveryAttempt {
        webhook: delivery.webhook,
        position: delivery.position,
        end,
        status,
        error,
        at: now,
    };
    // The event stays the next one of its webhook until this is written.
    while let Err(error) = store.delivery_ended(attempt.clone()).await {
        if matches!(error, StoreError::Closed) {
            return;
        }
        tracing::warn!(
            error = telemetry::chain(&error),
            "the end of a delivery cannot be stored yet"
        );
        sleep(STORE_PAUSE).await;
    }
}

fn end_of(untold: &Untold, number: u64, delivery: &WebhookDelivery, now: Timestamp) -> DeliveryEnd {
    if untold.status() == Some(GONE) {
        return DeliveryEnd::Gone;
    }
    let pause = pause(number).max(untold.retry_after.unwrap_or_default().min(LONGEST_PAUSE));
    let next = now.plus_millis(u64::try_from(pause.as_millis()).unwrap_or(u64::MAX));
    if number >= MOST_ATTEMPTS || next.millis_since(delivery.created_at) > LONGEST_MS {
        DeliveryEnd::GivenUp
    } else {
        DeliveryEnd::Later(next)
    }
}

fn say(delivery: &WebhookDelivery, attempt: u64, end: &DeliveryEnd, error: Option<&str>) {
    let (webhook, session, id, event) = (
        delivery.webhook,
        delivery.session,
        delivery.id,
        delivery.event.as_str(),
    );
    match end {
        DeliveryEnd::Delivered => {
            tracing::debug!(webhook.id = %webhook, session.id = %session, delivery.id = %id, event, attempt, "a webhook was told");
        }
        DeliveryEnd::Later(_) if attempt > 1 => {
            tracing::debug!(webhook.id = %webhook, session.id = %session, delivery.id = %id, event, attempt, error, "a webhook was not told yet");
        }
        DeliveryEnd::Later(_) => {
            tracing::warn!(webhook.id = %webhook, session.id = %session, delivery.id = %id, event, attempt, error, "a webhook was not told yet");
        }
        DeliveryEnd::GivenUp => {
            tracing::warn!(webhook.id = %webhook, session.id = %session, delivery.id = %id, event, attempt, error, "a webhook is not told of an event");
        }
        DeliveryEnd::Gone => {
            tracing::warn!(webhook.id = %webhook, session.id = %session, delivery.id = %id, event, "a webhook is gone, and is disabled");
        }
    }
}

/// The pause after this attempt: between a half and the whole of a time that doubles, so that many do not come at once.
fn pause(attempt: u64) -> Duration {
    let doublings = u32::try_from(attempt.saturating_sub(1))
        .unwrap_or(u32::MAX)
        .min(16);
    let half = FIRST_PAUSE.saturating_mul(1 << doublings).min(LONGEST_PAUSE) / 2;
    // Without randomness the pause is merely the same for all.
    let random = getrandom::u32().unwrap_or(u32::MAX);
    half + half.mul_f64(f64::from(random) / f64::from(u32::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_an_hour_and_all_attempts_fit_a_day() {
        let mut all = Duration::ZERO;
        for attempt in 1..MOST_ATTEMPTS {
            let pause = pause(attempt);
            assert!(pause <= LONGEST_PAUSE, "{attempt}: {pause:?}");
            all += pause;
        }
        assert!((500..=1_000).contains(&pause(1).as_millis()));
        assert!(pause(u64::MAX) >= LONGEST_PAUSE / 2);
        assert!(all < Duration::from_millis(LONGEST_MS), "{all:?}");
    }

    #[test]
    fn a_time_that_another_clock_made_is_not_waited_for() {
        let now = Timestamp::from_micros(1_767_323_045_000_000);
        assert_eq!(wait(now.plus_millis(5), now), Duration::from_millis(5));
        assert_eq!(wait(now, now.plus_millis(5)), Duration::ZERO);
        assert_eq!(wait(now.plus_millis(LONGEST_MS), now), Duration::ZERO);
    }
}
