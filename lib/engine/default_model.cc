// Searches the demo model relative to the running program, so that an installation can be moved.
#include "lib/engine/default_model.h"

#include <array>
#include <system_error>

#include "kernels/error.h"

namespace nvllm {

std::optional<std::filesystem::path> bundled_model_directory() {
    std::error_code error;
    const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", error);
    if (error) return std::nullopt;
    const std::filesystem::path folder = program.parent_path();
    const std::array<std::filesystem::path, 2> places = {
        folder / ".." / "share" / "nanovllm" / "models" / "demo",  // <prefix>/bin
        folder / ".." / ".." / ".." / "models" / "demo",           // <source>/build/<preset>/bin
    };
    for (const std::filesystem::path& place : places) {
        if (std::filesystem::exists(place / "config.json", error)) return place.lexically_normal();
    }
    return std::nullopt;
}

std::filesystem::path require_bundled_model() {
    if (const auto bundled = bundled_model_directory()) return *bundled;
    throw Error(ErrorKind::usage,
                "no model: give one with -m, NVLLM_MODEL or 'model:' in --config (the bundled "
                "demo is not installed)");
}

}  // namespace nvllm
