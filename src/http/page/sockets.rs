//! Owns how the channels of the AsyncAPI document are shown: the frames of each side, with examples.

use std::fmt::Write as _;

use serde_json::Value;

use super::words::{escape, example, fold, kind, members, paragraph, prose};

/// Every channel.
pub(super) fn channels(document: &Value) -> String {
    let channels = document["channels"].as_object().into_iter().flatten();
    channels
        .map(|(name, channel)| channel_of(document, name, channel))
        .collect()
}

fn channel_of(document: &Value, name: &str, channel: &Value) -> String {
    let text = |value: &Value| prose(value.as_str().unwrap_or_default());
    let summary = format!(
        "<b>{}</b> <code>{}</code> {}",
        text(&channel["title"]),
        text(&channel["address"]),
        text(&channel["summary"])
    );
    let mut body = paragraph(channel);
    let query = members(&channel["bindings"]["ws"]["query"]);
    if !query.is_empty() {
        let _ = write!(body, "<h4>Query</h4>{query}");
    }
    let here = format!("#/channels/{name}");
    for (action, heading) in [("send", "From the daemon"), ("receive", "From the client")] {
        let operations = document["operations"].as_object().into_iter().flatten();
        let messages: String = operations
            .filter(|(_, it)| it["action"] == action && it["channel"]["$ref"] == here.as_str())
            .flat_map(|(_, it)| it["messages"].as_array().into_iter().flatten())
            .filter_map(|reference| reference["$ref"].as_str()?.rsplit('/').next())
            .map(|message| message_of(name, message, &document["components"]["messages"][message]))
            .collect();
        if !messages.is_empty() {
            let _ = write!(body, "<h4>{heading}</h4>{messages}");
        }
    }
    fold(&format!("channel-{}", escape(name)), &summary, &body)
}

fn message_of(channel: &str, name: &str, message: &Value) -> String {
    let mut body = format!(
        "<p>{}</p><p>{}</p>",
        prose(message["summary"].as_str().unwrap_or_default()),
        kind(&message["payload"])
    );
    for sample in message["examples"].as_array().into_iter().flatten() {
        body.push_str(&example(&sample["payload"]));
    }
    let title = prose(message["title"].as_str().unwrap_or_default());
    let kinds: Vec<String> = message["examples"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|sample| sample["payload"]["type"].as_str())
        .map(|kind| format!("<code>{}</code>", escape(kind)))
        .collect();
    let kind = kinds.first().map_or("", String::as_str);
    let id = format!("message-{}-{}", escape(channel), escape(name));
    fold(&id, &format!("{title} {kind}"), &body)
}
