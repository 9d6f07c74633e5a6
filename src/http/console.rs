//! Owns how the console's files are served: at which addresses, what a browser may keep of them, and what it lets their page do. They
//! are for anybody who reaches the daemon, as they hold no data.

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, OnceLock},
};

use axum::{
    Router,
    body::Bytes,
    extract::State,
    http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Uri, header},
    response::{IntoResponse as _, Response},
    routing::get,
};

use super::{ApiError, AppState, ErrorCode, entity_tag::EntityTag};

/// The addresses of pages. All have the same file, which reads from the address what it shows.
const PAGES: [&str; 15] = [
    "/",
    "/health",
    "/login",
    "/needs",
    "/needs/{*rest}",
    "/new",
    "/open",
    "/s/{id}",
    "/s/{id}/{*rest}",
    "/settings",
    "/settings/{*rest}",
    "/usage",
    "/usage/{*rest}",
    "/watch",
    "/watch/{*rest}",
];
/// The files whose names change with their content.
const ASSETS: &str = "/assets/{*file}";
/// The file of all pages, in the console's build.
const INDEX: &str = "index.html";

/// The page of a program without a console.
const MISSING: &str = include_str!("console/missing.html");

/// The files that were there when the program was built.
const EMBEDDED: &[ConsoleFile] = include!(concat!(env!("OUT_DIR"), "/console.rs"));

/// The policy of the page: files and data of this daemon, and no script or markup that is made of text but by the page's
/// one policy. In browsers of today `'self'` has the sockets of the same host in it.
const POLICY: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; \
     font-src 'self'; manifest-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; \
     frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types trunkline-template",
);
/// The policy of a page that is nothing but text.
const POLICY_OF_TEXT: HeaderValue = HeaderValue::from_static(
    "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
);
/// Powers of a browser that the page never asks for.
const PERMISSIONS: HeaderValue = HeaderValue::from_static(
    "camera=(), display-capture=(), geolocation=(), microphone=(), payment=(), usb=()",
);
const PERMISSIONS_POLICY: HeaderName = HeaderName::from_static("permissions-policy");
const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");
const RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
const SAME_ORIGIN: HeaderValue = HeaderValue::from_static("same-origin");

/// A browser asks each time whether its copy is the current one.
const ASK_EACH_TIME: HeaderValue = HeaderValue::from_static("no-cache");
/// A browser keeps it for a year, as another content has another name.
const FOR_A_YEAR: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");

/// A file of the console's build, with the compressed forms that lie beside it.
#[derive(Clone, Copy)]
pub struct ConsoleFile {
    /// The path below the folder of the build, as `assets/index-B1x9.js`.
    pub path: &'static str,
    /// The file itself.
    pub plain: &'static [u8],
    /// Its gzip form.
    pub gzip: Option<&'static [u8]>,
    /// Its Brotli form.
    pub brotli: Option<&'static [u8]>,
}

impl fmt::Debug for ConsoleFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = |form: &[u8]| form.len();
        f.debug_struct("ConsoleFile")
            .field("path", &self.path)
            .field("plain", &bytes(self.plain))
            .field("gzip", &self.gzip.map(bytes))
            .field("brotli", &self.brotli.map(bytes))
            .finish()
    }
}

/// The files that are served. Cloning is cheap.
#[derive(Clone, Debug)]
pub struct Console(Arc<Files>);

#[derive(Debug)]
struct Files {
    page: File,
    /// The others, by address.
    others: BTreeMap<String, File>,
}

impl Console {
    /// The console of this build.
    pub fn embedded() -> Self {
        Self::new(EMBEDDED)
    }

    /// A console of these files; without `index.html` every page says how to get one.
    pub fn new(files: &[ConsoleFile]) -> Self {
        let page = files.iter().find(|file| file.path == INDEX);
        let others = files
            .iter()
            .filter(|file| file.path != INDEX)
            .map(|file| (format!("/{}", file.path), File::of(file)));
        Self(Arc::new(Files {
            page: page.map_or_else(File::missing, File::of),
            others: others.collect(),
        }))
    }

