#!/bin/sh
# count-tests.sh REPORT STATUS: prints "N passed, N failed" from vitest's JSON report as the last line. Fails when STATUS
# (the runner's exit code) says so, when a test failed or was skipped, when none ran, and when there is no report.
set -eu
here=$(dirname -- "$0")
node=$here/../node_modules/.bin/node
[ -x "$node" ] || node=node
exec "$node" -e '
const [report, status] = process.argv.slice(1);
let counts = {};
try {
  counts = JSON.parse(require("node:fs").readFileSync(report, "utf8"));
} catch (err) {
  console.error(`Cannot read the report of the test runner: ${err.message}`);
}
const { numPassedTests: passed = 0, numFailedTests: failed = 0, numPendingTests = 0, numTodoTests = 0 } = counts;
const skipped = numPendingTests + numTodoTests;
// A file that does not load has no tests to fail, but it failed.
const brokenFiles = (counts.testResults ?? []).filter((file) => file.status === "failed" && file.assertionResults.length === 0);
for (const { name } of brokenFiles) console.error(`No test of ${name} ran: it could not be loaded`);
if (skipped > 0) console.error(`${skipped} tests were skipped: here none may be`);
if (passed + failed === 0) console.error("No test ran");
if (status !== "0") console.error(`The test command ended with exit code ${status}`);
const allFailed = failed + brokenFiles.length;
console.log(`${passed} passed, ${allFailed} failed`);
process.exitCode = status !== "0" || allFailed > 0 || skipped > 0 || passed === 0 || counts.success !== true ? 1 : 0;
' "$@"
