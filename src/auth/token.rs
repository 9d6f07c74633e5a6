//! Owns the token: made once, kept in a file that only its owner can read, compared in constant time.

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

use crate::files;

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

/// What the daemon keeps of its token: the SHA-256, which cannot be turned back.
#[derive(Clone)]
pub struct Token {
    digest: [u8; 32],
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(..)")
    }
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
    /// The operating system gives no random bytes.
    #[error("the operating system gives no random bytes")]
    Random(#[source] getrandom::Error),
}

impl Token {
    /// The token in `path`; it is made, with mode 0600, when the file is not there. A file that others can read is closed
    /// to them, or refused when that fails.
    pub fn load_or_create(path: &Path) -> Result<Self, TokenError> {
        match read_token(path) {
            Ok(secret) => Ok(Self::of(&secret)),
            Err(TokenError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {
                create(path).map(|secret| Self::of(&secret))
            }
            Err(error) => Err(error),
        }
    }

    /// The token with this text.
    pub fn of(secret: &Secret) -> Self {
        Self {
            digest: Sha256::digest(secret.0.as_bytes()).into(),
        }
    }

    /// Whether `candidate` is the token. Takes the same time for every candidate of one length.
    pub fn matches(&self, candidate: &str) -> bool {
        let digest: [u8; 32] = Sha256::digest(candidate.as_bytes()).into();
        self.digest.ct_eq(&digest).into()
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
    let mut bytes = [0_u8; TOKEN_BYTES];
    getrandom::fill(&mut bytes).map_err(TokenError::Random)?;
    let secret = Secret(URL_SAFE_NO_PAD.encode(bytes));
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
    fn debug_shows_nothing() {
        let secret = Secret("k".repeat(43));
        let shown = format!("{secret:?} {:?}", Token::of(&secret));
        assert!(!shown.contains("kk"), "{shown}");
    }
}
