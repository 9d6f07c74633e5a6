//! Owns the answers to questions (`AskUserQuestion`).

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{BadAnswer, quoted};
use crate::{
    claude::control::{CanUseTool, raw_value},
    json,
};

/// The answer to one question.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, utoipa::ToSchema)]
#[serde(untagged)]
pub enum Chosen {
    /// A label, or free text.
    One(String),
    /// Labels of a question that takes several.
    Several(Vec<String>),
}

/// A person's answers to questions; each by the question's text.
#[derive(Clone, Debug, Default)]
pub struct QuestionAnswers {
    /// The answers. A question without one stays unanswered.
    pub answers: BTreeMap<String, Chosen>,
    /// Remarks in the person's own words.
    pub notes: BTreeMap<String, String>,
    /// Questions that are left open on purpose.
    pub skipped: Vec<String>,
    /// Remarks as the CLI takes them, in the place of `notes` and `skipped`.
    pub annotations: Option<Box<RawValue>>,
}

struct Question {
    text: String,
    takes_several: bool,
}

/// The answer to questions. Several labels are joined with `, ` (its tool `AskUserQuestion`).
///
/// # Errors
/// `request` asks no questions, or not one that is answered, or not in this way.
pub fn answer_questions(request: &RawValue, given: &QuestionAnswers) -> Result<Box<RawValue>, BadAnswer> {
    let tool = CanUseTool::read(request.get()).ok_or(BadAnswer::NotATool)?;
    let asked = questions(tool.input).ok_or(BadAnswer::NoQuestions)?;
    check_names(&asked, given)?;
    let mut answers = Vec::new();
    for (question, chosen) in &given.answers {
        let takes_several = asked.iter().any(|it| it.text == *question && it.takes_several);
        let answer = match chosen {
            Chosen::One(text) => text.clone(),
            Chosen::Several(labels) if labels.is_empty() => {
                return Err(BadAnswer::EmptyAnswer(question.clone()));
            }
            Chosen::Several(labels) if labels.len() > 1 && !takes_several => {
                return Err(BadAnswer::OneAnswerOnly(question.clone()));
            }
            Chosen::Several(labels) => labels.join(", "),
        };
        answers.push(format!("{}:{}", quoted(question), quoted(&answer)));
    }
    let annotations = annotations(given).map_or_else(String::new, |annotations| {
        format!(r#","annotations":{annotations}"#)
    });
    let body = tool.input.strip_suffix('}').ok_or(BadAnswer::NoQuestions)?;
    // The input has `questions` at least, so a comma is always needed.
    let input = format!(r#"{body},"answers":{{{}}}{annotations}}}"#, answers.join(","));
    raw_value(&format!(r#"{{"behavior":"allow","updatedInput":{input}}}"#)).ok_or(BadAnswer::NoQuestions)
}

/// Each answer belongs to a question that was asked, and each question has at most one.
fn check_names(asked: &[Question], given: &QuestionAnswers) -> Result<(), BadAnswer> {
    let mut named: Vec<String> = given.answers.keys().chain(given.notes.keys()).cloned().collect();
    named.extend(given.skipped.iter().cloned());
    if let Some(annotations) = &given.annotations {
        if !given.notes.is_empty() || !given.skipped.is_empty() {
            return Err(BadAnswer::TwoAnnotations);
        }
        json::for_each_member(annotations.get(), |question, _| named.push(question.to_owned()))
            .ok_or(BadAnswer::NotAnObject)?;
    }
    if let Some(unknown) = named
        .into_iter()
        .find(|name| asked.iter().all(|it| it.text != *name))
    {
        return Err(BadAnswer::UnknownQuestion(unknown));
    }
    match given
        .skipped
        .iter()
        .find(|question| given.answers.contains_key(*question))
    {
        Some(question) => Err(BadAnswer::AnsweredAndSkipped(question.clone())),
        None => Ok(()),
    }
}

/// The annotations as the CLI takes them; `None` when there is nothing to say.
fn annotations(given: &QuestionAnswers) -> Option<String> {
    if let Some(annotations) = &given.annotations {
        return Some(annotations.get().to_owned());
    }
    let mut remarks: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for (question, note) in &given.notes {
        remarks
            .entry(question)
            .or_default()
            .push(format!(r#""notes":{}"#, quoted(note)));
    }
    for question in &given.skipped {
        let remark = remarks.entry(question).or_default();
        remark.push(r#""unanswered":"skipped""#.to_owned());
    }
    if remarks.is_empty() {
        return None;
    }
    let members: Vec<String> = remarks
        .iter()
        .map(|(question, remarks)| format!("{}:{{{}}}", quoted(question), remarks.join(",")))
        .collect();
    Some(format!("{{{}}}", members.join(",")))
}

/// The questions of an `AskUserQuestion` input; `None` when it asks none.
fn questions(input: &str) -> Option<Vec<Question>> {
    let [questions] = json::members(input, ["questions"])?;
    let questions: Vec<Question> = json::items(questions?)?
        .into_iter()
        .filter_map(|question| {
            let [text, several] = json::members(question, ["question", "multiSelect"])?;
            Some(Question {
                text: json::decode_lossy(text?)?.into_owned(),
                takes_several: several.and_then(json::boolean).unwrap_or(false),
            })
        })
        .collect();
    (!questions.is_empty()).then_some(questions)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::claude::{
        ControlRequest,
        recordings::{envelopes, recording},
    };

    const TOOL: &str = r#"{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"ls"}}"#;

    fn raw(text: &str) -> Box<RawValue> {
        RawValue::from_string(text.to_owned()).unwrap()
    }

    fn asked() -> ControlRequest {
        let lines = envelopes(recording!("12-ask-user-question"));
        lines.iter().find_map(ControlRequest::read).unwrap()
    }

    fn answers(pairs: &[(&str, &str)]) -> QuestionAnswers {
        let answers = pairs
            .iter()
            .map(|(question, answer)| ((*question).to_owned(), Chosen::One((*answer).to_owned())));
        QuestionAnswers {
            answers: answers.collect(),
            ..QuestionAnswers::default()
        }
    }

    /// The same input that the official host gave in the recorded session.
    #[test]
    fn questions_are_answered_as_the_real_cli_takes_it() {
        let theirs = recording!("12-ask-user-question.stdin")
            .lines()
            .map(|line| serde_json::from_str::<Value>(line).unwrap())
            .find(|line| line["type"] == "control_response")
            .unwrap();
        let theirs = &theirs["response"]["response"];
        let given: BTreeMap<String, String> =
            serde_json::from_value(theirs["updatedInput"]["answers"].clone()).unwrap();
        assert!(!given.is_empty());
        let given = given
            .iter()
            .map(|(question, answer)| (question.as_str(), answer.as_str()))
            .collect::<Vec<_>>();
        let ours = answer_questions(&asked().request, &answers(&given)).unwrap();
        let ours: Value = serde_json::from_str(ours.get()).unwrap();
        assert_eq!(ours["behavior"], theirs["behavior"]);
        assert_eq!(ours["updatedInput"]["answers"], theirs["updatedInput"]["answers"]);
        assert_eq!(
            ours["updatedInput"]["questions"],
            theirs["updatedInput"]["questions"]
        );
    }

    #[test]
    fn only_questions_that_were_asked_are_answered() {
        let request = asked().request;
        let with = |annotations: &str, pairs: &[(&str, &str)]| QuestionAnswers {
            annotations: Some(raw(annotations)),
            ..answers(pairs)
        };
        let notes = r#"{"Which colour?":{"notes":"\ud800"}}"#;
        let answer = answer_questions(&request, &with(notes, &[("Which sizes?", "S, \"L\"")])).unwrap();
        assert!(
            answer
                .get()
                .contains(r#""annotations":{"Which colour?":{"notes":"\ud800"}}"#)
        );
        assert!(answer.get().contains(r#""answers":{"Which sizes?":"S, \"L\""}"#));
        assert_eq!(
            answer_questions(&request, &answers(&[("Which size?", "S")])).unwrap_err(),
            BadAnswer::UnknownQuestion("Which size?".to_owned())
        );
        assert!(answer_questions(&request, &with(r#"{"Why?":{}}"#, &[])).is_err());
        assert_eq!(
            answer_questions(&raw(TOOL), &answers(&[])).unwrap_err(),
            BadAnswer::NoQuestions
        );
        let unanswered = answer_questions(&request, &answers(&[])).unwrap();
        assert!(unanswered.get().contains(r#""answers":{}"#));
    }

    #[test]
    fn labels_notes_and_skipped_questions_become_what_the_cli_takes() {
        let request = asked().request;
        let several = |question: &str, labels: &[&str]| {
            let labels = labels.iter().map(|label| (*label).to_owned()).collect();
            BTreeMap::from([(question.to_owned(), Chosen::Several(labels))])
        };
        let given = QuestionAnswers {
            answers: several("Which sizes?", &["S", "L"]),
            notes: BTreeMap::from([("Which sizes?".to_owned(), "both".to_owned())]),
            skipped: vec!["Which colour?".to_owned()],
            annotations: None,
        };
        let answer: Value = serde_json::from_str(answer_questions(&request, &given).unwrap().get()).unwrap();
        let input = &answer["updatedInput"];
        assert_eq!(input["answers"], serde_json::json!({"Which sizes?": "S, L"}));
        assert_eq!(
            input["annotations"],
            serde_json::json!({"Which sizes?": {"notes": "both"}, "Which colour?": {"unanswered": "skipped"}})
        );
        let refused = |given: QuestionAnswers| answer_questions(&request, &given).unwrap_err();
        let colour = || "Which colour?".to_owned();
        let of = |answers| QuestionAnswers {
            answers,
            ..QuestionAnswers::default()
        };
        assert_eq!(
            refused(of(several("Which colour?", &["Red", "Blue"]))),
            BadAnswer::OneAnswerOnly(colour())
        );
        assert_eq!(
            refused(of(several("Which colour?", &[]))),
            BadAnswer::EmptyAnswer(colour())
        );
        let both = QuestionAnswers {
            skipped: vec![colour()],
            ..answers(&[("Which colour?", "Red")])
        };
        assert_eq!(refused(both), BadAnswer::AnsweredAndSkipped(colour()));
        let twice = QuestionAnswers {
            skipped: vec![colour()],
            annotations: Some(raw("{}")),
            ..QuestionAnswers::default()
        };
        assert_eq!(refused(twice), BadAnswer::TwoAnnotations);
    }
}
