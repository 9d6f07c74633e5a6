//! Choices at run time, as they are kept and given back.

use super::*;
use crate::claude::{LaunchOptions, control::Fields, options::Thinking};

fn raw(text: &str) -> Box<RawValue> {
    RawValue::from_string(text.to_owned()).unwrap()
}

fn answer(id: &str, is_done: bool) -> ControlResponse {
    let outcome = if is_done {
        format!(r#"{{"subtype":"success","request_id":"{id}"}}"#)
    } else {
        format!(r#"{{"subtype":"error","request_id":"{id}","error":"no"}}"#)
    };
    let line = format!(r#"{{"type":"control_response","response":{outcome}}}"#);
    ControlResponse::read(&crate::claude::scan(line.as_bytes()).unwrap()).unwrap()
}

fn settings(values: &str) -> String {
    format!(r#"{{"subtype":"apply_flag_settings","settings":{values}}}"#)
}

/// The line that gives the settings back.
fn restored(kept: &Kept) -> String {
    let step = restore::step(kept, "trunkline-restore-settings", &[], |_| true).unwrap();
    String::from_utf8(step.line).unwrap()
}

#[test]
fn settings_are_merged_and_null_removes_one() {
    let mut kept = Kept::default();
    kept.set(&settings(r#"{"permissions":{"deny":["A"]},"b":1.50}"#), "rest");
    kept.set(&settings(r#"{"permissions":{"ask":["B"]},"c":{}}"#), "rest");
    kept.set(&settings(r#"{"c":null}"#), "rest");
    let line = restored(&kept);
    assert!(
        line.contains(r#""settings":{"b":1.50,"permissions":{"ask":["B"]}}"#),
        "{line}"
    );
    assert_eq!(kept.steps(), ["trunkline-restore-settings"]);
    kept.set(&settings(r#"{"b":null,"permissions":null}"#), "rest");
    assert!(kept.is_empty() && kept.steps().is_empty());
}

#[test]
fn an_effort_that_was_taken_back_is_taken_back_again() {
    let mut kept = Kept::default();
    kept.set(&settings(r#"{"effortLevel":null}"#), "rest");
    assert!(restored(&kept).contains(r#""settings":{"effortLevel":null}"#));
}

#[test]
fn a_newer_model_wins_over_that_of_the_settings() {
    let mut kept = Kept::default();
    kept.set(&settings(r#"{"model":"one","x":1}"#), "rest");
    kept.set(r#"{"subtype":"set_model","model":"two"}"#, "rest");
    assert!(!restored(&kept).contains("one"));
    kept.set(&settings(r#"{"model":"three"}"#), "rest");
    assert!(restored(&kept).contains("three"));
}

#[test]
fn a_choice_counts_once_the_cli_has_done_it() {
    let dir = tempfile::tempdir().unwrap();
    let mut choices = Choices::open(dir.path());
    choices.ask("one", raw(&settings(r#"{"a":1}"#)), "rest").unwrap();
    choices.ask("two", raw(&settings(r#"{"b":2}"#)), "rest").unwrap();
    // Another daemon reads the answers.
    let mut choices = Choices::open(dir.path());
    assert!(choices.get().unwrap().steps().is_empty());
    choices.answered(&answer("one", true));
    choices.answered(&answer("two", false));
    choices.answered(&answer("three", true));
    let mut choices = Choices::open(dir.path());
    let line = restored(choices.get().unwrap());
    assert!(line.contains(r#""settings":{"a":1}"#), "{line}");
}

#[test]
fn what_a_dead_process_has_not_answered_is_not_set() {
    let dir = tempfile::tempdir().unwrap();
    let mut choices = Choices::open(dir.path());
    choices.ask("one", raw(&settings(r#"{"a":1}"#)), "rest").unwrap();
    choices.run_ended(|_| false);
    choices.answered(&answer("one", true));
    assert!(choices.get().unwrap().is_empty());
    assert!(Choices::open(dir.path()).get().unwrap().is_empty());
    assert!(
        dir.path().join(FILE).exists(),
        "its absence would say that it was lost"
    );
}

#[test]
fn a_file_that_is_gone_holds_up_no_start() {
    let dir = tempfile::tempdir().unwrap();
    let mut choices = Choices::open(dir.path());
    choices.ask("one", raw(&settings(r#"{"a":1}"#)), "rest").unwrap();
    choices.answered(&answer("one", true));
    std::fs::remove_file(dir.path().join(FILE)).unwrap();
    // The last choice is taken back.
    choices
        .kept
        .as_mut()
        .unwrap()
        .set(&settings(r#"{"a":null}"#), "rest");
    assert!(choices.get().unwrap().is_empty());
}

#[test]
fn only_the_owner_can_read_the_file() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let mut choices = Choices::open(dir.path());
    choices.ask("one", raw(&settings(r#"{"a":1}"#)), "rest").unwrap();
    let mode = std::fs::metadata(dir.path().join(FILE))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_damaged_file_is_an_error_until_it_is_put_aside() {
    for text in [
        "",
        "{",
        r#"{"version":1,"settings":{"a":"SECRET"}"#,
        r#"{"version":2}"#,
        r#"{"version":1,"from_the_future":["SECRET"]}"#,
    ] {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join(FILE), text).unwrap();
        let mut choices = Choices::open(dir.path());
        let error = choices.get().unwrap_err().to_string();
        assert!(
            error.contains("choices.json") && !error.contains("SECRET"),
            "{error}"
        );
        assert!(choices.ask("one", raw(&settings(r#"{"a":1}"#)), "rest").is_err());
        choices.answered(&answer("one", true));
        choices.run_ended(|_| false);
        let untouched = std::fs::read_to_string(dir.path().join(FILE)).unwrap();
        assert_eq!(untouched, text);
        choices.put_aside().unwrap();
        assert!(choices.get().unwrap().is_empty());
        let aside = std::fs::read_to_string(dir.path().join(ASIDE)).unwrap();
        assert_eq!(aside, text);
    }
}

fn began(has_choices: impl Into<Option<bool>>, restores: bool) -> ChoiceRecord {
    ChoiceRecord::Began {
        has_choices: has_choices.into(),
        restores,
    }
}

/// The consequences of a file that is not there: whether starts are refused, and whether there is a notice.
fn of_no_file(records: &[ChoiceRecord]) -> (bool, bool) {
    let dir = tempfile::tempdir().unwrap();
    let mut choices = Choices::open(dir.path());
    choices.begin_replay();
    for record in records {
        choices.on_record(*record);
    }
    choices.end_replay();
    let is_refused = matches!(choices.get(), Err(ChoicesError::Missing { .. }));
    assert_eq!(choices.is_unusable(), is_refused);
    let is_told = choices.take_lost().is_some();
    assert!(choices.take_lost().is_none(), "it is told once");
    (is_refused, is_told)
}

#[test]
fn a_file_is_missed_where_the_records_are_sure_that_there_was_one() {
    let sent = |is_redacted| ChoiceRecord::Sent { is_redacted };
    let none = began(None, false);
    assert_eq!(of_no_file(&[]), (false, false));
    assert_eq!(of_no_file(&[began(true, false)]), (true, false));
    assert_eq!(of_no_file(&[began(false, false)]), (false, false));
    assert_eq!(of_no_file(&[began(false, false), sent(false)]), (true, false));
    // Each process says it anew.
    assert_eq!(
        of_no_file(&[began(true, false), began(false, false)]),
        (false, false)
    );
    assert_eq!(of_no_file(&[none, sent(true), none]), (false, false));
    // Under older versions it may have been removed in order.
    assert_eq!(of_no_file(&[none]), (false, false));
    assert_eq!(of_no_file(&[none, sent(false)]), (false, false));
    assert_eq!(of_no_file(&[none, sent(true)]), (false, true));
    assert_eq!(of_no_file(&[began(None, true)]), (false, true));
}

#[test]
fn a_missing_file_is_made_neither_of_its_last_part_nor_twice() {
    let deny = raw(
        r#"{"updatedPermissions":[{"type":"addRules","behavior":"deny","rules":[{"toolName":"A"}],"destination":"session"}]}"#,
    );
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join(FILE);
    let read = || {
        let mut choices = Choices::open(dir.path());
        choices.begin_replay();
        choices.on_record(began(false, false));
        choices.rules_updated(Seq::new(7), &deny);
        choices.on_record(ChoiceRecord::Sent { is_redacted: true });
        choices.end_replay();
        choices
    };
    let mut choices = read();
    choices.rules_updated(Seq::new(8), &deny);
    assert!(choices.ask("one", raw(&settings("{}")), "rest").is_err());
    assert!(!file.exists());
    choices.put_aside().unwrap();
    assert!(choices.get().unwrap().steps().is_empty());
    assert!(!dir.path().join(ASIDE).exists());
    assert!(read().get().is_ok(), "it is there and says that nothing is set");
    // A person who knows that nothing is lost can say so.
    std::fs::write(&file, r#"{"version":1}"#).unwrap();
    assert!(read().get().is_ok());
}

#[test]
fn a_choice_that_cannot_be_kept_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut choices = Choices::open(&dir.path().join("gone"));
    let refused = choices.ask("one", raw(&settings(r#"{"a":1}"#)), "rest");
    assert!(matches!(refused, Err(ChoicesError::Unwritten(_))), "{refused:?}");
    choices.answered(&answer("one", true));
    assert!(choices.get().unwrap().is_empty());
}

#[test]
fn the_journal_gets_names_and_no_values() {
    let line = secret_line(
        "1",
        "apply_flag_settings",
        &settings(r#"{"env":{"K":"SECRET"}}"#),
        &Fields::new(),
    )
    .unwrap();
    let line = String::from_utf8(line).unwrap();
    assert!(line.contains(r#""settings":{"env":"redacted"}"#), "{line}");
    let servers = r#"{"subtype":"mcp_set_servers","servers":{"a":{"type":"http","headers":{"x":"SECRET"}},"b":{"command":"SECRET"}},"new":"SECRET"}"#;
    let line =
        String::from_utf8(secret_line("1", "mcp_set_servers", servers, &Fields::new()).unwrap()).unwrap();
    assert!(
        line.contains(r#""servers":{"a":{"type":"http"},"b":{}}"#),
        "{line}"
    );
    assert!(!line.contains("SECRET"));
    assert!(secret_line("1", "set_model", "{}", &Fields::new()).is_none());
}

fn shaped(options: &str, requests: &[&str]) -> LaunchOptions {
    let mut kept = Kept::default();
    for request in requests {
        kept.set(request, "rest");
    }
    let mut options: LaunchOptions = serde_json::from_str(options).unwrap();
    kept.shape(&mut options);
    options
}

fn display(options: &LaunchOptions) -> Option<&str> {
    let extra = options.extra_args.as_ref()?;
    extra.get("thinking-display")?.as_deref()
}

#[test]
fn how_thinking_is_shown_stays_until_somebody_says_otherwise() {
    let set = |rest: &str| format!(r#"{{"subtype":"set_max_thinking_tokens","max_thinking_tokens":{rest}}}"#);
    let launch = r#"{"thinking":{"type":"enabled","budget_tokens":9,"display":"omitted"}}"#;
    let options = shaped(launch, &[&set("8000")]);
    assert!(options.thinking.is_none());
    assert_eq!(
        (options.max_thinking_tokens, display(&options)),
        (Some(8000), Some("omitted"))
    );
    let options = shaped(
        "{}",
        &[&set(r#"8000,"thinking_display":"summarized""#), &set("7000")],
    );
    assert_eq!(
        (options.max_thinking_tokens, display(&options)),
        (Some(7000), Some("summarized"))
    );
    let options = shaped(launch, &[&set(r#"null,"thinking_display":null"#)]);
    assert_eq!((options.max_thinking_tokens, display(&options)), (None, None));
    let options = shaped(launch, &[]);
    assert!(matches!(options.thinking, Some(Thinking::Enabled { .. })));
}

fn set_servers(servers: &str) -> String {
    format!(r#"{{"subtype":"mcp_set_servers","servers":{servers}}}"#)
}

#[test]
fn the_last_servers_are_set_again_without_those_of_absent_clients() {
    let mut kept = Kept::default();
    kept.set(&set_servers(r#"{"old":{"command":"x"}}"#), "rest");
    kept.set(
        &set_servers(r#"{"here":{"type":"sdk","name":"here"},"gone":{"type":"sdk","name":"gone"}}"#),
        "ws:phone",
    );
    // Requests over REST leave owners alone.
    kept.set(
        &set_servers(r#"{"gone":{"type":"sdk","name":"gone"},"el":{"command":"y","env":{"K":"SECRET"}}}"#),
        "rest",
    );
    let id = "trunkline-restore-servers";
    let step = restore::step(&kept, id, &[], |client| client.to_string() != "phone").unwrap();
    let line = String::from_utf8(step.line).unwrap();
    assert!(
        line.contains(r#""servers":{"el":{"command":"y","env":{"K":"SECRET"}}}"#),
        "{line}"
    );
    assert_eq!(step.left_out, ["gone"]);
    assert!(
        !String::from_utf8(step.record.unwrap())
            .unwrap()
            .contains("SECRET")
    );
    let step = restore::step(&kept, id, &[], |_| true).unwrap();
    let record = String::from_utf8(step.record.unwrap()).unwrap();
    assert!(record.contains(r#""owners":{"gone":"phone"}"#), "{record}");
    kept.set(&set_servers("{}"), "rest");
    assert_eq!(kept.steps(), [id], "that there are none holds too");
}

#[test]
fn toggles_and_modes_come_after_the_servers() {
    let mut kept = Kept::default();
    let toggle = |name: &str, enabled: bool| {
        format!(r#"{{"subtype":"mcp_toggle","serverName":"{name}","enabled":{enabled}}}"#)
    };
    let mode = |mode: &str| {
        format!(r#"{{"subtype":"set_mcp_permission_mode_override","serverName":"a","mode":{mode}}}"#)
    };
    kept.set(&mode(r#""auto""#), "rest");
    kept.set(&toggle("a", false), "rest");
    kept.set(&toggle("b", false), "rest");
    kept.set(&toggle("b", true), "rest");
    kept.set(&set_servers("{}"), "rest");
    kept.set(&settings(r#"{"x":1}"#), "rest");
    let steps = kept.steps();
    let names: Vec<&str> = steps
        .iter()
        .filter_map(|id| id.strip_prefix("trunkline-restore-"))
        .collect();
    assert_eq!(names, ["settings", "servers", "off/a", "mode/a"]);
    for id in &steps {
        assert!(restore::step(&kept, id, &[], |_| true).is_some(), "{id}");
    }
    kept.set(&mode("null"), "rest");
    assert!(!kept.steps().contains(&"trunkline-restore-mode/a".to_owned()));
    assert!(tolerates("trunkline-restore-off/a", "Server not found: a"));
    assert!(!tolerates("trunkline-restore-off/a", "no"));
    assert!(!tolerates("trunkline-restore-settings", "Server not found: a"));
}

#[test]
fn rules_that_were_put_aside_do_not_come_back() {
    let deny = raw(
        r#"{"updatedPermissions":[{"type":"addRules","behavior":"ask","rules":[{"toolName":"A"}],"destination":"session"}]}"#,
    );
    let dir = tempfile::tempdir().unwrap();
    Choices::open(dir.path()).rules_updated(Seq::new(7), &deny);
    let mut choices = Choices::open(dir.path());
    let request = settings(r#"{"permissions":{}}"#);
    assert!(choices.with_rules("apply_flag_settings", &request).is_some());
    // The journal is read again.
    choices.rules_updated(Seq::new(7), &deny);
    choices.put_aside().unwrap();
    choices.get().unwrap();
    let mut choices = Choices::open(dir.path());
    choices.rules_updated(Seq::new(7), &deny);
    assert!(choices.with_rules("apply_flag_settings", &request).is_none());
}

#[test]
fn settings_that_are_given_back_keep_the_rules_that_ask() {
    let mut kept = Kept::default();
    kept.set(&settings(r#"{"permissions":{"deny":["A"]},"b":1}"#), "rest");
    kept.rules.answered(
        Seq::new(1),
        r#"{"updatedPermissions":[{"type":"addRules","behavior":"ask","rules":[{"toolName":"B"}],"destination":"session"}]}"#,
    );
    let line = restored(&kept);
    assert!(
        line.contains(r#""permissions":{"deny":["A"],"ask":["B"]}"#),
        "{line}"
    );
}
