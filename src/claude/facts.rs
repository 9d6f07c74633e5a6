//! Owns what single kinds of lines say, read leniently: a field that is missing or of another type is absent, and no
//! line is refused for a field that is new.

use std::borrow::Cow;

use serde_json::value::RawValue;

use super::Envelope;
use crate::{
    domain::{CliSessionId, ModelUsage, PromptUuid, TokenUsage, Usd},
    json,
};

/// The longest name of a service of the model API, in bytes.
const MAX_TIER_BYTES: usize = 64;

/// The content of `system/init`. It comes at the start of every turn.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct InitFacts {
    /// The conversation.
    pub session_id: Option<CliSessionId>,
    /// The model in use.
    pub model: Option<String>,
    /// The permission mode, in the CLI's spelling; a new one passes.
    pub permission_mode: Option<String>,
    /// The CLI's version.
    pub claude_code_version: Option<String>,
    /// The working directory.
    pub cwd: Option<String>,
}

impl InitFacts {
    /// Reads a `system/init` line; `None` for any other.
    pub fn read(envelope: &Envelope<'_>) -> Option<Self> {
        if !envelope.is_system("init") {
            return None;
        }
        let [model, mode, version, cwd] = json::members(
            envelope.line,
            ["model", "permissionMode", "claude_code_version", "cwd"],
        )?;
        Some(Self {
            session_id: envelope.cli_session(),
            model: text(model),
            permission_mode: text(mode),
            claude_code_version: text(version),
            cwd: text(cwd),
        })
    }
}

/// The content of the CLI's answer to `initialize`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ReadyFacts {
    /// The CLI's version.
    pub claude_code_version: Option<String>,
    /// The permission mode that the process really runs in.
    pub permission_mode: Option<String>,
    /// `idle`, `running` or `requires_action`.
    pub session_state: Option<String>,
    /// The process id.
    pub pid: Option<u64>,
}

impl ReadyFacts {
    /// Reads the payload of the answer.
    pub fn read(payload: &str) -> Option<Self> {
        let [version, mode, state, pid] = json::members(
            payload,
            [
                "claude_code_version",
                "current_permission_mode",
                "session_state",
                "pid",
            ],
        )?;
        Some(Self {
            claude_code_version: text(version),
            permission_mode: text(mode),
            session_state: text(state),
            pid: pid.and_then(json::count),
        })
    }
}

/// The content of a `result` line. Costs and `models` are running totals of the process; `usage` is of this turn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ResultFacts<'a> {
    /// `success`, `error_during_execution`, `error_max_turns`, …
    pub subtype: String,
    /// Whether the turn failed. `success` may be an error too.
    pub is_error: bool,
    /// The last text.
    pub result: Option<Cow<'a, str>>,
    /// Why the turn ended.
    pub terminal_reason: Option<String>,
    /// Model calls.
    pub num_turns: Option<u64>,
    /// Wall time.
    pub duration_ms: Option<u64>,
    /// Time in the model API.
    pub duration_api_ms: Option<u64>,
    /// The running total in US dollars.
    pub total_cost_usd: Option<Usd>,
    /// The tokens of this turn.
    pub usage: Option<TokenUsage>,
    /// The service that the model API gave.
    pub service_tier: Option<String>,
    /// The running totals per model.
    pub models: Option<Vec<ModelUsage>>,
    /// The usage of this turn per model. Newer CLIs print it (`model_usage_since_last_result`, not in the SDK's types).
    pub models_since_last_result: Option<Vec<ModelUsage>>,
    /// The prompts that this result closes.
    pub user_message_uuids: Vec<PromptUuid>,
    /// The origin of a turn that no prompt began: `task-notification`, …
    pub origin: Option<String>,
    /// The errors.
    pub errors: Vec<String>,
    /// The answer that follows the JSON schema, byte for byte.
    pub structured_output: Option<&'a str>,
    /// The status of the model API.
    pub api_error_status: Option<u64>,
    /// Whether a hook kept the prompt from the model.
    pub is_blocked: bool,
}

