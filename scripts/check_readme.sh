#!/usr/bin/env bash
# Runs the commands of README.md and of the pages below as they are written: every line of their ```sh blocks, in order, in one shell,
# from the root of the project. A block after <!-- not run: reason --> is skipped and named.
set -euo pipefail
cd "$(dirname "$0")/.."
pages="README.md docs/getting-started.md docs/sampling.md docs/scheduling.md docs/inspecting.md docs/benchmarking.md docs/cpp.md"

script=$(mktemp)
trap 'rm -f "$script"' EXIT
# shellcheck disable=SC2086  # a list of words is meant
awk '
    FNR == 1 { reason = ""; inside = skip = 0; print "echo \"page " FILENAME "\"" }
    /^<!-- not run:/ { reason = $0; next }
    /^```sh$/ && reason != "" { print "echo " "\"skipped block, " substr(reason, 6, length(reason) - 9) "\""; skip = 1; reason = ""; next }
    /^```sh$/ { inside = 1; next }
    /^```$/ { inside = 0; skip = 0; next }
    inside && !skip { print }
' $pages >"$script"
commands=$(grep -cvE '^echo "(skipped|page)' "$script" || true)
[ "$commands" -gt 0 ] || { echo "the pages have no commands to run" >&2; exit 1; }
# A server that a page starts does not outlive a line that fails.
sed -i '1i trap "jobs -p | xargs -r kill" EXIT' "$script"
bash -euo pipefail -x "$script" </dev/null
echo "README and pages: $commands lines run"
