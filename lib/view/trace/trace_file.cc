// Reading of traces, line by line, with bounds on everything.
#include "lib/view/trace/trace_file.h"

#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <unordered_map>

#include "kernels/error.h"
#include "lib/base/json.h"
#include "lib/base/line_reader.h"
#include "lib/system/unix_socket.h"

namespace nvllm::view {
namespace {

using Json = nlohmann::json;

constexpr int64_t kMaxTokens = 16'000'000;  // of one request
constexpr int64_t kMaxPieces = int64_t{1} << 21;
constexpr int64_t kMaxTokenId = (int64_t{1} << 30) - 1;  // above are answers' tokens
constexpr size_t kMaxRequests = 5'000'000;
constexpr size_t kMaxLineBytes = size_t{16} << 20;

// Numbers pieces, so that hashes may be any numbers.
class PieceNumbers {
  public:
    int32_t number(int64_t hash) {
        const auto [entry, is_new] = numbers_.try_emplace(hash, next_);
        return is_new ? fresh() : entry->second;
    }
    int32_t fresh() {
        if (next_ >= kMaxPieces) {
            throw Error(ErrorKind::bad_data,
                        fmt::format("more than {} different pieces of {} tokens", kMaxPieces,
                                    kPieceTokens));
        }
        return next_++;
    }

  private:
    std::unordered_map<int64_t, int32_t> numbers_;
    int32_t next_ = 0;
};

const Json& field(const Json& line, const char* name) {
    const auto found = line.find(name);
    if (found == line.end()) {
        throw Error(ErrorKind::bad_data, fmt::format("\"{}\" is missing", name));
    }
    return *found;
}

int64_t integer(const Json& value, const char* name, int64_t low, int64_t high) {
    const bool fits = value.is_number_integer() &&
                      (!value.is_number_unsigned() || value.get<uint64_t>() <= uint64_t(high)) &&
                      value.get<int64_t>() >= low && value.get<int64_t>() <= high;
    if (fits) return value.get<int64_t>();
    throw Error(ErrorKind::bad_data, fmt::format("\"{}\" is {}, not a whole number from {} to {}",
                                                 name, write_json(value).substr(0, 60), low, high));
}

double seconds(const Json& value, const char* name) {
    const double number = value.is_number() ? value.get<double>() : -1.0;
    if (std::isfinite(number) && number >= 0.0 && number <= 1e12) return number;
    throw Error(ErrorKind::bad_data,
                fmt::format("\"{}\" is {}, not a time", name, write_json(value).substr(0, 60)));
}

TraceRequest read_hashed(const Json& line, PieceNumbers& numbers) {
    TraceRequest request;
    request.arrival_s = seconds(field(line, "timestamp"), "timestamp") / 1000.0;
    request.num_prompt_tokens =
        static_cast<int32_t>(integer(field(line, "input_length"), "input_length", 1, kMaxTokens));
    request.num_answer_tokens =
        static_cast<int32_t>(integer(field(line, "output_length"), "output_length", 1, kMaxTokens));
    const Json& hashes = field(line, "hash_ids");
    const int64_t expected = (int64_t{request.num_prompt_tokens} + kPieceTokens - 1) / kPieceTokens;
    if (!hashes.is_array() || std::ssize(hashes) != expected) {
        throw Error(ErrorKind::bad_data,
                    fmt::format("\"hash_ids\" is not a list of {} hashes, one for each {} of {} "
                                "tokens",
                                expected, kPieceTokens, request.num_prompt_tokens));
    }
    for (const Json& hash : hashes) {
        request.pieces.push_back(numbers.number(integer(hash, "hash_ids", 0, INT64_MAX)));
    }
    return request;
}

TraceRequest read_plain(const Json& line, PieceNumbers& numbers) {
    TraceRequest request;
    request.arrival_s = seconds(field(line, "arrival_s"), "arrival_s");
    request.num_answer_tokens =
        static_cast<int32_t>(integer(field(line, "max_tokens"), "max_tokens", 1, kMaxTokens));
    if (line.contains("priority")) {
        request.priority =
            static_cast<int32_t>(integer(line["priority"], "priority", INT32_MIN, INT32_MAX));
    }
    const Json& prompt = field(line, "prompt_tokens");
    if (prompt.is_array()) {
        for (const Json& id : prompt) {
            request.token_ids.push_back(
                static_cast<int32_t>(integer(id, "prompt_tokens", 0, kMaxTokenId)));
        }
        integer(Json(prompt.size()), "prompt_tokens' length", 1, kMaxTokens);
        request.num_prompt_tokens = static_cast<int32_t>(prompt.size());
        return request;
    }
    request.num_prompt_tokens =
        static_cast<int32_t>(integer(prompt, "prompt_tokens", 1, kMaxTokens));
    for (int32_t first = 0; first < request.num_prompt_tokens; first += kPieceTokens) {
        request.pieces.push_back(numbers.fresh());
    }
    return request;
}

TraceRequest read_line(const std::string& text, Trace& trace, PieceNumbers& numbers) {
    const Json line = parse_json(text, "line", {.max_depth = 4, .max_bytes = kMaxLineBytes});
    if (!line.is_object()) throw Error(ErrorKind::bad_data, "is not an object");
    const bool has_hashes = line.contains("hash_ids");
    if (!trace.requests.empty() && has_hashes != trace.has_hashes) {
        throw Error(ErrorKind::bad_data, "is of another kind than the lines before it");
    }
    trace.has_hashes = has_hashes;
    return has_hashes ? read_hashed(line, numbers) : read_plain(line, numbers);
}

}  // namespace

Trace read_trace(const std::filesystem::path& path) {
    const OwnedDescriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file) {
        throw Error(errno == ENOENT ? ErrorKind::not_found : ErrorKind::io,
                    fmt::format("{}: cannot open: {}", path.string(), std::strerror(errno)));
    }
    Trace trace;
    trace.name = path.filename().string();
    PieceNumbers numbers;
    LineReader reader(file.get(), path.string(), kMaxLineBytes);
    for (int64_t number = 1;; ++number) {
        const auto text = reader.next([] { return false; });
        if (!text) break;
        if (text->find_first_not_of(" \t\r") == std::string::npos) continue;
        try {
            if (trace.requests.size() >= kMaxRequests) {
                throw Error(ErrorKind::bad_data, "too many requests");
            }
            trace.requests.push_back(read_line(*text, trace, numbers));
        } catch (const Error& error) {
            throw Error(error.kind(),
                        fmt::format("{}:{}: {}", path.string(), number, error.what()));
        }
    }
    if (trace.requests.empty()) {
        throw Error(ErrorKind::bad_data, path.string() + ": has no request");
    }
    std::ranges::stable_sort(trace.requests, {}, &TraceRequest::arrival_s);
    return trace;
}

std::vector<int32_t> prompt_of(const TraceRequest& request) {
    if (!request.token_ids.empty()) return request.token_ids;
    std::vector<int32_t> tokens(static_cast<size_t>(request.num_prompt_tokens));
    for (size_t i = 0; i < tokens.size(); ++i) {
        const size_t place = i / kPieceTokens;
        tokens[i] = request.pieces[place] * kPieceTokens + static_cast<int32_t>(i % kPieceTokens);
    }
    return tokens;
}

}  // namespace nvllm::view
