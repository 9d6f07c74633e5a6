//! Owns the test programs: where they are, the clean environment they run in, and the scripts that prompts carry.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    process::Command,
    sync::OnceLock,
};

use serde_json::Value;

/// A key that is none: the stand-in API takes any.
pub(crate) const FAKE_API_KEY: &str = "sk-stand-in";

/// A file or directory of the repository.
pub(crate) fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The daemon under test.
pub(crate) fn trunkline() -> PathBuf {
    PathBuf::from(env!("CARGO_BIN_EXE_trunkline"))
}

/// The fake CLI.
pub(crate) fn fake_claude() -> PathBuf {
    repository("tests/programs/fake_claude.py")
}

/// The real CLI that the pinned official SDK brings.
///
/// # Panics
/// When it is not installed: a test that needs it never passes by doing nothing.
pub(crate) fn real_claude() -> PathBuf {
    static PATH: OnceLock<PathBuf> = OnceLock::new();
    PATH.get_or_init(|| {
        let output = Command::new("node")
            .arg(repository("web-test/claude-path.mjs"))
            .output()
            .expect("node is needed for this test");
        assert!(
            output.status.success(),
            "the real CLI is not installed: run `make test`, or `npm ci` in web-test"
        );
        PathBuf::from(String::from_utf8(output.stdout).unwrap().trim())
    })
    .clone()
}

/// The whole environment of a CLI or daemon under test: a HOME of its own, the stand-in API, and nothing inherited but PATH.
pub(crate) fn clean_env(home: &Path, api_url: &str) -> Vec<(OsString, OsString)> {
    let path = std::env::var_os("PATH").expect("PATH is set");
    let mut env = vec![
        ("HOME".into(), home.into()),
        ("PATH".into(), path),
        ("LANG".into(), "C.UTF-8".into()),
        ("ANTHROPIC_BASE_URL".into(), api_url.into()),
        ("ANTHROPIC_API_KEY".into(), FAKE_API_KEY.into()),
        ("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC".into(), "1".into()),
    ];
    // Coverage of the daemon needs to know where to write.
    if let Some(profile) = std::env::var_os("LLVM_PROFILE_FILE") {
        env.push(("LLVM_PROFILE_FILE".into(), profile));
    }
    env
}

/// A prompt whose answer the stand-in API takes from `steps` (an array).
pub(crate) fn scripted(steps: &Value) -> String {
    assert!(steps.is_array(), "a script is an array of steps");
    format!("SCRIPT:{steps}:END")
}

/// As [`scripted`], in the form that fits into a string of another script: the prompt of a sub-agent.
pub(crate) fn scripted64(steps: &Value) -> String {
    use base64::Engine as _;
    let text = base64::engine::general_purpose::STANDARD.encode(steps.to_string());
    format!("SCRIPT64:{text}")
}

/// A prompt that makes the fake CLI perform `actions` (an array).
pub(crate) fn fake_prompt(actions: &Value) -> String {
    assert!(actions.is_array(), "actions are an array");
    format!("FAKE:{actions}:END")
}

/// Sets the behaviour of every fake CLI that starts in `dir`, or anywhere with `dir` as its HOME.
pub(crate) fn fake_settings(dir: &Path, settings: &Value) {
    fs::write(dir.join(".fake-claude.json"), settings.to_string()).unwrap();
}
