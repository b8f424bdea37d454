// The checks of sampling parameters, by the list of their fields.
#include "lib/request/sampling_params.h"

#include <fmt/format.h>

#include <algorithm>
#include <concepts>
#include <string_view>

#include "lib/request/sampling_fields.h"

namespace nvllm {

// Converts to any member, to count the members of an aggregate.
struct AnyMember {
    template <typename T>
    operator T() const;
};

namespace {

using Response = std::optional<Fault>;

template <typename Struct, size_t... Indices>
constexpr bool has_members(std::index_sequence<Indices...>) {
    return requires { Struct{(static_cast<void>(Indices), AnyMember{})...}; };
}

template <typename Struct, size_t Count = 0>
constexpr size_t count_members() {
    if constexpr (has_members<Struct>(std::make_index_sequence<Count + 1>{})) {
        return count_members<Struct, Count + 1>();
    } else {
        return Count;
    }
}

static_assert(count_members<SamplingParams>() == std::tuple_size_v<decltype(kSamplingFields)>,
              "each member of SamplingParams has one row in kSamplingFields");

// "<field> <complaint>".
Fault refuse(std::string_view field, std::string_view complaint) {
    return {ErrorKind::bad_data, fmt::format("{} {}", field, complaint), std::string(field)};
}

std::string element(std::string_view field, size_t index) {
    return fmt::format("{}[{}]", field, index);
}

Response check_value(std::string_view field, int32_t value, const CountRange& range) {
    if (value >= range.min && value <= range.max) return std::nullopt;
    if (range.max == kUnboundedCount) {
        return refuse(field, fmt::format("is {}; it must be at least {}", value, range.min));
    }
    return refuse(field,
                  fmt::format("is {}; it must be from {} to {}", value, range.min, range.max));
}

// NaN is in no range.
Response check_value(std::string_view field, float value, const NumberRange& range) {
    const bool is_enough = range.excludes_min ? value > range.min : value >= range.min;
    if (is_enough && value <= range.max) return std::nullopt;
    const char* const bounds = range.excludes_min ? "is {}; it must be above {} and at most {}"
                                                  : "is {}; it must be from {} to {}";
    return refuse(field, fmt::format(fmt::runtime(bounds), value, range.min, range.max));
}

Response check_length(std::string_view field, size_t length, size_t max) {
    if (length <= max) return std::nullopt;
    return refuse(field, fmt::format("has {} entries; it must have at most {}", length, max));
}

// Checks one value by the limit of its field.
class Checker {
  public:
    explicit Checker(int32_t vocab_size) : vocab_size_(vocab_size) {}

    template <typename Member, typename Limit>
    Response check(std::string_view field, const std::optional<Member>& value,
                   const Limit& limit) const {
        return value ? check(field, *value, limit) : std::nullopt;
    }

    template <typename Member, typename Limit>
    requires std::same_as<Limit, CountRange> || std::same_as<Limit, NumberRange> Response
    check(std::string_view field, Member value, const Limit& limit)
    const { return check_value(field, value, limit); }

    Response check(std::string_view field, int32_t token, const TokenId&) const {
        return check_token(element(field, 0), token);
    }

    Response check(std::string_view field, const std::vector<int32_t>& tokens,
                   const TokenIds& limit) const {
        const size_t max =
            limit.max_count == 0 ? static_cast<size_t>(vocab_size_) : limit.max_count;
        if (auto fault = check_length(field, tokens.size(), max)) return fault;
        return check_tokens(field, tokens);
    }

    Response check(std::string_view field, const std::vector<std::vector<int32_t>>& sequences,
                   const TokenSequences& limit) const {
        if (auto fault = check_length(field, sequences.size(), limit.max_count)) return fault;
        for (size_t i = 0; i < sequences.size(); ++i) {
            const std::string name = element(field, i);
            if (sequences[i].empty()) return refuse(name, "has no tokens");
            if (auto fault = check_length(name, sequences[i].size(), limit.max_tokens))
                return fault;
            if (auto fault = check_tokens(name, sequences[i])) return fault;
        }
        return std::nullopt;
    }

