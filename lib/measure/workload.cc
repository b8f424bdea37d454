// The table of data sets.
#include "lib/measure/workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "kernels/error.h"
#include "lib/base/random_source.h"
#include "lib/measure/json_fields.h"
#include "lib/tokenizer/tokenizer.h"

namespace nvllm {
namespace {

// Streams of one seed, so that lengths stay the same when prompts are drawn otherwise.
enum Stream : uint32_t { kLengths, kTokens };

struct Maker {
    const WorkloadOptions& options;
    const TokenSource& vocabulary;
    RandomSource lengths{options.seed, kLengths};
    RandomSource tokens{options.seed, kTokens};

    std::vector<int32_t> ids(int64_t count) {
        std::vector<int32_t> drawn;
        drawn.reserve(static_cast<size_t>(count));
        for (int64_t i = 0; i < count; ++i) {
            drawn.push_back(
                static_cast<int32_t>(tokens.below(static_cast<uint64_t>(vocabulary.size))));
        }
        return drawn;
    }
    int32_t length(int32_t around) {
        const double low = std::floor(around * (1.0 - options.random_range_ratio));
        const double high = std::ceil(around * (1.0 + options.random_range_ratio));
        return static_cast<int32_t>(lengths.between(std::max<int64_t>(1, std::llround(low)),
                                                    std::max<int64_t>(1, std::llround(high))));
    }
};

std::vector<WorkItem> make_random(Maker& maker) {
    std::vector<WorkItem> items(static_cast<size_t>(maker.options.num_prompts));
    for (WorkItem& item : items) {
        item.prompt_ids = maker.ids(maker.length(maker.options.input_len));
        item.num_output_tokens = maker.length(maker.options.output_len);
    }
    return items;
}

std::vector<WorkItem> make_prefix_repetition(Maker& maker) {
    std::vector<std::vector<int32_t>> prefixes;
    for (int32_t i = 0; i < maker.options.num_prefixes; ++i) {
        prefixes.push_back(maker.ids(maker.options.prefix_len));
    }
    std::vector<WorkItem> items(static_cast<size_t>(maker.options.num_prompts));
    for (size_t i = 0; i < items.size(); ++i) {
        items[i].prompt_ids = prefixes[i % prefixes.size()];
        const std::vector<int32_t> rest = maker.ids(maker.length(maker.options.input_len));
        items[i].prompt_ids.insert(items[i].prompt_ids.end(), rest.begin(), rest.end());
        items[i].num_output_tokens = maker.length(maker.options.output_len);
    }
    return items;
}

// github.com/GeeeekExplorer/nano-vllm, bench.py.
std::vector<WorkItem> make_nano_vllm(Maker& maker) {
    std::vector<WorkItem> items(256);
    for (WorkItem& item : items) {
        item.prompt_ids = maker.ids(maker.lengths.between(100, 1024));
        item.num_output_tokens = static_cast<int32_t>(maker.lengths.between(100, 1024));
    }
    return items;
}

WorkItem read_line(const JsonRecord& record, const Maker& maker) {
    WorkItem item;
    item.ignore_eos = record.boolean_or("ignore_eos", false);
    item.num_output_tokens = static_cast<int32_t>(record.integer_or(
        "max_tokens", record.integer_or("output_len", maker.options.output_len, 1, INT32_MAX), 1,
        INT32_MAX));
    if (record.has("prompt_token_ids")) {
        item.prompt_ids = record.ids("prompt_token_ids", maker.vocabulary.size);
        return item;
    }
    item.text = record.text("prompt");
    if (maker.vocabulary.tokenizer == nullptr) {
        record.fail("\"prompt\" is text, and the model has no tokenizer; give prompt_token_ids");
    }
    item.prompt_ids = maker.vocabulary.tokenizer->encode(item.text);
    return item;
}

std::vector<WorkItem> make_jsonl(Maker& maker) {
    if (!maker.options.path) {
        throw Error(ErrorKind::usage, "--dataset-name jsonl needs --dataset-path FILE");
    }
    std::vector<WorkItem> items;
    for (const JsonRecord& record : read_json_records(*maker.options.path)) {
        items.push_back(read_line(record, maker));
        if (items.size() == static_cast<size_t>(maker.options.num_prompts)) break;
    }
    if (items.empty()) {
        throw Error(ErrorKind::bad_data, maker.options.path->string() + ": no request in it");
    }
    return items;
}

struct DatasetRow {
    const char* name;
    std::vector<WorkItem> (*make)(Maker&);
};
constexpr std::array kDatasets = {DatasetRow{"random", make_random},
                                  DatasetRow{"jsonl", make_jsonl},
                                  DatasetRow{"prefix_repetition", make_prefix_repetition},
                                  DatasetRow{"nano-vllm", make_nano_vllm}};

}  // namespace

std::span<const char* const> dataset_names() {
    static const auto names = [] {
        std::array<const char*, kDatasets.size()> all{};
        for (size_t i = 0; i < all.size(); ++i) all[i] = kDatasets[i].name;
        return all;
    }();
    return names;
}

std::vector<WorkItem> make_workload(const WorkloadOptions& options, const TokenSource& vocabulary) {
    NVLLM_CHECK(vocabulary.size > 0, "a workload needs a vocabulary");
    Maker maker{options, vocabulary};
    for (const DatasetRow& row : kDatasets) {
        if (options.dataset == row.name) return row.make(maker);
    }
    throw Error(ErrorKind::usage, fmt::format("--dataset-name: '{}' is none of {}", options.dataset,
                                              fmt::join(dataset_names(), ", ")));
}

int64_t total_prompt_tokens(std::span<const WorkItem> items) {
    int64_t total = 0;
    for (const WorkItem& item : items) total += static_cast<int64_t>(item.prompt_ids.size());
    return total;
}

int64_t total_tokens(std::span<const WorkItem> items) {
    int64_t total = total_prompt_tokens(items);
    for (const WorkItem& item : items) total += item.num_output_tokens;
    return total;
}

}  // namespace nvllm
