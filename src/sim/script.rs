//! Owns what a prompt makes the agent do, and its words. Every text says that it is simulated.

/// The event in a turn, before the closing words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Act {
    /// Just an answer.
    Answer,
    /// A shell command is asked for, and not run.
    Tool,
    /// Two questions are asked.
    Question,
    /// A plan is shown for approval.
    Plan,
    /// A form of a server is shown.
    Form,
    /// A long answer.
    Slow,
    /// The turn fails.
    Error,
}

/// The command that the simulated tool pretends to run when the prompt names none.
const COMMAND: &str = "echo 'hello from the simulated agent'";

/// The simulated plan.
pub(super) const PLAN: &str = "# A simulated plan\n\n1. Look around.\n2. Change nothing.\n3. Say so.\n";

/// The agent's action on a prompt: the first word that it knows decides.
pub(super) fn act(prompt: &str) -> Act {
    prompt
        .split(|c: char| !c.is_alphanumeric())
        .find_map(|word| match word.to_lowercase().as_str() {
            "tool" | "tools" => Some(Act::Tool),
            "question" | "questions" => Some(Act::Question),
            "plan" => Some(Act::Plan),
            "form" => Some(Act::Form),
            "slow" => Some(Act::Slow),
            "error" => Some(Act::Error),
            _ => None,
        })
        .unwrap_or(Act::Answer)
}

/// The command to pretend to run: what stands behind `run: `, to the end of the line.
pub(super) fn command(prompt: &str) -> &str {
    prompt
        .split_once("run: ")
        .and_then(|(_, rest)| rest.lines().next())
        .map(str::trim)
        .filter(|command| !command.is_empty())
        .unwrap_or(COMMAND)
}

/// The answer to a prompt that asks for nothing special.
pub(super) fn answer(prompt: &str, turn: u64, first_prompt: Option<&str>) -> String {
    let history = first_prompt.map_or_else(String::new, |first| {
        format!(
            " This is turn {turn} of our conversation, which began with \"{}\".",
            beginning(first)
        )
    });
    format!(
        "Hello! I am Trunkline's simulated agent: no model was asked, and nothing was run. You wrote {}: \
         \"{}\".{history} Put one of the words tool, question, plan, form, slow or error into your message to see what else \
         I can do.",
        match prompt.split_whitespace().count() {
            1 => "1 word".to_owned(),
            count => format!("{count} words"),
        },
        beginning(prompt)
    )
}

/// A text that takes a while to stream.
pub(super) fn long_text() -> String {
    const LINES: usize = 40;
    let lines: String = (1..=LINES)
        .map(|line| format!("Line {line} of {LINES} of simulated text.\n"))
        .collect();
    format!("This is the simulated agent, streaming slowly so that you can interrupt it.\n{lines}")
}

fn beginning(text: &str) -> String {
    const LONGEST: usize = 80;
    let one_line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if one_line.chars().count() <= LONGEST {
        return one_line;
    }
    let mut short: String = one_line.chars().take(LONGEST - 1).collect();
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_known_word_decides() {
        for (prompt, expected) in [
            ("hi", Act::Answer),
            ("Use a tool, please", Act::Tool),
            ("toolbox", Act::Answer),
            ("a slow plan", Act::Slow),
            ("QUESTION?", Act::Question),
            ("error", Act::Error),
            ("fill in a form", Act::Form),
        ] {
            assert_eq!(act(prompt), expected, "{prompt}");
        }
    }
}
