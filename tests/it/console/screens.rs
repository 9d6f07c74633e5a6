//! Owns the screens of a first hour: a person talks to an agent in terminals of several kinds, and each screen is kept as a
//! snapshot.

use serde_json::json;

use crate::{
    console::{
        editor::with_session,
        terminal::{Look, Terminal},
    },
    support::{daemon::TestDaemon, model_api::ModelApi},
};

/// The kinds of terminals, by the name in the snapshots.
const LOOKS: [(&str, Look); 3] = [
    (
        "80x24",
        Look {
            rows: 24,
            columns: 80,
            has_cursor: true,
            no_color: false,
        },
    ),
    (
        "120x40",
        Look {
            rows: 40,
            columns: 120,
            has_cursor: true,
            no_color: false,
        },
    ),
    (
        "80x24_no_color",
        Look {
            rows: 24,
            columns: 80,
            has_cursor: true,
            no_color: true,
        },
    ),
];

/// Keeps a screen, without what differs from run to run.
async fn keep(name: &str, daemon: &TestDaemon, terminal: &Terminal) {
    let list = daemon.rest().get("/v1/sessions").await.expect(200);
    let id = list["items"][0]["id"].as_str().unwrap().to_owned();
    let home = daemon.home();
    let root = home.parent().unwrap().display().to_string();
    let mut screen = terminal.painted();
    for (at, _) in screen
        .clone()
        .match_indices("- turn done, ")
        .collect::<Vec<_>>()
        .into_iter()
        .rev()
    {
        let from = at + "- turn done, ".len();
        let digits = screen[from..].find(" s").unwrap_or_default();
        screen.replace_range(from..from + digits, "TIME");
    }
    for (from, to) in [(id.as_str(), "SESSION"), (&id[..8], "SESSION"), (&root, "/ROOT")] {
        screen = screen.replace(from, to);
    }
    // It comes before or behind the outcome of its tool.
    let screen: Vec<&str> = screen
        .lines()
        .filter(|line| !line.contains("- allowed"))
        .collect();
    let screen = screen.join("\n");
    insta::with_settings!({ omit_expression => true, prepend_module_to_snapshot => false }, {
        insta::assert_snapshot!(name, screen);
    });
}

/// A daemon that finds no agent CLI.
async fn without_cli() -> TestDaemon {
    let empty = tempfile::tempdir().unwrap();
    TestDaemon::with_fake().claude_in(empty.path()).start().await
}

/// Whether the last row is the sign of a session that waits for a message.
fn at_rest(screen: &str) -> bool {
    let last = screen.lines().rfind(|line| !line.trim().is_empty());
    last.is_some_and(|line| line.starts_with("idle | ") && line.trim_end().ends_with('>'))
}

/// `costs`: of the session after each turn, which is asked for when the turn is over.
async fn first_hour(
    daemon: &TestDaemon,
    agent: &str,
    [prompts, costs]: [[&str; 2]; 2],
    question: &str,
    told: impl AsyncFn(usize),
) {
    for (kind, look) in LOOKS {
        told(0).await;
        let mut terminal = Terminal::with(daemon, &["new", "--attach", prompts[0]], look);
        terminal.shows(question).await;
        terminal.line("answer >").await;
        keep(&format!("{agent}_{kind}_1_asks"), daemon, &terminal).await;
        terminal.enters("y").await;
        terminal
            .until("the first turn is done", |screen| {
                screen.contains("- turn done") && screen.contains(costs[0]) && at_rest(screen)
            })
            .await;
        keep(&format!("{agent}_{kind}_2_done"), daemon, &terminal).await;
        told(1).await;
        terminal.enters(prompts[1]).await;
        terminal
            .until("the second turn is done", |screen| {
                screen.matches("- turn done").count() == 2 && screen.contains(costs[1]) && at_rest(screen)
            })
            .await;
        terminal.enters("?").await;
        terminal
            .until("the keys are listed", |screen| {
                screen.contains("go to the agent") && at_rest(screen)
            })
            .await;
        keep(&format!("{agent}_{kind}_3_help"), daemon, &terminal).await;
        terminal.types("\u{4}");
        assert_eq!(terminal.code().await, 0, "{}", terminal.screen());
    }
}

#[tokio::test]
async fn the_first_hour_with_the_simulated_agent() {
    let daemon = without_cli().await;
    first_hour(
        &daemon,
        "simulated",
        [["Use a tool, please", "Thank you"], ["$0.0000"; 2]],
        "y allows",
        async |_| {},
    )
    .await;
}

#[tokio::test]
async fn the_first_hour_with_the_real_agent() {
    let api = ModelApi::start();
    let daemon = TestDaemon::with_real(&api).start().await;
    let write =
        json!({"name": "Write", "input": {"file_path": "${MATCH:notes in (\\S+)}", "content": "one\ntwo\n"}});
    let script = [
        json!([{"text": "I will write it down.", "tool": write}, {"text": "It is **written**."}]),
        json!([{"text": "You are welcome."}]),
    ];
    let prompt = "Please keep notes in notes.txt";
    let said = [[prompt, "Thank you"], ["$0.0016", "$0.0024"]];
    first_hour(&daemon, "real", said, "y allows", async |turn| {
        // A new file each time.
        let _none_yet = std::fs::remove_file(daemon.work_dir("here").join("notes.txt"));
        api.default_script(script[turn].clone()).await;
    })
    .await;
}

