// What recipes make of the bundled model's linears, and how its config says so.
#include "lib/quantize/linear_plan.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "kernels/host/thread_pool.h"
#include "tests/error_of.h"
#include "tests/lib/quantize/demo_runs.h"

namespace nvllm::quantize {
namespace {

struct Demo {
    ThreadPool threads{1};
    HookedModel model{test::demo_folder(), threads};

    std::string refusal(const std::string& yaml) {
        return test::error_of(ErrorKind::bad_data,
                              [&] { ModelPlan(test::recipe_in(yaml), model); });
    }
};

const char* const kDown = "model.layers.1.mlp.down_proj";

TEST_CASE("linears that two modifiers round in two ways are refused by name") {
    Demo demo;
    const std::string inputs = demo.refusal(
        "a_stage: {m: {QuantizationModifier: {config_groups: {g: {targets: [\"re:.*down_proj$\"], "
        "weights: {num_bits: 8, strategy: channel}}}}}}\n"
        "b_stage: {m: {QuantizationModifier: {scheme: W8A8, targets: [\"re:.*mlp.*\"]}}}\n");
    CHECK(inputs.find("model.layers.0.mlp.down_proj: two modifiers round it, rtn (") == 0);
    CHECK(inputs.find("rtn (W8A8)") != std::string::npos);
    CHECK(inputs.find("ignore") != std::string::npos);
    const std::string bits = demo.refusal(
        "a_stage: {m: {GPTQModifier: {scheme: W8A16, targets: [\"re:.*lm_head.*\"]}}}\n"
        "b_stage: {m: {GPTQModifier: {scheme: W4A16, targets: [\"re:.*\"]}}}\n");
    CHECK(bits.find("lm_head: two modifiers round it, gptq (W8A16) and then gptq (W4A16)") == 0);
    const std::string methods = demo.refusal(
        "a_stage: {m: {GPTQModifier: {scheme: W4A16, actorder: null, ignore: [lm_head]}}}\n"
        "b_stage: {m: {QuantizationModifier: {scheme: W4A16, ignore: [lm_head]}}}\n");
    CHECK(methods.find("gptq (W4A16) and then rtn (W4A16)") != std::string::npos);
}

TEST_CASE("methods in an order that cannot be kept are refused") {
    Demo demo;
    CHECK(demo.refusal("GPTQModifier: {scheme: W8A8, ignore: [lm_head]}\n"
                       "SmoothQuantModifier: {smoothing_strength: 0.5}\n")
              .find("smoothquant comes after gptq") == 0);
    CHECK(demo.refusal("GPTQModifier: {scheme: W4A16, ignore: [lm_head]}\n"
                       "SparseGPTModifier: {sparsity: 0.5}\n")
              .find("sparsegpt comes after gptq") != std::string::npos);
    CHECK(demo.refusal("MagnitudePruningModifier: {final_sparsity: 0.5}\n"
                       "AWQModifier: {scheme: W4A16, ignore: [lm_head]}\n")
              .find("awq comes after magnitude") == 0);
}

TEST_CASE("the config says what each linear is, inputs included, by names where patterns cannot") {
    Demo demo;
    const ModelPlan plan(
        test::recipe_in(
            "a_stage: {m: {QuantizationModifier: {ignore: [\"re:.*down_proj\"], scheme: "
            "W8A8, targets: [\"re:.*mlp.*\"]}}}\n"
            "b_stage: {m: {QuantizationModifier: {config_groups: {g: {targets: "
            "[\"re:.*down_proj$\"], weights: {num_bits: 8, strategy: channel}}}}}}\n"),
        demo.model);
    const QuantizationConfig config = plan.config(demo.model);
    CHECK_FALSE(config.scheme_for(kDown)->input_activations.has_value());
    CHECK(config.scheme_for(kDown)->format == "pack-quantized");
    CHECK(config.scheme_for("model.layers.1.mlp.up_proj")->input_activations.has_value());
    CHECK(config.scheme_for("model.layers.1.self_attn.q_proj") == nullptr);
}

TEST_CASE("a pattern that means the embedding too has it ignored") {
    Demo demo;
    const ModelPlan plan(test::recipe_in("QuantizationModifier: {scheme: W8A16, group_size: 32, "
                                         "targets: [\"re:.*\"]}"),
                         demo.model);
    const QuantizationConfig config = plan.config(demo.model);
    CHECK(config.ignore() == std::vector<std::string>{"model.embed_tokens"});
    CHECK(config.scheme_for("lm_head") != nullptr);
    const ModelPlan classes(
        test::recipe_in("QuantizationModifier: {scheme: W8A16, ignore: [lm_head]}"), demo.model);
    CHECK(classes.config(demo.model).ignore() == std::vector<std::string>{"lm_head"});
}

TEST_CASE("what is ignored and is not there is an error of flags and a note on recipes") {
    Demo demo;
    const ModelPlan plan(test::recipe_in("QuantizationModifier: {scheme: W8A16, ignore: [lm_head, "
                                         "\"re:.*vision.*\"]}"),
                         demo.model);
    REQUIRE(plan.notes().size() == 1);
    CHECK(plan.notes()[0].find("'re:.*vision.*' is to be ignored") == 0);
    RecipeFlags flags;
    flags.ignore.emplace_back("re:.*vision.*");
    CHECK(test::error_of(ErrorKind::bad_data, [&] {
              ModelPlan(recipe_from_flags(flags), demo.model);
          }).find("'re:.*vision.*' is to be ignored") == 0);
}

TEST_CASE("linears over one input with different schemes are told") {
    Demo demo;
    const ModelPlan plan(test::recipe_in("QuantizationModifier:\n  scheme: {W4A16: "
                                         "[\"re:.*q_proj\"], W8A16: [\"re:.*[kv]_proj\"]}\n"),
                         demo.model);
    REQUIRE(plan.notes().size() == 1);
    CHECK(plan.notes()[0].find("q_proj and model.layers.0.self_attn.k_proj read one input") !=
          std::string::npos);
}

TEST_CASE("formats of integers have no place for floats") {
    Demo demo;
    Recipe recipe = test::recipe_in("QuantizationModifier: {scheme: FP8_DYNAMIC}");
    set_format(recipe, "pack-quantized");
    CHECK(test::error_of(ErrorKind::bad_data, [&] {
              ModelPlan(recipe, demo.model);
          }).find("pack-quantized stores integers") != std::string::npos);
}

}  // namespace
}  // namespace nvllm::quantize
