// The records for the ops, and the results of the ops.
#include "lib/decode/device_sampler.h"

#include <algorithm>
#include <limits>
#include <optional>

#include "kernels/ops/backend_ops.h"
#include "kernels/ops/sampling.h"
#include "lib/decode/logits_processors.h"
#include "lib/decode/logprobs.h"
#include "lib/request/sampling_fields.h"

namespace nvllm {
namespace {

constexpr size_t kAlignment = 64;
constexpr float kForbidden = -std::numeric_limits<float>::infinity();

// Pinned host memory and device memory with the same layout.
class StagingBuffer {
  public:
    explicit StagingBuffer(const ComputeDevice& device) : device_(device) {}

    // Discards the contents; `bytes` of records will follow, each list rounded up.
    void begin(size_t bytes) {
        used_ = 0;
        if (bytes <= capacity_) return;
        capacity_ = 2 * bytes;
        host_ = device_.allocate_host(capacity_);
        device_memory_ = device_.allocate(capacity_);
    }
    static size_t padded(size_t bytes) {
        return (bytes + kAlignment - 1) / kAlignment * kAlignment;
    }
    // The offset of the next `bytes`.
    size_t take(size_t bytes) {
        const size_t offset = used_;
        used_ += padded(bytes);
        NVLLM_CHECK(used_ <= capacity_, "more records than were announced");
        return offset;
    }
    std::byte* host(size_t offset) const { return host_.get() + offset; }
    std::byte* there(size_t offset) const { return device_memory_.get() + offset; }
    // The host's address of an address on the device.
    template <typename T>
    const T* host_of(const void* memory) const {
        const auto offset = static_cast<const std::byte*>(memory) - device_memory_.get();
        return reinterpret_cast<const T*>(host_.get() + offset);
    }

    void send(void* stream) { device_.copy_in(stream, device_memory_.get(), host_.get(), used_); }
    void fetch(void* stream) { device_.copy_out(stream, host_.get(), device_memory_.get(), used_); }

  private:
    ComputeDevice device_;
    DeviceMemory host_;  // pinned
    DeviceMemory device_memory_;
    size_t capacity_ = 0;
    size_t used_ = 0;
};

ops::SamplingRow row_of(const SequenceSamplingState& state) {
    const SamplingParams& params = state.params();
    return {state.seed(),
            static_cast<uint32_t>(state.num_generated()),
            static_cast<uint32_t>(state.continuation_index()),
            params.temperature,
            params.top_p,
            params.min_p,
            params.top_k};
}

bool has_repeated_tokens(const std::vector<std::pair<int32_t, float>>& biases) {
    std::vector<int32_t> tokens;
    for (const auto& [token, bias] : biases) tokens.push_back(token);
    std::sort(tokens.begin(), tokens.end());
    return std::adjacent_find(tokens.begin(), tokens.end()) != tokens.end();
}

// Whether all values that are not the default have at least this support.
bool are_sampled_by(SampledBy support, const SamplingParams& params) {
    return all_sampling_fields([&](const auto& field) {
        return field.traits.sampled_by >= support || field.is_default(params);
    });
}

// The changes of some rows' logits before a token is chosen.
struct Changes {
    std::vector<ops::LogitBias> biases;
    std::vector<ops::SeenScore> seen;
    std::vector<ops::LogitPenalties> penalties;  // one a row
    bool forbids_all_but_some = false;

