//! Owns which files of the console the program has: those that `web/dist` has when it is compiled. It makes none of them, so that
//! `cargo build` needs no Node, and compresses nothing: the forms lie beside the files.

use std::{
    env,
    error::Error,
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
    time::SystemTime,
};

/// Where the build of `web` puts its files.
const DIST: &str = "web/dist";
/// The page itself. Without it nothing else is of use.
const INDEX: &str = "index.html";
/// The ends of the names of compressed forms.
const FORMS: [&str; 2] = [".gz", ".br"];

fn main() -> Result<(), Box<dyn Error>> {
    let variable = |name| env::var_os(name).ok_or(format!("cargo sets {name}"));
    let dist = PathBuf::from(variable("CARGO_MANIFEST_DIR")?).join(DIST);
    println!("cargo::rerun-if-changed=build.rs");
    // To cargo a folder that is not there has always changed: it would compile everything again, each time.
    if dist.is_dir() || create(&dist).is_ok() {
        println!("cargo::rerun-if-changed={DIST}");
    }
    let mut paths = Vec::new();
    if dist.join(INDEX).is_file() {
        collect(&dist, "", &mut paths)?;
        paths.sort();
    }
    let code = code(&dist, &paths)?;
    fs::write(PathBuf::from(variable("OUT_DIR")?).join("console.rs"), code)?;
    Ok(())
}

/// Creates the folder, as old as can be, for else cargo finds it younger than this run.
fn create(dist: &Path) -> io::Result<()> {
    fs::create_dir_all(dist)?;
    fs::File::open(dist)?.set_modified(SystemTime::UNIX_EPOCH)
}

/// Adds the paths below `dist` of all files in one of its folders.
fn collect(dist: &Path, folder: &str, paths: &mut Vec<String>) -> io::Result<()> {
    for entry in fs::read_dir(dist.join(folder))? {
        let entry = entry?;
        let name = entry.file_name();
        let is_plain = |name: &&str| {
            name.bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
        };
        let Some(name) = name.to_str().filter(is_plain) else {
            let message = format!(
                "{DIST}/{folder}{} would need escapes in an address",
                name.display()
            );
            return Err(io::Error::other(message));
        };
        let path = format!("{folder}{name}");
        if entry.file_type()?.is_dir() {
            collect(dist, &format!("{path}/"), paths)?;
        } else if !name.starts_with('.') && !name.ends_with(".map") {
            paths.push(path);
        }
    }
    Ok(())
}

/// A list of `ConsoleFile`, as the library includes it.
fn code(dist: &Path, paths: &[String]) -> Result<String, Box<dyn Error>> {
    let included = |path: &str| {
        let file = dist.join(path);
        let file = file.to_str().ok_or("the path of the checkout is not UTF-8")?;
        Ok::<_, Box<dyn Error>>(format!("include_bytes!({file:?})"))
    };
    let mut code = "&[\n".to_owned();
    for path in paths {
        let is_form = FORMS.iter().any(|end| {
            path.strip_suffix(end)
                .is_some_and(|of| paths.iter().any(|it| it == of))
        });
        if is_form {
            continue;
        }
        let form = |end: &str| {
            let form = format!("{path}{end}");
            if paths.contains(&form) {
                included(&form).map(|included| format!("Some({included})"))
            } else {
                Ok("None".to_owned())
            }
        };
        writeln!(
            code,
            "ConsoleFile {{ path: {path:?}, plain: {}, gzip: {}, brotli: {} }},",
            included(path)?,
            form(".gz")?,
            form(".br")?
        )?;
    }
    code.push_str("]\n");
    Ok(code)
}
