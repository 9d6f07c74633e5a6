//! Owns the part of `trunkline.stdio` that is not a line of the CLI: what a stand-in of the CLI's program says and hears of the
//! launch, the other outputs, its place in the journal, and the end.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;

use super::close::Close;
use crate::{
    domain::{ClientId, Seq, SessionId},
    json,
};

/// The sub-protocol.
pub(super) const PROTOCOL: &str = "trunkline.stdio";
/// The beginning of each frame that is no line of the CLI.
const OWN: &str = r#"{"type":"trunkline."#;

/// The first frame of a stand-in.
#[derive(Deserialize)]
#[serde(tag = "type", deny_unknown_fields)]
pub(super) enum First {
    /// The stand-in was started.
    #[serde(rename = "trunkline.launch")]
    Launch {
        /// Its arguments, without the program.
        argv: Vec<String>,
        /// Its directory.
        cwd: String,
        /// Its environment, as far as it is passed on.
        #[serde(default)]
        env: BTreeMap<String, String>,
        /// Whether that is all of it.
        #[serde(default)]
        is_whole_env: bool,
        /// The first line of its input.
        line: String,
        /// The id of the session that is made, so that a launch which is said again makes no other.
        #[serde(default)]
        session: Option<SessionId>,
        /// Its name as a client.
        #[serde(default)]
        client: Option<ClientId>,
    },
    /// Its connection was lost.
    #[serde(rename = "trunkline.reattach")]
    Reattach {
        /// The session.
        session: SessionId,
        /// The name that the stand-in was given.
        client: ClientId,
        /// The last record that it has heard of.
        after: Seq,
        /// The `initialize` that it was sent, if any.
        #[serde(default)]
        initialize: Option<String>,
        /// Whether the process began with that.
        #[serde(default)]
        is_born: bool,
        /// Whether it was answered.
        #[serde(default)]
        is_greeted: bool,
        /// Whether it has heard nothing of the process that was to be started for it.
        #[serde(default)]
        is_unheard: bool,
        /// The open requests of the CLI that the host knows, and whether it has answered.
        #[serde(default)]
        known: BTreeMap<String, bool>,
    },
}

/// The names and values of an environment are nobody's to see.
impl std::fmt::Debug for First {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Launch { .. } => "Launch",
            Self::Reattach { .. } => "Reattach",
        })
    }
}

/// A word of the stand-in about its own end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HostSign {
    /// Its input has ended.
    EndOfInput,
    /// It got this signal.
    Signal(i32),
}

/// The side of a stand-in.
pub(super) struct HostSide {
    /// Takes its words about its end.
    signs: mpsc::Sender<HostSign>,
    exit: Option<Exit>,
}

/// The end of the process, as the stand-in is told.
#[derive(Serialize)]
struct Exit {
    r#type: &'static str,
    code: Option<i64>,
    signal: Option<i64>,
    /// Why there was no process, or none that could work.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl Exit {
    fn new(code: Option<i64>, signal: Option<i64>, reason: Option<String>) -> Self {
        Self {
            r#type: "trunkline.exit",
            code,
            signal,
            reason,
        }
    }
}

impl HostSide {
    pub(super) fn new(signs: mpsc::Sender<HostSign>) -> Self {
        Self { signs, exit: None }
    }

    /// Whether a line is for us. It is taken then.
    ///
    /// # Errors
    /// It says nothing that is known.
    pub(super) fn takes(&self, line: &str) -> Result<bool, Close> {
        if !line.starts_with(OWN) {
            return Ok(false);
        }
        let sign = match json::member_text(line, "type").as_deref() {
            Some("trunkline.end_of_input") => HostSign::EndOfInput,
            Some("trunkline.signal") => {
                let number = json::member_count(line, "number").and_then(|it| i32::try_from(it).ok());
                HostSign::Signal(number.filter(|it| (1..=64).contains(it)).ok_or(Close::Protocol)?)
            }
            _ => return Err(Close::Protocol),
        };
        // More than can wait say the same again.
        let _ = self.signs.try_send(sign);
        Ok(true)
    }

