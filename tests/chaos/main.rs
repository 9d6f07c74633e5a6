//! Owns the chaos test: sessions at work while daemon, keepers, agents, clients, disk and clock fail at random, and after each
//! round the look from outside whether anything was lost, doubled, left over or stuck. docs/RELIABILITY.md says what is promised.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "tests and their helpers fail by panicking, and a failure is told with all that led to it"
)]

mod archive;
mod checks;
mod client;
mod full;
mod journal;
mod ledger;
mod marks;
mod people;
mod pieces;
mod place;
mod plan;
mod plant;
mod processes;
mod slow;
mod story;
#[path = "../support/mod.rs"]
mod support;
mod world;

use std::time::{Duration, Instant};

use plan::Pace;
use story::Story;
use support::chance;
use world::World;

/// How long it goes on when nothing else is asked for.
const SECONDS: u64 = 60;

#[test]
fn chaos_loses_nothing_and_leaves_nothing() {
    if !place::is_inside() {
        place::enter("chaos_loses_nothing_and_leaves_nothing");
        return;
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(chaos());
}

/// When the test has seen enough.
enum Until {
    Time(Duration),
    DaemonKills(u64),
}

async fn chaos() {
    let seed = chance::seed("TRUNKLINE_CHAOS_SEED");
    let (until, pace) = match (number("TRUNKLINE_CHAOS_KILLS"), number("TRUNKLINE_CHAOS_SECONDS")) {
        (Some(kills), _) => (Until::DaemonKills(kills), Pace::Kills),
        (None, seconds) => (
            Until::Time(Duration::from_secs(seconds.unwrap_or(SECONDS))),
            Pace::Mixed,
        ),
    };
    let story = Story::new(seed);
    let began = Instant::now();
    let mut world = World::start(&story).await;
    let mut round = 0;
    loop {
        let is_enough = match until {
            Until::Time(limit) => began.elapsed() >= limit,
            Until::DaemonKills(kills) => world.counts.get("kill daemon").is_some_and(|n| *n >= kills),
        };
        if is_enough {
            break;
        }
        round += 1;
        story.begin(round);
        let plan = plan::round(seed, round, pace);
        world.live_through(&plan).await;
        story.tell("wait for rest");
        world.rest(plan.last_death).await;
        story.tell("look at everything");
        world.check().await;
        story.tell("go on");
        world.go_on(&plan).await;
        story.tell("done");
        println!(
            "round {round}, {} s: {}",
            began.elapsed().as_secs(),
            world.summary()
        );
    }
    story.begin(round + 1);
    world.end().await;
    println!("{round} rounds of seed {seed} in {} s", began.elapsed().as_secs());
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap())
}
