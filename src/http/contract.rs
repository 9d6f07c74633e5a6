//! Owns what the OpenAPI document says of requests and no handler looks at: which query parameters an operation takes, and
//! that one without a body gets none. A typo is refused there too, before anything is done.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use axum::{
    body::Body,
    extract::{MatchedPath, Query, Request, State},
    http::{Method, Uri, header},
    middleware::Next,
    response::{IntoResponse, Response},
};
use serde::Deserialize;
use utoipa::openapi::{OpenApi, RefOr, path::ParameterIn};

use super::{ApiError, AppState, ErrorCode, extract, guard, openapi};

/// The parameters and bodies that the operations take.
#[derive(Clone, Debug)]
pub(super) struct Contract {
    operations: Arc<HashMap<(Method, String), Operation>>,
}

#[derive(Debug)]
struct Operation {
    /// The names of its query parameters.
    queries: HashSet<String>,
    takes_body: bool,
}

/// The body of an operation that takes none: many clients declare JSON on every request and send an empty object.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Nothing {}

impl Contract {
    /// The contract of a document.
    pub(super) fn of(mut document: OpenApi) -> Self {
        let mut operations = HashMap::new();
        for (path, item) in &mut document.paths.paths {
            for (method, operation) in openapi::operations(item) {
                let parameters = operation.parameters.iter().flatten();
                let queries = parameters.filter_map(|parameter| match parameter {
                    RefOr::T(it) if it.parameter_in == ParameterIn::Query => Some(it.name.clone()),
                    _ => None,
                });
                let operation = Operation {
                    queries: queries.collect(),
                    takes_body: operation.request_body.is_some(),
                };
                operations.insert((method, path.clone()), operation);
            }
        }
        Self {
            operations: Arc::new(operations),
        }
    }

    fn operation(&self, request: &Request) -> Option<&Operation> {
        let path = request.extensions().get::<MatchedPath>()?.as_str();
        let method = match *request.method() {
            // It is answered by the handler of GET.
            Method::HEAD => Method::GET,
            ref method => method.clone(),
        };
        self.operations.get(&(method, path.to_owned()))
    }
}

/// Lets a request through that says nothing but what its operation takes.
pub(super) async fn hold(
    State((state, contract)): State<(AppState, Contract)>,
    request: Request,
    next: Next,
) -> Response {
    // Another method of the path is refused by the router.
    let Some(operation) = contract.operation(&request) else {
        return next.run(request).await;
    };
    if let Err(error) = check_query(&operation.queries, request.uri()) {
        return error.into_response();
    }
    if operation.takes_body || *request.method() == Method::GET || *request.method() == Method::HEAD {
        return next.run(request).await;
    }
    match without_body(&state, request).await {
        Ok(request) => next.run(request).await,
        Err(error) => error.into_response(),
    }
}

fn check_query(known: &HashSet<String>, uri: &Uri) -> Result<(), ApiError> {
    // A query that is no list of pairs is refused by its extractor.
    let Ok(Query(pairs)) = Query::<Vec<(String, String)>>::try_from_uri(uri) else {
        return Ok(());
    };
    match pairs.into_iter().find(|(name, _)| !known.contains(name)) {
        Some((name, _)) => {
            let detail = format!("{name}: there is no such parameter here");
            Err(ApiError::new(ErrorCode::InvalidQuery).detail(detail))
        }
        None => Ok(()),
    }
}

/// The request, once it is certain that its body says nothing.
async fn without_body(state: &AppState, request: Request) -> Result<Request, ApiError> {
    let (parts, body) = request.into_parts();
    let bytes = extract::read(Request::from_parts(parts.clone(), body), state).await?;
    if !bytes.is_empty() {
        let declared = parts.headers.get(header::CONTENT_TYPE);
        let declared = declared.and_then(|value| value.to_str().ok());
        if !declared.is_some_and(guard::is_json) {
            return Err(ErrorCode::UnsupportedMediaType.into());
        }
        let Nothing {} = extract::parse(&bytes)?;
    }
    Ok(Request::from_parts(parts, Body::from(bytes)))
}