    /// The routes of the pages and of each file.
    pub(super) fn routes(&self) -> Router<AppState> {
        let router = PAGES
            .iter()
            .fold(Router::new(), |router, page| router.route(page, get(page_of)))
            .route(ASSETS, get(file));
        self.at_the_root()
            .fold(router, |router, address| router.route(address, get(file)))
    }

    /// Whether a route is one of the console's.
    pub(super) fn has_route(&self, route: &str) -> bool {
        route == ASSETS || PAGES.contains(&route) || self.at_the_root().any(|address| address == route)
    }

    /// The addresses of the files that have a name of their own for ever.
    fn at_the_root(&self) -> impl Iterator<Item = &str> {
        let addresses = self.0.others.keys().map(String::as_str);
        addresses.filter(|address| !is_asset(address))
    }
}

fn is_asset(address: &str) -> bool {
    address.starts_with("/assets/")
}

/// Answers at each address of a page.
async fn page_of(State(state): State<AppState>, headers: HeaderMap) -> Response {
    state.console().0.page.answer(&headers)
}

/// Answers at the address of each other file.
async fn file(State(state): State<AppState>, uri: Uri, headers: HeaderMap) -> Response {
    match state.console().0.others.get(uri.path()) {
        Some(file) => file.answer(&headers),
        None => ApiError::from(ErrorCode::RouteNotFound).into_response(),
    }
}

/// A file as it is served.
#[derive(Debug)]
struct File {
    content_type: HeaderValue,
    cache: HeaderValue,
    policy: HeaderValue,
    plain: Bytes,
    /// The forms by the name of their coding, the smallest first.
    forms: Vec<(&'static str, Bytes)>,
    /// The tag of the plain form, once somebody has asked for the file.
    tag: OnceLock<EntityTag>,
}

impl File {
    fn of(file: &ConsoleFile) -> Self {
        let forms = [("br", file.brotli), ("gzip", file.gzip)];
        let is_named_by_content = is_asset(&format!("/{}", file.path));
        Self {
            content_type: HeaderValue::from_static(content_type(file.path)),
            cache: if is_named_by_content {
                FOR_A_YEAR
            } else {
                ASK_EACH_TIME
            },
            policy: POLICY,
            plain: Bytes::from_static(file.plain),
            forms: forms
                .into_iter()
                .filter_map(|(coding, form)| Some((coding, Bytes::from_static(form?))))
                .collect(),
            tag: OnceLock::new(),
        }
    }

    fn missing() -> Self {
        Self {
            content_type: HeaderValue::from_static(content_type(INDEX)),
            cache: ASK_EACH_TIME,
            policy: POLICY_OF_TEXT,
            plain: Bytes::from_static(MISSING.as_bytes()),
            forms: Vec::new(),
            tag: OnceLock::new(),
        }
    }

    /// The file in the smallest form that the client takes, or that it has that already.
    fn answer(&self, headers: &HeaderMap) -> Response {
        let tag = self.tag.get_or_init(|| EntityTag::of(&self.plain));
        let form = self.forms.iter().find(|(coding, _)| takes(headers, coding));
        let tag = form.map_or_else(|| tag.clone(), |(coding, _)| tag.coded(coding));
        let mut answer = if tag.is_named_in(headers) {
            StatusCode::NOT_MODIFIED.into_response()
        } else {
            let body = form.map_or(&self.plain, |(_, form)| form);
            ([(header::CONTENT_TYPE, self.content_type.clone())], body.clone()).into_response()
        };
        let is_whole = answer.status() == StatusCode::OK;
        let headers = answer.headers_mut();
        if let Some((coding, _)) = form.filter(|_| is_whole) {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static(coding));
        }
        if !self.forms.is_empty() {
            headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
        }
        headers.insert(header::ETAG, tag.value());
        headers.insert(header::CACHE_CONTROL, self.cache.clone());
        headers.insert(header::CONTENT_SECURITY_POLICY, self.policy.clone());
        headers.insert(OPENER_POLICY, SAME_ORIGIN);
        headers.insert(RESOURCE_POLICY, SAME_ORIGIN);
        headers.insert(PERMISSIONS_POLICY, PERMISSIONS);
        answer
    }
}

