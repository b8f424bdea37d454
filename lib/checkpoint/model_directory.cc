// Lookup in the Hugging Face cache: models--org--name/{refs/REVISION, snapshots/COMMIT}.
#include "lib/checkpoint/model_directory.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <system_error>
#include <vector>

#include "kernels/error.h"
#include "lib/base/file.h"
#include "lib/checkpoint/cached_models.h"
#include "lib/checkpoint/foreign_models.h"
#include "lib/checkpoint/quoted.h"

namespace nvllm {
namespace {

namespace fs = std::filesystem;

struct HubName {
    std::string repository;  // "org/name"
    std::string revision = "main";
};

bool made_of(std::string_view text, std::string_view punctuation) {
    const auto allowed = [&](char c) {
        return std::isalnum(static_cast<unsigned char>(c)) != 0 ||
               punctuation.find(c) != std::string_view::npos;
    };
    return !text.empty() && std::all_of(text.begin(), text.end(), allowed);
}

// Empty when the text cannot be a name on the hub; such a text must not become a path either.
std::optional<HubName> parse_hub_name(const std::string& model) {
    HubName name;
    const size_t at = model.find('@');
    name.repository = model.substr(0, at);
    if (at != std::string::npos) name.revision = model.substr(at + 1);
    const bool one_slash_at_most =
        std::count(name.repository.begin(), name.repository.end(), '/') <= 1;
    const bool plain = made_of(name.repository, "-_./") && made_of(name.revision, "-_./") &&
                       model.find("..") == std::string::npos && name.repository.front() != '/' &&
                       name.repository.front() != '.' && name.repository.back() != '/' &&
                       name.revision.front() != '/';
    if (!one_slash_at_most || !plain) return std::nullopt;
    return name;
}

std::string cache_folder_name(const std::string& repository) {
    std::string folder = "models--" + repository;
    const size_t slash = folder.find('/');
    if (slash != std::string::npos) folder.replace(slash, 1, "--");
    return folder;
}

std::vector<std::string> folder_names(const fs::path& directory) {
    std::vector<std::string> names;
    std::error_code ignored;
    for (const auto& item : fs::directory_iterator(directory, ignored)) {
        if (item.is_directory(ignored)) names.push_back(item.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
}

// The commit that a branch or tag names; empty when there is no such reference.
std::optional<std::string> commit_of_reference(const fs::path& repository,
                                               const std::string& revision) {
    const fs::path reference = repository / "refs" / revision;
    std::error_code ignored;
    if (!fs::is_regular_file(reference, ignored)) return std::nullopt;
    std::string commit = read_file(reference, 4096);
    while (!commit.empty() && std::isspace(static_cast<unsigned char>(commit.back()))) {
        commit.pop_back();
    }
    if (!made_of(commit, "")) {
        throw Error(ErrorKind::bad_data, reference.string() + ": does not hold a commit");
    }
    return commit;
}

// Snapshots whose commit begins with `prefix`; a prefix shorter than four digits would match by
// accident.
std::vector<std::string> commits_beginning_with(const fs::path& repository,
                                                const std::string& prefix) {
    std::vector<std::string> commits;
    if (prefix.size() < 4) return commits;
    for (const std::string& commit : folder_names(repository / "snapshots")) {
        if (commit.starts_with(prefix)) commits.push_back(commit);
    }
    return commits;
}

// How the model gets into the cache.
std::string fetch_command(const HubName& name, const fs::path& cache) {
    std::string command = "hf download " + name.repository;
    if (name.revision != "main") command += " --revision " + name.revision;
    if (cache != hub_cache_directory()) command += " --cache-dir " + cache.string();
    return fmt::format("'{}' fetches it (pip install huggingface_hub)", command);
}

// What there is instead, the likeliest first.
std::string what_is_cached(const HubName& name, const fs::path& cache) {
    constexpr size_t kShown = 5;
    std::vector<std::string> names = cached_names_near(cache, name.repository);
    if (names.empty()) return "; the cache has no model yet";
    const size_t more = names.size() - std::min(names.size(), kShown);
    names.resize(names.size() - more);
    return fmt::format("; the cache has {}{}", fmt::join(names, ", "),
                       more > 0 ? fmt::format(" and {} more: nvllm-inspect list", more) : "");
}

// Throws when the snapshot lacks what every model has, or when a link leads to a blob that was
// never finished.
void check_snapshot(const fs::path& snapshot, const std::string& model, const std::string& fetch) {
    std::vector<std::string> missing;
    std::error_code ignored;
    for (const auto& item : fs::directory_iterator(snapshot, ignored)) {
        if (item.is_symlink(ignored) && !fs::exists(item.path(), ignored)) {
            missing.push_back(item.path().filename().string());
        }
    }
    if (!fs::exists(snapshot / "config.json", ignored) &&
        std::find(missing.begin(), missing.end(), "config.json") == missing.end()) {
        missing.push_back("config.json");
    }
    if (missing.empty()) return;
    std::sort(missing.begin(), missing.end());
    throw Error(ErrorKind::not_found,
                fmt::format("{}: the snapshot {} is incomplete, it lacks {}; {}", model,
                            snapshot.string(), fmt::join(missing, ", "), fetch));
}

fs::path find_snapshot(const fs::path& repository, const HubName& name, const std::string& model,
                       const std::string& fetch) {
    const fs::path snapshots = repository / "snapshots";
    std::error_code ignored;
    if (const auto commit = commit_of_reference(repository, name.revision)) {
        if (fs::is_directory(snapshots / *commit, ignored)) return snapshots / *commit;
        throw Error(ErrorKind::not_found,
                    fmt::format("{}: {} is commit {}, which is not in {}; {}", model, name.revision,
                                *commit, snapshots.string(), fetch));
    }
    const std::vector<std::string> commits = commits_beginning_with(repository, name.revision);
    if (commits.size() == 1) return snapshots / commits.front();
    if (commits.size() > 1) {
        throw Error(ErrorKind::not_found, fmt::format("{}: revision {} is ambiguous: {}", model,
                                                      name.revision, fmt::join(commits, ", ")));
    }
    throw Error(ErrorKind::not_found,
                fmt::format("{}: no revision {} in the cache; searched {} and {}; {}", model,
                            quoted_for_message(name.revision), (repository / "refs").string(),
                            snapshots.string(), fetch));
}

fs::path environment_path(const char* variable) {
    const char* value = std::getenv(variable);
    return value == nullptr ? fs::path() : fs::path(value);
}

}  // namespace

fs::path hub_cache_directory() {
    for (const char* variable : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE"}) {
        const fs::path direct = environment_path(variable);
        if (!direct.empty()) return direct;
    }
    const fs::path home = environment_path("HF_HOME");
    if (!home.empty()) return home / "hub";
    const fs::path caches = environment_path("XDG_CACHE_HOME");
    if (!caches.empty()) return caches / "huggingface" / "hub";
    const fs::path user = environment_path("HOME");
    return user.empty() ? fs::path() : user / ".cache" / "huggingface" / "hub";
}

fs::path resolve_model_directory(const std::string& model) {
    return resolve_model_directory(model, hub_cache_directory());
}

fs::path resolve_adapter_directory(const std::string& adapter) {
    std::error_code ignored;
    if (fs::is_directory(adapter, ignored)) return adapter;
    return resolve_model_directory(adapter);
}

fs::path resolve_model_directory(const std::string& model, const fs::path& cache) {
    std::error_code ignored;
    if (fs::is_directory(model, ignored)) return model;
    if (fs::exists(model, ignored)) {
        throw Error(ErrorKind::bad_data, fmt::format("{}: {}", model, why_no_model_file(model)));
    }
    const std::optional<HubName> name = parse_hub_name(model);
    if (const auto why = why_no_hub_name(model)) {
        throw Error(ErrorKind::not_found, fmt::format("{}: {}", quoted_for_message(model), *why));
    }
    if (!name || cache.empty()) {
        throw Error(ErrorKind::not_found,
                    fmt::format("{}: no such folder, nor a name like org/name[@revision]",
                                quoted_for_message(model)));
    }
    const fs::path repository = cache / cache_folder_name(name->repository);
    if (!fs::is_directory(repository, ignored)) {
        throw Error(ErrorKind::not_found,
                    fmt::format("{}: no such model; searched the folder {} and the Hugging Face "
                                "cache {}; {}{}",
                                model, fs::absolute(model, ignored).string(), repository.string(),
                                fetch_command(*name, cache), what_is_cached(*name, cache)));
    }
    const std::string fetch = fetch_command(*name, cache);
    const fs::path snapshot = find_snapshot(repository, *name, model, fetch);
    check_snapshot(snapshot, model, fetch);
    return snapshot;
}

}  // namespace nvllm