    bool any() const { return forbids_all_but_some || !biases.empty() || !seen.empty(); }
    void clear() {
        biases.clear();
        seen.clear();
        penalties.clear();
        forbids_all_but_some = false;
    }
};

// A forbidden token gets no bias: it stays forbidden.
void add_biases(const SequenceSamplingState& state, int32_t row, std::vector<int32_t>& forbidden,
                std::vector<ops::LogitBias>& biases) {
    forbidden.clear();
    const auto forbid = [&](int32_t token) { forbidden.push_back(token); };
    visit_ends_of_bad_words(state, forbid);
    visit_early_ends(state, forbid);
    std::sort(forbidden.begin(), forbidden.end());
    forbidden.erase(std::unique(forbidden.begin(), forbidden.end()), forbidden.end());
    for (const int32_t token : forbidden) biases.push_back({row, token, kForbidden});
    for (const auto& [token, bias] : state.params().logit_bias) {
        if (std::binary_search(forbidden.begin(), forbidden.end(), token)) continue;
        biases.push_back({row, token, bias});
    }
}

void add_changes(const SequenceSamplingState& state, int32_t row, std::vector<int32_t>& forbidden,
                 Changes& changes) {
    const SamplingParams& params = state.params();
    changes.forbids_all_but_some |= !params.allowed_token_ids.empty();
    add_biases(state, row, forbidden, changes.biases);
    changes.penalties.push_back(
        {params.repetition_penalty, params.frequency_penalty, params.presence_penalty});
    for (const SeenToken& seen : state.counts().tokens()) {
        changes.seen.push_back({row, seen.token_id, seen.num_generated});
    }
}

// One bit a token: all of those without a list and a mask.
void write_allowed(const SequenceSamplingState& state, std::span<const uint32_t> mask,
                   int64_t vocab, std::span<uint32_t> words) {
    const std::vector<int32_t>& allowed = state.allowed_token_ids();
    std::fill(words.begin(), words.end(), allowed.empty() ? ~0u : 0u);
    for (const int32_t token : allowed) {
        if (token < 0 || token >= vocab) continue;
        words[static_cast<size_t>(token) / 32] |= 1u << (token % 32);
    }
    for (size_t i = 0; i < mask.size(); ++i) words[i] &= mask[i];
}

// Of each row, or none.
using TokenMasks = std::span<const std::span<const uint32_t>>;

template <typename Record>
size_t bytes_of(const std::vector<Record>& records) {
    return records.size() * sizeof(Record);
}

}  // namespace

struct DeviceSampler::Part {
    explicit Part(const ComputeDevice& chosen) : device(chosen), sent(chosen), got(chosen) {}

    template <typename Record>
    ConstTensorView put(const std::vector<Record>& records) {
        if (records.empty()) return {};
        const size_t place = sent.take(bytes_of(records));
        std::copy_n(reinterpret_cast<const std::byte*>(records.data()), bytes_of(records),
                    sent.host(place));
        return {sent.there(place),
                DType::u8,
                {std::ssize(records), static_cast<int64_t>(sizeof(Record))},
                device.id()};
    }
    TensorView take(DType dtype, std::initializer_list<int64_t> shape) {
        const ViewLayout layout = ViewLayout::dense(dtype, shape, device.id());
        return {got.there(got.take(static_cast<size_t>(layout.numel()) * dtype_bytes(dtype))),
                layout};
    }
    template <typename T>
    T value(const TensorView& results, size_t index) const {
        return got.host_of<T>(results.data)[index];
    }

    void list(std::span<const SequenceSamplingState* const> states,
              std::span<const uint8_t> expecting, TokenMasks masks);
    // Sends the records of `states`; the views lie on the device.
    void send(const Context& context, std::span<const SequenceSamplingState* const> states,
              std::span<const uint8_t> expecting, TokenMasks masks, int64_t vocab);
    ConstTensorView put_allowed(std::span<const SequenceSamplingState* const> states,
                                TokenMasks masks, int64_t vocab);
    void take_results();
    Result<SampledToken> result(size_t row) const;
    SampledLogprobs logprobs_of(size_t row, int32_t token) const;

    ComputeDevice device;
    StagingBuffer sent;
    StagingBuffer got;
    std::vector<ops::SamplingRow> rows;
    std::vector<ops::SamplingRow> greedy;
    std::vector<int32_t> forbidden;
    Changes changes;
    std::vector<std::optional<int32_t>> num_top;  // of each row that reports logprobs
    bool wants_logprobs = false;
    int32_t most_top = 0;

