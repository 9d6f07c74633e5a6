//! Owns the reading of shell commands. Two questions are asked of a line, and each is answered on its safe side: which
//! commands does it run, if that is certain; and may it run a certain one.
//!
//! The first reader takes a small part of the language, in which bash, zsh and sh agree, and gives up on everything else: it
//! is for what is allowed. The second reads more of it, and marks what is computed: it is for what is denied.

mod deny;
mod line;
mod programs;

pub(super) use deny::runs;

/// The simple commands of a line, each as its words; `None` unless every character is understood. Understood are plain
/// words, words in quotes without expansions, and `;`, `&&`, `||`, `|` and line breaks between commands.
pub(super) fn commands(text: &str) -> Option<Vec<Vec<String>>> {
    let mut chars = text.chars().peekable();
    let mut commands = Vec::new();
    let mut command: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    // Whether an operator waits for its second command.
    let mut is_owed = false;
    while let Some(next) = chars.next() {
        match next {
            ' ' | '\t' => command.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        '\'' => break,
                        other if other.is_control() => return None,
                        other => word.push(other),
                    }
                }
                // One shell takes two of them for a quotation mark, the other for none.
                if chars.peek() == Some(&'\'') {
                    return None;
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next()? {
                        '"' => break,
                        '$' | '`' | '\\' | '!' => return None,
                        other if other.is_control() => return None,
                        other => word.push(other),
                    }
                }
            }
            ';' | '\n' => {
                command.extend(word.take());
                match (command.is_empty(), next) {
                    (true, '\n') if !is_owed => {}
                    (true, _) => return None,
                    (false, _) => commands.push(std::mem::take(&mut command)),
                }
                is_owed = false;
            }
            '&' | '|' => {
                let is_double = chars.next_if_eq(&next).is_some();
                command.extend(word.take());
                if command.is_empty() || (next == '&' && !is_double) {
                    return None;
                }
                commands.push(std::mem::take(&mut command));
                is_owed = true;
            }
            // At the start of a word one shell looks for a program.
            '=' if word.is_none() => return None,
            plain if plain.is_ascii_alphanumeric() || "_./:,@%+-=".contains(plain) => {
                word.get_or_insert_default().push(plain);
            }
            _ => return None,
        }
    }
    command.extend(word);
    if !command.is_empty() {
        commands.push(command);
    } else if is_owed {
        return None;
    }
    let is_program = |command: &Vec<String>| {
        command
            .first()
            .is_some_and(|first| !first.is_empty() && !first.contains('='))
    };
    (!commands.is_empty() && commands.iter().all(is_program)).then_some(commands)
}

/// Whether it is certain that the line runs nothing but this program with these first arguments.
pub(super) fn runs_only(text: &str, prefix: &[String]) -> bool {
    commands(text).is_some_and(|commands| commands.iter().all(|command| command.starts_with(prefix)))
}
