# Sourced by the other scripts: Debian packages by need, one function that installs what is missing, and settings of builds.

# What was compiled in one checkout serves another one, where ccache is there; with precompiled headers too.
export CCACHE_BASEDIR="${CCACHE_BASEDIR:-$PWD}" CCACHE_NOHASHDIR=1
export CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime

# Without a GPU these scripts run no code of the CUDA module: one architecture shows that it compiles.
[ -e /dev/nvidiactl ] || export NVLLM_CUDA_ARCHITECTURES="${NVLLM_CUDA_ARCHITECTURES:-80}"

packages_build="g++ cmake ninja-build pkg-config libcli11-dev libyaml-cpp-dev nlohmann-json3-dev libfmt-dev
    libpcre2-dev libutf8proc-dev libedit-dev libboost1.81-dev libboost-context1.81-dev
    libssl-dev python3 python3-pip patch"
packages_test="doctest-dev curl openmpi-bin"
packages_counts="valgrind"
packages_soak="libfaketime slowhttptest strace wrk"
packages_check="clang-14 clang-format-14 clang-tidy-14 libclang-rt-14-dev git universal-ctags"

# install_packages NAME...: installs those that are not there yet; no network is touched when all are.
install_packages() {
    local missing="" name sudo=""
    for name in "$@"; do
        [ "$(dpkg-query -W -f='${Status}' "$name" 2>/dev/null)" = "install ok installed" ] || missing="$missing $name"
    done
    [ -z "$missing" ] && return 0
    if [ "$(id -u)" -ne 0 ]; then
        if ! command -v sudo >/dev/null; then
            echo "These packages are missing:$missing" >&2
            echo "Install them as root, or install sudo, and run this again." >&2
            return 69
        fi
        sudo=sudo
    fi
    echo "Installing packages:$missing" >&2
    $sudo apt-get update -qq >&2
    # shellcheck disable=SC2086  # a list of words is meant
    DEBIAN_FRONTEND=noninteractive $sudo apt-get install -y -qq --no-install-recommends $missing >/dev/null
}

# Parallel compile jobs: one a core, at most one for each 1.5 GiB of memory.
build_jobs() {
    local cores memory_kib jobs
    cores=$(nproc)
    memory_kib=$(awk '/^MemAvailable:/ {print $2}' /proc/meminfo)
    jobs=$((memory_kib / 1572864))
    [ "$jobs" -lt 1 ] && jobs=1
    [ "$jobs" -gt "$cores" ] && jobs=$cores
    echo "$jobs"
}
