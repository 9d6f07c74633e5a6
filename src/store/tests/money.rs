//! The cost of turns is added up once, exactly, and never taken back.

use sqlx::{ConnectOptions, Connection, migrate::Migrator, sqlite::SqliteConnectOptions};

use super::*;
use crate::store::connect::MIGRATIONS;

#[tokio::test]
async fn a_session_costs_the_sum_of_its_turns_over_restarts() {
    let test = TestStore::new().await;
    let id = test.session().await;
    for (number, cost) in (1..).zip([0.10, 0.15, 0.15]) {
        test.project(id, number, vec![ended(turn(number, Some(cost)))])
            .await;
    }
    let test = test.reopen().await;
    for (number, cost) in (4..).zip([0.05, 0.03]) {
        test.project(id, number, vec![ended(turn(number, Some(cost)))])
            .await;
    }
    let row = test.row(id).await;
    assert_eq!((row.turns, row.cost_usd), (5, usd(0.48)));
    let turns = test.store.turns(id, PageRequest::default()).await.unwrap();
    let costs: Vec<_> = turns
        .items
        .iter()
        .map(|turn| turn.cost_usd.unwrap().as_dollars())
        .collect();
    assert_eq!(costs, [0.10, 0.15, 0.15, 0.05, 0.03]);
}

#[tokio::test]
async fn a_total_never_falls() {
    let test = TestStore::new().await;
    let id = test.session().await;
    test.project(id, 1, vec![ended(turn(1, Some(0.4)))]).await;
    // The CLI compacted its conversation: its own counts begin again, ours go on.
    test.project(
        id,
        2,
        vec![Fact::CliSession {
            id: CliSessionId::new(),
            at: at(2),
        }],
    )
    .await;
    test.project(id, 3, vec![ended(turn(2, Some(-5.0)))]).await;
    assert_eq!(test.row(id).await.cost_usd, usd(0.4));
    test.project(id, 4, vec![ended(turn(3, Some(0.1)))]).await;
    assert_eq!(test.row(id).await.cost_usd, usd(0.5));
    let by_session = usage(&test, UsageGroup::Session).await;
    assert_eq!(by_session[0].cost_usd, usd(0.5), "the sums of both views agree");
}

#[tokio::test]
async fn a_turn_number_is_charged_once() {
    let test = TestStore::new().await;
    let id = test.session().await;
    test.project(id, 1, vec![ended(turn(1, Some(0.4)))]).await;
    test.project(id, 2, vec![ended(turn(1, Some(0.7)))]).await;
    let row = test.row(id).await;
    assert_eq!((row.turns, row.cost_usd), (1, usd(0.4)));
}

#[tokio::test]
async fn an_unknown_cost_is_not_zero() {
    let test = TestStore::new().await;
    let id = test.session().await;
    test.project(
        id,
        1,
        vec![
            ended(turn(1, None)),
            ended(turn(2, Some(0.0))),
            ended(turn(3, Some(0.2))),
        ],
    )
    .await;
    let row = test.row(id).await;
    assert_eq!(
        (row.turns, row.turns_with_unknown_cost, row.cost_usd),
        (3, 1, usd(0.2))
    );
    let turns = test.store.turns(id, PageRequest::default()).await.unwrap().items;
    assert_eq!(turns[0].cost_usd, None);
    assert_eq!(turns[0].usage, None);
    assert_eq!(turns[1].cost_usd, Some(Usd::ZERO));
    let by_session = usage(&test, UsageGroup::Session).await;
    assert_eq!((by_session[0].turns, by_session[0].unknown_cost_turns), (3, 1));
}

#[tokio::test]
async fn token_classes_and_models_stay_apart() {
    let test = TestStore::new().await;
    let id = test.session().await;
    for number in 1..=2 {
        let mut finished = turn(number, Some(0.75));
        finished.usage = Some(tokens(10, 20, 3_000, 400));
        finished.models = vec![
            ModelUsage {
                model: "big".to_owned(),
                tokens: tokens(1, 2, 300, 40),
                cost_usd: Some(usd(0.7)),
                ..ModelUsage::default()
            },
            ModelUsage {
                model: "small".to_owned(),
                tokens: tokens(9, 18, 2_700, 360),
                cost_usd: (number == 1).then(|| usd(0.05)),
                ..ModelUsage::default()
            },
        ];
        test.project(id, number, vec![ended(finished)]).await;
    }
    assert_eq!(test.row(id).await.usage, tokens(20, 40, 6_000, 800));
    let by_model = usage(&test, UsageGroup::Model).await;
    let expected = [
        UsageRow {
            key: Some("big".to_owned()),
            turns: 2,
            simulated_turns: 0,
            cost_usd: usd(1.4),
            unknown_cost_turns: 0,
            usage: tokens(2, 4, 600, 80),
        },
        UsageRow {
            key: Some("small".to_owned()),
            turns: 2,
            simulated_turns: 0,
            cost_usd: usd(0.05),
            unknown_cost_turns: 1,
            usage: tokens(18, 36, 5_400, 720),
        },
    ];
    assert_eq!(by_model, expected);
}

