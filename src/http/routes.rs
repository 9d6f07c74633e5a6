//! Owns the list of routes, their body limits and the layers around them. Each file below owns one group.

mod approvals;
mod attention;
mod controls;
mod daemon;
mod directories;
mod events;
mod export;
mod find;
mod health;
mod lobby;
pub(super) mod logins;
mod messages;
mod metrics;
mod queue;
mod rules;
mod sessions;
pub(super) mod tickets;
mod usage;
mod wait;
pub(super) mod webhooks;

pub(super) use health::healthz;

use axum::{
    Router,
    extract::{DefaultBodyLimit, Request},
    http::{HeaderValue, StatusCode, header},
    middleware,
    response::{IntoResponse, Response},
};
use tower_http::{
    CompressionLevel,
    compression::{
        CompressionLayer, Predicate,
        predicate::{And, SizeAbove},
    },
};
use utoipa::openapi::OpenApi;
use utoipa_axum::{router::OpenApiRouter, routes};

use super::{
    ApiError, AppState, ErrorCode, behind, closing,
    contract::{self, Contract},
    cors, documents, guard, idempotency, observe, openapi, ws,
};

/// Largest body of a request that carries no prompt, in bytes.
const SMALL_BODY_BYTES: usize = 1024 * 1024;
/// The bytes that a body with a prompt may have beyond the prompt.
const PROMPT_OVERHEAD_BYTES: usize = 1024 * 1024;

/// Largest body that makes a login, in bytes: a stranger may send it.
const LOGIN_BODY_BYTES: usize = 4 * 1024;

/// Smaller answers are not worth compressing: they are a packet or two.
const LEAST_COMPRESSED_BYTES: u64 = 4096;

/// Everything that the daemon serves over HTTP.
pub fn router(state: AppState) -> Router {
    let prompt_bytes = state
        .config()
        .max_prompt_bytes
        .saturating_add(PROMPT_OVERHEAD_BYTES);
    let requests = state.supervisor().metrics().requests().clone();
    let once = middleware::from_fn_with_state(state.clone(), idempotency::once);
    let contract = Contract::of(document());
    let held = middleware::from_fn_with_state((state.clone(), contract), contract::hold);
    // A request that the contract refuses uses up no idempotency key.
    let surround = |routes: OpenApiRouter<AppState>| routes.layer(once.clone()).layer(held.clone());
    let (router, _) = OpenApiRouter::new()
        .merge(limited(surround(with_prompt()), prompt_bytes))
        .merge(limited(surround(without_prompt()), SMALL_BODY_BYTES))
        .merge(limited(with_secret().layer(held.clone()), SMALL_BODY_BYTES))
        .merge(limited(of_logins().layer(held), LOGIN_BODY_BYTES))
        .split_for_parts();
    // The last layer is the first that sees a request.
    router
        .merge(state.console().routes())
        .fallback(not_found)
        .method_not_allowed_fallback(method_not_allowed)
        .layer(middleware::from_fn_with_state(state.clone(), behind::mark))
        .layer(middleware::from_fn_with_state(state.clone(), closing::refuse))
        .layer(middleware::from_fn_with_state(state.clone(), guard::guard))
        .layer(middleware::map_response(of_content))
        .layer(compression())
        .layer(middleware::from_fn_with_state(requests, observe::observe))
        .layer(middleware::from_fn_with_state(state.clone(), cors::allow))
        .with_state(state)
}

/// Larger answers in JSON are compressed for clients that take it. Streams never are: a part that waits for more to compress is late.
fn compression() -> CompressionLayer<And<SizeAbove, IsJson>> {
    let is_worth_it = SizeAbove::new(LEAST_COMPRESSED_BYTES).and(IsJson);
    // The usual level takes twice the time of the fastest one to make a list smaller by another seventh.
    CompressionLayer::new()
        .quality(CompressionLevel::Fastest)
        .compress_when(is_worth_it)
}

/// Answers that are one JSON document.
#[derive(Clone, Copy, Debug)]
struct IsJson;

impl Predicate for IsJson {
    fn should_compress<B>(&self, response: &axum::http::Response<B>) -> bool {
        let content_type = response.headers().get(header::CONTENT_TYPE);
        content_type.is_some_and(|it| it.as_bytes() == b"application/json")
    }
}

