// A folder, a file that says whose it is, a file for each block, and a rename.
#include "lib/quantize/journal.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <system_error>

#include "kernels/error.h"
#include "lib/base/fault_points.h"
#include "lib/base/json.h"

namespace nvllm::quantize {
namespace {

namespace fs = std::filesystem;

// In the folder: whose run it is, and that its output is about to appear.
constexpr const char* kRunFile = "run.json";
constexpr const char* kPublishedFile = "published";

// Files that a killed process left half written.
void remove_parts(const fs::path& folder) {
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
        if (entry.path().extension() == ".part") fs::remove(entry.path());
    }
}

bool is_there(const fs::path& path) { return fs::exists(fs::symlink_status(path)); }

fs::path without_slash(const fs::path& path) {
    return path.has_filename() ? path : path.parent_path();
}

fs::path folder_of(const fs::path& output) { return output.string() + ".partial"; }

// A folder with other things in it would be lost with the work.
void refuse_foreign(const fs::path& folder) {
    const fs::file_status status = fs::symlink_status(folder);
    if (!fs::exists(status)) return;
    const auto is_ours = [](const fs::directory_entry& entry) {
        return entry.path().extension() == ".part";
    };
    if (fs::is_directory(status) &&
        (fs::exists(folder / kRunFile) ||
         std::all_of(fs::directory_iterator(folder), fs::directory_iterator(), is_ours))) {
        return;
    }
    throw Error(ErrorKind::cannot_create,
                fmt::format("{}: is in the way, and no interrupted run: work on the output would "
                            "be kept there; move it, or name another output (-o)",
                            folder.string()));
}

std::string shown(const nlohmann::json& value) {
    constexpr size_t kLongest = 60;
    const std::string text = write_json(value);
    return text.size() <= kLongest ? text : text.substr(0, kLongest) + "...";
}

// "recipe/modifiers/0/sparsity was 0.5 and is 0.4", of as many as can be read at a glance. Throws
// bad_data for what was no run's.
std::string difference(const std::string& kept, const std::string& wanted, const fs::path& file) {
    constexpr size_t kMost = 3;
    const nlohmann::json before = parse_json(kept, file.string());
    const nlohmann::json changes = nlohmann::json::diff(before, parse_json(wanted, "run"));
    std::string text;
    for (size_t i = 0; i < std::min(kMost, changes.size()); ++i) {
        const nlohmann::json& change = changes[i];
        const std::string path = change.at("path").get<std::string>();
        const nlohmann::json::json_pointer place(path);
        text += (i > 0 ? ", " : "") + path.substr(std::min<size_t>(1, path.size()));
        if (before.contains(place)) text += " was " + shown(before.at(place));
        if (before.contains(place) && change.contains("value")) text += " and";
        if (change.contains("value")) text += " is " + shown(change.at("value")) + " now";
    }
    return changes.size() > kMost ? text + ", and more" : text;
}

// Last what says whose it is: a run that is ended meanwhile is still known.
void empty_folder(const fs::path& folder) {
    std::error_code ignored;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder, ignored)) {
        const fs::path name = entry.path().filename();
        if (name != kRunFile && name != kPublishedFile) fs::remove_all(entry.path(), ignored);
    }
    fs::remove(folder / kRunFile, ignored);
    fs::remove(folder / kPublishedFile, ignored);
}

void remove_folder(const fs::path& folder) {
    empty_folder(folder);
    std::error_code ignored;
    fs::remove_all(folder, ignored);
}

}  // namespace

Journal::Journal(const fs::path& output, const std::string& identity, InterruptedRun interrupted)
    : output_(without_slash(output)), folder_(folder_of(output_)) {
    if (is_there(output_)) {
        throw Error(ErrorKind::cannot_create,
                    fmt::format("{}: exists already; name another output (-o) or remove it",
                                output_.string()));
    }
    refuse_foreign(folder_);
    make_folder(folder_);
    if (!lock_.take(folder_)) {
        throw Error(ErrorKind::cannot_create,
                    fmt::format("{}: another run is at work there; let it end, or name another "
                                "output (-o)",
                                folder_.string()));
    }
    const fs::path file = folder_ / kRunFile;
    if (fs::exists(file) && interrupted == InterruptedRun::refused) {
        throw Error(ErrorKind::cannot_create,
                    fmt::format("{}: an interrupted run is kept there; --resume goes on with it, "
                                "--restart throws it away",
                                folder_.string()));
    }
    if (interrupted == InterruptedRun::discarded) empty_folder(folder_);
    remove_parts(folder_);
    fs::remove(folder_ / kPublishedFile);
    if (!fs::exists(file)) {
        write_new_file(file, identity);
        return;
    }
    const std::string kept = read_file(file);
    if (kept == identity) return;
    throw Error(ErrorKind::bad_data,
                fmt::format("{}: the interrupted run there was another one: {}; give what it was "
                            "given, or begin anew with --restart",
                            folder_.string(), difference(kept, identity, file)));
}

bool Journal::finish_published(const fs::path& output, const std::string& identity) {
    const fs::path folder = folder_of(without_slash(output));
    const fs::path file = folder / kRunFile;
    if (!is_there(without_slash(output)) || fs::exists(folder / "output") ||
        !fs::exists(folder / kPublishedFile) || !fs::exists(file) || read_file(file) != identity) {
        return false;
    }
    remove_folder(folder);
    return true;
}

fs::path Journal::block_file(int32_t stage) const {
    return folder_ / fmt::format("block-{:05}.safetensors", stage);
}

bool Journal::has_block(int32_t stage) const { return fs::exists(block_file(stage)); }

fs::path Journal::fresh_output_folder() const {
    const fs::path folder = folder_ / "output";
    std::error_code error;
    fs::remove_all(folder, error);
    make_folder(folder);
    return folder;
}

void Journal::publish() const {
    fault_point("quantize.publish");
    write_new_file(folder_ / kPublishedFile, "");
    rename_path(folder_ / "output", output_);
    remove_folder(folder_);
}

}  // namespace nvllm::quantize
