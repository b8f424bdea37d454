#!/usr/bin/env bash
# Lints what operators are given: units (systemd-analyze, with a bound on the unit's exposure), proxies, manual pages,
# completions. Installs the linters; takes what build/release holds or NVLLM_BIN names. Seconds. Safe to repeat.
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/packages.sh

install_packages systemd nginx-light haproxy mandoc zsh fish
export PATH="$PATH:/usr/sbin"
bin=$(realpath "${NVLLM_BIN:-build/release/bin}")
folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT

# The programs are not installed here: the unit is checked with where they are.
sed "s#/usr/bin/nvllm-serve#$bin/nvllm-serve#" deploy/systemd/nvllm-serve.service > "$folder/nvllm-serve.service"
cp deploy/systemd/nvllm-serve.socket "$folder"
systemd-analyze verify --man=no "$folder/nvllm-serve.service" "$folder/nvllm-serve.socket"
# In tenths: 2.5 is where "OK" ends.
systemd-analyze security --offline=true --threshold=25 --no-pager "$folder/nvllm-serve.service" | tail -n 1

nginx -t -q -e stderr -c "$PWD/deploy/proxy/nginx.conf"
haproxy -c -q -f deploy/proxy/haproxy.cfg
bash -n deploy/ranks/mpirun.sh
bash -n deploy/ranks/serve.sbatch

for program in nvllm-run nvllm-serve nvllm-quantize nvllm-bench nvllm-inspect; do
    "$bin/$program" --man > "$folder/$program.1"
    # A page bears no date, so that builds can be repeated, and its name in small letters; its lines are not wrapped.
    if mandoc -Tlint "$folder/$program.1" | grep -v -e 'longer than 80 bytes' -e 'missing date' -e 'lower case character'; then
        echo "$program: the manual page has faults" >&2
        exit 1
    fi
    for shell in bash zsh fish; do
        "$bin/$program" --completion "$shell" > "$folder/$program.$shell"
        "$shell" -n "$folder/$program.$shell"
    done
done
echo "deployment: units, proxies, manual pages and completions are in order"
