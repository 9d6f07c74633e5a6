//! Lists: their order, their pages and their filters.

use super::*;

#[tokio::test]
async fn sessions_come_by_activity_and_reading_is_none() {
    let test = TestStore::new().await;
    let mut ids = Vec::new();
    for seconds in 0..4 {
        ids.push(
            test.session_with(|session| session.created_at = at(seconds))
                .await,
        );
    }
    let order = async || {
        let rows = test
            .store
            .sessions(SessionFilter::default(), PageRequest::default())
            .await
            .unwrap()
            .items;
        rows.iter().map(|row| row.id).collect::<Vec<_>>()
    };
    let newest_first = [ids[3], ids[2], ids[1], ids[0]];
    assert_eq!(order().await, newest_first);

    // Look like a client, then restart and save memory like a daemon.
    let oldest = ids[0];
    test.row(oldest).await;
    test.store.turns(oldest, PageRequest::default()).await.unwrap();
    test.store
        .approvals(ApprovalFilter::default(), PageRequest::default())
        .await
        .unwrap();
    let exit = RunExit {
        code: Some(0),
        signal: None,
        intent: StopIntent::Stop,
        killed: false,
        stderr_tail: String::new(),
        spawn_error: None,
        unwritten_lines: 0,
        stop_steps: Vec::new(),
    };
    let quiet = vec![
        Fact::Model("m".to_owned()),
        Fact::RunExited {
            id: RunId::new(),
            exit,
            at: at(100),
        },
        state(SessionState::Stopping, 100),
        state(SessionState::Parked, 100),
        prompt(*SessionId::new().as_uuid(), PromptState::Interrupted, None, 100),
    ];
    test.project(oldest, 1, quiet).await;
    assert_eq!(order().await, newest_first);

    test.project(oldest, 2, vec![state(SessionState::Busy, 101)])
        .await;
    assert_eq!(order().await, [ids[0], ids[3], ids[2], ids[1]]);
    test.project(
        ids[1],
        1,
        vec![prompt(*SessionId::new().as_uuid(), PromptState::Sent, None, 102)],
    )
    .await;
    assert_eq!(order().await, [ids[1], ids[0], ids[3], ids[2]]);
}

#[tokio::test]
async fn pages_of_equal_times_neither_skip_nor_repeat() {
    let test = TestStore::new().await;
    let mut ids = Vec::new();
    for _ in 0..25 {
        ids.push(test.session().await);
    }
    for limit in [1, 7, 24, 25, 26] {
        let rows = all_pages(limit, |page| test.store.sessions(SessionFilter::default(), page)).await;
        let mut seen: Vec<_> = rows.iter().map(|row| row.id).collect();
        assert!(seen.is_sorted_by(|one, next| one > next), "limit {limit}");
        seen.reverse();
        assert_eq!(seen, ids, "limit {limit}");
    }

    let session = ids[0];
    let openings = (1..=9).map(|seq| {
        let mut asked = approval(session, seq, "{}");
        asked.requested_at = at(1);
        Fact::ApprovalOpened(Box::new(asked))
    });
    test.project(session, 9, openings.collect()).await;
    let rows = all_pages(2, |page| test.store.approvals(ApprovalFilter::default(), page)).await;
    let asked: Vec<_> = rows.iter().map(|row| row.approval.seq.get()).collect();
    assert_eq!(
        asked,
        (1..=9).rev().collect::<Vec<_>>(),
        "the order of the journal"
    );

    let turns = (1..=9).map(|number| ended(turn(number, None))).collect();
    test.project(session, 10, turns).await;
    let numbers: Vec<_> = all_pages(2, |page| test.store.turns(session, page))
        .await
        .iter()
        .map(|turn| turn.number)
        .collect();
    assert_eq!(numbers, (1..=9).collect::<Vec<_>>());
}

#[tokio::test]
async fn a_row_that_comes_while_a_client_pages_does_not_shift_the_rest() {
    let test = TestStore::new().await;
    let mut ids = Vec::new();
    for seconds in 0..6 {
        ids.push(
            test.session_with(|session| session.created_at = at(seconds))
                .await,
        );
    }
    let first = test
        .store
        .sessions(SessionFilter::default(), page(3, None))
        .await
        .unwrap();
    test.session_with(|session| session.created_at = at(50)).await;
    let second = test
        .store
        .sessions(SessionFilter::default(), page(3, first.next))
        .await
        .unwrap();
    let seen: Vec<_> = first
        .items
        .iter()
        .chain(&second.items)
        .map(|row| row.id)
        .rev()
        .collect();
    assert_eq!(seen, ids);
}

