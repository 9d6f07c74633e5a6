//! Owns the OpenAPI document: what no single route says, and the form in which it is committed.

mod controls;
mod examples;
mod limits;
mod presence;
mod written;

use std::sync::LazyLock;

use axum::http::Method;
use utoipa::openapi::{
    Components, ContentBuilder, InfoBuilder, License, OpenApi, OpenApiBuilder, Ref, RefOr, ResponseBuilder,
    header::HeaderBuilder,
    info::ContactBuilder,
    path::{Operation, ParameterBuilder, ParameterIn, PathItem},
    schema::{ObjectBuilder, Type},
    security::{ApiKey, ApiKeyValue, Http, HttpAuthScheme, SecurityRequirement, SecurityScheme},
    server::{Server, ServerBuilder, ServerVariableBuilder},
    tag::TagBuilder,
};

use super::{
    PROBLEM_JSON,
    dto::{LobbyFrame, Problem},
    guard, idempotency,
    routes::{self, logins, tickets, webhooks},
};

/// The name of the security scheme.
const TOKEN: &str = "token";
/// The name of the security scheme of tickets.
const TICKET: &str = "ticket";
/// The names of the security schemes of a login's halves, which hold together only.
const LOGIN: [&str; 2] = ["loginCookie", "loginKey"];
/// The member of an operation that names the role which it needs.
const ROLE: &str = "x-role";
/// The name of the response that every error refers to.
const PROBLEM: &str = "Problem";
/// Problems that every route may answer: bad queries, and the guards of the host and the origin.
const ANY_STATUS: [&str; 3] = ["400", "403", "421"];
/// Problems that every route that needs a token may answer besides: the guard of the token, the daemon's own failures.
const GUARDED_STATUS: [&str; 3] = ["401", "500", "503"];
/// Problems that routes of one session, webhook or login may answer besides.
const ONE_STATUS: [&str; 1] = ["404"];
/// Problems that routes that change something may answer besides.
const BODY_STATUS: [&str; 4] = ["409", "413", "415", "422"];

/// The POSTs that take no idempotency key: their answers hold a secret, which is kept nowhere.
const UNKEYED: [&str; 3] = [tickets::PATH, logins::PATH, webhooks::PATH];

/// Problems that requests which may carry an idempotency key may answer besides.
const KEYED_STATUS: [&str; 2] = ["409", "410"];

/// The document without its paths.
pub(super) fn frame() -> OpenApi {
    let tags = [
        (
            "sessions",
            "Sessions: made, listed, changed, resumed, forked, stopped, deleted",
        ),
        ("messages", "Messages to the agent, and the conversation"),
        ("events", "The journal: pages, streams and the WebSocket"),
        ("controls", "Requests that steer a running CLI"),
        ("approvals", "Requests of the CLI that need a person"),
        ("rules", "Rules that decide approvals without a person"),
        ("usage", "Turns, tokens and money"),
        ("webhooks", "Programs that are told of what happens"),
        ("daemon", "The daemon itself"),
    ];
    let tags = tags.map(|(name, text)| TagBuilder::new().name(name).description(Some(text)).build());
    let info = InfoBuilder::new()
        .title("Trunkline")
        .version(env!("CARGO_PKG_VERSION"))
        .license(Some(licence()))
        .contact(Some(ContactBuilder::new().name(Some("The Trunkline authors")).build()))
        .description(Some(
            "One local daemon for all of a person's agent CLI sessions. Times are RFC 3339 in UTC. Fields and codes may \
             be added; readers ignore what they do not know. Every error is a problem (RFC 9457). Each operation names the \
             role that it needs as `x-role`: a `viewer` reads, an `operator` does everything.",
        ))
        .build();
    OpenApiBuilder::new()
        .info(info)
        .tags(Some(tags))
        .servers(Some([server()]))
        .security(Some([required(TOKEN), login_required()]))
        .build()
}