/// Nobody keeps an answer about a session, and no browser takes it for a page, whatever it looks like.
async fn of_content(mut response: Response) -> Response {
    // The answer to an upgrade has no content, and its client may pay for each byte.
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        return response;
    }
    let headers = [
        (header::CACHE_CONTROL, "no-store"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (
            header::CONTENT_SECURITY_POLICY,
            "default-src 'none'; frame-ancestors 'none'",
        ),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    for (name, value) in headers {
        let entry = response.headers_mut().entry(name);
        entry.or_insert(HeaderValue::from_static(value));
    }
    response
}

/// The OpenAPI document of the routes.
pub(super) fn document() -> OpenApi {
    OpenApiRouter::<AppState>::with_openapi(openapi::frame())
        .merge(with_prompt())
        .merge(without_prompt())
        .merge(with_secret())
        .merge(of_logins())
        .into_openapi()
}

/// The limit is known to the layers inside.
fn limited(routes: OpenApiRouter<AppState>, bytes: usize) -> OpenApiRouter<AppState> {
    let refuse = move |request: Request, next: middleware::Next| async move {
        let length = request.headers().get(header::CONTENT_LENGTH);
        let length = length.and_then(|length| length.to_str().ok()?.parse::<u64>().ok());
        // One that is known to be too large is not read.
        if length.is_some_and(|length| usize::try_from(length).is_ok_and(|length| length > bytes)) {
            return ApiError::from(ErrorCode::BodyTooLarge).into_response();
        }
        next.run(request).await
    };
    routes
        .layer(DefaultBodyLimit::max(bytes))
        .layer(middleware::from_fn(refuse))
}

fn with_prompt() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(sessions::create, sessions::list))
        .routes(routes!(sessions::fork))
        .routes(routes!(messages::send, messages::list))
        .routes(routes!(queue::add, queue::list))
        .routes(routes!(queue::change, queue::take_back))
        // A decision may carry a tool's whole input, and a control request a file.
        .routes(routes!(approvals::get, approvals::decide))
        .routes(routes!(controls::control))
}

fn without_prompt() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(sessions::get, sessions::update, sessions::delete))
        .routes(routes!(sessions::resume))
        .routes(routes!(sessions::restart))
        .routes(routes!(sessions::stop))
        .routes(routes!(sessions::park))
        .routes(routes!(attention::set_seen, attention::set_unread))
        .routes(routes!(attention::put_off, attention::take_up))
        .routes(routes!(events::list))
        .routes(routes!(events::get))
        .routes(routes!(find::list))
        .routes(routes!(export::export))
        .routes(routes!(lobby::watch))
        .routes(routes!(ws::attach))
        .routes(routes!(ws::many::attach))
        .routes(routes!(ws::connect::connect))
        .routes(routes!(ws::stdio::stand_in))
        .routes(routes!(controls::interrupt))
        .routes(routes!(controls::set_model))
        .routes(routes!(controls::set_permission_mode))
        .routes(routes!(controls::set_thinking))
        .routes(routes!(controls::offers::context_usage))
        .routes(routes!(controls::offers::commands))
        .routes(routes!(controls::offers::models))
        .routes(routes!(controls::offers::agents))
        .routes(routes!(controls::offers::account))
        .routes(routes!(controls::mcp::status, controls::mcp::set_servers))
        .routes(routes!(controls::mcp::set_server))
        .routes(routes!(controls::mcp::reconnect))
        .routes(routes!(controls::files::rewind))
        .routes(routes!(
            controls::files::settings,
            controls::files::apply_settings
        ))
        .routes(routes!(controls::tasks::list))
        .routes(routes!(controls::tasks::todos))
        .routes(routes!(controls::tasks::background))
        .routes(routes!(controls::tasks::stop))
        .routes(routes!(controls::tasks::output))
        .routes(routes!(approvals::list_of_session))
        .routes(routes!(approvals::list))
        .routes(routes!(approvals::file_before))
        .routes(routes!(directories::complete))
        .routes(routes!(rules::list))
        .routes(routes!(rules::test))
        .routes(routes!(rules::list_of_session, rules::set, rules::add))
        .routes(routes!(rules::remove))
        .routes(routes!(rules::test_of_session))
        .routes(routes!(usage::list_turns))
        .routes(routes!(usage::get_turn))
        .routes(routes!(usage::list_rate_limits))
        .routes(routes!(usage::list_runs))
        .routes(routes!(usage::list_processes))
        .routes(routes!(usage::sum))
        .routes(routes!(webhooks::get, webhooks::update, webhooks::delete))
        .routes(routes!(webhooks::test))
        .routes(routes!(daemon::restart))
        .routes(routes!(daemon::configuration))
        .routes(routes!(daemon::examine))
        .routes(routes!(daemon::collect))
        .routes(routes!(health::healthz))
        .routes(routes!(health::readyz))
        .routes(routes!(metrics::metrics))
        .routes(routes!(documents::openapi))
        .routes(routes!(documents::asyncapi))
        .routes(routes!(documents::page))
}

/// Routes whose answers are kept under no idempotency key.
fn with_secret() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(tickets::create))
        .routes(routes!(webhooks::list, webhooks::create))
}

/// Routes that are asked by whom nobody has let in, and set cookies.
fn of_logins() -> OpenApiRouter<AppState> {
    OpenApiRouter::new()
        .routes(routes!(logins::list, logins::create))
        .routes(routes!(logins::current, logins::log_out))
        .routes(routes!(logins::delete))
}

async fn not_found() -> ApiError {
    ErrorCode::RouteNotFound.into()
}

async fn method_not_allowed(request: Request) -> Response {
    let detail = format!("{} is not allowed here", request.method());
    ApiError::new(ErrorCode::MethodNotAllowed)
        .detail(detail)
        .into_response()
}
