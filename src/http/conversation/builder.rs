//! Owns how records become messages, one page at a time.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    ops::ControlFlow,
};

use serde::Deserialize;
use serde_json::{Value, value::RawValue};

use super::{cursor::ConversationCursor, deltas::Streaming};
use crate::{
    domain::{PromptUuid, Seq, Timestamp},
    http::dto::{ConversationItem, ConversationPage, Role},
    journal::{RecordRef, Source, is_history, unfold},
};

/// Bytes that are read past a full page to find the last lines of its messages.
const LOOK_AHEAD_BYTES: usize = 8 * 1024 * 1024;

/// The parts of a CLI line that matter here. The rest is not looked at.
#[derive(Deserialize)]
struct Line<'a> {
    #[serde(borrow, rename = "type")]
    kind: Cow<'a, str>,
    uuid: Option<String>,
    parent_tool_use_id: Option<String>,
    #[serde(borrow)]
    message: Option<&'a RawValue>,
    #[serde(borrow)]
    event: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct Message<'a> {
    id: Option<String>,
    #[serde(borrow)]
    content: &'a RawValue,
}

struct Item {
    seq: Seq,
    at: Timestamp,
    role: Role,
    uuid: Option<String>,
    message_id: Option<String>,
    parent: Option<String>,
    content: Content,
    /// The last record that added to it.
    last_seq: Seq,
    /// Whether it was put together from deltas; whole lines replace it.
    from_deltas: bool,
    is_synthetic: bool,
    is_copied: bool,
}

enum Content {
    Whole(Box<RawValue>),
    Blocks(Vec<Box<RawValue>>),
}

/// Puts messages together from records that come in their order.
pub(super) struct Builder {
    limit: usize,
    start: Seq,
    items: Vec<Item>,
    /// The items of assistant messages by their ids.
    by_message: HashMap<String, usize>,
    /// Per speaker (main or sub-agent) the message that may get more lines.
    open: HashMap<Option<String>, String>,
    /// Messages of pages before.
    given: HashSet<String>,
    /// Prompts that the CLI repeats.
    ignored: HashSet<PromptUuid>,
    streaming: Option<Streaming>,
    looked_ahead: usize,
    /// Whether a turn ended in this page.
    turn_ended: bool,
    /// The last record that was read.
    last: Seq,
    /// Whether it repeats one of the session that this is a fork of.
    is_copied: bool,
    /// Messages that begin at this record or later are left out.
    end: Option<Seq>,
    /// The first `result` line: no message has lines before and after it.
    first_result: Option<Seq>,
}

/// A message, and whether all of its lines were read when the reading began in the middle.
pub(super) struct Whole {
    pub(super) item: ConversationItem,
    pub(super) is_whole: bool,
}

impl Builder {
    pub(super) fn new(cursor: ConversationCursor, limit: usize) -> Self {
        Self {
            limit,
            start: cursor.after,
            items: Vec::new(),
            by_message: HashMap::new(),
            open: HashMap::new(),
            given: cursor.given.into_iter().collect(),
            ignored: HashSet::new(),
            streaming: None,
            looked_ahead: 0,
            turn_ended: false,
            last: cursor.after,
            is_copied: false,
            end: None,
            first_result: None,
        }
    }

    /// Messages that begin at this record or later are left out. Those before it are read to their last line.
    pub(super) const fn end_before(&mut self, end: Seq) {
        self.end = Some(end);
    }

    /// Lines of the CLI with this id repeat a prompt that has a record of its own.
    pub(super) fn ignore(&mut self, prompt: PromptUuid) {
        self.ignored.insert(prompt);
    }

