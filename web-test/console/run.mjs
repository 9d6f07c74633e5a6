// Owns how the tests of the console are run: two files side by side. Under CI a file that failed is run once more, as the tests in
// Rust are; when it passes then, its name is printed as flaky, for somebody to mend.
import { spawn } from 'node:child_process';
import { readdirSync } from 'node:fs';
import { join } from 'node:path';

const AT_ONCE = 2;
const here = import.meta.dirname;

/** Runs one file, and says whether it passed. Its output comes in one piece. */
const passes = (file) => new Promise((resolve) => {
  const child = spawn(process.execPath, ['--test', join(here, file)], { stdio: ['ignore', 'pipe', 'inherit'] });
  let output = '';
  child.stdout.on('data', (data) => { output += data; });
  child.on('close', (code) => {
    process.stdout.write(`# ${file}\n${output}`);
    resolve(code === 0);
  });
});

/** Runs files, and says which failed. */
async function failing(files) {
  const left = [...files];
  const failed = [];
  await Promise.all(Array.from({ length: AT_ONCE }, async () => {
    for (let file = left.shift(); file !== undefined; file = left.shift()) if (!await passes(file)) failed.push(file);
  }));
  return failed;
}

// The stories take longest; from the end of the alphabet they are not the last.
const files = readdirSync(here).filter((name) => name.endsWith('.test.mjs')).sort().reverse();
if (files.length === 0) throw new Error('there are no tests of the console');
const failed = await failing(files);
const stillFailed = process.env.CI ? await failing(failed) : failed;
for (const file of failed) console.log(stillFailed.includes(file) ? `FAILED ${file}` : `FLAKY ${file}: it passed the second time`);
console.log(`${files.length - stillFailed.length} of ${files.length} files passed`);
process.exitCode = stillFailed.length === 0 ? 0 : 1;
