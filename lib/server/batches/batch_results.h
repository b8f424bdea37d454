// The results of a batch on disk, line by line as they come, and what is known of them after a
// restart.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_set>

#include "lib/base/owned_descriptor.h"

namespace nvllm::server {

// One file of results. Not thread-safe; throws io.
class ResultFile {
  public:
    // Goes on with a file that is there; the end of one that was cut off in a line is dropped.
    // There is none before the first line.
    explicit ResultFile(std::filesystem::path path);
    // All lines are in `content` already, which was published under another name.
    void take_published(std::string content);

    // custom_id of all its lines.
    const std::unordered_set<std::string>& known() const { return known_; }
    // `line`: a JSON object without a line end.
    void append(const std::string& custom_id, std::string_view line);
    // From here on it survives a power cut.
    void flush();
    const std::filesystem::path& path() const { return path_; }

  private:
    void open();

    std::filesystem::path path_;
    std::unordered_set<std::string> known_;
    OwnedDescriptor file_;
};

// A line of the output: {"id", "custom_id", "response": {"status_code", "request_id", "body"},
// "error": null}. `body`: JSON.
std::string response_line(const std::string& custom_id, int status, const std::string& request_id,
                          std::string_view body);
// A line without a response: `code` and `message` say why.
std::string unanswered_line(const std::string& custom_id, std::string_view code,
                            std::string_view message);

}  // namespace nvllm::server