impl<'a> ResultFacts<'a> {
    /// Reads a `result` line; `None` for any other.
    pub fn read(envelope: &Envelope<'a>) -> Option<Self> {
        if !envelope.is("result") {
            return None;
        }
        let [
            is_error,
            result,
            reason,
            turns,
            duration,
            api,
            cost,
            usage,
            models,
            since_last,
            uuids,
            uuid,
            origin,
            errors,
            output,
            status,
            submit,
        ] = json::members(
            envelope.line,
            [
                "is_error",
                "result",
                "terminal_reason",
                "num_turns",
                "duration_ms",
                "duration_api_ms",
                "total_cost_usd",
                "usage",
                "modelUsage",
                "model_usage_since_last_result",
                "user_message_uuids",
                "user_message_uuid",
                "origin",
                "errors",
                "structured_output",
                "api_error_status",
                "prompt_submit_outcome",
            ],
        )?;
        let subtype = envelope.subtype.clone().unwrap_or_default().into_owned();
        let mut user_message_uuids: Vec<PromptUuid> = uuids
            .and_then(json::items)
            .unwrap_or_default()
            .into_iter()
            .filter_map(prompt_uuid)
            .collect();
        if user_message_uuids.is_empty() {
            user_message_uuids.extend(uuid.and_then(prompt_uuid));
        }
        Some(Self {
            is_error: is_error
                .and_then(json::boolean)
                .unwrap_or_else(|| subtype.starts_with("error")),
            subtype,
            result: result.and_then(json::decode_lossy),
            terminal_reason: text(reason),
            num_turns: turns.and_then(json::count),
            duration_ms: duration.and_then(json::count),
            duration_api_ms: api.and_then(json::count),
            total_cost_usd: cost.and_then(dollars),
            usage: usage.and_then(token_usage),
            service_tier: usage.and_then(|usage| {
                let [tier] = json::members(usage, ["service_tier"])?;
                text(tier).filter(|tier| tier.len() <= MAX_TIER_BYTES)
            }),
            models: models.and_then(model_usage),
            models_since_last_result: since_last.and_then(model_usage),
            user_message_uuids,
            origin: origin.and_then(|origin| {
                let [kind] = json::members(origin, ["kind"])?;
                text(kind)
            }),
            errors: errors
                .and_then(json::items)
                .unwrap_or_default()
                .into_iter()
                .filter_map(|error| text(Some(error)))
                .collect(),
            structured_output: output.filter(|raw| *raw != "null"),
            api_error_status: status.and_then(json::count),
            is_blocked: submit.is_some_and(|submit| submit != "null"),
        })
    }
}

/// The content of a `command_lifecycle` line: the receipt of a prompt that carried a uuid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lifecycle {
    /// The prompt.
    pub command_uuid: PromptUuid,
    /// How far it has come.
    pub state: LifecycleState,
}

/// How far a prompt has come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LifecycleState {
    /// It waits.
    Queued,
    /// It runs.
    Started,
    /// Its turn ended.
    Completed,
    /// It was taken back.
    Cancelled,
    /// A state that is new to us.
    Other(String),
}

impl Lifecycle {
    /// Reads a `command_lifecycle` line; `None` for any other, and for one whose uuid is no UUID.
    pub fn read(envelope: &Envelope<'_>) -> Option<Self> {
        if !envelope.is("command_lifecycle") {
            return None;
        }
        let [uuid, state] = json::members(envelope.line, ["command_uuid", "state"])?;
        Some(Self {
            command_uuid: prompt_uuid(uuid?)?,
            state: match text(state)?.as_str() {
                "queued" => LifecycleState::Queued,
                "started" => LifecycleState::Started,
                "completed" => LifecycleState::Completed,
                "cancelled" => LifecycleState::Cancelled,
                other => LifecycleState::Other(other.to_owned()),
            },
        })
    }
}

/// The new permission mode that a `system/status` line reports, in the CLI's spelling; `None` for any other line and
/// for a status that changes no mode.
pub fn status_permission_mode(envelope: &Envelope<'_>) -> Option<String> {
    if !envelope.is_system("status") {
        return None;
    }
    let [mode] = json::members(envelope.line, ["permissionMode"])?;
    text(mode)
}

/// The content of a `conversation_reset` line: the process goes on with another conversation.
///
/// The line names no id that can be resumed: its `new_conversation_id` is not the new `session_id`, which first comes
/// with the next line that carries one (`system/init` at the latest).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConversationReset {
    /// The conversation that ended.
    pub old_session: Option<CliSessionId>,
    /// `clear`, `plan_mode_exit`, …
    pub trigger: Option<String>,
}

