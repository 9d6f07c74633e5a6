//! Owns `log`: a conversation, printed to its end or followed.

use std::collections::VecDeque;

use super::{
    CliError, args,
    attach::{
        render::{Event, Screen},
        socket::{Frame, Socket},
    },
    client::Client,
    output::{Output, Tone, note},
    request, resolve, view,
};

/// `log`
pub(super) async fn log(client: &Client, output: &Output, log: &args::Log) -> Result<(), CliError> {
    let id = resolve::session(client, &log.session).await?;
    let mut socket = Socket::open(client, &id, Some(0)).await?;
    let mut screen = Screen::joining();
    let mut head = None;
    let mut is_over = false;
    let mut lines: VecDeque<(Tone, String)> = VecDeque::new();
    loop {
        let text = match socket.next().await {
            Frame::Text(text) => text,
            Frame::Closed(reason) => {
                note(&format!("the daemon closed the connection: {reason}"));
                return Ok(());
            }
            Frame::Lost => {
                return Err(CliError::NotRunning {
                    reason: "the connection was lost".into(),
                    hint: "try again once the daemon is back".into(),
                });
            }
        };
        let Ok(frame) = request::parse(text.as_bytes()) else {
            continue;
        };
        let seq = view::number(&frame, &["seq"]);
        if output.is_json() && seq.is_some() {
            lines.push_back((Tone::Plain, format!("{}\n", text.trim_end())));
        }
        for event in screen.frame(&id, &frame) {
            match event {
                Event::Snapshot { head: newest, .. } => head = Some(newest),
                Event::Text(tone, text) if !output.is_json() && head.is_some() => match lines.back_mut() {
                    Some((_, open)) if !open.ends_with('\n') => open.push_str(&text),
                    _ => lines.push_back((tone, text)),
                },
                Event::Asked(approval) if !output.is_json() => {
                    let asks = format!("? it asks: {}\n", request::in_a_line(&approval));
                    lines.push_back((Tone::Strong, asks));
                }
                _ => {}
            }
        }
        let newest = log
            .lines
            .map(|lines| usize::try_from(lines).unwrap_or(usize::MAX));
        if !is_over && let Some(newest) = newest {
            let excess = lines.len().saturating_sub(newest);
            lines.drain(..excess);
        }
        is_over |= head.is_some_and(|head| seq.unwrap_or(0) >= head);
        // Without a bound nothing has to be held back.
        if is_over || newest.is_none() {
            for (tone, text) in lines.drain(..) {
                if output.is_json() {
                    output.raw_line(text.trim_end())?;
                } else {
                    output.text(tone, &text)?;
                }
            }
        }
        if is_over && !log.follow {
            socket.close().await;
            return Ok(());
        }
    }
}