    /// Takes the next record; breaks when the page is whole.
    pub(super) fn push(&mut self, record: &RecordRef<'_>) -> ControlFlow<()> {
        self.last = record.seq;
        self.is_copied = is_history(record);
        let record = &unfold(*record);
        let full = self.is_full();
        if full {
            self.looked_ahead += record.line.len();
            let is_streaming = self.end.is_some() && self.streaming.is_some();
            if (self.open.is_empty() && !is_streaming) || self.looked_ahead > LOOK_AHEAD_BYTES {
                return ControlFlow::Break(());
            }
        }
        if !matches!(record.source, Source::Cli | Source::Client) {
            return ControlFlow::Continue(());
        }
        let Ok(line) = serde_json::from_slice::<Line<'_>>(record.data) else {
            return ControlFlow::Continue(());
        };
        match (line.kind.as_ref(), record.source) {
            ("user", _) if !full => self.user(record, line),
            ("assistant", Source::Cli) => self.assistant(record, line),
            ("stream_event", Source::Cli) if !full || self.goes_on(&line) => self.delta(record, &line),
            // A turn is over: nobody adds to what was said in it.
            ("result", Source::Cli) => {
                self.open.clear();
                self.first_result.get_or_insert(record.seq);
                if full {
                    self.streaming = None;
                }
                self.turn_ended |= !full;
            }
            _ => {}
        }
        ControlFlow::Continue(())
    }

    fn is_full(&self) -> bool {
        self.items.len() >= self.limit || self.end.is_some_and(|end| self.last >= end)
    }

    /// Whether a line of a full page that is read backwards goes on with a message that began in it.
    fn goes_on(&self, line: &Line<'_>) -> bool {
        #[derive(Deserialize)]
        struct Event<'a> {
            #[serde(borrow, rename = "type")]
            kind: Cow<'a, str>,
        }
        let event = line
            .event
            .filter(|_| self.end.is_some() && self.streaming.is_some());
        let event = event.and_then(|event| serde_json::from_str::<Event<'_>>(event.get()).ok());
        event.is_some_and(|event| event.kind != "message_start")
    }

    fn user(&mut self, record: &RecordRef<'_>, line: Line<'_>) {
        let uuid = line.uuid.as_deref().and_then(|uuid| uuid.parse().ok());
        if record.source == Source::Cli && uuid.is_some_and(|uuid| self.ignored.contains(&uuid)) {
            return;
        }
        let Some(message) = parse(line.message) else {
            return;
        };
        let is_of_agent = line.parent_tool_use_id.is_some() || has_tool_result(message.content);
        let is_synthetic = record.source == Source::Cli && !is_of_agent;
        self.items.push(Item {
            seq: record.seq,
            at: record.at,
            role: Role::User,
            uuid: line.uuid,
            message_id: None,
            parent: line.parent_tool_use_id,
            content: Content::Whole(message.content.to_owned()),
            last_seq: record.seq,
            from_deltas: false,
            is_synthetic,
            is_copied: self.is_copied,
        });
    }

    fn assistant(&mut self, record: &RecordRef<'_>, line: Line<'_>) {
        let Some(message) = parse(line.message) else {
            return;
        };
        let content = match serde_json::from_str::<Vec<&RawValue>>(message.content.get()) {
            Ok(blocks) => Content::Blocks(blocks.into_iter().map(ToOwned::to_owned).collect()),
            Err(_) => Content::Whole(message.content.to_owned()),
        };
        if let Some(id) = &message.id {
            if self.given.contains(id) {
                return;
            }
            if self
                .streaming
                .as_ref()
                .is_some_and(|streaming| streaming.message_id == *id)
            {
                self.streaming = None;
            }
            if let Some(item) = self
                .by_message
                .get(id)
                .and_then(|index| self.items.get_mut(*index))
            {
                item.last_seq = record.seq;
                item.uuid = line.uuid.or_else(|| item.uuid.take());
                let replace = std::mem::take(&mut item.from_deltas);
                item.content.add(content, replace);
                return;
            }
            // Its speaker goes on to another message, so the one before is whole.
            self.open.remove(&line.parent_tool_use_id);
        }
        if self.is_full() {
            return;
        }
        if let Some(id) = &message.id {
            self.open.insert(line.parent_tool_use_id.clone(), id.clone());
        }
        self.add_assistant(Item {
            seq: record.seq,
            at: record.at,
            role: Role::Assistant,
            uuid: line.uuid,
            message_id: message.id,
            parent: line.parent_tool_use_id,
            content,
            last_seq: record.seq,
            from_deltas: false,
            is_synthetic: false,
            is_copied: self.is_copied,
        });
    }

    fn add_assistant(&mut self, item: Item) {
        if let Some(id) = &item.message_id {
            self.by_message.insert(id.clone(), self.items.len());
        }
        self.items.push(item);
    }

    fn delta(&mut self, record: &RecordRef<'_>, line: &Line<'_>) {
        let event = line
            .event
            .and_then(|event| serde_json::from_str::<Value>(event.get()).ok());
        let Some(event) = event else {
            return;
        };
        match event.get("type").and_then(Value::as_str) {
            Some("message_start") => {
                self.streaming = Streaming::start(&event, record.seq, record.at).filter(|new| {
                    !self.by_message.contains_key(&new.message_id) && !self.given.contains(&new.message_id)
                });
            }
            Some("message_stop") => {
                // Whole lines take the stream away; what is still here came as deltas only.
                if let Some(streaming) = self.streaming.take() {
                    let message_id = streaming.message_id.clone();
                    self.open.insert(None, message_id.clone());
                    self.add_assistant(Item {
                        seq: streaming.seq,
                        at: streaming.at,
                        role: Role::Assistant,
                        uuid: line.uuid.clone(),
                        message_id: Some(message_id),
                        parent: None,
                        content: Content::Blocks(streaming.blocks()),
                        last_seq: record.seq,
                        from_deltas: true,
                        is_synthetic: false,
                        is_copied: false,
                    });
                }
            }
            _ => {
                if let Some(streaming) = &mut self.streaming {
                    streaming.add(&event);
                }
            }
        }
    }

    /// The page. At the head there is no next one.
    pub(super) fn finish(self, at_head: bool) -> ConversationPage {
        let full = self.is_full();
        let next = if full {
            self.items.iter().map(|item| item.seq).max().unwrap_or(self.start)
        } else {
            self.last
        };
        let given = self
            .items
            .iter()
            .filter(|item| {
                item.last_seq > next
                    || self
                        .open
                        .values()
                        .any(|open| item.message_id.as_ref() == Some(open))
            })
            .filter_map(|item| item.message_id.clone());
        // A message of a page before may have still more lines after this page, but not after its turn.
        let before = self.given.into_iter().filter(|_| !self.turn_ended);
        let given: HashSet<String> = given.chain(before).collect();
        let cursor = ConversationCursor {
            after: next,
            given: given.into_iter().collect(),
        };
        let whole = at_head && (!full || next == self.last);
        ConversationPage {
            next_cursor: if whole { None } else { cursor.encode() },
            next_before: None,
            items: self.items.into_iter().filter_map(Item::finish).collect(),
        }
    }

    /// The messages, in the order in which they begin. The first one of each speaker may have begun before the first record,
    /// unless a turn ended between.
    pub(super) fn finish_back(mut self) -> Vec<Whole> {
        self.items.sort_by_key(|item| item.seq);
        let mut speakers = HashSet::new();
        let first_result = self.first_result;
        let whole = self.items.into_iter().filter_map(|item| {
            let is_first = item.message_id.is_some() && speakers.insert(item.parent.clone());
            let is_whole = !is_first || first_result.is_some_and(|result| result < item.seq);
            item.finish().map(|item| Whole { item, is_whole })
        });
        whole.collect()
    }
}

