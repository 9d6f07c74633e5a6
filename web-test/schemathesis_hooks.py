"""Facts that Schemathesis cannot read in the OpenAPI document: which sessions and directories there are, and which requests are refused
for a reason that no schema states. All checks are on; a failure is left out only where EXCUSED names its operations, its code and why.
"""

import json
import os
import re
import uuid
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import schemathesis
from schemathesis.core.parameters import ParameterLocation as At

URL = os.environ["TRUNKLINE_URL"]
TOKEN = os.environ["TRUNKLINE_TOKEN"]
# A directory that the daemon may use.
WORK = os.environ["TRUNKLINE_WORK"]
# Nothing listens there.
NOBODY = "http://127.0.0.1:9/hook"

VALID_REFUSED = "RejectedPositiveData"
INVALID_TAKEN = "AcceptedNegativeData"
FAILED = "ServerError"

MAKERS = {"create_session", "fork_session"}
SOCKETS = {"attach_session", "attach_sessions", "connect_session", "stand_in"}
PROMPTS = MAKERS | {"send_message", "queue_prompt", "change_queued_prompt"}
WAITERS = MAKERS | {"resume_session", "restart_session"}
RULES = {"create_session", "set_session_rules", "add_session_rule"}
JOURNAL = {"list_events", "get_event", "set_session_seen"}
PAGES = {"list_approvals", "list_session_approvals", "list_sessions", "list_turns", "get_usage", "list_messages", "find_in_session"}
WEBHOOKS = {"create_webhook", "update_webhook"}
# They take the options of a session as `create_session` does.
TAKE_OPTIONS = {"fork_session", "resume_session", "restart_session", "update_session"}
# A request in which one option is tried: how, and which one.
OPTION = re.compile(
    r"(Object with valid 'options' value: Object with (?:valid|all required properties and|all required and a subset)|options ->) '?(\w+)"
)

# (check, operations or None for all, code of the problem, text in its detail, reason).
EXCUSED = [
    (VALID_REFUSED, None, "invalid_field", r"floating point `-?\d+\.0`", "an integer is written without a fraction"),
    (VALID_REFUSED, SOCKETS, "upgrade_required", "", "it opens a socket, and the request asks for none"),
    (INVALID_TAKEN, SOCKETS, "upgrade_required", "", "the request asks for no socket, which it is told first"),
    (VALID_REFUSED, PAGES, "invalid_cursor", "", "a cursor is one that a page gave"),
    (VALID_REFUSED, JOURNAL, "seq_beyond_head", "", "the journal is shorter"),
    (VALID_REFUSED, {"list_events"}, "invalid_query", "streams only|pages only|go not together", "members of one form only"),
    (VALID_REFUSED, {"list_events"}, "invalid_query", "after_ts is the time", "it goes with the number of a record"),
    (VALID_REFUSED, {"resume_session", "restart_session"}, "invalid_field", "a new conversation has no message|goes with .at. alone", "members that exclude each other"),
    (VALID_REFUSED, WAITERS, "message_not_forkable", "", "only the conversation knows its messages"),
    (VALID_REFUSED, {"list_messages"}, "invalid_query", "order=desc", "members of one order only"),
    (VALID_REFUSED, {"list_session_approvals"}, "invalid_query", "names another one", "the path names the session"),
    (FAILED, WAITERS | {"send_message"}, "wait_timeout", "", "the work took longer than the caller waits, which is said with 504"),
    (FAILED, {"restart_daemon"}, "shutting_down", "", "the restart that was asked for before has begun"),
    (VALID_REFUSED, {"complete_directories"}, "cwd_not_absolute", "", "directories are those of absolute paths"),
    (VALID_REFUSED, {"get_usage"}, "unknown_time_zone", "", "the names are those of the IANA's database"),
    (VALID_REFUSED, {"get_usage"}, "invalid_query", "of group_by=day only", "a member of one grouping only"),
    (VALID_REFUSED, WAITERS, "invalid_query", "needs a prompt", "there is no result without a prompt"),
    (VALID_REFUSED, PROMPTS, "empty_prompt", "", "what shows nothing is no message"),
    (VALID_REFUSED, PROMPTS, "invalid_field", "not both", "text and content exclude each other"),
    (VALID_REFUSED, PROMPTS, "invalid_content", "", "the blocks are those of the model's API"),
    (VALID_REFUSED, MAKERS, "cwd_missing", "", "only the machine knows which directories there are"),
    (VALID_REFUSED, {"resume_session", "restart_session"}, "cwd_differs", "", "a session stays in its directory"),
    (VALID_REFUSED, WAITERS | {"update_session"}, "invalid_option", "", "options that exclude each other"),
    (VALID_REFUSED, RULES, "invalid_rule", "goes with|must be|is no (glob|regular expression)|begins with a program", "members that do not go together, and words of a form"),
    (VALID_REFUSED, {"decide_approval"}, "invalid_decision", "", "each kind of request has its own decisions"),
    (VALID_REFUSED, {"send_control", "set_thinking"}, "control_not_allowed", "", "only a client on a socket can send it"),
    (VALID_REFUSED, {"put_session_off"}, "invalid_field", "until: ", "a time in the future, for one of two ways"),
    (VALID_REFUSED, {"create_ticket"}, "invalid_field", "nothing is read at it", "the path is one of this document"),
]


