//! Owns what error codes are to HTTP: the status of each one, and their schema.

use axum::http::StatusCode;
use utoipa::openapi::{
    RefOr, Schema,
    schema::{AnyOfBuilder, ObjectBuilder, Type},
};

use crate::domain::ErrorCode;

/// The status of a response with this code.
pub(in crate::http) const fn status_of(code: ErrorCode) -> StatusCode {
    use ErrorCode as E;
    match code {
        E::MalformedRequest
        | E::HostMissing
        | E::BodyUnreadable
        | E::InvalidJson
        | E::InvalidQuery
        | E::InvalidId
        | E::InvalidCursor
        | E::InvalidIdempotencyKey
        | E::UnsupportedProtocol
        | E::SeqBeyondHead
        | E::InvalidDecision
        | E::UnknownTimeZone
        | E::UnknownFrame => StatusCode::BAD_REQUEST,
        E::Unauthorized | E::TicketInvalid | E::LoginInvalid => StatusCode::UNAUTHORIZED,
        E::OriginForbidden | E::RoleForbidden | E::CwdOutsideRoots | E::FileOutsideRoots => {
            StatusCode::FORBIDDEN
        }
        E::NotSubscribed
        | E::RouteNotFound
        | E::SessionNotFound
        | E::RecordNotFound
        | E::PromptNotFound
        | E::ConversationNotFound
        | E::MessageNotFound
        | E::TurnNotFound
        | E::ApprovalNotFound
        | E::RuleNotFound
        | E::WebhookNotFound
        | E::LoginNotFound => StatusCode::NOT_FOUND,
        E::MethodNotAllowed => StatusCode::METHOD_NOT_ALLOWED,
        E::UriTooLong => StatusCode::URI_TOO_LONG,
        E::HeadersTooLarge => StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
        E::IdempotencyConflict
        | E::IdempotencyInProgress
        | E::OutcomeUnknown
        | E::SessionNotLive
        | E::SessionAlreadyLive
        | E::SessionNotParkable
        | E::SessionStopping
        | E::KeeperIncompatible
        | E::SessionEnded
        | E::ConversationNotStarted
        | E::CwdUnknown
        | E::ConversationNotKept
        | E::BudgetSpent
        | E::HistoryDiffers
        | E::ResumeRejected
        | E::ConversationInUse
        | E::ConversationTaken
        | E::ChoicesDamaged
        | E::ChoicesMissing
        | E::PromptConflict
        | E::PromptGiven
        | E::CallDeferred
        | E::PromptDropped
        | E::PromptNotPending
        | E::ControlRefused
        | E::NotInitialized
        | E::AlreadyDecided
        | E::ApprovalNotPending
        | E::NothingToPutOff
        | E::FileNotNamed
        | E::RuleExists
        | E::WebhookConfigured
        | E::TooManyWebhooks
        | E::RestartRefused
        | E::RequestNotPending
        | E::RequestNotOwned
        | E::RequestIdInUse
        | E::RequestCancelled
        | E::SecretRefused
        | E::AlreadySubscribed => StatusCode::CONFLICT,
        E::ResponseNotKept | E::RecordsCompacted => StatusCode::GONE,
        E::BodyTooLarge | E::PromptTooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        E::UnsupportedMediaType => StatusCode::UNSUPPORTED_MEDIA_TYPE,
        E::HostForbidden => StatusCode::MISDIRECTED_REQUEST,
        E::InvalidField
        | E::MessageNotForkable
        | E::CwdMissing
        | E::CwdNotADirectory
        | E::CwdNotAbsolute
        | E::CwdUnreadable
        | E::FileUnreadable
        | E::InvalidOption
        | E::ForkCwdDiffers
        | E::CwdDiffers
        | E::EmptyPrompt
        | E::InvalidLine
        | E::ControlNotAllowed
        | E::InvalidRule => StatusCode::UNPROCESSABLE_ENTITY,
        E::RevisionDiffers => StatusCode::PRECONDITION_FAILED,
        E::UpgradeRequired => StatusCode::UPGRADE_REQUIRED,
        E::TooManyClients | E::TooManySessions | E::TooManySearches | E::TooManyTickets | E::QueueFull => {
            StatusCode::TOO_MANY_REQUESTS
        }
        E::StorageFailed | E::Internal => StatusCode::INTERNAL_SERVER_ERROR,
        E::StartFailed => StatusCode::BAD_GATEWAY,
        E::TooManyConnections
        | E::KeeperUnresponsive
        | E::StartQueueFull
        | E::TooFewFiles
        | E::TooFewProcesses
        | E::CliNotFound
        | E::InputBlocked
        | E::ShuttingDown
        | E::NotReady
        | E::Rebuilding
        | E::StorageUnavailable => StatusCode::SERVICE_UNAVAILABLE,
        E::StopTimeout | E::ControlTimeout | E::WaitTimeout => StatusCode::GATEWAY_TIMEOUT,
    }
}

// The derive does not see names that a macro puts in. Any other string is allowed as well: a client that was generated from
// this schema reads a code that is newer than itself.
impl utoipa::PartialSchema for ErrorCode {
    fn schema() -> RefOr<Schema> {
        let known = ObjectBuilder::new()
            .schema_type(Type::String)
            .enum_values(Some(Self::ALL.iter().map(|code| code.as_str())));
        let newer = ObjectBuilder::new()
            .schema_type(Type::String)
            .description(Some("A code that a newer daemon may have."));
        AnyOfBuilder::new()
            .item(known)
            .item(newer)
            .description(Some("The stable, machine-readable code of an error."))
            .into()
    }
}

impl utoipa::ToSchema for ErrorCode {}