    Response check(std::string_view field, const std::vector<std::pair<int32_t, float>>& biases,
                   const TokenBiases& limit) const {
        if (auto fault = check_length(field, biases.size(), limit.max_count)) return fault;
        for (size_t i = 0; i < biases.size(); ++i) {
            const std::string name = element(field, i);
            if (auto fault = check_token(name, biases[i].first)) return fault;
            if (auto fault = check_value(name, biases[i].second, limit.bias)) return fault;
        }
        return std::nullopt;
    }

    Response check(std::string_view field, const std::vector<std::string>& texts,
                   const Texts& limit) const {
        if (auto fault = check_length(field, texts.size(), limit.max_count)) return fault;
        size_t num_bytes = 0;
        for (size_t i = 0; i < texts.size(); ++i) {
            const size_t length = texts[i].size();
            num_bytes += length;
            if (length >= 1 && length <= limit.max_bytes) continue;
            return refuse(
                element(field, i),
                fmt::format("is {} bytes long; it must be from 1 to {}", length, limit.max_bytes));
        }
        if (num_bytes <= limit.max_total_bytes) return std::nullopt;
        return refuse(field, fmt::format("has {} bytes in all; it must have at most {}", num_bytes,
                                         limit.max_total_bytes));
    }

    Response check(std::string_view field, const std::vector<std::string>& names,
                   const SamplerNames&) const {
        for (auto name = names.begin(); name != names.end(); ++name) {
            std::string complaint;
            if (std::ranges::find(kNarrowingSamplers, *name) == kNarrowingSamplers.end()) {
                complaint = fmt::format("is not one of {}", fmt::join(kNarrowingSamplers, ", "));
            } else if (std::find(names.begin(), name, *name) != name) {
                complaint = "comes twice";
            }
            if (complaint.empty()) continue;
            return Fault{ErrorKind::bad_data, fmt::format("{}: '{}' {}", field, *name, complaint),
                         std::string(field)};
        }
        return std::nullopt;
    }

    Response check(std::string_view field, const EndBoost& boost,
                   const EndBoostRange& range) const {
        if (auto fault = check_value(element(field, 0), boost.start, range.start)) return fault;
        return check_value(element(field, 1), boost.factor, range.factor);
    }

  private:
    Response check_token(std::string_view field, int32_t token) const {
        if (token >= 0 && token < vocab_size_) return std::nullopt;
        return refuse(field,
                      fmt::format("is token {}; it must be from 0 to {}", token, vocab_size_ - 1));
    }

    Response check_tokens(std::string_view field, const std::vector<int32_t>& tokens) const {
        for (size_t i = 0; i < tokens.size(); ++i) {
            if (auto fault = check_token(element(field, i), tokens[i])) return fault;
        }
        return std::nullopt;
    }

    int32_t vocab_size_;
};

// The range of a count, if another field bounds it.
CountRange narrowed(CountRange range, std::string_view field, const SamplingParams& params) {
    if (field == "best_of") range.min = params.n;
    if (field == "min_tokens") range.max = params.max_tokens.value_or(range.max);
    return range;
}

Response check_beams(const SamplingParams& params) {
    if (!params.use_beam_search) return std::nullopt;
    Response fault;
    all_sampling_fields([&](const auto& field) {
        if (!field.traits.excludes_beams || field.is_default(params)) return true;
        fault = refuse(field.name, "cannot be combined with use_beam_search");
        return false;
    });
    return fault;
}

}  // namespace

void SamplingParams::bound_min_tokens() {
    min_tokens = std::min(min_tokens, max_tokens.value_or(min_tokens));
}

std::optional<Fault> SamplingParams::check(int32_t vocab_size) const {
    if (auto fault = check_beams(*this)) return fault;
    if (auto fault = check_counts()) return fault;
    const Checker checker(vocab_size);
    Response fault;
    all_sampling_fields([&](const auto& field) {
        if constexpr (!has_limit<AnyValue, decltype(field)>() &&
                      !has_limit<CountRange, decltype(field)>()) {
            fault = checker.check(field.name, this->*field.member, field.limit);
        }
        return !fault;
    });
    return fault;
}

std::optional<Fault> SamplingParams::check_counts() const {
    const Checker checker(0);
    Response fault;
    all_sampling_fields([&](const auto& field) {
        if constexpr (has_limit<CountRange, decltype(field)>()) {
            fault = checker.check(field.name, this->*field.member,
                                  narrowed(field.limit, field.name, *this));
        }
        return !fault;
    });
    return fault;
}

}  // namespace nvllm