#[tokio::test]
async fn a_cursor_of_something_else_is_refused() {
    let test = TestStore::new().await;
    for _ in 0..2 {
        let id = test.session().await;
        test.project(id, 1, vec![ended(turn(1, None)), ended(turn(2, None))])
            .await;
    }
    let sessions = async |cursor: &str| {
        test.store
            .sessions(SessionFilter::default(), page(1, Some(cursor.to_owned())))
            .await
    };
    let listed = test
        .store
        .sessions(SessionFilter::default(), page(1, None))
        .await
        .unwrap();
    let own = listed.next.unwrap();
    assert!(sessions(&own).await.is_ok());

    let of_turns = test
        .store
        .turns(listed.items[0].id, page(1, None))
        .await
        .unwrap()
        .next
        .unwrap();
    let cut = &own[..own.len() - 4];
    for cursor in ["", "%", "bnVsbA", "' OR 1=1 --", cut, &of_turns] {
        assert!(
            matches!(sessions(cursor).await, Err(StoreError::BadCursor)),
            "{cursor}"
        );
    }
    let foreign = test.store.turns(listed.items[0].id, page(1, Some(own))).await;
    assert!(matches!(foreign, Err(StoreError::BadCursor)));
}

#[test]
fn a_page_has_between_one_and_five_hundred_rows() {
    for limit in [1, 500] {
        assert!(PageRequest::new(limit, None).is_ok(), "{limit}");
    }
    for limit in [0, 501, u64::MAX] {
        assert_eq!(PageRequest::new(limit, None), Err(BadLimit(limit)));
    }
}

