#!/usr/bin/env bash
# Runs the commands of README.md as they are written: every line of its ```sh blocks, in order, in one shell, from the root of
# the project. A block after <!-- not run: reason --> is skipped and named.
set -euo pipefail
cd "$(dirname "$0")/.."

script=$(mktemp)
trap 'rm -f "$script"' EXIT
awk '
    /^<!-- not run:/ { reason = $0; next }
    /^```sh$/ && reason != "" { print "echo " "\"skipped block, " substr(reason, 6, length(reason) - 9) "\""; skip = 1; reason = ""; next }
    /^```sh$/ { inside = 1; next }
    /^```$/ { inside = 0; skip = 0; next }
    inside && !skip { print }
' README.md >"$script"
commands=$(grep -cv '^echo "skipped' "$script" || true)
[ "$commands" -gt 0 ] || { echo "README.md has no commands to run" >&2; exit 1; }
# A server that the README starts does not outlive a line that fails.
sed -i '1i trap "jobs -p | xargs -r kill" EXIT' "$script"
bash -euo pipefail -x "$script" </dev/null
echo "README: $commands lines run"
