//! Owns the answers to elicitations: forms and pages of MCP servers.

use serde_json::value::RawValue;

use super::{BadAnswer, form, keys};
use crate::{claude::control::raw_value, json};

/// A person's reaction to an elicitation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ElicitationAction {
    /// Fills it in, or has visited its page.
    Accept,
    /// Says no.
    Decline,
    /// Closes it without saying anything.
    Cancel,
}

impl ElicitationAction {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Accept => "accept",
            Self::Decline => "decline",
            Self::Cancel => "cancel",
        }
    }

    /// The action of an answer; `None` for a value that is no answer.
    pub fn of(answer: &RawValue) -> Option<Self> {
        let [action] = json::members(answer.get(), ["action"])?;
        let action = json::string(action?)?;
        [Self::Accept, Self::Decline, Self::Cancel]
            .into_iter()
            .find(|known| known.as_str() == action)
    }
}

/// The answer to the elicitation `request`.
///
/// # Errors
/// The content is not what the request's schema asks for.
pub fn answer_elicitation(
    request: &RawValue,
    action: ElicitationAction,
    content: Option<&RawValue>,
) -> Result<Box<RawValue>, BadAnswer> {
    let content = content.map_or_else(String::new, |content| format!(r#","content":{}"#, content.get()));
    let answer = raw_value(&format!(r#"{{"action":"{}"{content}}}"#, action.as_str()));
    complete_elicitation(request, &answer.ok_or(BadAnswer::NotAnObject)?)
}

/// Checks and completes a client's answer to the elicitation `request`: an accepted form without content gets an empty
/// one. All else stays byte for byte.
///
/// # Errors
/// The answer is one that the CLI would not take, or its content is not what the request's schema asks for.
pub fn complete_elicitation(request: &RawValue, answer: &RawValue) -> Result<Box<RawValue>, BadAnswer> {
    let [content] = json::members(answer.get(), ["content"]).ok_or(BadAnswer::NotAnObject)?;
    keys::check(answer.get(), &["action", "content"])?;
    let action = ElicitationAction::of(answer).ok_or(BadAnswer::UnknownAction)?;
    let [mode, schema] =
        json::members(request.get(), ["mode", "requested_schema"]).ok_or(BadAnswer::NotAnObject)?;
    let is_form = mode.and_then(json::string).is_none_or(|mode| mode != "url");
    if action != ElicitationAction::Accept || !is_form {
        return Ok(answer.to_owned());
    }
    let content = content.filter(|content| *content != "null");
    form::check(schema.unwrap_or("{}"), content.unwrap_or("{}")).map_err(BadAnswer::BadContent)?;
    if content.is_some() {
        return Ok(answer.to_owned());
    }
    let body = answer
        .get()
        .trim_end()
        .strip_suffix('}')
        .ok_or(BadAnswer::NotAnObject)?;
    // A `null` stays in front of it: of a repeated name the last counts.
    raw_value(&format!(r#"{body},"content":{{}}}}"#)).ok_or(BadAnswer::NotAnObject)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claude::{
        ControlRequest,
        recordings::{envelopes, recording},
    };

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    fn recorded() -> Box<RawValue> {
        let lines = envelopes(recording!("54-elicitation"));
        let mut requests = lines.iter().filter_map(ControlRequest::read);
        requests.find(|it| it.subtype == "elicitation").unwrap().request
    }

    #[test]
    fn a_form_is_answered_as_the_real_cli_takes_it() {
        let content = raw(r#"{"name": "Fake Name"}"#);
        let answer = answer_elicitation(&recorded(), ElicitationAction::Accept, Some(&content)).unwrap();
        assert_eq!(
            answer.get(),
            r#"{"action":"accept","content":{"name": "Fake Name"}}"#
        );
        let declined = answer_elicitation(&recorded(), ElicitationAction::Decline, None).unwrap();
        assert_eq!(declined.get(), r#"{"action":"decline"}"#);
        assert_eq!(ElicitationAction::of(&declined), Some(ElicitationAction::Decline));
    }

    #[test]
    fn an_answer_of_a_client_is_checked() {
        let check = |answer: &str| complete_elicitation(&recorded(), &raw(answer));
        for good in [
            r#"{"action":"accept","content":{"name":"\ud800"},"new":1.0}"#,
            r#"{"action":"decline","content":7}"#,
            r#"{ "action" : "cancel" }"#,
        ] {
            assert_eq!(check(good).unwrap().get(), good);
        }
        for (bad, error) in [
            ("[]", BadAnswer::NotAnObject),
            ("{}", BadAnswer::UnknownAction),
            (r#"{"behavior":"allow"}"#, BadAnswer::UnknownAction),
            (
                r#"{"action":"accept"}"#,
                BadAnswer::BadContent("name is missing".to_owned()),
            ),
            (
                r#"{"action":"accept","content":{"name":7}}"#,
                BadAnswer::BadContent("name must be a string".to_owned()),
            ),
        ] {
            assert_eq!(check(bad).unwrap_err(), error, "{bad}");
        }
    }

    #[test]
    fn a_page_needs_no_content_and_an_empty_form_gets_some() {
        let page = raw(r#"{"mode":"url","url":"https://example.com","requested_schema":{"required":["x"]}}"#);
        let answer = answer_elicitation(&page, ElicitationAction::Accept, None).unwrap();
        assert_eq!(answer.get(), r#"{"action":"accept"}"#);
        let free = raw(r#"{"message":"sure?"}"#);
        let answer = answer_elicitation(&free, ElicitationAction::Accept, None).unwrap();
        assert_eq!(answer.get(), r#"{"action":"accept","content":{}}"#);
    }
}
