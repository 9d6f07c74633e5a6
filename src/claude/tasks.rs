//! Owns the reading of lines about tasks: that one began, how far it has come, and how it ended.

use super::{Envelope, facts};
use crate::{
    domain::{
        TaskNews,
        task::{MAX_TASK_TEXT_CHARS, TaskUsage},
    },
    json,
};

/// The longest id of a task, in bytes.
const MAX_ID_BYTES: usize = 128;

/// The news of a task in a line; `None` for any other line.
pub fn read(line: &Envelope<'_>) -> Option<TaskNews> {
    if !line.is("system") {
        return None;
    }
    match line.subtype.as_deref()? {
        "task_started" => started(line),
        "task_progress" => progressed(line),
        "task_updated" => updated(line),
        "task_notification" => notified(line),
        _ => None,
    }
}

fn started(line: &Envelope<'_>) -> Option<TaskNews> {
    let [id, call, description, agent, kind, parent, depth, backgrounded] = json::members(
        line.line,
        [
            "task_id",
            "tool_use_id",
            "description",
            "subagent_type",
            "task_type",
            "parent_task_id",
            "spawn_depth",
            "is_backgrounded",
        ],
    )?;
    Some(TaskNews {
        task_id: name(id)?,
        is_start: true,
        status: Some("running".to_owned()),
        kind: name(kind),
        agent: name(agent),
        description: text(description),
        tool_use_id: name(call),
        parent_task_id: name(parent),
        depth: depth.and_then(json::count),
        is_backgrounded: backgrounded.and_then(json::boolean),
        ..TaskNews::default()
    })
}

/// Its `description` is that of the step that runs, not of the task.
fn progressed(line: &Envelope<'_>) -> Option<TaskNews> {
    let [id, used, tool, summary] =
        json::members(line.line, ["task_id", "usage", "last_tool_name", "summary"])?;
    Some(TaskNews {
        task_id: name(id)?,
        usage: used.and_then(usage),
        last_tool: name(tool),
        summary: text(summary),
        ..TaskNews::default()
    })
}

fn updated(line: &Envelope<'_>) -> Option<TaskNews> {
    let [id, patch] = json::members(line.line, ["task_id", "patch"])?;
    let [status, description, error, backgrounded] =
        json::members(patch?, ["status", "description", "error", "is_backgrounded"])?;
    Some(TaskNews {
        task_id: name(id)?,
        status: name(status),
        description: text(description),
        error: text(error),
        is_backgrounded: backgrounded.and_then(json::boolean),
        ..TaskNews::default()
    })
}

fn notified(line: &Envelope<'_>) -> Option<TaskNews> {
    let [id, call, status, file, summary, used] = json::members(
        line.line,
        [
            "task_id",
            "tool_use_id",
            "status",
            "output_file",
            "summary",
            "usage",
        ],
    )?;
    Some(TaskNews {
        task_id: name(id)?,
        status: name(status),
        tool_use_id: name(call),
        output_file: text(file).filter(|file| !file.is_empty()),
        summary: text(summary),
        usage: used.and_then(usage),
        ..TaskNews::default()
    })
}

fn usage(raw: &str) -> Option<TaskUsage> {
    let [tokens, tools, duration] = json::members(raw, ["total_tokens", "tool_uses", "duration_ms"])?;
    Some(TaskUsage {
        total_tokens: json::count(tokens?)?,
        tool_uses: tools.and_then(json::count).unwrap_or_default(),
        duration_ms: duration.and_then(json::count).unwrap_or_default(),
    })
}

fn name(raw: Option<&str>) -> Option<String> {
    facts::text(raw).filter(|name| !name.is_empty() && name.len() <= MAX_ID_BYTES)
}

fn text(raw: Option<&str>) -> Option<String> {
    let text = facts::text(raw)?;
    match text.char_indices().nth(MAX_TASK_TEXT_CHARS) {
        Some((end, _)) => Some(text[..end].to_owned()),
        None => Some(text),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claude::scan;

    #[test]
    fn a_recorded_sub_agent_begins_goes_on_and_ends() {
        let lines = [
            r#"{"type":"system","subtype":"task_started","task_id":"a1","tool_use_id":"t1","description":"do sub","subagent_type":"general-purpose","is_backgrounded":false,"spawn_depth":1,"task_type":"local_agent","prompt":"x"}"#,
            r#"{"type":"system","subtype":"task_progress","task_id":"a1","description":"Running touch sub","usage":{"total_tokens":101,"tool_uses":1,"duration_ms":87},"last_tool_name":"Bash"}"#,
            r#"{"type":"system","subtype":"task_updated","task_id":"a1","patch":{"status":"completed","end_time":1795814975640}}"#,
            r#"{"type":"system","subtype":"task_notification","task_id":"a1","status":"completed","output_file":"","summary":"sub final","usage":{"total_tokens":120,"tool_uses":1,"duration_ms":303}}"#,
        ];
        let news: Vec<_> = lines
            .iter()
            .map(|line| read(&scan(line.as_bytes()).unwrap()).unwrap())
            .collect();
        assert!(news[0].is_start && news.iter().skip(1).all(|news| !news.is_start));
        assert_eq!(news[0].description.as_deref(), Some("do sub"));
        assert_eq!(news[1].description, None, "that is the step's");
        assert_eq!(news[2].status.as_deref(), Some("completed"));
        assert_eq!(news[3].usage.unwrap().total_tokens, 120);
        assert_eq!(news[3].output_file, None);
        for other in [
            r#"{"type":"system","subtype":"init"}"#,
            r#"{"type":"task_started","task_id":"x"}"#,
        ] {
            assert_eq!(read(&scan(other.as_bytes()).unwrap()), None, "{other}");
        }
    }
}
