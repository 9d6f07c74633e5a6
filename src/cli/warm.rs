//! Owns the reading of `[warm]`: its launch options are those of the API.

use serde_json::Value;

use super::CliError;
use crate::{
    claude::{LaunchOptions, Policy},
    config::{Config, WarmProfile},
    supervisor::{self, WarmSettings},
    telemetry,
};

/// The limits of launch options.
pub(super) fn policy(config: &Config) -> Policy {
    Policy {
        allow_bypass_permissions: config.sessions.allow_bypass_permissions,
        allow_extra_args: config.sessions.allow_extra_args,
    }
}

/// The processes to start in advance.
pub(super) fn settings(config: &Config) -> Result<WarmSettings, CliError> {
    let policy = policy(config);
    let profiles = config.warm.profiles.iter().map(|profile| {
        let options = options(profile, &policy).map_err(|reason| {
            CliError::Usage(format!(
                "warm.profiles: the options of {}: {reason}",
                profile.name
            ))
        })?;
        Ok(supervisor::WarmProfile {
            name: profile.name.clone(),
            cwd: profile.cwd.display().to_string(),
            options,
            count: usize::try_from(profile.count).unwrap_or(usize::MAX),
        })
    });
    Ok(WarmSettings {
        profiles: profiles.collect::<Result<_, CliError>>()?,
        max_age_ms: config.warm.max_age_ms,
    })
}

/// The launch options of a profile, or why they cannot be used.
pub(super) fn options(profile: &WarmProfile, policy: &Policy) -> Result<LaunchOptions, String> {
    // From the text, as the API reads them: what is passed on byte for byte needs it.
    let text = Value::Object(profile.options.clone()).to_string();
    let options: LaunchOptions = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    options.check(policy).map_err(|error| telemetry::chain(&error))?;
    Ok(options)
}
