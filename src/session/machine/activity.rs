//! Owns how the fold knows what a process does between its answers.

use crate::{
    claude::{
        Envelope,
        activity::{self, News},
    },
    domain::{Activity, ActivityKind},
    journal::RecordRef,
    session::counted::Counted,
};

use super::Run;

impl Run {
    /// A line of the process, whatever it says.
    pub(super) fn on_activity(&mut self, line: &Envelope<'_>, record: &RecordRef<'_>, counted: &mut Counted) {
        let Some(news) = activity::read(line, record.at) else {
            return;
        };
        let now = self.activity.take();
        let goes_on = |kind| {
            now.as_ref()
                .filter(|now| now.kind == kind)
                .map_or(record.at, |now| now.since)
        };
        self.activity = match news {
            News::Answers => None,
            News::CompactsNot => now.filter(|now| now.kind != ActivityKind::Compacting),
            News::Compacts => Some(Activity {
                kind: ActivityKind::Compacting,
                since: goes_on(ActivityKind::Compacting),
                retry: None,
            }),
            News::Retries(retry) => {
                counted.api_retry(&retry);
                Some(Activity {
                    kind: ActivityKind::Retrying,
                    since: goes_on(ActivityKind::Retrying),
                    retry: Some(retry),
                })
            }
        };
    }
}