impl ConversationReset {
    /// Reads a `conversation_reset` line; `None` for any other.
    pub fn read(envelope: &Envelope<'_>) -> Option<Self> {
        if !envelope.is("conversation_reset") {
            return None;
        }
        let [trigger] = json::members(envelope.line, ["trigger"])?;
        Some(Self {
            old_session: envelope.cli_session(),
            trigger: text(trigger),
        })
    }
}

/// A call of a tool that a hook put off.
#[derive(Clone, Debug)]
pub struct DeferredCall {
    /// The id of the call.
    pub id: String,
    /// The tool.
    pub name: String,
    /// Its input, byte for byte.
    pub input: Box<RawValue>,
}

/// The call that a turn ended with because a hook put it off; `None` for any other line, and when the CLI gave it up as its tool
/// is there no longer.
pub fn deferred_call(envelope: &Envelope<'_>) -> Option<DeferredCall> {
    let [call, reason] = json::members(envelope.line, ["deferred_tool_use", "terminal_reason"])?;
    if !envelope.is("result") || text(reason).as_deref() == Some("tool_deferred_unavailable") {
        return None;
    }
    let [id, name, input] = json::members(call?, ["id", "name", "input"])?;
    Some(DeferredCall {
        id: text(id)?,
        name: text(name)?,
        input: RawValue::from_string(input?.to_owned()).ok()?,
    })
}

/// How many background tasks run, by a `system/background_tasks_changed` line; `None` for any other.
pub fn background_tasks(envelope: &Envelope<'_>) -> Option<usize> {
    if !envelope.is_system("background_tasks_changed") {
        return None;
    }
    let [tasks] = json::members(envelope.line, ["tasks"])?;
    tasks.and_then(json::items).map(|tasks| tasks.len())
}

/// The state (`idle`, `running`, `requires_action`) by a `system/session_state_changed` line; `None` for any other.
pub fn session_state(envelope: &Envelope<'_>) -> Option<String> {
    if !envelope.is_system("session_state_changed") {
        return None;
    }
    let [state] = json::members(envelope.line, ["state"])?;
    text(state)
}

/// Whether a `system/informational` line says that a prompt was kept from the model, as by a hook: nothing answers it.
pub fn is_prompt_blocked(envelope: &Envelope<'_>) -> bool {
    let outcome = json::members(envelope.line, ["prompt_submit_outcome"]).and_then(|[outcome]| outcome);
    envelope.is_system("informational") && outcome.is_some_and(|outcome| outcome != "null")
}

/// Whether an `assistant` line holds words of the CLI's own, such as an error of the model API, and none of the model's.
pub fn is_synthetic(envelope: &Envelope<'_>) -> bool {
    let members = json::members(envelope.line, ["message"]);
    let model = members
        .and_then(|[message]| json::members(message?, ["model"]))
        .and_then(|[model]| text(model));
    model.as_deref() == Some("<synthetic>")
}

/// The id of the request that a `control_cancel_request` line takes back; `None` for any other line.
pub fn cancelled_request(envelope: &Envelope<'_>) -> Option<String> {
    if !envelope.is("control_cancel_request") {
        return None;
    }
    envelope.request_id.as_deref().map(str::to_owned)
}

/// The text that `raw` spells.
pub(super) fn text(raw: Option<&str>) -> Option<String> {
    raw.and_then(json::decode_lossy).map(Cow::into_owned)
}

fn prompt_uuid(raw: &str) -> Option<PromptUuid> {
    json::string(raw)?.parse().ok()
}

fn dollars(raw: &str) -> Option<Usd> {
    json::float(raw).and_then(Usd::from_dollars)
}

/// A class that the object does not name counts 0; an object that names none says nothing.
fn tokens(raw: &str, names: [&str; 4]) -> Option<TokenUsage> {
    let counts = json::members(raw, names)?.map(|raw| raw.and_then(json::count));
    if counts.iter().all(Option::is_none) {
        return None;
    }
    let [input, output, cache_read, cache_creation] = counts.map(Option::unwrap_or_default);
    Some(TokenUsage {
        input_tokens: input,
        output_tokens: output,
        cache_read_input_tokens: cache_read,
        cache_creation_input_tokens: cache_creation,
        ..TokenUsage::default()
    })
}