#[tokio::test]
async fn filters_take_what_they_are_given_literally() {
    let test = TestStore::new().await;
    let titles = [
        "100% sure",
        "100 percent sure",
        "a_b",
        "axb",
        r"back\slash",
        "it's",
        "ÄRGER and Joy",
    ];
    let mut expected = Vec::new();
    for title in titles {
        let id = test
            .session_with(|session| {
                session.title = Some(title.to_owned());
                session.cwd = format!("/dir/{title}");
                session.tag = Some(title.to_owned());
                session.labels = [
                    (title.to_owned(), "value".to_owned()),
                    ("k".to_owned(), title.to_owned()),
                ]
                .into();
            })
            .await;
        expected.push((title, id));
    }
    let found = async |filter: SessionFilter| {
        let rows = test
            .store
            .sessions(filter, PageRequest::default())
            .await
            .unwrap()
            .items;
        rows.iter().map(|row| row.id).collect::<Vec<_>>()
    };
    let by_text = async |q: &str| {
        found(SessionFilter {
            q: Some(q.to_owned()),
            ..SessionFilter::default()
        })
        .await
    };
    for (title, id) in &expected {
        let (title, only) = ((*title).to_owned(), [*id]);
        let filters = [
            SessionFilter {
                q: Some(title.clone()),
                ..SessionFilter::default()
            },
            SessionFilter {
                cwd: Some(format!("/dir/{title}")),
                ..SessionFilter::default()
            },
            SessionFilter {
                tag: Some(title.clone()),
                ..SessionFilter::default()
            },
            SessionFilter {
                label: Some((title.clone(), "value".to_owned())),
                ..SessionFilter::default()
            },
            SessionFilter {
                label: Some(("k".to_owned(), title.clone())),
                ..SessionFilter::default()
            },
        ];
        for filter in filters {
            assert_eq!(found(filter.clone()).await, only, "{filter:?}");
        }
    }
    let id_of = |index: usize| expected[index].1;
    assert_eq!(by_text("%").await, [id_of(0)]);
    assert_eq!(by_text("_").await, [id_of(2)]);
    assert_eq!(by_text(r"\").await, [id_of(4)]);
    assert_eq!(by_text("'").await, [id_of(5)]);
    assert_eq!(by_text("JOY").await, [id_of(6)]);
    assert_eq!(by_text("Sure").await, [id_of(1), id_of(0)]);
    assert!(by_text(&"%".repeat(200_000)).await.is_empty());
    assert_eq!(by_text("").await.len(), titles.len());
    let test_title = async |title: &str, wanted: &str| {
        let titled = test
            .session_with(|session| session.title = Some(title.to_owned()))
            .await;
        assert_eq!(by_text(wanted).await, [titled], "{wanted} in {title}");
    };
    test_title("Ärger mit Straße", "äRGER MIT stra").await;
    test_title("подъезд", "ПОДЪЕЗД").await;
    test_title("a [*?] list", "[*?] L").await;
    test_title("b^]-", "^]-").await;
    for label in [("k", "nothing"), ("K", "a_b"), ("a_b", "axb")] {
        let filter = SessionFilter {
            label: Some((label.0.to_owned(), label.1.to_owned())),
            ..SessionFilter::default()
        };
        assert!(found(filter).await.is_empty(), "{label:?}");
    }
}

#[tokio::test]
async fn search_finds_earlier_prompts_and_sessions_without_a_title() {
    let test = TestStore::new().await;
    let (id, _other) = (test.session().await, test.session().await);
    let facts = vec![
        prompt(
            *SessionId::new().as_uuid(),
            PromptState::Completed,
            Some("fix the parser"),
            1,
        ),
        prompt(
            *SessionId::new().as_uuid(),
            PromptState::Sent,
            Some("now the docs"),
            2,
        ),
    ];
    test.project(id, 2, facts).await;
    for q in ["Parser", "docs"] {
        let filter = SessionFilter {
            q: Some(q.to_owned()),
            ..SessionFilter::default()
        };
        let rows = test
            .store
            .sessions(filter, PageRequest::default())
            .await
            .unwrap()
            .items;
        assert_eq!(rows.iter().map(|row| row.id).collect::<Vec<_>>(), [id], "{q}");
    }
}

#[tokio::test]
async fn filters_narrow_each_other() {
    let test = TestStore::new().await;
    let mut wanted = Vec::new();
    for number in 0..8 {
        let tag = if number & 1 == 0 { "even" } else { "odd" };
        let id = test
            .session_with(|session| session.tag = Some(tag.to_owned()))
            .await;
        if number & 2 == 0 {
            test.project(id, 1, vec![state(SessionState::Idle, 1)]).await;
        }
        if number & 3 == 0 {
            wanted.push(id);
        }
    }
    let filter = SessionFilter {
        state: Some(SessionState::Idle),
        tag: Some("even".to_owned()),
        cwd: Some("/work".to_owned()),
        ..SessionFilter::default()
    };
    let mut rows: Vec<_> = all_pages(1, |page| test.store.sessions(filter.clone(), page))
        .await
        .iter()
        .map(|row| row.id)
        .collect();
    rows.reverse();
    assert_eq!(rows, wanted);
}

#[tokio::test]
async fn the_inbox_is_the_pending_approvals_of_all_sessions() {
    let test = TestStore::new().await;
    let (one, two) = (test.session().await, test.session().await);
    let question = {
        let mut asked = approval(two, 3, "{}");
        asked.kind = ApprovalKind::Question;
        asked
    };
    let decided = approval(one, 1, "{}");
    let facts_of_one = vec![
        Fact::ApprovalOpened(Box::new(decided.clone())),
        Fact::ApprovalOpened(Box::new(approval(one, 2, "{}"))),
        Fact::ApprovalClosed {
            id: decided.id,
            resolution: Resolution {
                state: ApprovalState::Withdrawn,
                how: ApprovalHow::Withdrawal,
                by: "cli".to_owned(),
                response: None,
                input_changed: false,
                permissions_updated: false,
                ran_sha256: None,
                at: at(9),
            },
        },
    ];
    test.project(one, 9, facts_of_one).await;
    test.project(two, 9, vec![Fact::ApprovalOpened(Box::new(question))])
        .await;
    let seqs = async |filter| {
        let rows = test
            .store
            .approvals(filter, PageRequest::default())
            .await
            .unwrap()
            .items;
        rows.iter().map(|row| row.approval.seq.get()).collect::<Vec<_>>()
    };
    let all = ApprovalFilter::default();
    let pending = ApprovalFilter {
        state: Some(ApprovalState::Pending),
        ..all.clone()
    };
    assert_eq!(seqs(all.clone()).await, [3, 2, 1]);
    assert_eq!(seqs(pending.clone()).await, [3, 2]);
    let of_one = ApprovalFilter {
        session: Some(one),
        ..pending.clone()
    };
    assert_eq!(seqs(of_one).await, [2]);
    let questions = ApprovalFilter {
        kind: Some(ApprovalKind::Question),
        ..all.clone()
    };
    assert_eq!(seqs(questions).await, [3]);
    let by_cli = ApprovalFilter {
        by: Some("cli".to_owned()),
        ..all.clone()
    };
    assert_eq!(seqs(by_cli).await, [1]);
    let of_tool = |name: &str| ApprovalFilter {
        subject: Some(name.to_owned()),
        ..all.clone()
    };
    assert_eq!(seqs(of_tool("Bash")).await, [3, 2, 1]);
    assert_eq!(seqs(of_tool("Edit")).await, [0; 0]);
    let asked_at = |seq| approval(one, seq, "{}").requested_at;
    let between = ApprovalFilter {
        from: Some(asked_at(2)),
        to: Some(asked_at(3)),
        ..all
    };
    assert_eq!(seqs(between).await, [2], "the end is not part of it");
}
