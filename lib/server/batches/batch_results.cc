// Appending, and reading back what a process before this one appended.
#include "lib/server/batches/batch_results.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "kernels/error.h"
#include "lib/base/file.h"
#include "lib/base/json.h"
#include "lib/server/batches/file_store.h"

namespace nvllm::server {

namespace fs = std::filesystem;

namespace {

[[noreturn]] void throw_io(const fs::path& path, const char* verb) {
    throw Error(ErrorKind::io,
                fmt::format("{} cannot be {}: {}", path.string(), verb, std::strerror(errno)));
}

// The custom_id of every whole line; `text` is cut to the whole lines.
std::unordered_set<std::string> read_ids(std::string& text) {
    std::unordered_set<std::string> ids;
    size_t begin = 0;
    for (size_t end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
        const auto line = parse_json(std::string_view(text).substr(begin, end - begin), "results");
        ids.insert(line.at("custom_id").get<std::string>());
        begin = end + 1;
    }
    text.resize(begin);
    return ids;
}

}  // namespace

ResultFile::ResultFile(fs::path path) : path_(std::move(path)) {
    if (!fs::exists(path_)) return;
    std::string text = read_file(path_, UINT64_MAX);
    const size_t had = text.size();
    known_ = read_ids(text);
    if (text.size() < had) fs::resize_file(path_, text.size());
    open();
}

void ResultFile::take_published(std::string content) { known_ = read_ids(content); }

void ResultFile::open() {
    file_ = OwnedDescriptor(::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
    if (!file_) throw_io(path_, "opened");
}

void ResultFile::append(const std::string& custom_id, std::string_view line) {
    if (!file_) open();
    std::string text(line);
    text += '\n';
    std::string_view rest = text;
    while (!rest.empty()) {
        const ssize_t written = ::write(file_.get(), rest.data(), rest.size());
        if (written < 0 && errno != EINTR) throw_io(path_, "written");
        if (written > 0) rest.remove_prefix(static_cast<size_t>(written));
    }
    known_.insert(custom_id);
}

void ResultFile::flush() {
    if (!file_) return;
    if (::fdatasync(file_.get()) != 0) throw_io(path_, "flushed");
}

std::string response_line(const std::string& custom_id, int status, const std::string& request_id,
                          std::string_view body) {
    return fmt::format(
        "{{\"id\":{},\"custom_id\":{},\"response\":{{\"status_code\":{},\"request_id\":{},"
        "\"body\":{}}},\"error\":null}}",
        json_quoted(new_id("batch_req_")), json_quoted(custom_id), status, json_quoted(request_id),
        body);
}

std::string unanswered_line(const std::string& custom_id, std::string_view code,
                            std::string_view message) {
    return fmt::format(
        "{{\"id\":{},\"custom_id\":{},\"response\":null,\"error\":{{\"code\":{},\"message\":{}}}}}",
        json_quoted(new_id("batch_req_")), json_quoted(custom_id), json_quoted(code),
        json_quoted(message));
}

}  // namespace nvllm::server