/// Whether the content of a user message gives back what a tool did.
fn has_tool_result(content: &RawValue) -> bool {
    #[derive(Deserialize)]
    struct Block<'a> {
        #[serde(borrow, rename = "type")]
        kind: Cow<'a, str>,
    }
    let blocks = serde_json::from_str::<Vec<Block<'_>>>(content.get()).unwrap_or_default();
    blocks.iter().any(|block| block.kind == "tool_result")
}

fn parse(message: Option<&RawValue>) -> Option<Message<'_>> {
    serde_json::from_str(message?.get()).ok()
}

impl Content {
    /// Adds what another line of the same message has. Some versions repeat the blocks before.
    fn add(&mut self, more: Self, replace: bool) {
        let (Self::Blocks(blocks), Self::Blocks(more)) = (&mut *self, &more) else {
            *self = more;
            return;
        };
        let repeats =
            more.len() >= blocks.len() && blocks.iter().zip(more).all(|(old, new)| old.get() == new.get());
        if replace || repeats {
            blocks.clear();
        }
        blocks.extend(more.iter().cloned());
    }

    fn finish(self) -> Option<Box<RawValue>> {
        match self {
            Self::Whole(raw) => Some(raw),
            Self::Blocks(blocks) => serde_json::value::to_raw_value(&blocks).ok(),
        }
    }
}

impl Item {
    fn finish(self) -> Option<ConversationItem> {
        Some(ConversationItem {
            seq: self.seq,
            ts: self.at,
            role: self.role,
            uuid: self.uuid,
            message_id: self.message_id,
            content: self.content.finish()?,
            parent_tool_use_id: self.parent,
            synthetic: self.is_synthetic,
            copied: self.is_copied,
        })
    }
}