#[tokio::test]
async fn absurd_figures_break_no_sum() {
    let test = TestStore::new().await;
    let id = test.session().await;
    for number in 1..=3 {
        let mut finished = turn(number, None);
        finished.cost_usd = Some(Usd::from_nanos(i64::MAX));
        finished.usage = Some(tokens(u64::MAX, u64::MAX, 0, 0));
        test.project(id, number, vec![ended(finished)]).await;
    }
    let row = test.row(id).await;
    assert_eq!(row.turns, 3);
    let by_day = usage(&test, UsageGroup::Day).await;
    assert_eq!((by_day[0].cost_usd, by_day[0].usage), (row.cost_usd, row.usage));
}

#[tokio::test]
async fn the_running_total_of_a_conversation_is_the_last_one_said() {
    let test = TestStore::new().await;
    let id = test.session().await;
    let conversation = test.row(id).await.cli_session_id;
    assert_eq!(test.store.cli_totals(conversation).await.unwrap(), None);
    let model = |name: &str, cost| ModelUsage {
        model: name.to_owned(),
        tokens: tokens(1, 2, 3, 4),
        cost_usd: cost,
        ..ModelUsage::default()
    };
    let said = [
        CliTotals {
            cost_usd: Some(usd(0.002_400_001)),
            models: vec![model("b", Some(usd(0.002_400_001))), model("a", None)],
        },
        CliTotals {
            cost_usd: None,
            models: Vec::new(),
        },
        CliTotals {
            cost_usd: Some(usd(0.001)),
            models: vec![model("c", Some(usd(0.001)))],
        },
    ];
    for (seq, total) in (1..).zip(said) {
        let fact = Fact::CliTotal {
            cli_session: conversation,
            total: total.clone(),
        };
        test.project(id, seq, vec![fact]).await;
        assert_eq!(test.store.cli_totals(conversation).await.unwrap(), Some(total));
    }
}

#[tokio::test]
async fn usage_is_summed_by_what_was_asked_for() {
    let test = TestStore::new().await;
    let day = 24 * 60 * 60;
    // Directory, tag, and for each turn the day and the cost.
    let sessions = [
        ("/a", Some("red"), vec![(0, 0.1), (1, 0.2)]),
        ("/b", None, vec![(1, 0.4), (2, 0.8)]),
        ("/a", Some(""), vec![(2, 1.6)]),
    ];
    let mut ids = Vec::new();
    for (cwd, tag, turns) in sessions {
        let id = test
            .session_with(|session| {
                session.cwd = cwd.to_owned();
                session.tag = tag.map(str::to_owned);
                if cwd == "/b" {
                    session.options = r#"{"agent":"reviewer"}"#.to_owned();
                }
            })
            .await;
        for (number, (days, cost)) in (1..).zip(turns) {
            let mut finished = turn(number, Some(cost));
            finished.ended_at = at(days * day);
            test.project(id, number, vec![ended(finished)]).await;
        }
        ids.push(id.to_string());
    }
    let costs = async |group_by, from: Option<i64>, to: Option<i64>| {
        let query = UsageQuery {
            group_by,
            from: from.map(|days| at(days * day)),
            to: to.map(|days| at(days * day)),
            zone: None,
        };
        let rows = all_pages(1, |page| test.store.usage(query.clone(), page)).await;
        rows.into_iter()
            .map(|row| {
                (
                    row.key.unwrap_or("-".to_owned()),
                    (row.cost_usd.as_dollars() * 10.0).round() / 10.0,
                )
            })
            .collect::<Vec<_>>()
    };
    let expect = |rows: &[(&str, f64)]| {
        rows.iter()
            .map(|(key, cost)| ((*key).to_owned(), *cost))
            .collect::<Vec<_>>()
    };

    let by_day = expect(&[("2026-01-04", 2.4), ("2026-01-03", 0.6), ("2026-01-02", 0.1)]);
    assert_eq!(costs(UsageGroup::Day, None, None).await, by_day);
    assert_eq!(
        costs(UsageGroup::Day, Some(1), Some(2)).await,
        expect(&[("2026-01-03", 0.6)])
    );
    assert_eq!(
        costs(UsageGroup::Cwd, None, None).await,
        expect(&[("/a", 1.9), ("/b", 1.2)])
    );
    assert_eq!(
        costs(UsageGroup::Tag, None, None).await,
        expect(&[("-", 2.8), ("red", 0.3)])
    );
    assert_eq!(
        costs(UsageGroup::Agent, None, None).await,
        expect(&[("-", 1.9), ("reviewer", 1.2)])
    );
    let by_session = expect(&[(&ids[2], 1.6), (&ids[1], 1.2), (&ids[0], 0.3)]);
    assert_eq!(costs(UsageGroup::Session, None, None).await, by_session);
    assert!(costs(UsageGroup::Model, None, None).await.is_empty());
}

