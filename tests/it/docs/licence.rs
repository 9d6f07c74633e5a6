//! Owns that the licence is stated in each place where somebody looks for it.

use super::read;

const LICENCE: &str = "MIT OR Apache-2.0";

#[test]
fn the_licence_is_stated_wherever_it_is_looked_for() {
    assert!(read("Cargo.toml").contains(&format!("license = \"{LICENCE}\"")));
    assert!(read("LICENSE-MIT").contains("Permission is hereby granted, free of charge"));
    assert!(read("LICENSE-APACHE").contains("Version 2.0, January 2004"));
    let readme = read("README.md");
    assert!(readme.contains("](LICENSE-MIT)") && readme.contains("](LICENSE-APACHE)"));
    let contract: serde_json::Value = serde_json::from_str(&read("openapi/trunkline.json")).expect("JSON");
    assert_eq!(contract["info"]["license"]["identifier"], LICENCE);
}
