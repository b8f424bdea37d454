// Lines to requests.
#include "lib/measure/serving/trace.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "kernels/error.h"
#include "lib/base/random_source.h"
#include "lib/measure/json_fields.h"

namespace nvllm {
namespace {

constexpr int64_t kMaxTokens = 1 << 24;
constexpr int64_t kMaxHashId = int64_t{1} << 53;

struct TraceLine {
    double timestamp_ms = 0.0;
    int64_t input_length = 0, output_length = 0;
    std::vector<int64_t> hash_ids;
};

TraceLine read_line(const JsonRecord& record, const TraceOptions& options) {
    TraceLine line;
    line.timestamp_ms = record.number("timestamp", 0.0);
    line.input_length = record.integer("input_length", 1, kMaxTokens);
    line.output_length = record.integer("output_length", 0, kMaxTokens);
    if (record.has("hash_ids")) line.hash_ids = record.integers("hash_ids", kMaxHashId);
    const int64_t blocks = (line.input_length + options.block_tokens - 1) / options.block_tokens;
    if (static_cast<int64_t>(line.hash_ids.size()) > blocks) {
        record.fail("\"hash_ids\" has more blocks than \"input_length\" has tokens for");
    }
    return line;
}

int32_t scaled(int64_t length, double factor) {
    const double value = std::round(static_cast<double>(length) * factor);
    return static_cast<int32_t>(std::clamp(value, 1.0, static_cast<double>(kMaxTokens)));
}

// The tokens that a block id stands for; `stream` keeps shared and own ones apart.
void append_block(std::vector<int32_t>& ids, size_t count, uint64_t seed, uint64_t block,
                  uint32_t stream, int64_t vocab_size) {
    RandomSource random(seed * 0x9E3779B97F4A7C15u + block, stream);
    for (size_t i = 0; i < count; ++i) {
        ids.push_back(static_cast<int32_t>(random.below(static_cast<uint64_t>(vocab_size))));
    }
}

std::vector<int32_t> prompt_of(const TraceLine& line, const TraceOptions& options,
                               int64_t vocab_size, uint64_t number) {
    enum : uint32_t { kShared = 10, kOwn = 11 };
    const auto length = static_cast<size_t>(scaled(line.input_length, options.length_scale));
    const auto block = static_cast<size_t>(scaled(options.block_tokens, options.length_scale));
    std::vector<int32_t> ids;
    for (const int64_t hash_id : line.hash_ids) {
        const size_t count = std::min(block, length - ids.size());
        append_block(ids, count, options.seed, static_cast<uint64_t>(hash_id), kShared, vocab_size);
    }
    append_block(ids, length - ids.size(), options.seed, number, kOwn, vocab_size);
    if (options.max_input_tokens && length > static_cast<size_t>(*options.max_input_tokens)) {
        ids.resize(static_cast<size_t>(*options.max_input_tokens));
    }
    return ids;
}

// The finalizer of splitmix64 (Steele, Lea & Flood 2014) over what came before and one token.
uint64_t mixed(uint64_t hash, int32_t token) {
    hash = (hash ^ static_cast<uint64_t>(token)) + 0x9E3779B97F4A7C15u;
    hash = (hash ^ (hash >> 30)) * 0xBF58476D1CE4E5B9u;
    hash = (hash ^ (hash >> 27)) * 0x94D049BB133111EBu;
    return hash ^ (hash >> 31);
}

}  // namespace

std::vector<WorkItem> read_trace(const std::filesystem::path& file, const TraceOptions& options,
                                 int64_t vocab_size) {
    std::vector<TraceLine> lines;
    for (const JsonRecord& record : read_json_records(file)) {
        lines.push_back(read_line(record, options));
    }
    if (lines.empty()) throw Error(ErrorKind::bad_data, file.string() + ": no request in it");
    std::ranges::stable_sort(lines, {}, &TraceLine::timestamp_ms);
    if (options.max_requests) {
        lines.resize(std::min(lines.size(), static_cast<size_t>(*options.max_requests)));
    }
    std::vector<WorkItem> items;
    for (const TraceLine& line : lines) {
        WorkItem item;
        item.prompt_ids = prompt_of(line, options, vocab_size, items.size());
        item.num_output_tokens = scaled(line.output_length, options.length_scale);
        item.send_at_s =
            (line.timestamp_ms - lines.front().timestamp_ms) / 1000.0 * options.time_scale;
        items.push_back(std::move(item));
    }
    return items;
}

double reusable_share(std::span<const WorkItem> items, int32_t block_tokens) {
    const auto block = static_cast<size_t>(block_tokens);
    std::unordered_set<uint64_t> seen;  // hashes of whole beginnings, block by block
    size_t found = 0, total = 0;
    for (const WorkItem& item : items) {
        total += item.prompt_ids.size();
        uint64_t hash = 0;
        bool matches = true;
        for (size_t i = 0; i < item.prompt_ids.size(); ++i) {
            hash = mixed(hash, item.prompt_ids[i]);
            if ((i + 1) % block != 0) continue;
            matches = !seen.insert(hash).second && matches;
            // A prompt's last token is always computed.
            if (matches && i + 1 < item.prompt_ids.size()) found += block;
        }
    }
    return total == 0 ? 0.0 : static_cast<double>(found) / static_cast<double>(total);
}

}  // namespace nvllm