    /// The process has ended, as its record says.
    pub(super) fn exited(&mut self, note: &str) {
        let number = |name| json::member(note, name).and_then(|text| text.parse().ok());
        self.exit = Some(Exit::new(number("code"), number("signal"), None));
    }

    /// Another process takes its place.
    pub(super) fn started(&mut self) {
        self.exit = None;
    }

    /// Whether the end has been read: the place in the journal is not told from there on.
    pub(super) const fn is_ending(&self) -> bool {
        self.exit.is_some()
    }

    /// The last frame. `note` is the record of the state.
    pub(super) fn farewell(&mut self, note: &str) -> String {
        let reason = || json::member_text(json::member(note, "reason")?, "detail");
        let exit = self.exit.take();
        let exit = exit.unwrap_or_else(|| Exit::new(Some(1), None, reason()));
        text(&exit)
    }
}

/// A piece of another output than the lines.
pub(super) fn output(name: &str, record: &str) -> Option<String> {
    let piece = json::member(record, "text").filter(|piece| json::string(piece).is_some())?;
    Some(format!(r#"{OWN}{name}","text":{piece}}}"#))
}

/// The place in the journal up to which all is told.
pub(super) fn cursor(seq: Seq) -> String {
    format!(r#"{OWN}cursor","seq":{}}}"#, seq.get())
}

/// A line of the host is in the journal.
pub(super) fn taken(member: &str, id: &str) -> String {
    format!(r#"{OWN}taken","{member}":{}}}"#, serde_json::Value::from(id))
}

/// The session that was made or found, and the name under which the stand-in has it.
pub(super) fn session(id: SessionId, client: &ClientId, after: Seq, is_born: bool) -> String {
    #[derive(Serialize)]
    struct Made<'a> {
        r#type: &'static str,
        session: SessionId,
        client: &'a ClientId,
        after: u64,
        is_born: bool,
    }
    text(&Made {
        r#type: "trunkline.session",
        session: id,
        client,
        after: after.get(),
        is_born,
    })
}

/// There is no session for the stand-in.
pub(super) fn refused(code: &str, detail: &str) -> String {
    #[derive(Serialize)]
    struct Refusal<'a> {
        r#type: &'static str,
        code: &'a str,
        detail: &'a str,
    }
    text(&Refusal {
        r#type: "trunkline.refused",
        code,
        detail,
    })
}

fn text(frame: &impl Serialize) -> String {
    // Frames of ours are plain structs.
    serde_json::to_string(frame).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_frames_are_taken() {
        let (signs, mut taken) = mpsc::channel(4);
        let side = HostSide::new(signs);
        assert!(!side.takes(r#"{"type":"user"}"#).unwrap());
        assert!(side.takes(r#"{"type":"trunkline.end_of_input"}"#).unwrap());
        assert!(side.takes(r#"{"type":"trunkline.signal","number":15}"#).unwrap());
        assert_eq!(taken.try_recv(), Ok(HostSign::EndOfInput));
        assert_eq!(taken.try_recv(), Ok(HostSign::Signal(15)));
        for bad in [
            r#"{"type":"trunkline.other"}"#,
            r#"{"type":"trunkline.signal","number":0}"#,
        ] {
            assert_eq!(side.takes(bad), Err(Close::Protocol), "{bad}");
        }
    }

    #[test]
    fn the_end_is_that_of_the_last_process() {
        let (signs, _taken) = mpsc::channel(1);
        let mut side = HostSide::new(signs);
        side.exited(r#"{"type":"run_exited","code":143,"signal":null}"#);
        let told = side.farewell(r#"{"type":"state","state":"stopped"}"#);
        assert_eq!(told, r#"{"type":"trunkline.exit","code":143,"signal":null}"#);
        let told =
            side.farewell(r#"{"type":"state","state":"failed","reason":{"code":"x","detail":"no CLI"}}"#);
        assert!(told.contains(r#""code":1,"#) && told.contains("no CLI"), "{told}");
    }

    #[test]
    fn another_output_is_told_as_it_is() {
        let told = output("stderr", r#"{"text":"a\nb"}"#).unwrap();
        assert_eq!(told, r#"{"type":"trunkline.stderr","text":"a\nb"}"#);
    }
}
