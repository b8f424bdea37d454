#!/usr/bin/env bash
# Makes the folder that scripts/gpu_check.sh takes to a machine with a GPU and without packages: the programs of a release build
# with the CUDA module, the tests of its kernels, every library they need, down to the C library, and doctest's header; and
# FOLDER.tar.gz, the same to send.
#   scripts/gpu/bundle.sh [FOLDER]      (build/gpu-bundle)
set -euo pipefail
cd "$(dirname "$0")/../.."
folder=${1:-build/gpu-bundle}
most_mib=48
architectures=${NVLLM_CUDA_ARCHITECTURES:-90a-real}

cmake --preset release -B build/gpu-release -DNVLLM_CUDA=on "-DNVLLM_CUDA_ARCHITECTURES=$architectures" >/dev/null
cmake --build build/gpu-release -j "$(nproc)"
# Its kernels' tests, which a machine that lacks them there builds from the sources.
cmake -G Ninja -S tests/kernels/cuda/on_device -B build/gpu-tests -DCMAKE_BUILD_TYPE=Release \
    "-DCMAKE_CUDA_ARCHITECTURES=$architectures" "-DNVLLM_BUILT=$PWD/build/gpu-release" >/dev/null
cmake --build build/gpu-tests -j "$(nproc)"
rm -rf "$folder"
cmake --install build/gpu-release --prefix "$folder" --strip >/dev/null
strip -o "$folder/bin/test_cuda_device" build/gpu-tests/test_cuda_device
rm -rf "$folder/include" "$folder/share/man" "$folder"/share/*completion* "$folder/share/zsh" "$folder/share/fish"

# Found by the programs' own run path: all but the C library and what belongs to it.
mkdir -p "$folder/lib" "$folder/libc" "$folder/headers"
for library in $(find "$folder" -type f \( -perm -u+x -o -name '*.so*' \) -exec ldd {} + 2>/dev/null | awk '$3 ~ /^\// {print $3}' | sort -u); do
    case $(basename "$library") in
        libnanovllm*) ;;
        libc.so* | libm.so* | libdl.so* | libpthread.so* | librt.so* | libstdc++.so* | libgcc_s.so*) cp -L "$library" "$folder/libc/" ;;
        *) cp -L "$library" "$folder/lib/" ;;
    esac
done
cp -L /lib64/ld-linux-x86-64.so.2 "$folder/libc/"
cp -r /usr/include/doctest "$folder/headers/"

# Programs run with the machine's own C library where it is new enough, else with the one that came along.
cat > "$folder/run" <<'RUN'
#!/bin/sh
# run PROGRAM [ARGUMENT ...]
here=$(cd "$(dirname "$0")" && pwd)
program=$here/bin/$1; shift
export NVLLM_BACKEND_PATH="${NVLLM_BACKEND_PATH:-$here/lib}"
if LD_LIBRARY_PATH=$here/lib "$program" --version >/dev/null 2>&1; then
    LD_LIBRARY_PATH=$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH} exec "$program" "$@"
fi
exec "$here/libc/ld-linux-x86-64.so.2" --library-path "$here/libc:$here/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}" "$program" "$@"
RUN
chmod +x "$folder/run"

"$folder/run" nvllm-bench --version >/dev/null
"$folder/libc/ld-linux-x86-64.so.2" --library-path "$folder/libc:$folder/lib" "$folder/bin/nvllm-bench" --version >/dev/null
git rev-parse --short HEAD > "$folder/commit"
tar -C "$(dirname "$folder")" -czf "$folder.tar.gz" "$(basename "$folder")"
mib=$(du -sm "$folder.tar.gz" | cut -f1)
echo "$folder.tar.gz: $mib MiB" >&2
if [ "$mib" -gt "$most_mib" ]; then
    echo "$folder.tar.gz: larger than $most_mib MiB" >&2
    exit 1
fi
