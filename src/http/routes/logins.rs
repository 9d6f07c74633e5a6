//! Owns the routes of logins: browsers that a person let in.

use std::sync::Arc;

use axum::{
    Extension, Json,
    extract::{Request, State},
    http::{HeaderMap, Method, StatusCode, header},
    response::{IntoResponse, Response},
};
use serde::{Deserialize, Serialize};

use crate::{
    auth::Tenure,
    domain::{self, LoginId, Role, Timestamp, author_of_login},
    http::{
        ApiError, AppState, ErrorCode,
        extract::{Body, OfLogin},
        guard,
        logins::LoginError,
        serve::Visit,
    },
};

/// Where logins are listed and made.
pub(in crate::http) const PATH: &str = "/v1/logins";
/// Where a page asks about its own.
pub(in crate::http) const CURRENT: &str = "/v1/logins/current";
/// Where one is ended.
pub(in crate::http) const ONE: &str = "/v1/logins/{login_id}";
/// Most characters of a name.
const MAX_NAME: usize = 64;

/// Whether a request makes a login: it may show its ticket in its body.
pub(in crate::http) fn is_made_by(request: &Request) -> bool {
    request.method() == Method::POST && request.uri().path() == PATH
}

/// The credential that makes a login, and its name.
#[derive(Deserialize, utoipa::ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(example = json!({"ticket": "kT0mC3…", "name": "Firefox on the laptop"}))]
pub(super) struct LoginRequest {
    /// A ticket that was made for `/v1/logins`. It is used up. Without it the request carries a token as `Authorization`.
    ticket: Option<String>,
    /// A name for people, such as that of the browser.
    #[schema(min_length = 1, max_length = 64)]
    name: Option<String>,
}

/// A browser that was let in.
#[derive(Serialize, utoipa::ToSchema)]
pub(super) struct Login {
    /// Its id.
    #[schema(value_type = uuid::Uuid)]
    id: LoginId,
    /// The role of its requests.
    role: Role,
    /// A name for people.
    name: Option<String>,
    /// Its name as the author of decisions: their `by`.
    author: String,
    /// When it was made.
    #[schema(value_type = String, format = DateTime)]
    created_at: Timestamp,
    /// When it was used last, to the hour.
    #[schema(value_type = String, format = DateTime)]
    last_used_at: Timestamp,
    /// When it ends if nobody uses it.
    #[schema(value_type = String, format = DateTime)]
    expires_at: Timestamp,
    /// Whether this very request is of it.
    is_current: bool,
}

impl Login {
    fn of(login: domain::Login, current: Option<LoginId>) -> Self {
        Self {
            is_current: current == Some(login.id),
            expires_at: login.expires_at(),
            id: login.id,
            role: login.role,
            author: author_of_login(login.id, login.name.as_deref()),
            name: login.name,
            created_at: login.created_at,
            last_used_at: login.last_used_at,
        }
    }
}

/// A new login.
#[derive(Serialize, utoipa::ToSchema)]
pub(super) struct MadeLogin {
    /// The login.
    login: Login,
    /// Its half for the page, which sends it as the header `Trunkline-Login`. It is said this once. The other half is in the
    /// cookie of this answer.
    key: String,
}

/// Logins.
#[derive(Serialize, utoipa::ToSchema)]
pub(super) struct LoginList {
    /// The oldest first.
    items: Vec<Login>,
}

impl From<LoginError> for ApiError {
    fn from(error: LoginError) -> Self {
        match error {
            LoginError::Store(error) => error.into(),
            LoginError::Ending => ErrorCode::ShuttingDown.into(),
            error @ LoginError::Random(_) => Self::new(ErrorCode::Internal).caused_by(error),
        }
    }
}

/// Let a browser in.
///
/// With a ticket that was made for `/v1/logins`, or with a token as `Authorization`; the login has the role of either. The answer
/// sets a cookie that scripts cannot read, and has a key for the page. A request of a page of the daemon that carries both the
/// cookie and the key as `Trunkline-Login` needs no token; either alone opens nothing. A login ends 30 days after its last use.
/// Idempotency keys are ignored here, as no answer is kept.
#[utoipa::path(
    post, path = "/v1/logins", operation_id = "create_login", tag = "daemon", request_body = LoginRequest,
    responses((status = 201, description = "The login, its key, and its cookie", body = MadeLogin)),
    security((), ("token" = [])),
)]
pub(super) async fn create(
    State(state): State<AppState>,
    own: Option<Extension<Role>>,
    visit: Option<Extension<Arc<Visit>>>,
    headers: HeaderMap,
    Body(request): Body<LoginRequest>,
) -> Result<Response, ApiError> {
    let LoginRequest { ticket, name } = request;
    // The ticket is used up, whatever comes of the rest.
    let role = match (ticket, own) {
        (Some(ticket), _) => {
            let shown = state.redeem(&ticket, PATH);
            shown
                .ok_or_else(|| guard::refusal(ErrorCode::TicketInvalid))?
                .role
        }
        (None, Some(Extension(role))) => role,
        (None, None) => return Err(guard::refusal(ErrorCode::Unauthorized)),
    };
    if let Some(Extension(visit)) = visit {
        visit.shown();
    }
    let name = name.map(checked).transpose()?;
    let made = state.logins().make(role, name).await?;
    let cookie = guard::set_cookie(&headers, made.cookie.expose());
    let cookie = cookie.ok_or_else(|| ApiError::new(ErrorCode::Internal))?;
    let answer = MadeLogin {
        login: Login::of(made.row.login, None),
        key: made.key.expose().to_owned(),
    };
    Ok((StatusCode::CREATED, [(header::SET_COOKIE, cookie)], Json(answer)).into_response())
}

