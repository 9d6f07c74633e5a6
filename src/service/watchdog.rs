//! Owns the sign of life: it is given after work that a daemon that hangs could not do, and not by a timer alone.

use tokio::time::{MissedTickBehavior, interval, timeout};
use tokio_util::sync::CancellationToken;

use super::Notifier;

/// Asks `works` twice in the time that the watchdog waits, and passes a yes on, until `end`. An answer that takes longer than
/// half of that time is a no. Without a watchdog it does nothing.
pub async fn feed<W, F>(notifier: &Notifier, end: CancellationToken, works: W)
where
    W: Fn() -> F + Send + Sync,
    F: Future<Output = bool> + Send,
{
    let half = notifier.watchdog().map(|limit| limit / 2);
    let Some(half) = half.filter(|half| !half.is_zero()) else {
        return;
    };
    let mut ticks = interval(half);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let feeding = async {
        loop {
            ticks.tick().await;
            if timeout(half, works()).await.unwrap_or(false) {
                notifier.alive().await;
            } else {
                tracing::warn!("the daemon hangs, so the watchdog is not told otherwise");
            }
        }
    };
    let _: Option<()> = end.run_until_cancelled(feeding).await;
}
