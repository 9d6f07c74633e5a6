//! Owns the tokens: made once, kept in files that only their owner can read, compared in constant time.

use std::{
    fmt,
    fs::{File, OpenOptions, Permissions},
    io::{self, Read, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt},
    path::{Path, PathBuf},
};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::{domain::Role, files};

/// The file of the operator's token, in the data directory.
pub const TOKEN_FILE: &str = "token";
/// The file of the viewers' token, in the data directory.
pub const VIEWER_TOKEN_FILE: &str = "viewer-token";

/// Random bytes in a token.
const TOKEN_BYTES: usize = 32;
/// Shortest token text that is accepted from a file that a person wrote.
const MIN_TOKEN_CHARS: usize = 32;
/// Longest token text, in a file or in a request.
const MAX_TOKEN_CHARS: usize = 512;
/// Access for the owner alone.
const PRIVATE: u32 = 0o600;

/// A text that must not be shown. It has no `Display`, and its `Debug` is blank.
#[derive(Clone)]
pub struct Secret(String);

impl Secret {
    /// A new text, which nobody can guess.
    pub(super) fn random() -> Result<Self, TokenError> {
        let mut bytes = [0_u8; TOKEN_BYTES];
        getrandom::fill(&mut bytes).map_err(TokenError::Random)?;
        Ok(Self(URL_SAFE_NO_PAD.encode(bytes)))
    }

    /// The text, to put into a request header.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

/// The tokens of the daemon, one for each role.
#[derive(Clone, Debug)]
pub struct Tokens {
    operator: Token,
    viewer: Token,
}

/// A token as the daemon keeps it: the SHA-256, which cannot be turned back.
#[derive(Clone)]
struct Token {
    digest: [u8; 32],
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
}

/// The SHA-256 of a text.
pub(super) fn digest(text: &str) -> [u8; 32] {
    Sha256::digest(text.as_bytes()).into()
}

/// Why there is no usable token.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TokenError {
    /// The file cannot be read or made.
    #[error("cannot use the token file {}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Others can read the file and that could not be changed.
    #[error("the token file {} can be read by others (mode {mode:o}); run chmod 600 on it", path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// The path names something else than a file.
    #[error("the token file {} is not a regular file", path.display())]
    NotAFile {
        /// The path.
        path: PathBuf,
    },
    /// The content is no token.
    #[error("the token file {} does not hold a token of {MIN_TOKEN_CHARS} to {MAX_TOKEN_CHARS} letters, digits, '-' or '_'", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
    },
    /// Both roles have one token.
    #[error("the token file {} holds the token of {TOKEN_FILE}, which is for operators; delete it, and the next start makes another", path.display())]
    Shared {
        /// The file of the viewers' token.
        path: PathBuf,
    },
    /// The operating system gives no random bytes.
    #[error("the operating system gives no random bytes")]
    Random(#[source] getrandom::Error),
}

impl Tokens {
    /// The tokens in the files of a data directory; those that are not there are made, with mode 0600. A file that others can
    /// read is closed to them, or refused when that fails.
    pub fn load_or_create(data_dir: &Path) -> Result<Self, TokenError> {
        let operator = Token::load_or_create(&data_dir.join(TOKEN_FILE))?;
        let path = data_dir.join(VIEWER_TOKEN_FILE);
        let viewer = Token::load_or_create(&path)?;
        if operator.digest == viewer.digest {
            return Err(TokenError::Shared { path });
        }
        Ok(Self { operator, viewer })
    }

    /// The role whose token `candidate` is. Takes the same time for every candidate of one length.
    pub fn role_of(&self, candidate: &str) -> Option<Role> {
        let (is_operator, is_viewer) = (self.operator.matches(candidate), self.viewer.matches(candidate));
        match (is_operator, is_viewer) {
            (true, _) => Some(Role::Operator),
            (false, true) => Some(Role::Viewer),
            (false, false) => None,
        }
    }
}

impl Token {
    /// The token in `path`; it is made, with mode 0600, when the file is not there. A file that others can read is closed
    /// to them, or refused when that fails.
    fn load_or_create(path: &Path) -> Result<Self, TokenError> {
        match read_token(path) {
            Ok(secret) => Ok(Self::of(&secret)),
            Err(TokenError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                create(path).map(|secret| Self::of(&secret))
            }
            Err(error) => Err(error),
        }
    }

    /// The token with this text.
    fn of(secret: &Secret) -> Self {
        Self {
            digest: digest(&secret.0),
        }
    }

    /// Whether `candidate` is the token. Takes the same time for every candidate of one length.
    fn matches(&self, candidate: &str) -> bool {
        self.digest.ct_eq(&digest(candidate)).into()
    }
}

/// The text of the token in `path`, for a client on the same machine.
pub fn read_token(path: &Path) -> Result<Secret, TokenError> {
    read(path, close_to_others)
}

/// Whether [`read_token`] would take the file. Its mode is left alone.
pub fn check_token(path: &Path) -> Result<(), TokenError> {
    let refuse = |_: &File, mode: u32, path: &Path| match mode & 0o077 {
        0 => Ok(()),
        _ => Err(TokenError::Exposed {
            path: path.to_path_buf(),
            mode: mode & 0o777,
        }),
    };
    read(path, refuse).map(drop)
}