#[tokio::test]
async fn groups_of_equal_cost_page_without_loss() {
    let test = TestStore::new().await;
    for _ in 0..9 {
        let id = test.session().await;
        test.project(id, 1, vec![ended(turn(1, None))]).await;
    }
    let query = UsageQuery {
        group_by: UsageGroup::Session,
        from: None,
        to: None,
        zone: None,
    };
    let rows = all_pages(2, |page| test.store.usage(query.clone(), page)).await;
    let keys: std::collections::BTreeSet<_> = rows.iter().map(|row| row.key.clone()).collect();
    assert_eq!((rows.len(), keys.len()), (9, 9));
}

async fn usage(test: &TestStore, group_by: UsageGroup) -> Vec<UsageRow> {
    let query = UsageQuery {
        group_by,
        from: None,
        to: None,
        zone: None,
    };
    test.store
        .usage(query, PageRequest::default())
        .await
        .unwrap()
        .items
}

#[tokio::test]
async fn simulated_turns_cost_nothing_and_are_counted_apart() {
    let test = TestStore::new().await;
    for agent in [AgentKind::Real, AgentKind::Simulated] {
        let id = test.session().await;
        let started = |seq: u64, agent| Fact::RunStarted {
            id: RunId::new(),
            mode: StartMode::New,
            agent: Some(agent),
            resume_at: None,
            seq: Seq::new(seq),
            at: at(1),
        };
        test.project(id, 1, vec![started(1, agent)]).await;
        // The kind of the first run stays.
        test.project(id, 2, vec![started(2, AgentKind::Simulated)]).await;
        assert_eq!(test.row(id).await.agent, Some(agent));
        let mut finished = turn(1, Some(0.5));
        finished.usage = Some(tokens(10, 20, 30, 40));
        finished.models = vec![ModelUsage {
            model: "m".to_owned(),
            tokens: tokens(10, 20, 30, 40),
            cost_usd: Some(usd(0.5)),
            ..ModelUsage::default()
        }];
        test.project(id, 3, vec![ended(finished)]).await;
        let expected = match agent {
            AgentKind::Real => usd(0.5),
            AgentKind::Simulated => Usd::ZERO,
        };
        assert_eq!(test.row(id).await.cost_usd, expected);
    }
    for group in [
        UsageGroup::Day,
        UsageGroup::Model,
        UsageGroup::Cwd,
        UsageGroup::Tag,
    ] {
        let sums = usage(&test, group).await;
        assert_eq!(sums.len(), 1, "{sums:#?}");
        assert_eq!((sums[0].turns, sums[0].simulated_turns), (1, 1), "{sums:#?}");
        assert_eq!(sums[0].cost_usd, usd(0.5), "{sums:#?}");
        assert_eq!(sums[0].usage, tokens(10, 20, 30, 40), "{sums:#?}");
    }
}

