// Recipes from flags and from files in llm-compressor's shape.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "lib/quantize/recipe_file.h"
#include "tests/error_of.h"

namespace nvllm::quantize {
namespace {

TEST_CASE("flags make a modifier for each method; the last that rounds gets the scheme") {
    RecipeFlags flags;
    flags.scheme = "W8A8";
    flags.methods = {"smoothquant", "gptq"};
    const Recipe recipe = recipe_from_flags(flags);
    REQUIRE(recipe.modifiers.size() == 2);
    CHECK(recipe.modifiers[0].groups.empty());
    REQUIRE(recipe.modifiers[1].groups.size() == 1);
    CHECK(recipe.modifiers[1].groups[0].scheme.weights->bits == 8);
    CHECK(needs_calibration(recipe));
}

TEST_CASE("what only prunes or scales is followed by rounding, unless nothing is to be quantized") {
    RecipeFlags flags;
    flags.methods = {"sparsegpt"};
    CHECK(recipe_from_flags(flags).modifiers.back().method == "rtn");
    flags.scheme = "none";
    CHECK(recipe_from_flags(flags).modifiers.size() == 1);
}

TEST_CASE("group sizes and orders") {
    RecipeFlags flags;
    flags.group_size = "channel";
    CHECK(recipe_from_flags(flags).modifiers[0].groups[0].scheme.weights->strategy ==
          QuantizationStrategy::channel);
    flags.group_size = "64";
    flags.actorder = "group";
    const QuantizationArguments arguments =
        *recipe_from_flags(flags).modifiers[0].groups[0].scheme.weights;
    CHECK(arguments.group_size == 64);
    CHECK(arguments.actorder == ActivationOrder::group);
    flags.methods = {"rtn"};
    CHECK(recipe_from_flags(flags).modifiers[0].groups[0].scheme.weights->actorder ==
          ActivationOrder::none);
    flags.group_size = "many";
    CHECK_THROWS_AS(recipe_from_flags(flags), Error);
}

TEST_CASE("mask structures") {
    CHECK(parse_mask_structure("2:4") == MaskStructure{2, 4});
    CHECK(parse_mask_structure("0:0") == MaskStructure{});
    CHECK(parse_mask_structure("unstructured") == MaskStructure{});
    for (const char* const text : {"4:2", "2", "2:", ":4", "two:four"}) {
        CHECK_THROWS_AS(parse_mask_structure(text), Error);
    }
}

TEST_CASE("recipe files of many shapes") {
    const Recipe gptq = parse_recipe(
                            "quant_stage:\n"
                            "  quant_modifiers:\n"
                            "    SmoothQuantModifier:\n"
                            "      smoothing_strength: 0.8\n"
                            "      mappings: [[[\"re:.*q_proj\", \"re:.*k_proj\"], "
                            "\"re:.*input_layernorm\"]]\n"
                            "    GPTQModifier:\n"
                            "      targets: Linear\n"
                            "      ignore: [lm_head]\n"
                            "      scheme: W8A8\n"
                            "      dampening_frac: 0.05\n",
                            "recipe.yaml")
                            .recipe;
    REQUIRE(gptq.modifiers.size() == 2);
    CHECK(gptq.modifiers[0].scaling.smoothing_strength == 0.8);
    CHECK(gptq.modifiers[0].scaling.mappings[0].smooth == "re:.*input_layernorm");
    CHECK(gptq.modifiers[1].solver.dampening_frac == 0.05);
    CHECK(gptq.modifiers[1].groups[0].scheme.weights->actorder == ActivationOrder::weight);

    const Recipe awq =
        parse_recipe(
            "AWQModifier: {n_grid: 10, duo_scaling: both, ignore: [lm_head], scheme: W4A16_ASYM}",
            "r")
            .recipe;
    CHECK(awq.modifiers[0].scaling.grid == 10);
    CHECK_FALSE(awq.modifiers[0].groups[0].scheme.weights->symmetric);

    const Recipe then = parse_recipe(
                            "a_stage:\n  a_modifiers:\n    AWQModifier: {}\n"
                            "    QuantizationModifier: {scheme: {W4A16: [\"re:.*mlp.*\"], "
                            "W8A16: [\"re:.*self_attn.*\"]}}\n",
                            "r")
                            .recipe;
    CHECK(then.modifiers[0].groups.empty());
    CHECK(then.modifiers[1].groups.size() == 2);

    const ReadRecipe sparse = parse_recipe(
        "sparsity_stage:\n  sparsity_modifiers:\n    SparseGPTModifier: {sparsity: 0.5, "
        "mask_structure: \"2:4\", sequential_update: false}\n    ConstantPruningModifier: "
        "{targets: "
        "[\"re:.*\"], start: 0}\n",
        "r");
    CHECK(sparse.recipe.modifiers.size() == 1);
    CHECK(sparse.recipe.modifiers[0].solver.mask == MaskStructure{2, 4});
    CHECK(sparse.notes.size() == 2);
}

TEST_CASE("keys and values are a field of whoever quantizes, with linears or without") {
    const char* const scheme =
        "kv_cache_scheme: {num_bits: 8, type: float, strategy: tensor, dynamic: false, "
        "symmetric: true, observer: minmax}";
    for (const char* const linears : {"", "scheme: FP8_DYNAMIC, "}) {
        const std::string yaml = fmt::format("QuantizationModifier: {{{}{}}}", linears, scheme);
        const Recipe recipe = parse_recipe(yaml, "r").recipe;
        REQUIRE(recipe.modifiers.size() == 1);
        REQUIRE(recipe.modifiers[0].kv_cache_scheme.has_value());
        CHECK(recipe.modifiers[0].kv_cache_scheme->kind == NumberKind::floating);
        CHECK(recipe.modifiers[0].kv_cache_scheme->range_share == kMovingRangeShare);
        CHECK(needs_calibration(recipe));
    }
    RecipeFlags flags;
    flags.methods = {"rtn"};
    CHECK_FALSE(needs_calibration(recipe_from_flags(flags)));
    flags.float8_cache = true;
    CHECK(needs_calibration(recipe_from_flags(flags)));
}

TEST_CASE("observers of inputs are a field of the modifier, or of the arguments themselves") {
    const auto share_of = [](const std::string& fields) {
        const ReadRecipe read = parse_recipe("QuantizationModifier:\n" + fields, "r");
        CHECK(read.notes.empty());
        return read.recipe.modifiers.at(0).groups.at(0).scheme.input_activations->range_share;
    };
    CHECK_FALSE(share_of("  scheme: FP8\n").has_value());
    CHECK(share_of("  {scheme: FP8, input_observer: minmax}\n") == kMovingRangeShare);
    CHECK(share_of("  {scheme: FP8, observer: {input: memoryless_minmax}}\n") == 1.0);
    const auto group = [](const char* observer) {
        return fmt::format(
            "  config_groups:\n    a: {{targets: [Linear], weights: {{num_bits: 8}},\n"
            "        input_activations: {{num_bits: 8{}}}}}\n",
            observer);
    };
    CHECK(share_of(group("")) == kMovingRangeShare);
    CHECK_FALSE(share_of(group(", observer: static_minmax")).has_value());
    CHECK(share_of(group(", observer_kwargs: {averaging_constant: 0.5}")) == 0.5);
    const ReadRecipe other =
        parse_recipe("QuantizationModifier: {scheme: FP8, input_observer: mse}", "r");
    CHECK(other.notes == std::vector<std::string>{"observer mse is not heeded"});
}

TEST_CASE("observers of weights that are not followed are told") {
    const auto notes = [](const char* operand, const char* observer) {
        return parse_recipe(
                   fmt::format(
                       "QuantizationModifier:\n  config_groups:\n    g: {{targets: [Linear], "
                       "{}: {{num_bits: 8, observer: {}}}}}\n",
                       operand, observer),
                   "r")
            .notes;
    };
    for (const char* const same : {"minmax", "static_minmax", "memoryless_minmax", "null"}) {
        CHECK(notes("weights", same).empty());
    }
    REQUIRE(notes("weights", "mse").size() == 1);
    CHECK(notes("weights", "mse")[0].find(
              "config_groups.g.weights: observer \"mse\" is not heeded") == 0);
    REQUIRE(notes("weights: {num_bits: 8}, input_activations", "mse").size() == 1);
}

TEST_CASE("groups in another order become static ones where compressed-tensors stores them") {
    const char* const yaml = "GPTQModifier: {scheme: W4A16, actorder: true}";
    const auto order = [](const Recipe& recipe) {
        return recipe.modifiers[0].groups[0].scheme.weights->actorder;
    };
    Recipe recipe = parse_recipe(yaml, "r").recipe;
    CHECK(settle_actorder(recipe).size() == 1);
    CHECK(order(recipe) == ActivationOrder::weight);
    CHECK(settle_actorder(recipe).empty());
    recipe = parse_recipe(yaml, "r").recipe;
    set_format(recipe, "gptq");
    CHECK(settle_actorder(recipe).empty());
    CHECK(order(recipe) == ActivationOrder::group);
}

TEST_CASE("two methods that round are refused, and scaling before one is not") {
    RecipeFlags flags;
    flags.methods = {"gptq", "awq"};
    const std::string message = test::error_of(ErrorKind::usage, [&] { recipe_from_flags(flags); });
    CHECK(message.find("--method gptq, then awq: both round") == 0);
    flags.methods = {"rtn", "gptq"};
    CHECK_THROWS_AS(recipe_from_flags(flags), Error);
    flags.methods = {"awq", "gptq"};
    const Recipe recipe = recipe_from_flags(flags);
    CHECK(recipe.modifiers[0].groups.empty());
    CHECK_FALSE(recipe.modifiers[1].groups.empty());
}

TEST_CASE("what is wrong in a recipe is said with its line") {
    const auto message = [](const char* yaml) {
        return test::error_of(ErrorKind::bad_data, [&] { parse_recipe(yaml, "recipe.yaml"); });
    };
    CHECK(message("a:\n  b:\n    GPTQModifer: {scheme: W4A16}\n")
              .find("recipe.yaml:3: unknown modifier 'GPTQModifer'; did you mean GPTQModifier?") ==
          0);
    CHECK(message("GPTQModifier:\n  scheme: W4A16\n  damp: 1\n")
              .find("recipe.yaml:3: unknown field 'damp'") == 0);
    CHECK(message("GPTQModifier: {scheme: W4A61}").find("W4A16") != std::string::npos);
    CHECK(message("GPTQModifier: {ignore: [lm_head]}").find("neither a scheme nor config_groups") !=
          std::string::npos);
    CHECK(message("SmoothQuantModifier: {smoothing_strength: 0.5}").find("quantizes nothing") !=
          std::string::npos);
    CHECK(message("GPTQModifier: {scheme: W4A16, dampening_frac: high}").find("a number from") !=
          std::string::npos);
    CHECK(message("QuantizationModifier:\n  kv_cache_scheme: {num_bits: 8, type: int}")
              .find("recipe.yaml:2: keys and values are quantized to") == 0);
    CHECK(message("SmoothQuantModifier: {kv_cache_scheme: {num_bits: 8, type: float}}")
              .find("takes no scheme") != std::string::npos);
    CHECK(message("GPTQModifier:\n  config_groups:\n    g: {scheme: MXFP4}\n")
              .find("recipe.yaml:3: unknown field 'config_groups.g.scheme'") == 0);
    CHECK(message("GPTQModifier: {config_groups: {g: {weights: {num_bits: 4, simetric: true}}}}")
              .find("'config_groups.g.weights.simetric'") != std::string::npos);
    CHECK(message("SparseGPTModifier: {structure: \"2:4\"}").find("did you mean mask_structure?") !=
          std::string::npos);
    CHECK(message("AWQModifier: {zero_point: true}").find("W4A16_ASYM") != std::string::npos);
    CHECK(message("[1, 2").find("recipe.yaml:") == 0);
    CHECK(message("- a\n").find("mapping of stages") != std::string::npos);
}

}  // namespace
}  // namespace nvllm::quantize