fn token_usage(raw: &str) -> Option<TokenUsage> {
    let classes = tokens(
        raw,
        [
            "input_tokens",
            "output_tokens",
            "cache_read_input_tokens",
            "cache_creation_input_tokens",
        ],
    )?;
    let [creation, server] = json::members(raw, ["cache_creation", "server_tool_use"])?;
    let [short, long] = counts(
        creation,
        ["ephemeral_5m_input_tokens", "ephemeral_1h_input_tokens"],
    );
    let [searches] = counts(server, ["web_search_requests"]);
    Some(TokenUsage {
        cache_creation_5m_input_tokens: short,
        cache_creation_1h_input_tokens: long,
        web_search_requests: searches,
        ..classes
    })
}

/// The counts of these members; 0 for one that is missing.
fn counts<const N: usize>(raw: Option<&str>, names: [&str; N]) -> [u64; N] {
    let members = raw.and_then(|raw| json::members(raw, names));
    members.map_or([0; N], |members| {
        members.map(|raw| raw.and_then(json::count).unwrap_or_default())
    })
}

fn model_usage(raw: &str) -> Option<Vec<ModelUsage>> {
    let mut models: Vec<ModelUsage> = Vec::new();
    json::for_each_member(raw, |model, usage| {
        let Some([cost, window, most]) =
            json::members(usage, ["costUSD", "contextWindow", "maxOutputTokens"])
        else {
            return;
        };
        let names = [
            "inputTokens",
            "outputTokens",
            "cacheReadInputTokens",
            "cacheCreationInputTokens",
        ];
        let [short, long, searches] = counts(
            Some(usage),
            [
                "cacheCreationEphemeral5mInputTokens",
                "cacheCreationEphemeral1hInputTokens",
                "webSearchRequests",
            ],
        );
        let row = ModelUsage {
            model: model.to_owned(),
            tokens: TokenUsage {
                cache_creation_5m_input_tokens: short,
                cache_creation_1h_input_tokens: long,
                web_search_requests: searches,
                ..tokens(usage, names).unwrap_or_default()
            },
            cost_usd: cost.and_then(dollars),
            context_window: window.and_then(json::count).filter(|tokens| *tokens > 0),
            max_output_tokens: most.and_then(json::count).filter(|tokens| *tokens > 0),
        };
        models.retain(|known| known.model != model);
        models.push(row);
    })?;
    Some(models)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::claude::{
        ControlResponse,
        envelope::scan,
        recordings::{envelopes, recording},
    };

    fn results(recording: &'static str) -> Vec<ResultFacts<'static>> {
        envelopes(recording)
            .iter()
            .filter_map(ResultFacts::read)
            .collect()
    }

    fn read(line: &str) -> ResultFacts<'_> {
        ResultFacts::read(&scan(line.as_bytes()).unwrap()).unwrap()
    }

    #[test]
    fn a_result_of_the_real_cli_is_read_whole() {
        let [result] = &results(recording!("03-tool-allow"))[..] else {
            panic!("one result was recorded");
        };
        assert_eq!(result.subtype, "success");
        assert!(!result.is_error);
        assert_eq!(result.result.as_deref(), Some("All done."));
        assert_eq!(result.terminal_reason.as_deref(), Some("completed"));
        assert_eq!(result.num_turns, Some(2));
        assert_eq!(
            (result.duration_ms, result.duration_api_ms),
            (Some(313), Some(98))
        );
        assert_eq!(result.total_cost_usd, Usd::from_dollars(0.0016));
        let tokens = TokenUsage {
            input_tokens: 200,
            output_tokens: 40,
            ..TokenUsage::default()
        };
        assert_eq!(result.usage, Some(tokens));
        let models = [ModelUsage {
            model: "claude-opus-5-5".to_owned(),
            tokens,
            cost_usd: Usd::from_dollars(0.0016),
            context_window: Some(1_000_000),
            max_output_tokens: Some(128_000),
        }];
        assert_eq!(result.service_tier.as_deref(), Some("standard"));
        assert_eq!(result.models.as_deref(), Some(&models[..]));
        assert_eq!((result.origin.as_deref(), result.structured_output), (None, None));
        assert_eq!((result.errors.len(), result.api_error_status), (0, None));
    }

    #[test]
    fn totals_run_on_while_usage_is_of_the_turn() {
        let [first, second] = &results(recording!("43-background-bash"))[..] else {
            panic!("two results were recorded");
        };
        assert_eq!(first.origin, None);
        assert_eq!(second.origin.as_deref(), Some("task-notification"));
        assert_eq!(second.total_cost_usd, Usd::from_dollars(0.0024));
        assert_eq!(second.usage.unwrap().input_tokens, 100);
        assert_eq!(second.models.as_ref().unwrap()[0].tokens.input_tokens, 300);
    }

    #[test]
    fn a_success_may_be_an_error_and_an_error_says_why() {
        let failed = &results(recording!("34-api-529-exhausted"))[0];
        assert_eq!(failed.subtype, "success");
        assert!(failed.is_error);
        assert_eq!(failed.api_error_status, Some(529));
        assert_eq!(failed.models.as_deref(), Some(&[][..]));
        let stopped = &results(recording!("06-tool-deny-interrupt"))[0];
        assert_eq!(stopped.subtype, "error_during_execution");
        assert!(stopped.is_error);
        assert_eq!(stopped.terminal_reason.as_deref(), Some("aborted_tools"));
        assert!(stopped.errors[0].contains("ede_diagnostic"));
    }

    #[test]
    fn structured_output_keeps_its_bytes() {
        let result = &results(recording!("32-json-schema"))[0];
        assert_eq!(result.structured_output, Some(r#"{"a": "fake"}"#));
    }

    #[test]
    fn what_is_missing_or_of_another_type_is_unknown_and_not_zero() {
        let bare = read(r#"{"type":"result"}"#);
        assert_eq!(bare, ResultFacts::default());
        let odd = read(
            r#"{"type":"result","subtype":"error_new","total_cost_usd":"1","usage":{},"modelUsage":[],"num_turns":-1,"errors":["a\ud800",7],"user_message_uuids":["x","bbbbbbbb-0000-4000-8000-000000000013"],"origin":"x","structured_output":null}"#,
        );
        assert!(odd.is_error, "the subtype says so");
        assert_eq!((odd.total_cost_usd, odd.usage, odd.models), (None, None, None));
        assert_eq!(
            (odd.num_turns, odd.origin, odd.structured_output),
            (None, None, None)
        );
        assert_eq!(odd.errors, ["a\u{FFFD}"]);
        assert_eq!(odd.user_message_uuids.len(), 1);
    }

    #[test]
    fn the_kinds_of_cache_and_searches_of_the_web_are_read() {
        let result = read(
            r#"{"type":"result","usage":{"input_tokens":1,"cache_creation_input_tokens":30,"cache_creation":{"ephemeral_5m_input_tokens":10,"ephemeral_1h_input_tokens":20},"server_tool_use":{"web_search_requests":2},"service_tier":"priority"},"modelUsage":{"a":{"inputTokens":1,"cacheCreationEphemeral5mInputTokens":10,"cacheCreationEphemeral1hInputTokens":20,"webSearchRequests":2,"contextWindow":200000}}}"#,
        );
        let usage = result.usage.unwrap();
        let kinds = |usage: TokenUsage| {
            (
                usage.cache_creation_5m_input_tokens,
                usage.cache_creation_1h_input_tokens,
                usage.web_search_requests,
            )
        };
        assert_eq!(kinds(usage), (10, 20, 2));
        assert_eq!(result.service_tier.as_deref(), Some("priority"));
        let model = &result.models.unwrap()[0];
        assert_eq!(kinds(model.tokens), (10, 20, 2));
        assert_eq!(
            (model.context_window, model.max_output_tokens),
            (Some(200_000), None)
        );
    }

    #[test]
    fn two_models_stay_apart() {
        let result = read(
            r#"{"type":"result","modelUsage":{"a":{"inputTokens":1,"outputTokens":2,"cacheReadInputTokens":3,"cacheCreationInputTokens":4,"costUSD":0.5},"b":{"inputTokens":9},"c":7},"user_message_uuid":"bbbbbbbb-0000-4000-8000-000000000013"}"#,
        );
        let models = result.models.unwrap();
        let names: Vec<_> = models
            .iter()
            .map(|row| (row.model.as_str(), row.cost_usd))
            .collect();
        assert_eq!(names, [("a", Usd::from_dollars(0.5)), ("b", None)]);
        let all = TokenUsage {
            input_tokens: 1,
            output_tokens: 2,
            cache_read_input_tokens: 3,
            cache_creation_input_tokens: 4,
            ..TokenUsage::default()
        };
        assert_eq!(models[0].tokens, all);
        assert_eq!(result.user_message_uuids.len(), 1, "a single uuid counts too");
    }

    #[test]
    fn an_init_line_says_what_runs() {
        let lines = envelopes(recording!("03-tool-allow"));
        let init = lines.iter().find_map(InitFacts::read).unwrap();
        assert_eq!(init.model.as_deref(), Some("claude-opus-5-5"));
        assert_eq!(init.permission_mode.as_deref(), Some("default"));
        assert_eq!(init.claude_code_version.as_deref(), Some("2.1.332"));
        assert_eq!(init.cwd.as_deref(), Some("/srv/project"));
        let session = init.session_id.unwrap().to_string();
        assert_eq!(session, "4532020b-4c7a-4a5b-9846-3889a477bb43");
    }

    #[test]
    fn the_answer_to_initialize_says_the_true_mode_and_version() {
        let lines = envelopes(recording!("65-reinitialize-pending"));
        let answer = lines.iter().rev().find_map(ControlResponse::read).unwrap();
        let answers: Vec<_> = lines.iter().filter_map(ControlResponse::read).collect();
        assert!(!answers.is_empty());
        let ready = ReadyFacts::read(answer.outcome.unwrap().unwrap().get()).unwrap();
        assert_eq!(ready.claude_code_version.as_deref(), Some("2.1.332"));
        assert_eq!(ready.permission_mode.as_deref(), Some("default"));
        assert_eq!(ready.session_state.as_deref(), Some("requires_action"));
        assert!(ready.pid.is_some());
    }

    /// After `/clear` the id on the reset line is none of a conversation; the next lines carry the new one.
    #[test]
    fn a_reset_ends_a_conversation_and_the_next_init_names_the_new_one() {
        let lines = envelopes(recording!("57-slash-commands"));
        let at = lines
            .iter()
            .position(|line| ConversationReset::read(line).is_some())
            .unwrap();
        let reset = ConversationReset::read(&lines[at]).unwrap();
        assert_eq!(reset.trigger.as_deref(), Some("clear"));
        let before = lines[..at].iter().rev().find_map(Envelope::cli_session);
        assert_eq!(reset.old_session, before);
        let next = lines[at..].iter().find_map(InitFacts::read).unwrap();
        assert_ne!(next.session_id, before);
        assert!(!lines[at].line.contains(&next.session_id.unwrap().to_string()));
    }

    #[test]
    fn a_receipt_names_its_prompt() {
        let read = |line: &str| Lifecycle::read(&scan(line.as_bytes()).unwrap());
        let uuid = "bbbbbbbb-0000-4000-8000-000000000013";
        for (state, wanted) in [
            ("queued", LifecycleState::Queued),
            ("started", LifecycleState::Started),
            ("completed", LifecycleState::Completed),
            ("cancelled", LifecycleState::Cancelled),
            ("paused", LifecycleState::Other("paused".to_owned())),
        ] {
            let line = format!(r#"{{"type":"command_lifecycle","command_uuid":"{uuid}","state":"{state}"}}"#);
            let receipt = read(&line).unwrap();
            assert_eq!(receipt.command_uuid.to_string(), uuid);
            assert_eq!(receipt.state, wanted);
        }
        assert_eq!(
            read(r#"{"type":"command_lifecycle","command_uuid":"x","state":"queued"}"#),
            None
        );
        assert_eq!(read(r#"{"type":"user"}"#), None);
    }

    #[test]
    fn states_modes_and_tasks_are_followed() {
        let lines = envelopes(recording!("14-exit-plan-allow"));
        let modes: Vec<_> = lines.iter().filter_map(status_permission_mode).collect();
        assert_eq!(modes, ["default"]);
        let states: Vec<_> = lines.iter().filter_map(session_state).collect();
        assert_eq!(states, ["running", "requires_action", "running", "idle"]);
        let lines = envelopes(recording!("43-background-bash"));
        let tasks: Vec<_> = lines.iter().filter_map(background_tasks).collect();
        assert_eq!(tasks, [1, 0]);
        let cancel = scan(br#"{"type":"control_cancel_request","request_id":"r"}"#).unwrap();
        assert_eq!(cancelled_request(&cancel).as_deref(), Some("r"));
    }
}
