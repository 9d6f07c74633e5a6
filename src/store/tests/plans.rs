//! Lists stay quick when the tables are large: SQLite answers them from an index, in order, without sorting.

use sqlx::{AssertSqlSafe, SqlSafeStr};

use super::*;

#[tokio::test]
async fn lists_are_read_from_an_index_in_order() {
    let test = TestStore::new().await;
    let text = || Some("x".to_owned());
    let sessions = [
        SessionFilter::default(),
        SessionFilter {
            state: Some(SessionState::Idle),
            ..SessionFilter::default()
        },
        SessionFilter {
            cwd: text(),
            ..SessionFilter::default()
        },
        SessionFilter {
            tag: text(),
            ..SessionFilter::default()
        },
        SessionFilter {
            label: Some(("k".to_owned(), "v".to_owned())),
            q: text(),
            ..SessionFilter::default()
        },
    ];
    let approvals = [
        ApprovalFilter::default(),
        ApprovalFilter {
            state: Some(ApprovalState::Pending),
            ..ApprovalFilter::default()
        },
        ApprovalFilter {
            session: Some(SessionId::new()),
            ..ApprovalFilter::default()
        },
        ApprovalFilter {
            kind: Some(ApprovalKind::Plan),
            ..ApprovalFilter::default()
        },
        ApprovalFilter {
            subject: text(),
            ..ApprovalFilter::default()
        },
        ApprovalFilter {
            how: Some(ApprovalHow::Rule),
            ..ApprovalFilter::default()
        },
        ApprovalFilter {
            by: text(),
            from: Some(at(1)),
            to: Some(at(9)),
            ..ApprovalFilter::default()
        },
        ApprovalFilter {
            from: Some(at(1)),
            ..ApprovalFilter::default()
        },
    ];
    for _ in 0..2 {
        let id = test.session().await;
        let asked = approval(id, 1, "{}");
        test.project(id, 1, vec![Fact::ApprovalOpened(Box::new(asked))])
            .await;
    }
    let next_session = test
        .store
        .sessions(SessionFilter::default(), page(1, None))
        .await
        .unwrap()
        .next;
    let next_approval = test
        .store
        .approvals(ApprovalFilter::default(), page(1, None))
        .await
        .unwrap()
        .next;
    assert!(next_session.is_some() && next_approval.is_some());

    let mut queries = Vec::new();
    for cursor in [None, next_session] {
        for filter in &sessions {
            queries.push(
                sessions::select(filter, &page(50, cursor.clone()))
                    .unwrap()
                    .into_string(),
            );
        }
    }
    for cursor in [None, next_approval] {
        for filter in &approvals {
            queries.push(
                approvals::select(filter, &page(50, cursor.clone()))
                    .unwrap()
                    .into_string(),
            );
        }
    }
    for query in queries {
        let explain = AssertSqlSafe(format!("EXPLAIN QUERY PLAN {query}")).into_sql_str();
        let steps: Vec<(i64, i64, i64, String)> = sqlx::query_as(explain)
            .fetch_all(&test.store.readers)
            .await
            .unwrap();
        for (.., step) in steps {
            let whole_table = step.starts_with("SCAN") && !step.contains("USING INDEX");
            assert!(!whole_table && !step.contains("TEMP B-TREE"), "{query}: {step}");
        }
    }
}
