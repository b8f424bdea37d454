// Reads and checks the lines of a batch before any of them is computed.
#include "lib/server/batches/batch_input.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <unordered_set>

#include "kernels/error.h"
#include "lib/base/json.h"

namespace nvllm::server {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMaxErrors = 100;
constexpr size_t kMaxLines = 50'000;  // as in the OpenAI API
constexpr size_t kMaxCustomId = 512;

// What is wrong with a line.
struct Complaint {
    std::string code;
    std::string message;
    std::optional<std::string> param = std::nullopt;
};

std::optional<Complaint> check_line(const Json& line, std::string_view endpoint) {
    if (!line.is_object()) return Complaint{"invalid_json_line", "the line is no JSON object"};
    const Json custom_id = line.value("custom_id", Json());
    const auto* id = custom_id.get_ptr<const std::string*>();
    if (id == nullptr || id->empty()) {
        return Complaint{"missing_required_parameter", "'custom_id' must be a text", "custom_id"};
    }
    if (id->size() > kMaxCustomId) {
        return Complaint{"invalid_value",
                         fmt::format("'custom_id' has more than {} bytes", kMaxCustomId),
                         "custom_id"};
    }
    if (line.value("method", Json()) != "POST") {
        return Complaint{"invalid_method", "'method' must be POST", "method"};
    }
    if (line.value("url", Json()) != std::string(endpoint)) {
        return Complaint{"mismatched_endpoint",
                         fmt::format("'url' must be {}, the endpoint of the batch", endpoint),
                         "url"};
    }
    for (const auto& [name, value] : line.items()) {
        if (name == "custom_id" || name == "method" || name == "url" || name == "body") continue;
        return Complaint{"unknown_parameter",
                         fmt::format("'{}' is not known to lines of a batch", name.substr(0, 64)),
                         name.substr(0, 64)};
    }
    const Json body = line.value("body", Json());
    if (!body.is_object()) {
        return Complaint{"missing_required_parameter", "'body' must be an object", "body"};
    }
    if (body.value("stream", Json()) == true) {
        return Complaint{"invalid_value", "lines of a batch are not streamed: leave 'stream' out",
                         "body.stream"};
    }
    return std::nullopt;
}

// Collects lines and what is wrong with them.
class InputReader {
  public:
    explicit InputReader(std::string_view endpoint) : endpoint_(endpoint) {}

    void add(std::string_view text) {
        ++number_;
        if (text.find_first_not_of(" \t\r") == std::string_view::npos) return;
        if (input_.lines.size() == kMaxLines) {
            return complain(
                {"too_many_lines", fmt::format("a batch has at most {} lines", kMaxLines)});
        }
        Json line;
        try {
            line = parse_ordered_json(text, fmt::format("line {}", number_));
        } catch (const Error& error) {
            return complain({"invalid_json_line", error.what()});
        }
        if (const auto complaint = check_line(line, endpoint_)) return complain(*complaint);
        auto custom_id = line["custom_id"].get<std::string>();
        if (!known_.insert(custom_id).second) {
            return complain({"duplicate_custom_id",
                             fmt::format("another line has the custom_id '{}'", custom_id),
                             "custom_id"});
        }
        input_.lines.push_back({std::move(custom_id), write_json(line["body"])});
    }

    BatchInput take() {
        if (input_.lines.empty() && input_.errors.empty()) {
            input_.errors.push_back(
                {"empty_file", "the file has no line", std::nullopt, std::nullopt});
        }
        return std::move(input_);
    }
    bool has_enough_errors() const { return input_.errors.size() >= kMaxErrors; }

  private:
    void complain(const Complaint& complaint) {
        input_.errors.push_back({complaint.code, complaint.message, complaint.param, number_});
    }

    const std::string_view endpoint_;
    BatchInput input_;
    std::unordered_set<std::string> known_;
    int64_t number_ = 0;
};

}  // namespace

BatchInput read_batch_input(std::string_view content, std::string_view endpoint) {
    InputReader reader(endpoint);
    while (!content.empty() && !reader.has_enough_errors()) {
        const size_t end = std::min(content.find('\n'), content.size());
        reader.add(content.substr(0, end));
        content.remove_prefix(std::min(end + 1, content.size()));
    }
    return reader.take();
}

}  // namespace nvllm::server
