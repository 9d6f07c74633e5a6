//! Owns the tests of the lobby: which changes a watcher gets, and when all sessions come anew.

use super::*;
use crate::{
    domain::{CliSessionId, Clock, SessionId, Timestamp},
    supervisor::{view::resting, warm},
};

/// A session with this tag and title, as it rests.
fn entry(id: SessionId, tag: &str, title: &str) -> LobbyEntry {
    let new = warm::spare_session(id, CliSessionId::new(), "/work".to_owned(), "{}".to_owned());
    let mut row = warm::spare_row(&new);
    row.tag = Some(tag.to_owned());
    row.title = Some(title.to_owned());
    let live = resting(&row);
    let view = SessionView {
        row,
        live,
        simulated: false,
        start_queue_position: None,
    };
    LobbyEntry::new(view, None, Timestamp::from_micros(0))
}

fn of_tag(tag: &str) -> LobbyFilter {
    LobbyFilter {
        tag: Some(tag.to_owned()),
        ..LobbyFilter::default()
    }
}

/// The events after a number, as short words.
fn seen(history: &History, after: u64, filter: &LobbyFilter) -> Option<Vec<String>> {
    let events = history.after(after, filter)?;
    let words = events.into_iter().map(|(number, event)| {
        let kind = match event {
            LobbyEvent::Made(_) => "made",
            LobbyEvent::Changed(..) => "changed",
            LobbyEvent::Left(_) => "left",
            LobbyEvent::Deleted(_) => "deleted",
        };
        format!("{number} {kind}")
    });
    Some(words.collect())
}

#[test]
fn a_filter_turns_changes_into_comings_and_goings() {
    let mut history = History::new(Clock.now());
    let (one, two) = (SessionId::new(), SessionId::new());
    assert!(history.note(one, Some(entry(one, "a", "x"))));
    assert!(history.note(two, Some(entry(two, "b", "x"))));
    assert!(!history.note(one, Some(entry(one, "a", "x"))), "nothing changed");
    assert!(history.note(one, Some(entry(one, "a", "y"))));
    assert!(history.note(one, Some(entry(one, "b", "y"))));
    assert!(history.note(two, Some(entry(two, "a", "x"))));
    assert!(history.note(two, None));
    assert!(!history.note(two, None), "it was gone");
    let words = |after: u64, filter: &LobbyFilter| seen(&history, after, filter).unwrap();
    assert_eq!(
        words(0, &of_tag("a")),
        ["1 made", "3 changed", "4 left", "5 made", "6 deleted"]
    );
    assert_eq!(words(3, &of_tag("b")), ["4 made", "5 left"]);
    assert_eq!(words(6, &of_tag("a")), [""; 0]);
    assert_eq!(history.matching(&of_tag("b")).len(), 1);
}

#[test]
fn a_watcher_that_is_too_far_behind_or_from_elsewhere_starts_anew() {
    let mut history = History::new(Clock.now());
    let id = SessionId::new();
    for number in 1..=3000_u64 {
        assert!(history.note(id, Some(entry(id, "a", &number.to_string()))));
    }
    let all = LobbyFilter::default();
    assert_eq!(seen(&history, 0, &all), None);
    let oldest = 3000 - 2048;
    assert_eq!(seen(&history, oldest, &all).unwrap().len(), 2048);
    assert_eq!(seen(&history, oldest - 1, &all), None);
    assert_eq!(history.place_of(history.id(oldest)), Some(oldest));
    assert_eq!(history.place_of(history.id(oldest - 1)), None);
    assert_eq!(history.place_of(history.id(3001)), None, "not given yet");
    let text = history.id(2999).to_string();
    assert_eq!(history.place_of(text.parse().unwrap()), Some(2999));
    let other = History::new(Timestamp::from_micros(7));
    assert_eq!(other.place_of(history.id(0)), None);
}
