//! Checks frames, and what neighbouring versions say to each other.

use std::io::Read as _;

use super::*;
use crate::domain::StopAction;

#[test]
fn a_line_comes_back_with_its_writer() {
    let line = br#"{"type":"user"}"#;
    let mut bytes = write_head(7, Some("phone"), line.len()).unwrap().to_vec();
    bytes.extend_from_slice(line);
    let mut frames = FrameReader::new(100);
    frames.read_with(|place| (&bytes[..]).read(place)).unwrap();
    let frame = frames.next().unwrap().unwrap();
    let Some(ToKeeper::Write(submission)) = frame.parse_for_keeper().unwrap() else {
        panic!("not a write");
    };
    assert_eq!(submission.id, 7);
    assert_eq!(submission.by.as_deref(), Some("phone"));
    assert_eq!(submission.data(), line);
}

#[test]
fn a_line_comes_with_what_the_journal_gets_in_its_place() {
    let (line, record) = (br#"{"key":"k"}"#, br#"{"redacted":true}"#);
    let mut bytes = write_as_head(7, Some("phone"), record, line.len())
        .unwrap()
        .to_vec();
    bytes.extend_from_slice(line);
    let payload = bytes.split_off(HEADER_BYTES);
    for cut in 0..=payload.len() - line.len() {
        let frame = Frame {
            tag: tag::WRITE_AS,
            payload: payload[..cut].to_vec(),
        };
        assert_eq!(
            frame.parse_for_keeper().is_ok(),
            cut == payload.len() - line.len()
        );
    }
    let frame = Frame {
        tag: tag::WRITE_AS,
        payload,
    };
    let Some(ToKeeper::Write(submission)) = frame.parse_for_keeper().unwrap() else {
        panic!("not a write");
    };
    assert_eq!((submission.id, submission.by.as_deref()), (7, Some("phone")));
    assert_eq!(submission.data(), line);
    assert_eq!(submission.record(), record);
}

#[test]
fn the_hello_of_an_older_keeper_does_not_name_what_it_lacks() {
    let hello = r#"{"protocol":1,"program_version":"0","session":"01890a5d-ac96-774b-bcce-b302099a8057","run":"01890a5d-ac96-774b-bcce-b302099a8057","child_pid":1,"child_start_time":1,"head":{"seq":0,"segment":1,"offset":0},"exited":null,"max_line_bytes":1}"#;
    let hello: KeeperHello = serde_json::from_str(hello).unwrap();
    assert!(!hello.journal_as);
}

#[test]
fn a_cut_submission_is_malformed_and_an_unknown_tag_is_skipped() {
    let cut = Frame {
        tag: tag::WRITE,
        payload: vec![0; 9],
    };
    assert!(matches!(
        cut.parse_for_keeper(),
        Err(FrameError::Malformed { .. })
    ));
    let later = Frame {
        tag: 200,
        payload: vec![],
    };
    assert!(later.parse_for_daemon().unwrap().is_none());
    assert!(later.parse_for_keeper().unwrap().is_none());
}

/// The frames of each version, byte for byte. Nothing in here may ever change: programs out there say and expect it. A
/// new frame comes with a new version, or as a member that older programs pass over.
mod golden {
    use super::*;

    const SESSION: &str = "01890a5d-ac96-774b-bcce-b302099a8057";

    fn frame(tag: u8, payload: &str) -> Vec<u8> {
        let mut bytes = vec![u8::try_from(payload.len() & 0xff).unwrap()];
        bytes.push(u8::try_from(payload.len() >> 8).unwrap());
        bytes.extend_from_slice(&[0, 0, tag]);
        bytes.extend_from_slice(payload.as_bytes());
        bytes
    }

    fn parsed(bytes: &[u8]) -> Frame {
        let mut frames = FrameReader::new(4096);
        let mut rest = bytes;
        frames.read_with(|place| rest.read(place)).unwrap();
        frames.next().unwrap().unwrap()
    }

    #[test]
    fn a_daemon_says_to_keepers_of_every_version() {
        let secret = "s".to_owned();
        for (version, said) in [
            (1, "\x1b\0\0\0\x01{\"protocol\":1,\"secret\":\"s\"}"),
            (2, "\x1b\0\0\0\x01{\"protocol\":2,\"secret\":\"s\"}"),
        ] {
            let ours = DaemonHello {
                protocol: version,
                secret: secret.clone(),
            };
            assert_eq!(hello(&ours).unwrap(), said.as_bytes());
        }
        let request = StopRequest {
            close_stdin_first: true,
            eof_grace_ms: 5,
            term_grace_ms: 6,
            interrupt_grace_ms: 0,
        };
        let asked = "{\"close_stdin_first\":true,\"eof_grace_ms\":5,\"term_grace_ms\":6}";
        assert_eq!(stop(&request).unwrap(), frame(5, asked));
        let request = StopRequest {
            interrupt_grace_ms: 7,
            ..request
        };
        let asked =
            "{\"close_stdin_first\":true,\"eof_grace_ms\":5,\"term_grace_ms\":6,\"interrupt_grace_ms\":7}";
        assert_eq!(stop(&request).unwrap(), frame(5, asked));
        assert_eq!(signal(15).unwrap(), frame(4, "15"));
        assert_eq!(close_stdin().unwrap(), frame(6, "null"));
        assert_eq!(detach().unwrap(), frame(7, "null"));
        let head = write_head(7, Some("me"), 2).unwrap();
        assert_eq!(&head[..], b"\x0e\0\0\0\x02\x07\0\0\0\0\0\0\0\x02\0me");
        let head = note_head(8, 2).unwrap();
        assert_eq!(&head[..], b"\x0c\0\0\0\x03\x08\0\0\0\0\0\0\0\0\0");
    }

    #[test]
    fn a_keeper_understands_daemons_of_every_version() {
        for version in OLDEST..=VERSION {
            let said = frame(
                1,
                &format!("{{\"protocol\":{version},\"secret\":\"s\",\"later\":[1]}}"),
            );
            let Some(ToKeeper::Hello(hello)) = parsed(&said).parse_for_keeper().unwrap() else {
                panic!("no hello");
            };
            assert!(hello.protocol == version && speaks(version));
        }
        assert!(!speaks(OLDEST - 1) && !speaks(VERSION + 1));
        let asked = frame(
            5,
            "{\"close_stdin_first\":false,\"eof_grace_ms\":0,\"term_grace_ms\":9}",
        );
        let Some(ToKeeper::Stop(request)) = parsed(&asked).parse_for_keeper().unwrap() else {
            panic!("no stop");
        };
        assert_eq!(request.term_grace_ms, 9);
        let line = b"\x0e\0\0\0\x02\x07\0\0\0\0\0\0\0\x02\0me{}";
        let Some(ToKeeper::Write(line)) = parsed(line).parse_for_keeper().unwrap() else {
            panic!("no line");
        };
        assert_eq!(
            (line.id, line.by.as_deref(), line.data()),
            (7, Some("me"), &b"{}"[..])
        );
    }

    #[test]
    fn a_daemon_understands_keepers_of_every_version() {
        let of = |version: u32, more: &str| {
            frame(
                1,
                &format!(
                    "{{\"protocol\":{version},\"program_version\":\"0\",\"session\":\"{SESSION}\",\"run\":\"{SESSION}\",\
                     \"child_pid\":1,\"child_start_time\":2,\"head\":{{\"seq\":3,\"segment\":1,\"offset\":9}},\"exited\":null,\
                     \"max_line_bytes\":4{more}}}"
                ),
            )
        };
        for (said, takes_secrets) in [
            (of(1, ""), false),
            (of(1, ",\"journal_as\":true"), true),
            (of(2, ",\"journal_as\":true,\"later\":0"), true),
        ] {
            let Some(ToDaemon::Hello(hello)) = parsed(&said).parse_for_daemon().unwrap() else {
                panic!("no hello");
            };
            assert_eq!((hello.head.seq.get(), hello.journal_as), (3, takes_secrets));
        }
        let exit = frame(
            69,
            "{\"code\":null,\"signal\":9,\"intent\":\"stop\",\"killed\":true,\"stderr_tail\":\"\"}",
        );
        let Some(ToDaemon::Exited(exit)) = parsed(&exit).parse_for_daemon().unwrap() else {
            panic!("no exit");
        };
        assert!(exit.killed && exit.stop_steps.is_empty() && exit.unwritten_lines == 0);
        for (said, expected) in [
            (frame(65, "\"secret\""), HelloRefusal::Secret),
            (frame(65, "{\"version\":9}"), HelloRefusal::Version(9)),
        ] {
            let Some(ToDaemon::Refused(refusal)) = parsed(&said).parse_for_daemon().unwrap() else {
                panic!("no refusal");
            };
            assert_eq!(refusal, expected);
        }
    }

    #[test]
    fn a_keeper_says_to_daemons_of_every_version() {
        let said = |message: &ToDaemon| message.encode().unwrap();
        assert_eq!(
            said(&ToDaemon::Refused(HelloRefusal::Version(2))),
            frame(65, "{\"version\":2}")
        );
        assert_eq!(
            said(&ToDaemon::Refused(HelloRefusal::Secret)),
            frame(65, "\"secret\"")
        );
        let (id, value) = (7, Seq::new(3));
        assert_eq!(
            said(&ToDaemon::Ack(Answer { id, value })),
            frame(66, "{\"id\":7,\"value\":3}")
        );
        for (value, name) in [
            (Refusal::Busy, "busy"),
            (Refusal::Closed, "closed"),
            (Refusal::Exited, "exited"),
            (Refusal::Invalid, "invalid"),
        ] {
            assert_eq!(
                said(&ToDaemon::Refusal(Answer { id, value })),
                frame(67, &format!("{{\"id\":7,\"value\":\"{name}\"}}"))
            );
        }
        let step = StopStep {
            step: StopAction::Sigterm,
            after_ms: 5,
        };
        assert_eq!(
            said(&ToDaemon::Step(step)),
            frame(70, "{\"step\":\"sigterm\",\"after_ms\":5}")
        );
    }
}
