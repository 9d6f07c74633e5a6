//! The records about rules: which matched, until when, and how an approval ended.

use super::*;
use crate::domain::ApprovalHow;

#[test]
fn a_rule_and_its_deadline_are_part_of_the_journal() {
    let mut bench = Bench::ready();
    bench.cli(
        r#"{"type":"control_request","request_id":"q1","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{}}}"#,
    );
    let approval = Approval::clone(&bench.machine.approvals()[0]);
    let deadline = Timestamp::from_micros(5_000_000);
    let note = |rule: Option<&str>, deadline| Note::Approval {
        approval_id: approval.id,
        request_id: approval.request_id.clone(),
        seq: approval.seq,
        kind: approval.kind,
        subject: approval.subject.clone(),
        deadline,
        rule: rule.map(str::to_owned),
    };
    let ruled = |bench: &Bench| {
        let facts = bench.out.facts.iter();
        let ruled = facts.filter(|fact| matches!(fact, Fact::ApprovalRuled { .. }));
        ruled.count()
    };
    bench.note(&note(None, None));
    assert_eq!(ruled(&bench), 0, "nothing new");
    bench.note(&note(Some("a"), Some(deadline)));
    let shown = &bench.machine.approvals()[0];
    assert_eq!(
        (shown.rule.as_deref(), shown.deadline),
        (Some("a"), Some(deadline))
    );
    bench.note(&note(Some("a"), Some(deadline)));
    assert_eq!(ruled(&bench), 1);
    bench.note(&note(None, None));
    let shown = &bench.machine.approvals()[0];
    assert_eq!((shown.rule.as_deref(), shown.deadline), (None, None));
    assert_eq!(ruled(&bench), 2);
}

#[test]
fn how_an_approval_ended_follows_from_who_answered() {
    for (by, how) in [
        ("rest", ApprovalHow::Person),
        ("ws:x", ApprovalHow::Person),
        ("rule:x", ApprovalHow::Rule),
        ("expiry:x", ApprovalHow::Expiry),
        ("covered:x", ApprovalHow::Covered),
    ] {
        assert_eq!(ApprovalHow::of_answer(by), how, "{by}");
    }
}
