// Flags of sampling parameters: their bounds, and what they change of a model's defaults.
#include "lib/engine/options/sampling_options.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "lib/cli/options.h"
#include "lib/request/sampling_fields.h"
#include "tests/error_of.h"

using namespace nvllm;

namespace {

struct Sample {
    SamplingFlags flags;
    OptionList<SamplingFlags> list = sampling_options();
    OptionSet options;

    Sample() { options.add(list, flags); }

    void set(const std::string& name, const std::vector<std::string>& texts) {
        options.find(name)->set(texts, OptionOrigin::flag, "--" + name, ErrorKind::usage);
    }
    // The error of a value that is refused at the flag.
    std::string refusal(const std::string& name, const std::string& text) {
        return test::error_of(ErrorKind::usage, [&] { set(name, {text}); });
    }
};

}  // namespace

TEST_CASE("sampling options: a value out of range is refused at the flag, with the range") {
    Sample sample;
    CHECK(sample.refusal("top-p", "0") == "--top-p: '0' is not a number above 0 and at most 1");
    CHECK(sample.refusal("repetition-penalty", "0") ==
          "--repetition-penalty: '0' is not a number above 0 and at most 10");
    CHECK(sample.refusal("temperature", "3") == "--temperature: '3' is not a number from 0 to 2");
    CHECK(sample.refusal("top-k", "-1") == "--top-k: '-1' is not a whole number, at least 0");
    CHECK(sample.refusal("n", "129") == "--n: '129' is not a whole number from 1 to 128");
    CHECK(sample.refusal("samplers", "mirostat")
              .starts_with("--samplers: 'mirostat' is not one of temperature, top_n_sigma"));
    CHECK(sample.refusal("early-stopping", "maybe") ==
          "--early-stopping: 'maybe' is not one of no, yes, never");
    CHECK(sample.refusal("stop-token-ids", "-1").find("at least 0") != std::string::npos);
    CHECK(sample.refusal("logit-bias", "5") ==
          "--logit-bias: '5' is not ID+BIAS or ID-BIAS with a bias from -100 to 100, such as "
          "15043+1.5");
    CHECK(!sample.refusal("logit-bias", "5+101").empty());
    CHECK(sample.flags.given.empty());
}

TEST_CASE("sampling options: only what was given replaces the model's defaults") {
    SamplingParams defaults;
    defaults.temperature = 0.6f;
    defaults.top_p = 0.9f;
    defaults.min_tokens = 7;
    defaults.logit_bias = {{1, 2.0f}};
    defaults.stop = {"model"};
    Sample sample;
    CHECK(sample.flags.over(defaults).top_p == 0.9f);
    sample.set("temperature", {"1"});
    sample.set("max-tokens", {"5"});
    sample.set("logit-bias", {"3+1.5", "4-2"});
    sample.set("stop", {"a", "b"});
    sample.set("samplers", {"top_p", "temperature"});
    sample.set("early-stopping", {"never"});
    const SamplingParams params = sample.flags.over(defaults);
    CHECK(params.temperature == 1.0f);
    CHECK(params.top_p == 0.9f);
    CHECK(params.max_tokens == 5);
    CHECK(params.min_tokens == 5);
    CHECK(params.logit_bias ==
          std::vector<std::pair<int32_t, float>>{{1, 2.0f}, {3, 1.5f}, {4, -2.0f}});
    CHECK(params.stop == std::vector<std::string>{"a", "b"});
    CHECK(params.sampler_order == std::vector<std::string>{"top_p", "temperature"});
    CHECK(params.early_stopping == EarlyStopping::never);
    sample.set("min-tokens", {"6"});
    CHECK(sample.flags.over(defaults).min_tokens == 6);
}

TEST_CASE("sampling options: what was not given has no value, and the default as a text") {
    Sample sample;
    const BoundOption& temperature = *sample.options.find("temperature");
    CHECK(temperature.texts().empty());
    CHECK(temperature.default_text() == "1");
    CHECK(sample.options.find("seed")->default_text() == "random");
    CHECK(sample.options.find("skip-special-tokens")->default_text() == "true");
    CHECK(sample.options.find("early-stopping")->default_text() == "no");
    sample.set("logit-bias", {"3+1.5", "4-2"});
    CHECK(sample.options.find("logit-bias")->texts() == std::vector<std::string>{"3+1.5", "4-2"});
}

TEST_CASE("sampling options: each field has its flag, or says that it has none") {
    Sample sample;
    visit_sampling_fields([&](const auto& field) {
        CAPTURE(std::string(field.name));
        CHECK((sample.options.find(field.name) != nullptr) == field.traits.flag.exists);
    });
}
