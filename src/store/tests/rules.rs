//! Rules are kept in their order and go with their session; what they say about an approval is kept with it.

use super::*;
use crate::domain::rule::RuleAction;

fn rule(id: &str) -> RuleSpec {
    RuleSpec {
        id: Some(id.to_owned()),
        ..RuleSpec::of_action(RuleAction::Deny)
    }
}

#[tokio::test]
async fn rules_are_kept_in_their_order_and_go_with_their_session() {
    let test = TestStore::new().await;
    let id = test
        .session_with(|new| new.rules = vec![rule("b"), rule("a")])
        .await;
    let other = test.session_with(|new| new.rules = vec![rule("x")]).await;
    assert_eq!(test.store.rules(id).await.unwrap(), [rule("b"), rule("a")]);
    let rules = vec![rule("c"), rule("b"), rule("d")];
    test.store.set_rules(id, rules.clone()).await.unwrap();
    let test = test.reopen().await;
    assert_eq!(test.store.rules(id).await.unwrap(), rules);
    assert!(test.store.delete_session(id).await.unwrap());
    assert_eq!(test.store.rules(other).await.unwrap(), [rule("x")]);
    assert_eq!(test.number("SELECT count(*) FROM session_rules").await, 1);
    let unknown = test.store.set_rules(id, rules).await;
    assert!(matches!(unknown, Err(StoreError::UnknownSession(_))));
}

#[tokio::test]
async fn what_a_rule_says_is_kept_with_the_approval() {
    let test = TestStore::new().await;
    let id = test.session().await;
    let asked = approval(id, 3, "{}");
    let of = asked.id;
    let ruled = |rule: Option<&str>, deadline| Fact::ApprovalRuled {
        id: of,
        rule: rule.map(str::to_owned),
        deadline,
    };
    let shown = async || {
        let row = test.store.approval(of).await.unwrap().unwrap();
        (row.approval.rule, row.approval.deadline)
    };
    let opened = Fact::ApprovalOpened(Box::new(asked));
    test.project(id, 4, vec![opened, ruled(Some("r"), Some(at(60)))])
        .await;
    assert_eq!(shown().await, (Some("r".to_owned()), Some(at(60))));
    test.project(id, 5, vec![ruled(None, None)]).await;
    assert_eq!(shown().await, (None, None));
    let by = |how, by: &str, at_second| Resolution {
        state: ApprovalState::Denied,
        how,
        by: by.to_owned(),
        response: None,
        input_changed: false,
        permissions_updated: false,
        ran_sha256: None,
        at: at(at_second),
    };
    let closed = Fact::ApprovalClosed {
        id: of,
        resolution: by(ApprovalHow::Expiry, "expiry:r", 70),
    };
    test.project(id, 6, vec![closed]).await;
    for (how, found) in [
        (ApprovalHow::Expiry, 1),
        (ApprovalHow::Rule, 0),
        (ApprovalHow::Person, 0),
    ] {
        let filter = ApprovalFilter {
            how: Some(how),
            ..ApprovalFilter::default()
        };
        let page = test
            .store
            .approvals(filter, PageRequest::default())
            .await
            .unwrap();
        assert_eq!(page.items.len(), found, "{how:?}");
    }
}
