// Classes and their function, as transformers and sentence-transformers write them.
#include "lib/checkpoint/label_config.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "kernels/error.h"

namespace nvllm {
namespace {

using nlohmann::json;
using Labels = std::vector<std::string>;

LabelConfig read(const json& object) { return read_label_config(ConfigFields(object, "file")); }

TEST_CASE("labels: their names and number") {
    CHECK(read(json::object()).labels == Labels{"LABEL_0", "LABEL_1"});
    CHECK(read({{"num_labels", 1}}).labels == Labels{"LABEL_0"});
    CHECK(read({{"id2label", {{"0", "no"}, {"1", "maybe"}, {"2", "yes"}}}}).labels ==
          Labels{"no", "maybe", "yes"});
    CHECK(read({{"id2label", {{"0", 7}, {"x", "y"}}}}).labels == Labels{"LABEL_0", "LABEL_1"});
    CHECK_THROWS_AS(read({{"num_labels", 0}}), Error);
}

TEST_CASE("labels: the function is what the files say, else by the number of classes") {
    const auto function = [](const json& changes) {
        json object = {{"num_labels", 1}};
        object.update(changes);
        return read(object).function;
    };
    CHECK(function(json::object()) == LabelFunction::sigmoid);
    CHECK(function({{"num_labels", 3}}) == LabelFunction::softmax);
    CHECK(function({{"problem_type", "regression"}}) == LabelFunction::none);
    CHECK(function({{"problem_type", "multi_label_classification"}, {"num_labels", 3}}) ==
          LabelFunction::sigmoid);
    CHECK(function({{"problem_type", "single_label_classification"}}) == LabelFunction::sigmoid);
    constexpr const char* kIdentity = "torch.nn.modules.linear.Identity";
    CHECK(function({{"sbert_ce_default_activation_function", kIdentity}}) == LabelFunction::none);
    CHECK(function({{"sentence_transformers", {{"activation_fn", kIdentity}}}}) ==
          LabelFunction::none);
    CHECK(function({{"sentence_transformers",
                     {{"activation_fn", "torch.nn.modules.activation.Sigmoid"}}},
                    {"num_labels", 2}}) == LabelFunction::sigmoid);
    CHECK(function({{"sentence_transformers", {{"version", "4.1.0"}}}}) == LabelFunction::sigmoid);
}

TEST_CASE("labels: functions that are not built are refused by name") {
    for (const char* name : {"torch.nn.modules.activation.Tanh", "os.system", "my.Sigmoid"}) {
        CAPTURE(name);
        CHECK_THROWS_WITH_AS(read({{"sbert_ce_default_activation_function", name}}),
                             doctest::Contains(name), Error);
    }
    CHECK_THROWS_WITH_AS(read({{"problem_type", "ranking"}}), doctest::Contains("ranking"), Error);
}

}  // namespace
}  // namespace nvllm
