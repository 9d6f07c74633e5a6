//! Tests of the outbox: who is told of which fact, and how much may wait.

use super::*;
use crate::domain::{DeliveryId, Secret, WebhookEvent, WebhookFilter, WebhookId, WebhookSpec};

impl TestStore {
    /// Adds a webhook that is told what `change` says; its id.
    pub(super) async fn webhook(&self, change: impl FnOnce(&mut WebhookSpec)) -> WebhookId {
        let mut spec = WebhookSpec {
            url: "http://127.0.0.1:9/hook".parse().unwrap(),
            events: Vec::new(),
            filter: WebhookFilter::default(),
            content: false,
        };
        change(&mut spec);
        let webhook = NewWebhook {
            id: WebhookId::new(),
            name: None,
            spec,
            secret: Secret::new("whsec_x".to_owned()),
            enabled: true,
            created_at: at(0),
        };
        let id = webhook.id;
        assert!(self.store.insert_webhook(webhook).await.unwrap());
        id
    }

    /// Takes all that waits for a webhook, as deliveries would.
    async fn told(&self, webhook: WebhookId) -> Vec<WebhookDelivery> {
        let mut told = Vec::new();
        loop {
            let next = self.store.next_deliveries().await.unwrap();
            let Some(next) = next.into_iter().find(|next| next.webhook == webhook) else {
                return told;
            };
            self.end(&next, DeliveryEnd::Delivered).await;
            told.push(next);
        }
    }

    async fn events(&self, webhook: WebhookId) -> Vec<String> {
        let mut told: Vec<_> = self.told(webhook).await.into_iter().map(|it| it.event).collect();
        told.sort();
        told
    }

    async fn end(&self, delivery: &WebhookDelivery, end: DeliveryEnd) {
        let attempt = DeliveryAttempt {
            webhook: delivery.webhook,
            position: delivery.position,
            end,
            status: Some(200),
            error: None,
            at: at(9),
        };
        self.store.delivery_ended(attempt).await.unwrap();
    }

    async fn hook(&self, id: WebhookId) -> WebhookRow {
        self.store.webhook(id).await.unwrap().unwrap()
    }
}

#[tokio::test]
async fn a_fact_is_told_once_to_each_webhook_that_wants_it() {
    let test = TestStore::new().await;
    let all = test.webhook(|_| ()).await;
    let turns = test
        .webhook(|spec| spec.events = vec![WebhookEvent::TurnEnded])
        .await;
    let other = test
        .webhook(|spec| spec.filter.tag = Some("other".to_owned()))
        .await;
    let id = test
        .session_with(|session| session.tag = Some("mine".to_owned()))
        .await;
    test.project(id, 9, vec![ended(turn(1, Some(0.5)))]).await;
    // The journal is read again.
    test.project(id, 9, vec![ended(turn(1, Some(0.5)))]).await;
    assert_eq!(test.events(all).await, ["turn_ended"]);
    assert_eq!(test.events(turns).await, ["turn_ended"]);
    assert!(test.events(other).await.is_empty());
    let failed = vec![state(SessionState::Failed, 2), state(SessionState::Failed, 3)];
    test.project(id, 10, failed).await;
    assert_eq!(test.events(all).await, ["needs_attention", "session_failed"]);
    let row = test.hook(all).await;
    assert_eq!((row.delivered, row.pending, row.dropped), (3, 0, 0));
}

#[tokio::test]
async fn an_approval_that_a_rule_decides_at_once_is_told_to_nobody() {
    let test = TestStore::new().await;
    let all = test.webhook(|_| ()).await;
    let id = test.session().await;
    let ruled = approval(id, 1, "{}");
    let resolution = Resolution {
        state: ApprovalState::Allowed,
        how: ApprovalHow::Rule,
        by: "rule:x".to_owned(),
        response: None,
        input_changed: false,
        permissions_updated: false,
        ran_sha256: None,
        at: at(1),
    };
    let opened = |approval: &Approval| Fact::ApprovalOpened(Box::new(approval.clone()));
    test.project(id, 1, vec![opened(&ruled)]).await;
    let closed = Fact::ApprovalClosed {
        id: ruled.id,
        resolution: resolution.clone(),
    };
    test.project(id, 2, vec![closed]).await;
    assert!(test.events(all).await.is_empty());
    // A person's answer takes nothing back.
    let asked = approval(id, 3, "{}");
    let closed = Fact::ApprovalClosed {
        id: asked.id,
        resolution: Resolution {
            how: ApprovalHow::Person,
            by: "rest".to_owned(),
            ..resolution
        },
    };
    test.project(id, 4, vec![opened(&asked), closed]).await;
    assert_eq!(test.events(all).await, ["approval_opened", "needs_attention"]);
}

