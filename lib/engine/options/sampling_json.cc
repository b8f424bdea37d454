// How JSON values become members of SamplingParams.
#include "lib/engine/options/sampling_json.h"

#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "kernels/error.h"
#include "lib/engine/options/json_values.h"
#include "lib/request/sampling_fields.h"

namespace nvllm {
namespace {

using namespace json_values;
using Json = nlohmann::ordered_json;

void read_into(bool& member, const Json& value, const AnyValue&) { member = read_bool(value); }

// A negative seed is another seed.
void read_into(uint64_t& member, const Json& value, const AnyValue&) {
    member =
        static_cast<uint64_t>(read_integer(value, std::numeric_limits<int64_t>::min(), INT64_MAX));
}

void read_into(EarlyStopping& member, const Json& value, const AnyValue&) {
    if (value.is_boolean()) {
        member = value.get<bool>() ? EarlyStopping::yes : EarlyStopping::no;
    } else if (value == "never") {
        member = EarlyStopping::never;
    } else {
        throw WrongValue{"true, false or \"never\""};
    }
}

void read_into(int32_t& member, const Json& value, const CountRange& range) {
    member = read_int32(value);
    if (range.minus_one_is_zero && member == -1) member = 0;
}

void read_into(float& member, const Json& value, const NumberRange&) { member = read_float(value); }

void read_into(int32_t& member, const Json& value, const TokenId&) { member = read_int32(value); }

void read_into(std::vector<int32_t>& member, const Json& value, const TokenIds& limit) {
    if (limit.takes_one && value.is_number()) {
        member = {read_int32(value)};
    } else {
        member = read_ids(value);
    }
}

void read_into(std::vector<std::pair<int32_t, float>>& member, const Json& value,
               const TokenBiases&) {
    const WrongValue wrong{"an object from token id to bias"};
    if (!value.is_object()) throw wrong;
    member.clear();
    for (const auto& [key, amount] : value.items()) {
        int32_t id = 0;
        const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), id);
        if (error != std::errc() || end != key.data() + key.size()) throw wrong;
        member.emplace_back(id, read_float(amount));
    }
}

void read_into(std::vector<std::string>& member, const Json& value, const Texts&) {
    if (value.is_string()) {
        member = {read_string(value)};
    } else {
        member = read_strings(value);
    }
}

void read_into(std::vector<std::string>& member, const Json& value, const SamplerNames&) {
    member = read_strings(value);
}

void read_into(EndBoost& member, const Json& value, const EndBoostRange&) {
    if (!value.is_array() || value.size() != 2) {
        throw WrongValue{"a list of a number of tokens and a factor"};
    }
    member = {read_int32(value[0]), read_float(value[1])};
}

void read_into(std::vector<std::vector<int32_t>>&, const Json&, const TokenSequences&) {
    throw Error(ErrorKind::internal, "texts were given for token sequences");
}

template <typename Member, typename Limit>
void read_into(std::optional<Member>& member, const Json& value, const Limit& limit) {
    Member read{};
    read_into(read, value, limit);
    member = std::move(read);
}

}  // namespace

std::vector<std::string_view> sampling_field_names() {
    std::vector<std::string_view> names;
    visit_sampling_fields([&](const auto& field) {
        names.push_back(field.name);
        if (!field.traits.json_alias.empty()) names.push_back(field.traits.json_alias);
    });
    return names;
}

bool read_sampling_field(std::string_view name, const Json& value, SamplingParams& sampling) {
    if (name == "logprobs" && value.is_boolean()) {
        // Completions give a count. Chats give true, and the count as top_logprobs.
        const int32_t count = sampling.logprobs.value_or(0);
        sampling.logprobs = value.get<bool>() ? std::optional(count) : std::nullopt;
        return true;
    }
    return !all_sampling_fields([&](const auto& field) {
        const std::string_view alias = field.traits.json_alias;
        if (field.name != name && (alias.empty() || alias != name)) return true;
        if (!value.is_null()) read_into(sampling.*field.member, value, field.limit);
        return false;
    });
}

}  // namespace nvllm