fn read(
    path: &Path,
    when_open_to_others: impl Fn(&File, u32, &Path) -> Result<(), TokenError>,
) -> Result<Secret, TokenError> {
    let io_error = |source| TokenError::Io {
        path: path.to_path_buf(),
        source,
    };
    let file = files::open(path, OpenOptions::new().read(true)).map_err(|error| {
        if files::is_not_a_file(&error) {
            TokenError::NotAFile {
                path: path.to_path_buf(),
            }
        } else {
            io_error(error)
        }
    })?;
    let metadata = file.metadata().map_err(io_error)?;
    when_open_to_others(&file, metadata.mode(), path)?;
    let mut text = String::new();
    let limit = u64::try_from(MAX_TOKEN_CHARS + 2).unwrap_or(u64::MAX);
    file.take(limit)
        .read_to_string(&mut text)
        .map_err(|source| match source.kind() {
            io::ErrorKind::InvalidData => TokenError::Malformed {
                path: path.to_path_buf(),
            },
            _ => io_error(source),
        })?;
    let text = text.trim_end_matches(['\r', '\n']);
    let well_formed = (MIN_TOKEN_CHARS..=MAX_TOKEN_CHARS).contains(&text.len())
        && text
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    if !well_formed {
        return Err(TokenError::Malformed {
            path: path.to_path_buf(),
        });
    }
    Ok(Secret(text.to_owned()))
}

/// Takes the access of group and others away.
fn close_to_others(file: &File, mode: u32, path: &Path) -> Result<(), TokenError> {
    if mode & 0o077 == 0 {
        return Ok(());
    }
    file.set_permissions(Permissions::from_mode(PRIVATE))
        .map_err(|_| TokenError::Exposed {
            path: path.to_path_buf(),
            mode: mode & 0o777,
        })
}

/// Makes the file. It appears whole or not at all, so that a crash leaves no empty token.
fn create(path: &Path) -> Result<Secret, TokenError> {
    let io_error = |source| TokenError::Io {
        path: path.to_path_buf(),
        source,
    };
    let secret = Secret::random()?;
    let mut draft = path.as_os_str().to_owned();
    draft.push(".new");
    let draft = PathBuf::from(draft);
    match std::fs::remove_file(&draft) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(io_error(error)),
        _ => {}
    }
    let mut file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(PRIVATE)
        .open(&draft)
        .map_err(io_error)?;
    file.write_all(secret.0.as_bytes())
        .and_then(|()| file.write_all(b"\n"))
        .and_then(|()| file.sync_all())
        .and_then(|()| std::fs::rename(&draft, path))
        .map_err(io_error)?;
    Ok(secret)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mode_of(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().mode() & 0o777
    }

    fn written(text: &str) -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        std::fs::write(&path, text).unwrap();
        (dir, path)
    }

    #[test]
    fn the_first_start_makes_a_private_token_that_later_starts_keep() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("token");
        let first = Token::load_or_create(&path).unwrap();
        assert_eq!(mode_of(&path), 0o600);
        let text = read_token(&path).unwrap();
        assert_eq!(URL_SAFE_NO_PAD.decode(text.expose()).unwrap().len(), 32);
        assert!(first.matches(text.expose()));
        assert!(Token::load_or_create(&path).unwrap().matches(text.expose()));

        let other = tempfile::tempdir().unwrap();
        let second = Token::load_or_create(&other.path().join("token")).unwrap();
        assert!(!second.matches(text.expose()));
    }

    #[test]
    fn only_the_whole_token_matches() {
        let token = Token::of(&Secret("a".repeat(43)));
        for wrong in ["", "a", &"a".repeat(42), &"a".repeat(44), &"A".repeat(43)] {
            assert!(!token.matches(wrong), "{wrong}");
        }
    }

    #[test]
    fn a_file_that_others_can_read_is_closed_to_them() {
        let (_dir, path) = written(&"k".repeat(43));
        std::fs::set_permissions(&path, Permissions::from_mode(0o644)).unwrap();
        Token::load_or_create(&path).unwrap();
        assert_eq!(mode_of(&path), 0o600);
    }

    #[test]
    fn what_is_no_token_is_refused_and_kept() {
        for text in [
            "",
            "\n",
            "short",
            &format!("{} x", "k".repeat(43)),
            &"k".repeat(600),
        ] {
            let (_dir, path) = written(text);
            let error = Token::load_or_create(&path).unwrap_err();
            assert!(matches!(error, TokenError::Malformed { .. }), "{text:?}: {error}");
            assert_eq!(std::fs::read_to_string(&path).unwrap(), text);
        }
        let dir = tempfile::tempdir().unwrap();
        let error = Token::load_or_create(dir.path()).unwrap_err();
        assert!(matches!(error, TokenError::NotAFile { .. }), "{error}");
    }

    #[test]
    fn each_role_has_a_token_of_its_own() {
        let dir = tempfile::tempdir().unwrap();
        let tokens = Tokens::load_or_create(dir.path()).unwrap();
        let text = |name: &str| read_token(&dir.path().join(name)).unwrap();
        let (operator, viewer) = (text(TOKEN_FILE), text(VIEWER_TOKEN_FILE));
        assert_eq!(mode_of(&dir.path().join(VIEWER_TOKEN_FILE)), 0o600);
        assert_eq!(tokens.role_of(operator.expose()), Some(Role::Operator));
        assert_eq!(tokens.role_of(viewer.expose()), Some(Role::Viewer));
        assert_eq!(tokens.role_of(""), None);

        std::fs::copy(dir.path().join(TOKEN_FILE), dir.path().join(VIEWER_TOKEN_FILE)).unwrap();
        let error = Tokens::load_or_create(dir.path()).unwrap_err();
        assert!(matches!(error, TokenError::Shared { .. }), "{error}");
    }

    #[test]
    fn debug_shows_nothing() {
        let secret = Secret("k".repeat(43));
        let shown = format!("{secret:?} {:?}", Token::of(&secret));
        assert!(!shown.contains("kk"), "{shown}");
    }
}