/// Whether the client takes a coding.
fn takes(headers: &HeaderMap, coding: &str) -> bool {
    let listed = headers.get_all(header::ACCEPT_ENCODING).iter();
    let listed = listed
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','));
    let mut any = false;
    for item in listed {
        let mut parts = item.split(';').map(str::trim);
        let name = parts.next().unwrap_or_default();
        let quality = parts.find_map(|part| part.strip_prefix("q=")?.trim().parse::<f32>().ok());
        let is_taken = quality.is_none_or(|quality| quality > 0.0);
        if name.eq_ignore_ascii_case(coding) {
            return is_taken;
        }
        if name == "*" {
            any = is_taken;
        }
    }
    any
}

/// The content type of a file, by the end of its name.
fn content_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map_or("", |(_, end)| end) {
        "css" => "text/css; charset=utf-8",
        "html" => "text/html; charset=utf-8",
        "ico" => "image/x-icon",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "json" => "application/json",
        "png" => "image/png",
        "svg" => "image/svg+xml",
        "txt" => "text/plain; charset=utf-8",
        "wasm" => "application/wasm",
        "webmanifest" => "application/manifest+json",
        "webp" => "image/webp",
        "woff2" => "font/woff2",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use std::io::Read as _;

    use flate2::read::GzDecoder;

    use super::*;

    #[test]
    fn a_coding_is_taken_as_the_client_lists_it() {
        for (listed, br, gzip) in [
            ("gzip, deflate, br, zstd", true, true),
            ("GZIP", false, true),
            ("br;q=0, gzip;q=0.5", false, true),
            ("br ; q=0.000, *", false, true),
            ("*;q=0", false, false),
            ("brotli", false, false),
            ("", false, false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT_ENCODING, HeaderValue::from_static(listed));
            assert_eq!(
                (takes(&headers, "br"), takes(&headers, "gzip")),
                (br, gzip),
                "{listed}"
            );
        }
        assert!(!takes(&HeaderMap::new(), "br"));
    }

    /// Where the program has a console, all that a browser asks for is in it.
    #[test]
    fn the_console_of_this_build_is_whole() {
        let Some(index) = EMBEDDED.iter().find(|file| file.path == INDEX) else {
            assert!(EMBEDDED.is_empty(), "{EMBEDDED:?}");
            return;
        };
        let console = Console::embedded();
        let html = std::str::from_utf8(index.plain).unwrap();
        for attribute in ["src=\"", "href=\""] {
            for part in html.split(attribute).skip(1) {
                let address = part.split('"').next().unwrap();
                assert!(console.0.others.contains_key(address), "{address} is not served");
            }
        }
        let scripts = html.split("<script").skip(1);
        for script in scripts {
            let (attributes, content) = script.split_once('>').unwrap();
            assert!(
                attributes.contains("src=") && content.starts_with("</script>"),
                "the policy refuses an inline script: {script}"
            );
        }
        assert!(!html.contains("<style") && !html.contains(" style="), "{html}");
        for file in EMBEDDED {
            assert_ne!(
                content_type(file.path),
                "application/octet-stream",
                "{}",
                file.path
            );
            let is_text = [".js", ".css"].iter().any(|end| file.path.ends_with(end));
            if is_text && is_asset(&format!("/{}", file.path)) && file.plain.len() > 4096 {
                assert!(file.gzip.is_some() && file.brotli.is_some(), "{file:?}");
            }
            if let Some(form) = file.gzip {
                let mut content = Vec::new();
                GzDecoder::new(form).read_to_end(&mut content).unwrap();
                assert!(content == file.plain, "{} is another file when zipped", file.path);
            }
        }
    }
}
