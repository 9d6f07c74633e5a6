#![allow(clippy::all, warnings)]
mod support;
use std::{time::Duration, path::PathBuf};
use support::{model_api::ModelApi, programs::{real_claude, scripted, clean_env}};
use trunkline::{supervisor::*, store::*, claude::*, keeper::KeeperLimits, domain::*, session::Decision};

#[tokio::test]
async fn smoke() {
    tracing_subscriber::fmt().with_max_level(tracing::Level::DEBUG).init();
    let api = ModelApi::start();
    let root = tempfile::tempdir().unwrap();
    let p = root.path().canonicalize().unwrap();
    for d in ["data","home","work"] { std::fs::create_dir(p.join(d)).unwrap(); }
    let env = vec![("HOME".to_owned(), p.join("home").display().to_string()),("PATH".to_owned(), std::env::var("PATH").unwrap()),("ANTHROPIC_BASE_URL".to_owned(), api.url().to_owned()),("ANTHROPIC_API_KEY".to_owned(),"sk-fake".to_owned()),("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC".to_owned(),"1".to_owned())];
    let settings = SupervisorSettings {
        data_dir: p.join("data"), runtime_dir: p.join("run"), keeper_program: env!("CARGO_BIN_EXE_trunkline").into(),
        claude_bin: Some(real_claude()), simulator: Simulator::Never,
        env_allow: trunkline::claude::environment::default_allow(), env_fixed: Default::default(), daemon_env: env, cwd_roots: vec![],
        policy: Policy{allow_bypass_permissions:false,allow_extra_args:false}, max_prompt_bytes: 64<<20, start_timeout_ms: 120000,
        keeper: KeeperLimits::default(), ring_bytes: 1<<20 };
    let store = Store::open(&p.join("data/trunkline.db")).await.unwrap();
    let tracker = tokio_util::task::TaskTracker::new();
    let sup = Supervisor::start(settings, store, tracker.clone()).await.unwrap();
    println!("health {:?}", sup.health().await);
    let msg = |t: &str| NewMessage { content: Content::Text(t.to_owned()), uuid: Some(*RunId::new().as_uuid()), priority: None, should_query: None };
    let m = msg("SCRIPT:[{\"text\":\"Running.\",\"tool\":{\"name\":\"Bash\",\"input\":{\"command\":\"touch made.txt && ls\"}}},{\"text\":\"All done.\"}]:END");
    let u = m.uuid.unwrap();
    let t0 = std::time::Instant::now();
    let s = sup.create(CreateSession { cwd: p.join("work").display().to_string(), prompt: Some(m), title: None, tag: None, labels: Default::default(), options: Default::default() }, "rest").await.unwrap();
    println!("created {:?} {:?}", t0.elapsed(), s.live.state);
    let id = s.row.id;
    let v = sup.wait_ready(id, Duration::from_secs(20)).await.unwrap();
    println!("ready {:?} {:?}", t0.elapsed(), v.live);
    let mut n=0; while sup.session(id).await.unwrap().live.state != SessionState::Waiting { n+=1; tokio::time::sleep(Duration::from_millis(20)).await; if n>500 { break } }
    let v = sup.session(id).await.unwrap();
    println!("waiting {:?} {:?}", t0.elapsed(), v.live.approvals);
    let a = v.live.approvals[0].id;
    println!("decided {:?}", sup.decide(id, a, Decision::Allow{updated_input:None,updated_permissions:None}, "rest").await);
    println!("turn {:?}", sup.wait_turn(id, u, Duration::from_secs(20)).await);
    println!("stop {:?}", sup.stop(id, "rest").await.map(|v| (v.live, v.row)));
    let v = sup.resume(id, "rest").await.unwrap();
    println!("resumed {:?}", v.live.state);
    let m = msg("SCRIPT:[{\"text\":\"two\"}]:END"); let u = m.uuid.unwrap();
    println!("{:?}", sup.send(id, m, "rest").await);
    println!("turn {:?}", sup.wait_turn(id, u, Duration::from_secs(20)).await);
    let f = sup.fork(id, ForkSession{prompt: Some(msg("SCRIPT:[{\"text\":\"forked\"}]:END")), ..Default::default()}, "rest").await.unwrap();
    let fid = f.row.id;
    let mut n=0; while sup.session(fid).await.unwrap().row.turns == 0 { n+=1; tokio::time::sleep(Duration::from_millis(20)).await; if n>500 { break } }
    println!("fork {:?}", sup.session(fid).await.unwrap());
    println!("turns {:?}", sup.store().turns(id, PageRequest::new(10, None).unwrap()).await);
    sup.stop_all("rest").await;
    println!("{}", std::fs::read_dir(p.join("data/sessions").join(id.to_string())).unwrap().map(|e| e.unwrap().path().display().to_string()).collect::<Vec<_>>().join("\n"));
    let mut recs = 0;
    for l in std::fs::read_to_string(p.join("data/sessions").join(id.to_string()).join("00000000000000000001.ndjson")).unwrap().lines() { println!("{}", l.chars().take(230).collect::<String>()); }
    sup.finish().await;
}