#[tokio::test]
async fn spending_is_told_when_most_and_when_all_of_the_budget_is_gone() {
    let test = TestStore::new().await;
    let spent = test
        .webhook(|spec| spec.events = vec![WebhookEvent::BudgetSpent, WebhookEvent::NeedsAttention])
        .await;
    let options = r#"{"max_budget_usd": 1.0}"#;
    let id = test
        .session_with(|session| session.options = options.to_owned())
        .await;
    for (number, cost, told) in [
        (1, 0.79, &[][..]),
        (2, 0.1, &["needs_attention"]),
        (3, 0.2, &["budget_spent"]),
        (4, 0.1, &[]),
    ] {
        test.project(id, number, vec![ended(turn(number, Some(cost)))])
            .await;
        assert_eq!(test.events(spent).await, told, "turn {number}");
    }
}

#[tokio::test]
async fn what_waits_is_bounded_and_what_is_dropped_is_counted() {
    let test = TestStore::new().await;
    let dead = test
        .webhook(|spec| spec.events = vec![WebhookEvent::TurnEnded])
        .await;
    let id = test.session().await;
    let most = u64::try_from(outbox::MOST_PENDING).unwrap();
    let turns = |from: u64, to: u64| (from..=to).map(|number| ended(turn(number, None))).collect();
    test.project(id, 1, turns(1, most)).await;
    test.project(id, 2, turns(most + 1, most + 7)).await;
    let row = test.hook(dead).await;
    assert_eq!((row.pending, row.dropped), (most, 7));
    let oldest = test.store.next_deliveries().await.unwrap().remove(0);
    let body: serde_json::Value = serde_json::from_str(oldest.body.get()).unwrap();
    assert_eq!(body["data"]["turn"], 8, "the oldest made room: {body}");
    assert_ne!(oldest.id, DeliveryId::new());
    // The waiting events of a session go with it.
    test.store.delete_session(id).await.unwrap();
    let row = test.hook(dead).await;
    assert_eq!((row.pending, row.dropped), (0, 7 + most));
}

#[tokio::test]
async fn a_webhook_that_is_gone_is_disabled_and_empty() {
    let test = TestStore::new().await;
    let gone = test.webhook(|_| ()).await;
    let id = test.session().await;
    test.project(id, 1, vec![ended(turn(1, None)), ended(turn(2, None))])
        .await;
    let next = test.store.next_deliveries().await.unwrap().remove(0);
    test.end(&next, DeliveryEnd::Gone).await;
    let row = test.hook(gone).await;
    assert_eq!((row.enabled, row.pending, row.dropped), (false, 0, 2));
    test.project(id, 2, vec![ended(turn(3, None))]).await;
    assert_eq!(test.hook(gone).await.pending, 0);
}

#[tokio::test]
async fn a_reason_that_no_record_tells_of_is_told_once_while_it_lasts() {
    let test = TestStore::new().await;
    let all = test.webhook(|_| ()).await;
    let id = test.session().await;
    let silent = crate::domain::AttentionReason::Silent;
    for told in [1, 0] {
        test.store.note_attention(id, silent, at(5)).await.unwrap();
        assert_eq!(test.events(all).await.len(), told);
    }
    test.store.clear_attention(id).await.unwrap();
    test.store.note_attention(id, silent, at(8)).await.unwrap();
    assert_eq!(test.events(all).await, ["needs_attention"]);
}

#[tokio::test]
async fn the_configuration_makes_changes_and_takes_away_its_own() {
    let test = TestStore::new().await;
    let made = test.webhook(|_| ()).await;
    let named = |name: &str, content: bool| NewWebhook {
        id: WebhookId::new(),
        name: Some(name.to_owned()),
        spec: WebhookSpec {
            url: "http://127.0.0.1:9/".parse().unwrap(),
            events: Vec::new(),
            filter: WebhookFilter::default(),
            content,
        },
        secret: Secret::new("whsec_x".to_owned()),
        enabled: true,
        created_at: at(1),
    };
    let configure = |webhooks| test.store.configure_webhooks(webhooks);
    configure(vec![named("a", false), named("b", false)])
        .await
        .unwrap();
    let before = test.store.webhooks().await.unwrap();
    configure(vec![named("b", true)]).await.unwrap();
    let after = test.store.webhooks().await.unwrap();
    assert_eq!(
        after.iter().map(|it| it.id).collect::<Vec<_>>(),
        [made, before[2].id]
    );
    assert!(after[1].spec.content);
    // Nobody else changes them.
    let patch = WebhookPatch {
        enabled: Some(false),
        ..WebhookPatch::default()
    };
    assert!(!test.store.change_webhook(after[1].id, patch).await.unwrap());
    assert!(!test.store.delete_webhook(after[1].id).await.unwrap());
}
