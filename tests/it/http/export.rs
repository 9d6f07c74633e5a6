//! The export of a conversation: its three forms, and all that keeps a part from looking like the whole.

use axum::{
    body::Body,
    http::{Method, header},
};
use serde_json::{Value, json};
use trunkline::journal::Source;

use crate::http::{
    find::{rewrite, session},
    harness::Bed,
};

fn lines() -> Vec<(Source, String)> {
    let lines = [
        (
            Source::Client,
            json!({"type": "user", "message": {"role": "user", "content": [{"type": "text", "text": "Look."}, {"type": "image", "source": {}}]}}),
        ),
        (
            Source::Cli,
            json!({"type": "assistant", "parent_tool_use_id": null, "message": {"id": "m", "content": [
            {"type": "thinking", "thinking": "One\ntwo"}, {"type": "text", "text": "I look."}]}}),
        ),
        (
            Source::Cli,
            json!({"type": "assistant", "parent_tool_use_id": null, "message": {"id": "m", "content": [
            {"type": "tool_use", "id": "t", "name": "Bash", "input": {"command": "ls `pwd`", "description": "List"}}]}}),
        ),
        (
            Source::Cli,
            json!({"type": "assistant", "parent_tool_use_id": "t", "message": {"content": [{"type": "text", "text": "below"}]}}),
        ),
        (
            Source::Cli,
            json!({"type": "user", "parent_tool_use_id": null, "message": {"content": [
            {"type": "tool_result", "tool_use_id": "t", "is_error": true, "content": "```\nno\n```\n"}]}}),
        ),
        (Source::Daemon, json!({"type": "state", "state": "stopped"})),
    ];
    lines.map(|(source, line)| (source, line.to_string())).to_vec()
}

fn path(id: &str, format: &str) -> String {
    format!("/v1/sessions/{id}/export?format={format}")
}

async fn events(bed: &Bed, id: &str) -> String {
    let request = bed
        .request(Method::GET, &format!("/v1/sessions/{id}/events"))
        .header(header::ACCEPT, "application/x-ndjson");
    bed.send(request.body(Body::empty()).unwrap()).await.text
}

#[tokio::test]
async fn markdown_reads_as_the_conversation_went() {
    let bed = Bed::start().await;
    let mut lines = lines();
    let long = "out\n".repeat(50_000);
    lines.push((
        Source::Cli,
        json!({"type": "user", "message": {"content": [{"type": "tool_result", "content": long}]}})
            .to_string(),
    ));
    let id = session(&bed, &lines).await;
    let answer = bed.get(&path(&id, "markdown")).await;
    assert_eq!(
        answer.header(header::CONTENT_TYPE),
        "text/markdown; charset=utf-8"
    );
    assert_eq!(
        answer.header(header::CONTENT_DISPOSITION),
        "attachment; filename=\"bed.md\""
    );
    let begins = "# bed\n\n## You\n\nLook.\n\n## You\n\n(image)\n\n> One\n> two\n\nI look.\n\n**Bash**\n\n```\nls `pwd`\n```\n\n\
        Failed:\n\n````\n```\nno\n```\n````\n\nResult:\n\n```\nout\n";
    assert!(answer.text.starts_with(begins), "{}", &answer.text[..400]);
    assert_eq!(answer.text.matches("out\n").count(), 50_000, "outputs are whole");
    let default = bed.get(&format!("/v1/sessions/{id}/export")).await;
    assert_eq!(default.text, answer.text);
}

#[tokio::test]
async fn lines_are_the_journal_and_an_array_has_the_same_records() {
    let bed = Bed::start().await;
    let id = session(&bed, &lines()).await;
    let exported = bed.get(&path(&id, "ndjson")).await;
    assert_eq!(
        exported.header(header::CONTENT_DISPOSITION),
        "attachment; filename=\"bed.ndjson\""
    );
    assert_eq!(exported.text, events(&bed, &id).await);
    let array = bed.get(&path(&id, "json")).await;
    assert_eq!(array.header(header::CONTENT_TYPE), "application/json");
    let records: Vec<&str> = exported.text.lines().collect();
    assert_eq!(array.text, format!("[\n{}\n]\n", records.join(",\n")));

    // The daemon notes the state of a session that has none.
    let empty = session(&bed, &[]).await;
    let array = bed.get(&path(&empty, "json")).await.expect(200);
    assert_eq!(array[0]["data"]["type"], "state", "{array:#}");
    assert_eq!(bed.get(&path(&empty, "markdown")).await.text, "# bed\n\n");
}

#[tokio::test]
async fn records_that_are_not_there_are_told_in_every_form() {
    let bed = Bed::start().await;
    let damaged = session(&bed, &lines()).await;
    rewrite(&bed, &damaged, 1, |lines| [&lines[..1], &lines[3..]].concat());
    let gap = json!({"type": "trunkline.gap", "first_seq": 2, "last_seq": 3, "reason": "lost"});
    let array = bed.get(&path(&damaged, "json")).await.expect(200);
    assert_eq!(array[1], gap, "{array:#}");
    let text = bed.get(&path(&damaged, "ndjson")).await.text;
    assert_eq!(text, events(&bed, &damaged).await);
    assert_eq!(
        serde_json::from_str::<Value>(text.lines().nth(1).unwrap()).unwrap(),
        gap
    );
    let text = bed.get(&path(&damaged, "markdown")).await.text;
    assert!(
        text.contains("(image)\n\n_Records 2 to 3 are missing: the journal was damaged._\n\n"),
        "{text}"
    );

    let cut = session(&bed, &lines()).await;
    rewrite(&bed, &cut, 5, |lines| lines[4..].to_vec());
    let markdown = path(&cut, "markdown");
    let text = bed.get(&markdown).await.text;
    assert!(
        text.starts_with("# bed\n\n_Records 1 to 4 are missing: the journal was damaged._"),
        "{text}"
    );
    // Their removal has a name.
    let removed = bed.dir.path().join("sessions").join(&cut).join("removed.json");
    std::fs::write(removed, r#"{"last_seq":4}"#).unwrap();
    let text = bed.get(&markdown).await.text;
    assert!(
        text.starts_with("# bed\n\n_Records 1 to 4 are no longer kept._\n\nFailed:"),
        "{text}"
    );
    let array = bed.get(&path(&cut, "json")).await.expect(200);
    assert_eq!(
        (&array[0]["last_seq"], &array[1]["seq"]),
        (&json!(4), &json!(5)),
        "{array:#}"
    );
    let text = bed.get(&path(&cut, "ndjson")).await.text;
    assert!(
        text.starts_with(r#"{"type":"trunkline.gap","first_seq":1,"last_seq":4,"reason":"removed"}"#),
        "{text}"
    );
}

#[tokio::test]
async fn an_export_asks_for_a_session_and_a_form_that_there_are() {
    let bed = Bed::start().await;
    let id = session(&bed, &lines()).await;
    for query in ["format=html", "format=", "limit=3"] {
        let answer = bed.get(&format!("/v1/sessions/{id}/export?{query}")).await;
        answer.problem(400, "invalid_query");
    }
    let unknown = path("0197f0f0-5c1e-7000-8000-000000000009", "json");
    bed.get(&unknown).await.problem(404, "session_not_found");
    let viewed = bed.request_with(&bed.viewer_token, Method::GET, &path(&id, "ndjson"));
    let viewed = bed.send(viewed.body(Body::empty()).unwrap()).await;
    assert_eq!(viewed.text, events(&bed, &id).await);
}