    ConstTensorView rows_view, greedy_view;
    ops::LogitsAdjustments changes_view;
    TensorView tokens, best, logprobs, ranks, top_tokens, top_logprobs;
};

void DeviceSampler::Part::list(std::span<const SequenceSamplingState* const> states,
                               std::span<const uint8_t> expecting, TokenMasks masks) {
    rows.clear();
    num_top.clear();
    changes.clear();
    wants_logprobs = false;
    most_top = 0;
    for (const SequenceSamplingState* state : states) {
        add_changes(*state, static_cast<int32_t>(rows.size()), forbidden, changes);
        const size_t row = rows.size();
        rows.push_back(row_of(*state));
        rows.back().num_generated += expecting.empty() ? 0 : expecting[row];
        num_top.push_back(state->params().logprobs);
        wants_logprobs |= num_top.back().has_value();
        most_top = std::max(most_top, num_top.back().value_or(0));
    }
    for (const auto& mask : masks) changes.forbids_all_but_some |= !mask.empty();
    // Greedy choice of the rows as the model gave them tells whether they are numbers.
    greedy.assign(changes.any() ? rows.size() : 0, ops::SamplingRow{.temperature = 0.0f});
}

ConstTensorView DeviceSampler::Part::put_allowed(
    std::span<const SequenceSamplingState* const> states, TokenMasks masks, int64_t vocab) {
    const auto words = static_cast<size_t>((vocab + 31) / 32);
    const size_t place = sent.take(states.size() * words * sizeof(uint32_t));
    auto* const bits = reinterpret_cast<uint32_t*>(sent.host(place));
    for (size_t row = 0; row < states.size(); ++row) {
        const std::span<const uint32_t> mask =
            masks.empty() ? std::span<const uint32_t>() : masks[row];
        write_allowed(*states[row], mask, vocab, {bits + row * words, words});
    }
    return {sent.there(place),
            DType::u32,
            {std::ssize(states), static_cast<int64_t>(words)},
            device.id()};
}

void DeviceSampler::Part::send(const Context& context,
                               std::span<const SequenceSamplingState* const> states,
                               std::span<const uint8_t> expecting, TokenMasks token_masks,
                               int64_t vocab) {
    list(states, expecting, token_masks);
    const auto words = static_cast<size_t>((vocab + 31) / 32);
    const size_t masks =
        changes.forbids_all_but_some ? states.size() * words * sizeof(uint32_t) : 0;
    sent.begin(masks + bytes_of(rows) + bytes_of(greedy) + bytes_of(changes.biases) +
               bytes_of(changes.seen) + bytes_of(changes.penalties) + 6 * kAlignment);
    rows_view = put(rows);
    greedy_view = put(greedy);
    changes_view = {};
    changes_view.biases = put(changes.biases);
    changes_view.seen = put(changes.seen);
    if (!changes.seen.empty()) changes_view.penalties = put(changes.penalties);
    if (changes.forbids_all_but_some) {
        changes_view.allowed = put_allowed(states, token_masks, vocab);
    }
    sent.send(context.stream);
}

void DeviceSampler::Part::take_results() {
    const auto count = static_cast<int64_t>(rows.size());
    got.begin(static_cast<size_t>(count * (4 + 2 * most_top)) * sizeof(int32_t) + 6 * kAlignment);
    tokens = take(DType::i32, {count});
    if (changes.any()) best = take(DType::i32, {count});
    if (!wants_logprobs) return;
    logprobs = take(DType::f32, {count});
    ranks = take(DType::i32, {count});
    top_tokens = take(DType::i32, {count, most_top});
    top_logprobs = take(DType::f32, {count, most_top});
}

SampledLogprobs DeviceSampler::Part::logprobs_of(size_t row, int32_t token) const {
    SampledLogprobs found;
    found.chosen = {token, std::max(value<float>(logprobs, row), kLowestLogprob)};
    found.rank = value<int32_t>(ranks, row);
    const size_t first = row * static_cast<size_t>(most_top);
    for (size_t i = 0; i < static_cast<size_t>(*num_top[row]); ++i) {
        const auto id = value<int32_t>(top_tokens, first + i);
        if (id == ops::kNoToken) break;
        found.top.push_back({id, std::max(value<float>(top_logprobs, first + i), kLowestLogprob)});
    }
    return found;
}

Result<SampledToken> DeviceSampler::Part::result(size_t row) const {
    if (changes.any() && value<int32_t>(best, row) == ops::kNoToken) return not_numbers();
    const auto token = value<int32_t>(tokens, row);
    if (token == ops::kNoToken) return changes.any() ? no_token_left() : not_numbers();
    SampledToken sampled{token, std::nullopt};
    if (num_top[row]) sampled.logprobs = logprobs_of(row, token);
    return sampled;
}

DeviceSampler::DeviceSampler(const ComputeDevice& device) : device_(device) {}
DeviceSampler::~DeviceSampler() = default;

bool DeviceSampler::is_possible_on(const ComputeDevice& device) {
    if (device.is_cpu()) return true;
    const BackendOps& ops = *device.backend()->ops;
    return ops.change_scores != nullptr && ops.sample != nullptr && ops.logprobs != nullptr;
}

bool DeviceSampler::can_sample(const SamplingParams& params) {
    return are_sampled_by(SampledBy::device, params) &&
           params.logprobs.value_or(0) <= ops::kMaxTopLogprobs &&
           !has_repeated_tokens(params.logit_bias);
}

bool DeviceSampler::can_expect(const SamplingParams& params) {
    return can_sample(params) && are_sampled_by(SampledBy::device_ahead, params);
}

ConstTensorView DeviceSampler::kept_logits(const Context& context, const ConstTensorView& logits) {
    const size_t bytes = static_cast<size_t>(logits.numel()) * sizeof(float);
    void* const kept = context.scratch->take(bytes);
    if (!context.is_dry_run()) {
        ComputeDevice(context).copy_within(context.stream, kept, logits.data, bytes);
    }
    return {kept, logits};
}

DeviceSampler::Part& DeviceSampler::next_part() {
    if (num_parts_ == parts_.size()) parts_.push_back(std::make_unique<Part>(device_));
    return *parts_[num_parts_++];
}

void DeviceSampler::begin() { num_parts_ = 0; }

void DeviceSampler::sample(const Context& context,
                           std::span<const SequenceSamplingState* const> states,
                           const TensorView& logits, std::span<const uint8_t> expecting,
                           TokenMasks token_masks) {
    NVLLM_CHECK(std::ssize(states) == logits.dim(0) && logits.contiguous(),
                "a state for each of the rows, which lie one after another");
    Part& part = next_part();
    part.send(context, states, expecting, token_masks, logits.dim(1));
    part.take_results();
    const ScratchArena::Scope scope(*context.scratch);
    ConstTensorView given = logits;
    if (part.changes.any()) {
        ops::sample(context, logits, part.greedy_view, part.best);
        if (part.wants_logprobs) given = kept_logits(context, logits);
        ops::change_scores(context, part.changes_view, logits);
    }
    ops::sample(context, logits, part.rows_view, part.tokens);
    if (!part.wants_logprobs) return;
    ops::logprobs(context, given, part.tokens,
                  {part.logprobs, part.ranks, part.top_tokens, part.top_logprobs});
}

void DeviceSampler::fetch(const Context& context) {
    for (size_t i = 0; i < num_parts_; ++i) parts_[i]->got.fetch(context.stream);
}

const DeviceSampler::Part& DeviceSampler::part_of(size_t& index) const {
    size_t i = 0;
    while (i < num_parts_ && index >= parts_[i]->rows.size()) index -= parts_[i++]->rows.size();
    NVLLM_CHECK(i < num_parts_, "no row of this step");
    return *parts_[i];
}

const void* DeviceSampler::token_place(size_t index) const {
    const Part& part = part_of(index);
    return part.tokens.as<int32_t>() + index;
}

Result<SampledToken> DeviceSampler::result(size_t index) const {
    const Part& part = part_of(index);
    return part.result(index);
}

}  // namespace nvllm
