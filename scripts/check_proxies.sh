#!/usr/bin/env bash
# Runs the example proxies (deploy/proxy) before real servers. Installs nginx and HAProxy, takes what build/release holds or
# NVLLM_BIN names, and runs them on free ports, as a user without rights. About half a minute. Safe to repeat.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh

install_packages nginx-light haproxy python3
export PATH="$PATH:/usr/sbin"
echo "$(nginx -v 2>&1); $(haproxy -v | head -n 1)"
python3 -B tests/end_to_end/check_proxies.py "$@"