def call(method, path, body=None):
    data = None if body is None else json.dumps(body).encode()
    headers = {"authorization": f"Bearer {TOKEN}", "content-type": "application/json"}
    with urlopen(Request(URL + path, data, headers, method=method)) as answer:
        text = answer.read()
    return json.loads(text) if text else None


class World:
    """The subjects of the requests: a session that waits for a person, and a webhook. Each is made when it is needed first, and
    again when a request has deleted it."""

    def __init__(self):
        self.known_session = None
        self.known_webhook = None
        self.approval = None

    def session(self):
        if self.known_session is None:
            body = {"cwd": WORK, "prompt": "tool"}
            self.known_session = call("POST", "/v1/sessions?wait=ready", body)["id"]
            pending = f"/v1/sessions/{self.known_session}/approvals?state=pending"
            while not (found := call("GET", pending)["items"]):
                pass
            self.approval = found[0]["id"]
        return self.known_session

    def webhook(self):
        if self.known_webhook is None:
            self.known_webhook = call("POST", "/v1/webhooks", {"url": NOBODY, "enabled": False})["webhook"]["id"]
        return self.known_webhook


world = World()


def name_of(case):
    return case.operation.definition.raw.get("operationId")


def is_meant(case, place):
    """Whether this part of the request is as the document wants it."""
    return not (case.meta and case.meta.is_negative_at(place))


def is_path(value):
    return isinstance(value, str) and value.startswith("/")


tried = set()


@schemathesis.hook
def filter_case(context, case):
    """`create_session` is asked about each value of each option, and the others about each option: a right value and a wrong one."""
    name = name_of(case)
    if name not in TAKE_OPTIONS or case.meta.phase.name.value != "coverage":
        return True
    option = OPTION.match(case.meta.phase.data.description or "")
    if option is None:
        return True
    key = (name, case.meta.generation.mode, *option.groups())
    if key in tried:
        return False
    tried.add(key)
    return True


@schemathesis.hook
def before_call(context, case, kwargs):
    name = name_of(case)
    path, query, headers = case.path_parameters or {}, case.query or {}, case.headers or {}
    if "Idempotency-Key" in headers and is_meant(case, At.HEADER):
        # Under the key of another request it would be refused for that.
        headers["Idempotency-Key"] = str(uuid.uuid4())
    if "If-Match" in headers and is_meant(case, At.HEADER):
        # Any revision: with that of another one nothing else of the request is looked at.
        headers["If-Match"] = "*"
    if is_meant(case, At.PATH):
        if "id" in path:
            path["id"] = world.session()
        if "approval_id" in path:
            path["approval_id"] = world.approval
        if "webhook_id" in path:
            path["webhook_id"] = world.webhook()
    if ("timeout_ms" in query or "wait" in query) and is_meant(case, At.QUERY):
        # The work takes longer than a millisecond, and shorter than this client waits: a prompt may be one that asks a person.
        query["timeout_ms"] = "15000"
    if isinstance(case.body, dict):
        shape(name, case)
        if "wait" in query:
            shorten(case.body)


def shape(name, case):
    """Names in a body what there is."""
    body = case.body
    # One session for each of the thousand options would take its time. All else of a request is checked before the directory.
    if name in MAKERS and is_path(body.get("cwd")):
        body["cwd"] = "/nonexistent" if case.meta.phase.name.value == "coverage" else WORK
    if name in WEBHOOKS and is_meant(case, At.BODY) and "url" in body:
        body["url"] = NOBODY
    if name == "restart_daemon" and is_path(body.get("program")):
        body["program"] = "/nonexistent"


def shorten(body):
    """Has the simulated agent answer a message at once, where it would take a second and a half to say all that it can do."""
    if isinstance(body.get("text"), str) and body["text"].strip():
        body["text"] = "error"


@schemathesis.hook
def after_call(context, case, response):
    name = name_of(case)
    path = case.path_parameters or {}
    if name in MAKERS | {"create_webhook"}:
        tidy_up(name, response.json() if response.content else {})
    elif response.status_code == 204 and path.get("id") == world.known_session and name == "delete_session":
        world.known_session = None
    elif response.status_code == 204 and path.get("webhook_id") == world.known_webhook and name == "delete_webhook":
        world.known_webhook = None


def tidy_up(name, made):
    """Deletes what was made: there is a limit to how many there are."""
    try:
        if name == "create_webhook" and "webhook" in made:
            call("DELETE", f"/v1/webhooks/{made['webhook']['id']}")
        elif name in MAKERS and (made.get("session_id") or "cwd" in made):
            call("DELETE", f"/v1/sessions/{made.get('session_id') or made['id']}")
    except HTTPError as error:
        if error.code != 404:
            raise


@schemathesis.hook
def filter_failure(context, failure, case, response):
    try:
        problem = response.json()
        code, detail = problem["code"], problem.get("detail") or ""
    except (ValueError, KeyError, TypeError):
        return True
    name, kind = name_of(case), type(failure).__name__
    return not any(
        kind == check and (operations is None or name in operations) and code == wanted and re.search(text, detail)
        for check, operations, wanted, text, _ in EXCUSED
    )
