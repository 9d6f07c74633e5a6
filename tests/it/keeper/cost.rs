//! Owns the tests of what a keeper costs while nothing happens.

use std::fs;

use bytes::Bytes;
use trunkline::keeper::StopRequest;

use crate::keeper::support::{Bed, wait_for};

/// Memory that a keeper alone occupies, in KiB.
#[expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
fn private_kib(pid: i32) -> u64 {
    let rollup = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).unwrap();
    let line = rollup
        .lines()
        .find(|line| line.starts_with("Private_Dirty:"))
        .unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

#[tokio::test]
async fn large_lines_leave_no_large_buffers_behind() {
    let bed = Bed::new();
    let mut link = bed
        .launch(&bed.python("sys.stdin.readline(); say(type='big', data='y' * 30_000_000); sys.stdin.read()"))
        .await;
    let keeper = bed.identity().pid;
    let before = private_kib(keeper);
    let big = format!(r#"{{"image":"{}"}}"#, "z".repeat(20_000_000));
    link.handle.write_line(None, Bytes::from(big)).await.unwrap();
    wait_for("the long line", || {
        let journal = bed.path("journal/00000000000000000001.ndjson");
        fs::metadata(journal).unwrap().len() > 50_000_000
    })
    .await;
    wait_for("the memory to come back", || private_kib(keeper) < before + 500).await;
    link.handle.stop(StopRequest::default()).await.unwrap();
    bed.ended(&mut link).await;
}

#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
#[tokio::test]
async fn an_idle_keeper_sleeps_until_something_happens() {
    let bed = Bed::new();
    let mut link = bed.launch(&bed.python("say(type='up'); sys.stdin.read()")).await;
    bed.said("up").await;
    let keeper = bed.identity().pid;
    // poll(2) is 7; its third argument, the timeout, is -1.
    wait_for("a sleep without end", || {
        let call = fs::read_to_string(format!("/proc/{keeper}/syscall")).unwrap();
        let words: Vec<_> = call.split(' ').collect();
        words[0] == "7" && words[3] == "0xffffffff"
    })
    .await;
    link.handle.close_stdin().await.unwrap();
    bed.ended(&mut link).await;
}
