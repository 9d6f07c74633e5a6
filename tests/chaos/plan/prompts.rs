//! Owns what prompts have the agents do.

use serde_json::{Value, json};

use super::{FAKES, SESSIONS};
use crate::support::{
    chance::Chance,
    programs::{fake_prompt, scripted},
};

/// A prompt for the session at this place. A guest may be on either CLI, and so understands both.
pub(super) fn text(chance: &mut Chance, session: usize) -> String {
    let says_share = session >= SESSIONS || session.is_multiple_of(2);
    let fake = fake_prompt(&fake_actions(chance, says_share));
    let real = scripted(&real_steps(chance));
    match session {
        ..FAKES => fake,
        FAKES..SESSIONS => real,
        _ => format!("{fake} {real}"),
    }
}

fn fake_actions(chance: &mut Chance, says_share: bool) -> Value {
    let text = json!({ "text": "All of this is said. ", "repeat": 1 + chance.below(40), "chunk_ms": chance.below(8) });
    let result = result(chance, says_share);
    match chance.below(16) {
        0..4 => json!([text, result]),
        4..7 => {
            let lines = 20 + chance.below(800);
            let mut flood = json!({ "flood": lines, "bytes": 200 + chance.below(300) });
            if chance.one_in(2) {
                flood["rate"] = json!(400);
            }
            json!([flood, { "text": format!("{lines} lines") }, result])
        }
        7..10 => {
            let ask = json!({ "tool": "Bash", "input": { "command": format!("echo {}", chance.next()) },
                              "n": 1 + chance.below(2) });
            json!([{ "text": "May I?" }, { "ask": ask }, text, result])
        }
        10 => {
            let later = self::result(chance, says_share);
            json!([
                { "text": "It goes on later." },
                result,
                { "sleep_ms": chance.below(800) },
                { "turn": { "do": [{ "text": "Done in the background." }, later] } },
            ])
        }
        11..13 => json!([
            { "child": { "setsid": true, "ignore_term": true, "double_fork": chance.one_in(2), "seconds": 60 } },
            text,
            result,
        ]),
        13 => {
            json!([{ "stderr": "a word on the side\n" }, { "sleep_ms": chance.below(1_500) }, text, result])
        }
        14 => json!([text, { "exit": chance.below(3) }]),
        _ => json!([{ "sleep_ms": 300 + chance.below(2_000) }, result]),
    }
}

/// The end of a turn. Its cost is also in `spent`, which nobody but the test reads; with `says_share` the line says it as
/// newer CLIs do.
#[expect(clippy::cast_precision_loss, reason = "at most five hundred")]
fn result(chance: &mut Chance, says_share: bool) -> Value {
    // In dollars; a multiple of a hundredth of a cent.
    let cost = (1 + chance.below(500)) as f64 / 10_000.0;
    let mut more = json!({ "spent": cost });
    if says_share {
        more["model_usage_since_last_result"] = json!({ "claude-fake-1": {
            "inputTokens": 100, "outputTokens": 20, "cacheReadInputTokens": 0, "cacheCreationInputTokens": 0, "costUSD": cost,
        }});
    }
    json!({ "result": more, "cost": cost })
}

fn real_steps(chance: &mut Chance) -> Value {
    let text =
        json!({ "text": "It is streamed. ", "repeat": 5 + chance.below(40), "chunk_ms": chance.below(12) });
    if chance.one_in(3) {
        let command = format!("sleep 0.{}; echo {}", chance.below(8), chance.next());
        json!([{ "text": "Running.", "tool": "Bash", "input": { "command": command } }, text])
    } else {
        json!([text])
    }
}
