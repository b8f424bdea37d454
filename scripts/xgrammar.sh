#!/usr/bin/env bash
# The grammar engine that lib/grammar stands on: xgrammar's C++ core, from the source package that Python's index has, pinned by hash.
#
#   scripts/xgrammar.sh source    fetches, checks and unpacks it into build/xgrammar/source, with scripts/xgrammar.patch
#   scripts/xgrammar.sh library   also compiles it once, for every preset: build/xgrammar/libxgrammar.a (half a minute on two cores)
#
# CMake calls both; without them (NVLLM_GRAMMAR=OFF) requests for structured output are refused. Where no index can be reached,
# put the package (its name is below) into build/xgrammar first. Safe to repeat; of several at once, one works.
set -euo pipefail
version=0.2.8
sha256=8305646fd2b319d6c3003f51a1665e54cbbe9cba1fb636bc41d0b46434ccbb80
package=xgrammar-$version.tar.gz

root=$(cd "$(dirname "$0")/.." && pwd)
folder=$root/build/xgrammar
patch=$root/scripts/xgrammar.patch
made_from=$(cat "$0" "$patch" | sha256sum | cut -d' ' -f1)

is_made() { [ "$(cat "$folder/$1.made_from" 2>/dev/null)" = "$made_from" ]; }

is_pinned() { echo "$sha256  $1" | sha256sum --check --status 2>/dev/null; }

fetch() {
    [ -f "$folder/$package" ] && is_pinned "$folder/$package" && return 0
    local requirement=$folder/requirement.txt
    echo "xgrammar==$version --hash=sha256:$sha256" >"$requirement"
    echo "Fetching $package" >&2
    if ! python3 -m pip download -q --disable-pip-version-check --no-deps --no-binary xgrammar --require-hashes \
        -r "$requirement" -d "$folder" >"$folder/fetch.log" 2>&1; then
        tail -n 5 "$folder/fetch.log" >&2
        echo "$package could not be fetched. Where there is no network, put the file into $folder (sha256 $sha256)," >&2
        echo "or build without structured output: cmake -DNVLLM_GRAMMAR=OFF." >&2
        return 69
    fi
    is_pinned "$folder/$package"
}

make_source() {
    is_made source && return 0
    fetch
    rm -rf "$folder/source" "$folder/unpacked"
    mkdir "$folder/unpacked"
    tar -xzf "$folder/$package" -C "$folder/unpacked" --strip-components=1
    rm "$folder/unpacked/cmake/config.cmake"  # it asks for the Python parts
    patch -s -p1 -d "$folder/unpacked" <"$patch"
    mv "$folder/unpacked" "$folder/source"
    echo "$made_from" >"$folder/source.made_from"
}

make_library() {
    is_made library && return 0
    local launcher=""
    command -v ccache >/dev/null && launcher=ccache
    # No link-time optimisation, which would tie the library to one compiler.
    cmake -S "$folder/source" -B "$folder/objects" -G Ninja -DXGRAMMAR_BUILD_PYTHON_BINDINGS=OFF \
        -DCMAKE_BUILD_TYPE=Release -DCMAKE_CXX_FLAGS_RELEASE="-O2 -DNDEBUG -fno-lto -w -Wno-error -fvisibility=hidden" \
        -DCMAKE_CXX_COMPILER_LAUNCHER=$launcher >/dev/null
    cmake --build "$folder/objects" --target xgrammar -- -j "${XGRAMMAR_JOBS:-2}" >/dev/null
    cp "$folder/objects/libxgrammar.a" "$folder/libxgrammar.a"
    echo "$made_from" >"$folder/library.made_from"
}

mkdir -p "$folder"
exec 9>"$folder/lock"
flock 9
case "${1:-}" in
source) make_source ;;
library) make_source && make_library ;;
*)
    echo "usage: scripts/xgrammar.sh source|library" >&2
    exit 64
    ;;
esac