/// A name that can be shown.
fn checked(name: String) -> Result<String, ApiError> {
    let is_one = (1..=MAX_NAME).contains(&name.chars().count()) && !name.chars().any(char::is_control);
    if is_one {
        return Ok(name);
    }
    let detail = format!("name: expected 1 to {MAX_NAME} characters, and none that controls a terminal");
    Err(ApiError::new(ErrorCode::InvalidField)
        .detail(detail)
        .member("field", "name"))
}

/// List the logins.
///
/// A viewer sees its own.
#[utoipa::path(
    get, path = "/v1/logins", operation_id = "list_logins", tag = "daemon",
    responses((status = 200, description = "The logins", body = LoginList)),
)]
pub(super) async fn list(
    State(state): State<AppState>,
    Extension(role): Extension<Role>,
    tenure: Tenure,
) -> Json<LoginList> {
    let current = tenure.login();
    let seen = state.logins().list().into_iter();
    let seen = seen.filter(|it| may_see(role, current, it.id));
    let items = seen.map(|it| Login::of(it, current)).collect();
    Json(LoginList { items })
}

/// Show the login of this request.
///
/// A page learns its role from it. A request with a token is of no login.
#[utoipa::path(
    get, path = "/v1/logins/current", operation_id = "get_current_login", tag = "daemon",
    responses((status = 200, description = "The login", body = Login)),
)]
pub(super) async fn current(State(state): State<AppState>, tenure: Tenure) -> Result<Json<Login>, ApiError> {
    let current = tenure.login().ok_or_else(no_current)?;
    let mut all = state.logins().list().into_iter();
    let login = all.find(|it| it.id == current).ok_or(ErrorCode::LoginNotFound)?;
    Ok(Json(Login::of(login, Some(current))))
}

/// Log out.
///
/// Ends the login of this request with all its sockets and streams, and takes the cookie back.
#[utoipa::path(
    delete, path = "/v1/logins/current", operation_id = "delete_current_login", tag = "daemon",
    responses((status = 204, description = "The login has ended")),
)]
pub(super) async fn log_out(
    State(state): State<AppState>,
    tenure: Tenure,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    let current = tenure.login().ok_or_else(no_current)?;
    end(&state, &headers, current, Some(current)).await
}

/// End a login.
///
/// Its sockets and streams are closed at once. A viewer ends only its own.
#[utoipa::path(
    delete, path = "/v1/logins/{login_id}", operation_id = "delete_login", tag = "daemon",
    params(("login_id" = Uuid, Path, description = "The login")),
    responses((status = 204, description = "The login has ended")),
)]
pub(super) async fn delete(
    State(state): State<AppState>,
    OfLogin(id): OfLogin,
    Extension(role): Extension<Role>,
    tenure: Tenure,
    headers: HeaderMap,
) -> Result<Response, ApiError> {
    if !may_see(role, tenure.login(), id) {
        return Err(ErrorCode::LoginNotFound.into());
    }
    end(&state, &headers, id, tenure.login()).await
}

async fn end(
    state: &AppState,
    headers: &HeaderMap,
    id: LoginId,
    current: Option<LoginId>,
) -> Result<Response, ApiError> {
    if !state.logins().end(id).await? {
        return Err(ErrorCode::LoginNotFound.into());
    }
    let mut answer = StatusCode::NO_CONTENT.into_response();
    let cookie = (current == Some(id))
        .then(|| guard::clear_cookie(headers))
        .flatten();
    if let Some(cookie) = cookie {
        answer.headers_mut().insert(header::SET_COOKIE, cookie);
    }
    Ok(answer)
}

fn may_see(role: Role, own: Option<LoginId>, id: LoginId) -> bool {
    role.covers(Role::Operator) || own == Some(id)
}

fn no_current() -> ApiError {
    ApiError::new(ErrorCode::LoginNotFound).detail("this request is of no login")
}
