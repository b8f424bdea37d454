// A folder, a file that says whose it is, a file for each block, and a rename.
#include "lib/quantize/journal.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

#include "kernels/error.h"
#include "lib/base/fault_points.h"
#include "lib/base/file.h"

namespace nvllm::quantize {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail(const fs::path& path, const char* doing, const std::string& why) {
    throw Error(ErrorKind::cannot_create,
                fmt::format("{}: cannot {}: {}", path.string(), doing, why));
}

void make_folder(const fs::path& path) {
    std::error_code error;
    fs::create_directories(path, error);
    if (error) fail(path, "create the folder", error.message());
}

// Files that a killed process left half written.
void remove_parts(const fs::path& folder) {
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
        if (entry.path().extension() == ".part") fs::remove(entry.path());
    }
}

// Names in the folder survive a power cut.
void sync_folder(const fs::path& folder) {
    const int fd = ::open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) return;
    ::fsync(fd);
    ::close(fd);
}

fs::path without_slash(const fs::path& path) {
    return path.has_filename() ? path : path.parent_path();
}

}  // namespace

Journal::Journal(const fs::path& output, const std::string& identity, bool resumes)
    : output_(without_slash(output)), folder_(output_.string() + ".partial") {
    if (fs::exists(output_)) {
        throw Error(ErrorKind::cannot_create,
                    fmt::format("{}: exists already; name another output (-o) or remove it",
                                output_.string()));
    }
    const fs::path file = folder_ / "run.json";
    if (fs::exists(file) && !resumes) {
        throw Error(
            ErrorKind::cannot_create,
            fmt::format("{}: an interrupted run is kept there; --resume goes on with it, or "
                        "remove the folder to begin anew",
                        folder_.string()));
    }
    make_folder(folder_);
    remove_parts(folder_);
    if (fs::exists(file)) {
        if (read_file(file) == identity) return;
        throw Error(ErrorKind::bad_data,
                    fmt::format("{}: the interrupted run there had another model, recipe or "
                                "calibration text; give the same options, or remove the folder to "
                                "begin anew",
                                folder_.string()));
    }
    const fs::path part = folder_ / "run.json.part";
    write_file(part, identity);
    fs::rename(part, file);
    sync_folder(folder_);
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
    sync_folder(folder_ / "output");
    std::error_code error;
    fs::rename(folder_ / "output", output_, error);
    if (error) fail(output_, "put the output there", error.message());
    sync_folder(output_.parent_path());
    fs::remove_all(folder_, error);
}

}  // namespace nvllm::quantize
