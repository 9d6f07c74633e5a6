//! Owns the words of `attach`: the commands that are typed behind a slash, the list of keys, the sign of the prompt.

use std::time::Duration;

/// The text that `?` shows.
pub(super) const KEYS: &str = "\
Enter sends, Alt-Enter starts a new line, a pasted text is one message
Up and Down find earlier messages, Ctrl-R searches them, Tab completes
Esc or Ctrl-C interrupts, Ctrl-D on an empty line leaves; the session goes on
/model NAME, /mode MODE  change the model or when it asks
/attach SESSION          go to another session
/status, /resume, /stop  look at the session, start it again, end its process
/quit                    as Ctrl-D
other lines that begin with / go to the agent";

/// A command for `attach` itself.
#[derive(Debug, PartialEq)]
pub(super) enum Command {
    Keys,
    Leave,
    Status,
    Resume,
    Stop,
    Model(String),
    Mode(String),
    Attach(String),
    /// It lacks what it needs.
    Incomplete(&'static str),
}

/// The commands, for completion.
pub(super) const COMMANDS: &[&str] = &[
    "/attach", "/help", "/mode", "/model", "/quit", "/resume", "/status", "/stop",
];

/// The modes, for completion.
pub(super) const MODES: &[&str] = &["default", "acceptEdits", "plan", "dontAsk", "auto"];

/// The command that a line is; everything else is for the agent.
pub(super) fn command(line: &str) -> Option<Command> {
    let line = line.trim();
    let (name, rest) = line.split_once(' ').unwrap_or((line, ""));
    let rest = rest.trim();
    let with = |how, make: fn(String) -> Command| match rest {
        "" => Command::Incomplete(how),
        rest => make(rest.to_owned()),
    };
    Some(match (name, rest) {
        ("?" | "/help" | "/keys", "") => Command::Keys,
        ("/quit" | "/exit", "") => Command::Leave,
        ("/status", "") => Command::Status,
        ("/resume", "") => Command::Resume,
        ("/stop", "") => Command::Stop,
        ("/model", _) => with("/model takes the name of a model", Command::Model),
        ("/mode", _) => with(
            "/mode takes a permission mode, such as acceptEdits",
            Command::Mode,
        ),
        ("/attach", _) => with("/attach takes the id of a session", Command::Attach),
        _ => return None,
    })
}

/// The parts of the prompt's sign.
#[derive(Debug, Default)]
pub(super) struct Signs<'a> {
    pub(super) state: &'a str,
    /// For how long it has been at work.
    pub(super) working: Option<Duration>,
    /// The tool that runs.
    pub(super) tool: Option<&'a str>,
    pub(super) model: &'a str,
    pub(super) mode: &'a str,
    pub(super) cost: &'a str,
}

/// The sign of the prompt: as much of it as leaves half of the row for typing.
pub(super) fn sign(signs: &Signs<'_>, width: usize) -> String {
    let mut state = signs.state.to_owned();
    if let Some(working) = signs.working.filter(|working| working.as_secs() > 0) {
        state.push_str(&view_seconds(working.as_secs()));
    }
    if let Some(tool) = signs.tool {
        state.push(' ');
        state.push_str(tool);
    }
    let most: [&[&str]; 3] = [
        &[&state, signs.model, signs.mode, signs.cost],
        &[&state, signs.mode, signs.cost],
        &[&state, signs.cost],
    ];
    let joined = most.map(|parts| {
        let parts: Vec<&str> = parts.iter().copied().filter(|part| !part.is_empty()).collect();
        parts.join(" | ")
    });
    let fits = |sign: &String| sign.chars().count() * 2 < width.max(60);
    joined.into_iter().find(fits).unwrap_or(state) + " "
}

fn view_seconds(seconds: u64) -> String {
    match seconds {
        0..60 => format!(" {seconds} s"),
        _ => format!(" {} min {} s", seconds / 60, seconds % 60),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_told_from_messages() {
        for (line, expected) in [
            ("?", Some(Command::Keys)),
            (" /quit ", Some(Command::Leave)),
            ("/model opus", Some(Command::Model("opus".into()))),
            ("/compact", None),
            ("what?", None),
            ("/resume the work", None),
            ("", None),
        ] {
            assert_eq!(command(line), expected, "{line}");
        }
        assert!(matches!(command("/mode"), Some(Command::Incomplete(_))));
    }

    #[test]
    fn the_sign_tells_what_there_is_room_for() {
        let signs = Signs {
            state: "busy",
            working: Some(Duration::from_secs(75)),
            model: "opus",
            cost: "$0.01",
            ..Signs::default()
        };
        assert_eq!(sign(&signs, 100), "busy 1 min 15 s | opus | $0.01 ");
        let signs = Signs {
            model: "a-model-with-a-very-long-name-indeed",
            ..signs
        };
        assert_eq!(sign(&signs, 20), "busy 1 min 15 s | $0.01 ");
        let signs = Signs {
            working: None,
            mode: "default",
            ..signs
        };
        for (width, expected) in [
            (
                160,
                "busy | a-model-with-a-very-long-name-indeed | default | $0.01 ",
            ),
            (80, "busy | default | $0.01 "),
        ] {
            assert_eq!(sign(&signs, width), expected, "{width}");
        }
        let long = Signs {
            state: "waiting for a permission to act",
            ..signs
        };
        assert_eq!(sign(&long, 60), "waiting for a permission to act ");
    }
}
