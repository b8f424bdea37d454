// Flags of sampling parameters: names, bounds and how their values are written.
#include "lib/engine/options/sampling_options.h"

#include <fmt/format.h>

#include <algorithm>

#include "lib/request/sampling_fields.h"

namespace nvllm {

// "123+1.5" or "123-2": a token id and the number that is added to its logit.
template <>
struct OptionType<std::pair<int32_t, float>> {
    using Bias = std::pair<int32_t, float>;
    static constexpr OptionKind kind = OptionKind::text;
    static constexpr NumberRange kRange =
        std::get<SamplingField<std::vector<Bias>, TokenBiases>>(kSamplingFields).limit.bias;

    static std::optional<Bias> parse(const OptionField&, const std::string& text) {
        const size_t sign = text.find_first_of("+-", 1);
        if (sign == std::string::npos) return std::nullopt;
        const auto id = parse_integer<int32_t>(text.substr(0, sign));
        const auto bias = parse_number(text.substr(text[sign] == '+' ? sign + 1 : sign));
        if (!id || !bias || *bias < kRange.min || *bias > kRange.max) return std::nullopt;
        return Bias(*id, static_cast<float>(*bias));
    }
    static std::string format(const OptionField&, const Bias& bias) {
        const std::string amount = format_value(bias.second);
        return std::to_string(bias.first) + (amount.starts_with('-') ? "" : "+") + amount;
    }
};

namespace {

using List = OptionList<SamplingParams>;

std::string flag_name(std::string_view field) {
    std::string name(field);
    std::ranges::replace(name, '_', '-');
    return name;
}

OptionDetail traits_of(const FlagTraits& flag) {
    return [flag](OptionField& field) {
        if (flag.letter != 0) field.short_name = flag.letter;
        for (const std::string_view alias : flag.aliases) {
            if (!alias.empty()) field.aliases.emplace_back(alias);
        }
        field.value_name = flag.value_name;
        field.default_text = flag.default_text;
    };
}

// A field as arguments of OptionList::add().
template <typename Field, typename... Details>
void add_field(List& list, const Field& field, const Details&... details) {
    list.add(flag_name(field.name), field.member, std::string(field.help),
             traits_of(field.traits.flag), details...);
}

template <typename Member>
void add_flag(List& list, const SamplingField<Member, AnyValue>& field) {
    add_field(list, field);
}

void add_flag(List& list, const SamplingField<EarlyStopping, AnyValue>& field) {
    list.add_choice(
        flag_name(field.name), field.member, std::string(field.help),
        std::vector<std::pair<std::string, EarlyStopping>>{{"no", EarlyStopping::no},
                                                           {"yes", EarlyStopping::yes},
                                                           {"never", EarlyStopping::never}},
        traits_of(field.traits.flag));
}

template <typename Member>
void add_flag(List& list, const SamplingField<Member, CountRange>& field) {
    const CountRange& counts = field.limit;
    if (counts.max == kUnboundedCount) {
        add_field(list, field, at_least(counts.min));
    } else {
        add_field(list, field, range(counts.min, counts.max));
    }
}

template <typename Member>
void add_flag(List& list, const SamplingField<Member, NumberRange>& field) {
    const NumberRange& numbers = field.limit;
    if (numbers.excludes_min) {
        add_field(list, field, above(numbers.min, numbers.max));
    } else {
        add_field(list, field, range(numbers.min, numbers.max));
    }
}

template <typename Member>
void add_flag(List& list, const SamplingField<Member, TokenId>& field) {
    add_field(list, field, at_least(0));
}

template <typename Member>
void add_flag(List& list, const SamplingField<Member, TokenIds>& field) {
    add_field(list, field, at_least(0));
}

template <typename Member>
void add_flag(List& list, const SamplingField<Member, TokenBiases>& field) {
    const NumberRange& bias = field.limit.bias;
    add_field(list, field,
              form(fmt::format("ID+BIAS or ID-BIAS with a bias from {} to {}, such as 15043+1.5",
                               bias.min, bias.max)));
}

template <typename Member>
void add_flag(List& list, const SamplingField<Member, Texts>& field) {
    add_field(list, field, refuses_empty());
}

template <typename Member>
void add_flag(List& list, const SamplingField<Member, SamplerNames>& field) {
    add_field(
        list, field,
        choices(std::vector<std::string>(kNarrowingSamplers.begin(), kNarrowingSamplers.end())));
}

// These have no form for a command line yet: their rows say that no flag exists.
template <typename Member>
void add_flag(List&, const SamplingField<Member, TokenSequences>&) {}
template <typename Member>
void add_flag(List&, const SamplingField<Member, EndBoostRange>&) {}

// The same option of a command line, which records whether it was given.
TypedOptionField recorded(TypedOptionField option) {
    const auto set = option.set;
    const auto get = option.get;
    OptionField& described = option.field;
    if (described.default_text.empty()) {
        described.default_text =
            fmt::format("{}", fmt::join(get(described, &initial_sampling()), ", "));
    }
    described.is_optional = !described.is_list;
    option.set = [set](const OptionField& field, void* object, std::span<const std::string> texts) {
        auto* flags = static_cast<SamplingFlags*>(object);
        auto wrong = set(field, &flags->params, texts);
        if (!wrong) flags->given.insert(field.name);
        return wrong;
    };
    option.get = [get](const OptionField& field, const void* object) {
        const auto* flags = static_cast<const SamplingFlags*>(object);
        return flags->given.contains(field.name) ? get(field, &flags->params)
                                                 : std::vector<std::string>();
    };
    return option;
}

template <typename Member>
void merge_into(Member& target, const Member& given) {
    target = given;
}
void merge_into(std::vector<std::pair<int32_t, float>>& target,
                const std::vector<std::pair<int32_t, float>>& given) {
    target.insert(target.end(), given.begin(), given.end());
}

}  // namespace

OptionList<SamplingFlags> sampling_options() {
    List params("sampling");
    params.group("Sampling (defaults are the model's generation_config.json, else those of vLLM)");
    visit_sampling_fields([&](const auto& field) {
        if (field.traits.flag.exists) add_flag(params, field);
    });
    OptionList<SamplingFlags> list("sampling");
    for (const TypedOptionField& option : params.fields()) list.add(recorded(option));
    return list;
}

SamplingParams SamplingFlags::over(SamplingParams defaults) const {
    SamplingParams sampling = std::move(defaults);
    visit_sampling_fields([&](const auto& field) {
        if (given.contains(flag_name(field.name))) {
            merge_into(sampling.*field.member, params.*field.member);
        }
    });
    if (!given.contains("min-tokens")) sampling.bound_min_tokens();
    return sampling;
}

}  // namespace nvllm
