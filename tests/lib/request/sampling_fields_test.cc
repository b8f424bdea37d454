// The list of sampling fields: names, the order of the narrowing steps, and safe defaults of a row.
#include "lib/request/sampling_fields.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

namespace nvllm {
namespace {

TEST_CASE("sampling fields: no name or alias comes twice, and each has a help text") {
    std::set<std::string_view> names;
    std::set<std::string_view> flags;
    visit_sampling_fields([&](const auto& field) {
        CAPTURE(std::string(field.name));
        CHECK(names.insert(field.name).second);
        const std::string_view alias = field.traits.json_alias;
        CHECK((alias.empty() || names.insert(alias).second));
        CHECK(field.help.ends_with('.'));
        for (const std::string_view flag : field.traits.flag.aliases) {
            CHECK((flag.empty() || flags.insert(flag).second));
        }
    });
}

TEST_CASE("sampling fields: the usual order of the narrowing steps") {
    const std::vector<std::string_view> order(kNarrowingSamplers.begin(), kNarrowingSamplers.end());
    CHECK(order == std::vector<std::string_view>{"temperature", "top_n_sigma", "top_h", "top_k",
                                                 "top_p", "min_p", "typical_p", "epsilon_cutoff",
                                                 "eta_cutoff"});
}

TEST_CASE("sampling fields: a row that says nothing is sampled on the host and has a flag") {
    constexpr auto kField =
        sampling_field("top_p", &SamplingParams::top_p, NumberRange{}, "A help text.");
    CHECK(kField.traits.sampled_by == SampledBy::host);
    CHECK(!kField.traits.narrows);
    CHECK(kField.traits.flag.exists);
}

TEST_CASE("sampling fields: each is the default until its own member changes") {
    const auto changed = [](const SamplingParams& params) {
        std::vector<std::string_view> names;
        visit_sampling_fields([&](const auto& field) {
            if (!field.is_default(params)) names.push_back(field.name);
        });
        return names;
    };
    SamplingParams params;
    CHECK(changed(params).empty());
    params.min_p = 0.5f;
    CHECK(changed(params) == std::vector<std::string_view>{"min_p"});
    params.end_boost = EndBoost{};
    params.n = 2;
    CHECK(changed(params) ==
          std::vector<std::string_view>{"min_p", "exponential_decay_length_penalty", "n"});
}

}  // namespace
}  // namespace nvllm