/// A credential that stands alone.
fn required(scheme: &str) -> SecurityRequirement {
    SecurityRequirement::new(scheme, Vec::<String>::new())
}

/// Both halves of a login.
fn login_required() -> SecurityRequirement {
    let [cookie, key] = LOGIN;
    required(cookie).add(key, Vec::<String>::new())
}

/// The halves of a login, as browsers send them.
fn add_login(components: &mut Components) {
    let cookie = ApiKeyValue::with_description(
        "trunkline_7433",
        "One half of the login of a page of the daemon, in a cookie that `POST /v1/logins` sets. Its name has the port of the \
         address: `trunkline_<port>`. It opens nothing without the other half, `loginKey`, and none but the daemon's own pages: an \
         `Origin` that is the `Host`, or `Sec-Fetch-Site: same-origin`.",
    );
    let key = ApiKeyValue::with_description(
        "Trunkline-Login",
        "The other half of a login: the `key` of the answer to `POST /v1/logins`, which a page keeps in its own storage.",
    );
    let schemes = [ApiKey::Cookie(cookie), ApiKey::Header(key)];
    for (name, scheme) in LOGIN.into_iter().zip(schemes) {
        components.add_security_scheme(name, SecurityScheme::ApiKey(scheme));
    }
}

/// The daemon on the machine of its user.
fn server() -> Server {
    let host = ServerVariableBuilder::new()
        .default_value("127.0.0.1")
        .description(Some("The host of `server.listen`"));
    let port = ServerVariableBuilder::new()
        .default_value("7433")
        .description(Some("The port of `server.listen`"));
    ServerBuilder::new()
        .url("http://{host}:{port}")
        .description(Some("The daemon on this machine"))
        .parameter("host", host)
        .parameter("port", port)
        .build()
}

/// The licence that the package states.
fn licence() -> License {
    let mut licence = License::new(env!("CARGO_PKG_LICENSE"));
    licence.identifier = Some(env!("CARGO_PKG_LICENSE").to_owned());
    licence
}

/// The whole document.
fn document() -> OpenApi {
    let mut document = routes::document();
    let components = document.components.get_or_insert_with(Components::new);
    components.add_security_scheme(TOKEN, SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer)));
    let ticket = ApiKeyValue::with_description(
        "ticket",
        "Opens one path once, within 30 seconds: see `POST /v1/tickets`.",
    );
    components.add_security_scheme(TICKET, SecurityScheme::ApiKey(ApiKey::Query(ticket)));
    add_login(components);
    add_schema::<Problem>(components);
    add_schema::<LobbyFrame>(components);
    controls::open_payloads(components);
    presence::require(components);
    limits::state(components);
    let problem = ResponseBuilder::new()
        .description("A problem")
        .content(
            PROBLEM_JSON,
            ContentBuilder::new()
                .schema(Some(Ref::from_schema_name(PROBLEM)))
                .examples_from_iter(examples::problems())
                .build(),
        )
        .build();
    components.responses.insert(PROBLEM.to_owned(), problem.into());
    for (path, item) in &mut document.paths.paths {
        let guarded = !guard::is_open(path);
        let of_one = ["{id}", "{webhook_id}", "{login_id}", logins::CURRENT]
            .iter()
            .any(|of_one| path.contains(of_one));
        if let Some(operation) = item.post.as_mut().filter(|_| !UNKEYED.contains(&path.as_str())) {
            add_key(operation);
        }
        for (method, operation) in operations(item) {
            if guarded {
                let role = guard::needed(&method, path).as_str();
                let extensions = operation.extensions.get_or_insert_default();
                extensions.insert(ROLE.to_owned(), role.into());
                if method == Method::GET {
                    operation.security = Some(vec![required(TOKEN), required(TICKET), login_required()]);
                }
            }
            examples::add_body(operation);
            // An operation without a body says so to a client that sends one.
            add_problems(operation, guarded, of_one, method != Method::GET);
        }
    }
    document
}

