// Prints the path of the real CLI that the pinned official SDK brings for this machine; exits 1 with the remedy if it is missing.
import { existsSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const scope = join(dirname(fileURLToPath(import.meta.url)), "node_modules", "@anthropic-ai");

/** Path of the CLI binary, or null if the packages are not installed. */
export function claudePath() {
  // On a musl system both builds may be installed; the plain one is right wherever it is present.
  const builds = ["", "-musl"].map((libc) => `claude-agent-sdk-${process.platform}-${process.arch}${libc}`);
  for (const build of builds) {
    const path = join(scope, build, "claude");
    if (existsSync(path)) return path;
  }
  return null;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const path = claudePath();
  if (path === null) {
    console.error("the real CLI is not installed: run `npm ci` in web-test (`make test` does)");
    process.exit(1);
  }
  console.log(path);
}