#[tokio::test]
async fn costs_of_old_simulated_turns_leave_the_sums() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("trunkline.db");
    let options = SqliteConnectOptions::new().filename(&path);
    let mut old = options.create_if_missing(true).connect().await.unwrap();
    let known = MIGRATIONS
        .iter()
        .filter(|migration| migration.version < 32)
        .cloned();
    Migrator::with_migrations(known.collect())
        .run(&mut old)
        .await
        .unwrap();
    sqlx::raw_sql(
        "INSERT INTO sessions (id, cwd, options, state, cli_session_id, cli_version, created_at, updated_at, turns,
            cost_nanos, unknown_cost_turns) VALUES
            ('0196aa00-0000-7000-8000-000000000001', '/', '{}', 'stopped', '0196aa00-0000-7000-8000-00000000000a',
                '2.1.0', 1, 1, 2, 1500000000, 0),
            ('0196aa00-0000-7000-8000-000000000002', '/', '{}', 'stopped', '0196aa00-0000-7000-8000-00000000000b',
                '0.0.0-sim', 1, 1, 1, 700000000, 0),
            ('0196aa00-0000-7000-8000-000000000003', '/', '{}', 'stopped', '0196aa00-0000-7000-8000-00000000000c',
                NULL, 1, 1, 0, 0, 0);
         INSERT INTO runs (id, session_id, mode, started_seq, started_at, cli_version) VALUES
            ('0196aa00-0000-7000-8000-0000000000a1', '0196aa00-0000-7000-8000-000000000001', 'new', 1, 1, '0.0.0-sim'),
            ('0196aa00-0000-7000-8000-0000000000a2', '0196aa00-0000-7000-8000-000000000001', 'new', 2, 1, '2.1.0'),
            ('0196aa00-0000-7000-8000-0000000000a3', '0196aa00-0000-7000-8000-000000000002', 'new', 1, 1, '0.0.0-sim');
         INSERT INTO turns (session_id, number, run_id, first_seq, last_seq, started_at, ended_at, prompts, subtype,
            is_error, cost_nanos) VALUES
            ('0196aa00-0000-7000-8000-000000000001', 1, '0196aa00-0000-7000-8000-0000000000a1', 1, 1, 1, 1, '[]', 'success', 0,
                500000000),
            ('0196aa00-0000-7000-8000-000000000001', 2, '0196aa00-0000-7000-8000-0000000000a2', 2, 2, 1, 1, '[]', 'success', 0,
                1000000000),
            ('0196aa00-0000-7000-8000-000000000002', 1, '0196aa00-0000-7000-8000-0000000000a3', 1, 1, 1, 1, '[]', 'success', 0,
                700000000);
         INSERT INTO turn_models (session_id, number, position, model, input_tokens, output_tokens, cache_read_tokens,
            cache_creation_tokens, cost_nanos) VALUES
            ('0196aa00-0000-7000-8000-000000000002', 1, 1, 'm', 1, 1, 1, 1, 700000000);",
    )
    .execute(&mut old)
    .await
    .unwrap();
    old.close().await.unwrap();
    let store = Store::open(&path).await.unwrap();
    let mut found = Vec::new();
    for number in 1..=3 {
        let id = format!("0196aa00-0000-7000-8000-00000000000{number}");
        let row = store.session(id.parse().unwrap()).await.unwrap().unwrap();
        found.push((row.agent, row.cost_usd));
    }
    assert_eq!(
        found,
        [
            (Some(AgentKind::Real), usd(1.0)),
            (Some(AgentKind::Simulated), Usd::ZERO),
            (None, Usd::ZERO),
        ]
    );
    let test = TestStore { dir, store };
    let sums = usage(&test, UsageGroup::Day).await;
    let sum = &sums[0];
    assert_eq!(
        (sum.turns, sum.simulated_turns, sum.cost_usd),
        (1, 2, usd(1.0)),
        "{sums:#?}"
    );
    let models = usage(&test, UsageGroup::Model).await;
    assert_eq!(
        (models[0].turns, models[0].cost_usd),
        (0, Usd::ZERO),
        "{models:#?}"
    );
}

#[tokio::test]
async fn days_are_those_of_the_time_zone_also_when_clocks_change() {
    let test = TestStore::new().await;
    let id = test.session().await;
    let ends = [
        ("2026-03-28T22:30:00Z", "2026-03-28"),
        ("2026-03-28T23:30:00Z", "2026-03-29"),
        // The clocks went on by an hour at 01:00 UTC.
        ("2026-03-29T21:30:00Z", "2026-03-29"),
        ("2026-03-29T22:30:00Z", "2026-03-30"),
        ("2026-10-24T21:30:00Z", "2026-10-24"),
        ("2026-10-24T22:30:00Z", "2026-10-25"),
        // They went back at 01:00 UTC.
        ("2026-10-25T22:30:00Z", "2026-10-25"),
        ("2026-10-25T23:30:00Z", "2026-10-26"),
    ];
    for (number, (ended_at, _)) in (1..).zip(ends) {
        let mut finished = turn(number, Some(1.0));
        finished.ended_at = ended_at.parse().unwrap();
        test.project(id, number, vec![ended(finished)]).await;
    }
    let query = UsageQuery {
        group_by: UsageGroup::Day,
        from: None,
        to: None,
        zone: Some(
            jiff::tz::TimeZoneDatabase::bundled()
                .get("Europe/Berlin")
                .unwrap(),
        ),
    };
    let rows = all_pages(2, |page| test.store.usage(query.clone(), page)).await;
    let days: Vec<_> = rows
        .iter()
        .map(|row| (row.key.clone().unwrap(), row.turns))
        .collect();
    let expected = [
        ("2026-10-26", 1),
        ("2026-10-25", 2),
        ("2026-10-24", 1),
        ("2026-03-30", 1),
        ("2026-03-29", 2),
        ("2026-03-28", 1),
    ];
    assert_eq!(days, expected.map(|(day, turns)| (day.to_owned(), turns)));
}