#[tokio::test]
async fn text_that_streams_and_text_that_is_typed_stay_apart() {
    let rows: String = (1..=1_000)
        .map(|row| format!("row {row} of the answer\n"))
        .collect();
    let (daemon, id) = with_session(&json!([{"text": rows, "chunk_size": 40, "chunk_ms": 1}])).await;
    let terminal = Terminal::new(&daemon, &["attach", &id]);
    terminal.until("it is ready", at_rest).await;
    terminal.types("count\r");
    terminal.shows("row 1 of the answer").await;
    let thought = "a thought that takes as long as the answer";
    for (typed, key) in thought.char_indices() {
        terminal.types(&key.to_string());
        let so_far = &thought[..typed + key.len_utf8()];
        terminal.line(&format!("> {so_far}")).await;
    }
    terminal
        .until("the answer is whole", |screen| screen.contains("- turn done"))
        .await;
    terminal.line(&format!("> {thought}")).await;
    terminal.shows("row 1000 of the answer").await;
    let said = terminal.said();
    let mut rest = said.as_str();
    for row in 1..=1_000 {
        let text = format!("row {row} of the answer\r\n");
        let (_, after) = rest
            .split_once(&text)
            .unwrap_or_else(|| panic!("row {row} is not shown whole, or not in its turn"));
        rest = after;
    }
}

#[tokio::test]
async fn a_screen_that_changes_its_size_keeps_the_line() {
    let (daemon, id) = with_session(&json!([{"text": "fine"}])).await;
    let terminal = Terminal::new(&daemon, &["attach", &id]);
    terminal.until("it is ready", at_rest).await;
    terminal.types("before, ");
    terminal.line("> before,").await;
    terminal.resize(24, 60);
    terminal.types("between, ");
    terminal.line("before, between,").await;
    terminal.resize(50, 160);
    terminal.types("after");
    terminal.line("before, between, after").await;
    terminal.types("\r");
    terminal
        .until("it is answered", |screen| {
            screen.contains("fine") && at_rest(screen)
        })
        .await;
    let sent = daemon.rest().events(&id, 0).await;
    let sent = sent
        .iter()
        .rfind(|it| it["src"] == "client" && it["data"]["type"] == "user");
    let content = &sent.unwrap()["data"]["message"]["content"];
    assert!(
        content.to_string().contains("before, between, after"),
        "{content}"
    );
}

#[tokio::test]
async fn two_people_at_one_session_see_the_same_question_and_its_end() {
    let asks = json!([{"ask": {"input": {"command": "make test"}}}, {"text": "tests are green"}]);
    let (daemon, id) = with_session(&asks).await;
    let [first, second] = [(), ()].map(|()| Terminal::new(&daemon, &["attach", &id]));
    for terminal in [&first, &second] {
        terminal.until("it is ready", at_rest).await;
    }
    first.enters("please test").await;
    for terminal in [&first, &second] {
        terminal.shows("> please test").await;
        terminal.shows("command: make test").await;
        terminal.line("answer >").await;
    }
    second.types("n because");
    second.line("answer > n because").await;
    first.enters("y").await;
    for terminal in [&first, &second] {
        terminal
            .until("both see how it went on", |screen| {
                screen.contains("- allowed") && screen.contains("tests are green") && at_rest(screen)
            })
            .await;
    }
    let told = daemon.rest().events(&id, 0).await;
    let told: Vec<_> = told
        .iter()
        .filter(|it| it["data"]["type"] == "fake_answer")
        .collect();
    assert_eq!(told.len(), 1);
    assert_eq!(told[0]["data"]["response"]["response"]["behavior"], "allow");
}

#[tokio::test]
async fn several_choices_and_own_words_are_answers() {
    let questions = json!({"questions": [
        {"question": "Which fruits?", "header": "Fruits", "multiSelect": true,
         "options": [{"label": "Apple", "description": "red"}, {"label": "Plum", "description": "blue"}, {"label": "Pear", "description": "green"}]},
        {"question": "When?", "header": "When", "multiSelect": false,
         "options": [{"label": "Now", "description": ""}, {"label": "Later", "description": ""}]}]});
    let asks = json!([{"ask": {"tool": "AskUserQuestion", "input": questions}}, {"text": "noted"}]);
    let (daemon, id) = with_session(&asks).await;
    let terminal = Terminal::new(&daemon, &["attach", &id]);
    terminal.until("it is ready", at_rest).await;
    terminal.enters("shop").await;
    terminal.shows("3 Pear - green").await;
    terminal.line("answer >").await;
    terminal.enters("1, 3").await;
    terminal.shows("When?").await;
    terminal.line("answer >").await;
    terminal.enters("on Sunday").await;
    terminal
        .until("it is noted", |screen| {
            screen.contains("noted") && at_rest(screen)
        })
        .await;
    let told = daemon.rest().events(&id, 0).await;
    let told = told
        .iter()
        .rfind(|it| it["data"]["type"] == "fake_answer")
        .unwrap();
    assert_eq!(
        told["data"]["response"]["response"]["updatedInput"]["answers"],
        json!({"Which fruits?": "Apple, Pear", "When?": "on Sunday"})
    );
}