fn add_schema<T: utoipa::ToSchema>(components: &mut Components) {
    let mut schemas = vec![(T::name().into_owned(), T::schema())];
    T::schemas(&mut schemas);
    for (name, schema) in schemas {
        components.schemas.entry(name).or_insert(schema);
    }
}

pub(super) fn operations(item: &mut PathItem) -> impl Iterator<Item = (Method, &mut Operation)> {
    [
        (Method::GET, &mut item.get),
        (Method::PUT, &mut item.put),
        (Method::POST, &mut item.post),
        (Method::DELETE, &mut item.delete),
        (Method::PATCH, &mut item.patch),
    ]
    .into_iter()
    .filter_map(|(method, operation)| Some((method, operation.as_mut()?)))
}

/// A POST takes an idempotency key.
fn add_key(operation: &mut Operation) {
    let key = ObjectBuilder::new()
        .schema_type(Type::String)
        .min_length(Some(1))
        .max_length(Some(idempotency::MAX_KEY))
        .pattern(Some("^[!-~]+$"))
        .build();
    let key = ParameterBuilder::new()
        .name("Idempotency-Key")
        .parameter_in(ParameterIn::Header)
        .description(Some(
            "A name for this request. A repeat with the same key, path, query and body gets the first answer and is \
             not run again, for 24 hours.",
        ))
        .schema(Some(key))
        .build();
    operation.parameters.get_or_insert_default().push(RefOr::T(key));
    let responses = &mut operation.responses.responses;
    for response in responses.values_mut() {
        if let RefOr::T(response) = response {
            let replayed = HeaderBuilder::new()
                .schema(Some(ObjectBuilder::new().schema_type(Type::Boolean)))
                .description(Some(
                    "`true` when this is the answer of an earlier request with the same key",
                ))
                .build();
            response
                .headers
                .insert("idempotency-replayed".to_owned(), RefOr::T(replayed));
        }
    }
    for status in KEYED_STATUS {
        responses
            .entry(status.to_owned())
            .or_insert_with(|| RefOr::Ref(Ref::from_response_name(PROBLEM)));
    }
}

fn add_problems(operation: &mut Operation, guarded: bool, of_one: bool, may_have_body: bool) {
    let mut status = vec!["default"];
    status.extend(ANY_STATUS);
    if guarded {
        status.extend(GUARDED_STATUS);
    }
    if of_one {
        status.extend(ONE_STATUS);
    }
    if may_have_body {
        status.extend(BODY_STATUS);
    }
    for status in status {
        operation
            .responses
            .responses
            .entry(status.to_owned())
            .or_insert_with(|| RefOr::Ref(Ref::from_response_name(PROBLEM)));
    }
    // Path parameters come first, as in the path.
    if let Some(parameters) = &mut operation.parameters {
        parameters.sort_by_key(|parameter| match parameter {
            RefOr::T(parameter) => parameter.parameter_in != ParameterIn::Path,
            RefOr::Ref(_) => true,
        });
    }
}

/// The paths that are read, as the document has them.
static READ: LazyLock<Vec<String>> = LazyLock::new(|| {
    let paths = routes::document().paths.paths.into_iter();
    paths
        .filter(|(_, item)| item.get.is_some())
        .map(|(path, _)| path)
        .collect()
});

/// The path of the document that a GET of `path` is for.
pub(super) fn route_of(path: &str) -> Option<&'static str> {
    let fits = |route: &&str| {
        let (route, path) = (route.split('/'), path.split('/'));
        let is_one = |(part, text): (&str, &str)| part == text || (part.starts_with('{') && !text.is_empty());
        route.clone().count() == path.clone().count() && route.zip(path).all(is_one)
    };
    READ.iter().map(String::as_str).find(fits)
}

/// The document as it is committed: pretty JSON with a newline at the end.
pub fn openapi_json() -> Result<String, serde_json::Error> {
    let whole = written::Whole::of(document())?;
    serde_json::to_string_pretty(&whole).map(|json| json + "\n")
}
