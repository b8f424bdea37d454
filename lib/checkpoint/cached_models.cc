// Reads models--org--name/{refs, snapshots, blobs}.
#include "lib/checkpoint/cached_models.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <system_error>

#include "lib/base/option_values.h"

namespace nvllm {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view kPrefix = "models--";

// "org/name" of "models--org--name".
std::optional<std::string> name_of_folder(const fs::path& folder) {
    std::string name = folder.filename().string();
    if (!name.starts_with(kPrefix)) return std::nullopt;
    name.erase(0, kPrefix.size());
    const size_t dashes = name.find("--");
    if (dashes != std::string::npos) name.replace(dashes, 2, "/");
    return name;
}

std::vector<fs::path> children_of(const fs::path& directory) {
    std::vector<fs::path> paths;
    std::error_code ignored;
    for (const auto& item : fs::directory_iterator(directory, ignored))
        paths.push_back(item.path());
    std::ranges::sort(paths);
    return paths;
}

uint64_t bytes_of_files(const fs::path& directory) {
    uint64_t bytes = 0;
    std::error_code error;
    for (const auto& item : fs::recursive_directory_iterator(directory, error)) {
        const uint64_t size = fs::is_regular_file(item.path(), error) ? item.file_size(error) : 0;
        bytes += error ? 0 : size;
    }
    return bytes;
}

uint64_t unfinished_bytes(const fs::path& repository) {
    uint64_t bytes = 0;
    std::error_code error;
    for (const fs::path& blob : children_of(repository / "blobs")) {
        if (blob.extension() != ".incomplete") continue;
        const uint64_t size = fs::file_size(blob, error);
        bytes += error ? 0 : size;
    }
    return bytes;
}

// (revision, commit) of each reference, main first.
std::vector<std::pair<std::string, std::string>> references_of(const fs::path& repository) {
    std::vector<std::pair<std::string, std::string>> references;
    std::error_code ignored;
    const fs::path refs = repository / "refs";
    for (const auto& item : fs::recursive_directory_iterator(refs, ignored)) {
        if (!fs::is_regular_file(item.path(), ignored)) continue;
        std::string commit;
        std::ifstream(item.path()) >> commit;
        references.emplace_back(item.path().lexically_relative(refs).string(), commit);
    }
    std::ranges::sort(references, [](const auto& a, const auto& b) {
        return std::pair(a.first != "main", a.first) < std::pair(b.first != "main", b.first);
    });
    return references;
}

void add_models_of(const fs::path& repository, const std::string& name,
                   std::vector<CachedModel>& models) {
    const size_t before = models.size();
    std::error_code ignored;
    for (const auto& [revision, commit] : references_of(repository)) {
        const fs::path snapshot = repository / "snapshots" / commit;
        if (commit.empty() || !fs::is_directory(snapshot, ignored)) continue;
        models.push_back({revision == "main" ? name : name + "@" + revision, snapshot,
                          bytes_of_files(snapshot), 0});
    }
    for (const fs::path& snapshot : children_of(repository / "snapshots")) {
        if (models.size() > before) break;
        models.push_back(
            {name + "@" + snapshot.filename().string(), snapshot, bytes_of_files(snapshot), 0});
    }
    if (models.size() == before) models.push_back({name, {}, 0, 0});
    models[before].unfinished_bytes = unfinished_bytes(repository);
}

}  // namespace

std::vector<CachedModel> cached_models(const fs::path& cache) {
    std::vector<CachedModel> models;
    if (cache.empty()) return models;
    for (const fs::path& repository : children_of(cache)) {
        const auto name = name_of_folder(repository);
        if (name) add_models_of(repository, *name, models);
    }
    return models;
}

std::vector<std::string> cached_names_near(const fs::path& cache, const std::string& wanted) {
    std::vector<std::string> names;
    if (cache.empty()) return names;
    for (const fs::path& repository : children_of(cache)) {
        if (auto name = name_of_folder(repository)) names.push_back(std::move(*name));
    }
    std::ranges::stable_sort(names, {},
                             [&](const std::string& name) { return edit_distance(name, wanted); });
    return names;
}

}  // namespace nvllm
