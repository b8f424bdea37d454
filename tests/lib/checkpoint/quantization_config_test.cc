// Quantization settings of each method, which linear they are about, and what is refused.
#include "lib/checkpoint/quantization_config.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "kernels/error.h"
#include "tests/lib/checkpoint/temporary_folder.h"

namespace nvllm {
namespace {

using Json = nlohmann::json;

QuantizationConfig parse(const Json& section) {
    return parse_quantization_config(section, "config.json");
}

// The message of the bad_data that parsing throws; empty when it throws none.
std::string refusal(const Json& section) {
    try {
        parse(section);
    } catch (const Error& error) {
        CHECK(error.kind() == ErrorKind::bad_data);
        return error.what();
    }
    return "";
}

Json weights(int bits, int group_size) {
    return {{"num_bits", bits},
            {"type", "int"},
            {"symmetric", true},
            {"group_size", group_size},
            {"strategy", "group"}};
}

Json compressed(const Json& groups) {
    return {{"quant_method", "compressed-tensors"},
            {"format", "mixed-precision"},
            {"config_groups", groups},
            {"ignore", {"lm_head"}}};
}

TEST_CASE("quantization: an exact name wins over a pattern, a pattern over a class") {
    const QuantizationConfig config = parse(compressed(
        {{"group_0", {{"targets", {"Linear"}}, {"weights", weights(4, 128)}}},
         {"group_1", {{"targets", {"re:.*\\.down_proj$"}}, {"weights", weights(8, 64)}}},
         {"group_2",
          {{"targets", {"model.layers.1.mlp.down_proj"}}, {"weights", weights(3, 32)}}}}));
    const auto bits = [&](const char* name) {
        const QuantizationScheme* scheme = config.scheme_for(name);
        return scheme == nullptr ? 0 : scheme->weights->bits;
    };
    CHECK(bits("model.layers.0.self_attn.q_proj") == 4);
    CHECK(bits("model.layers.0.mlp.down_proj") == 8);
    CHECK(bits("model.layers.1.mlp.down_proj") == 3);
    CHECK(bits("model.layers.0.mlp.down_proj_extra") == 4);
    CHECK(bits("lm_head") == 0);
    CHECK(config.scheme_for("model.layers.0.mlp.down_proj")->format == "pack-quantized");
    CHECK(config.format() == "pack-quantized");
}

TEST_CASE("quantization: patterns begin where names begin, and the ignored are ignored") {
    Json section =
        compressed({{"group_0", {{"targets", {"re:layers"}}, {"weights", weights(4, 8)}}},
                    {"group_1", {{"targets", {"re:model"}}, {"weights", weights(8, 8)}}}});
    section["ignore"] = {"re:.*gate$", "model.c"};
    const QuantizationConfig config = parse(section);
    CHECK(config.scheme_for("model.layers.0")->weights->bits == 8);
    CHECK(config.scheme_for("model.layers.0.gate") == nullptr);
    CHECK(config.scheme_for("model.c") == nullptr);
    CHECK(config.scheme_for("other.layers.0") == nullptr);
}

TEST_CASE("quantization: every preset survives being written and read") {
    for (const PresetScheme& preset : preset_schemes()) {
        CAPTURE(preset.name);
        QuantizationConfig::Fields fields;
        fields.groups.push_back({{"Linear"}, preset.scheme});
        fields.ignore = {"lm_head"};
        const QuantizationConfig config(std::move(fields));
        const QuantizationConfig back = parse(Json::parse(quantization_config_json(config).dump()));
        CHECK(back.groups() == config.groups());
        CHECK(back.ignore() == config.ignore());
        CHECK(back.format() == config.format());
    }
}

TEST_CASE("quantization: what people call a scheme") {
    for (const char* name : {"W4A16", "W4A16_ASYM", "W8A8", "FP8_DYNAMIC", "NVFP4", "MXFP4A16"}) {
        CHECK(scheme_name(find_preset_scheme(name).scheme) == name);
    }
    QuantizationScheme scheme = find_preset_scheme("W4A16").scheme;
    scheme.format = "pack-quantized";
    scheme.weights->actorder = ActivationOrder::weight;
    CHECK(scheme_name(scheme) == "W4A16");
    scheme.weights->group_size = 64;
    CHECK(scheme_name(scheme) == "W4A16, groups of 64");
    scheme.format = "gptq";
    CHECK(scheme_name(scheme) == "gptq (W4A16), groups of 64");
    scheme.format = "pack-quantized";
    scheme.weights->strategy = QuantizationStrategy::channel;
    scheme.weights->group_size.reset();
    CHECK(scheme_name(scheme) == "pack-quantized, 4 bits");
}

TEST_CASE("quantization: AWQ's and GPTQ's settings survive being written and read") {
    QuantizationScheme scheme = find_preset_scheme("W4A16_ASYM").scheme;
    const auto written = [&](const char* method, const char* format) {
        QuantizationConfig::Fields fields;
        fields.method = method;
        scheme.format = format;
        fields.groups.push_back({{"Linear"}, scheme});
        fields.ignore = {"lm_head", "model.layers.0.mlp.up_proj"};
        return Json::parse(quantization_config_json(QuantizationConfig(std::move(fields))).dump());
    };
    const QuantizationConfig awq = parse(written("awq", "awq"));
    CHECK(*awq.scheme_for("model.layers.1.mlp.up_proj") == scheme);
    CHECK(awq.scheme_for("model.layers.0.mlp.up_proj") == nullptr);
    CHECK(awq.scheme_for("lm_head") == nullptr);
    for (const char* const format : {"gptq", "gptq_v2"}) {
        for (const ActivationOrder order : {ActivationOrder::none, ActivationOrder::group}) {
            scheme.weights->actorder = order;
            const QuantizationConfig gptq = parse(written("gptq", format));
            CHECK(*gptq.scheme_for("a") == scheme);
            CHECK(gptq.scheme_for("lm_head") == nullptr);
        }
    }
    // Groups lie in the columns' own order: readers need not know.
    scheme.weights->actorder = ActivationOrder::weight;
    const Json said = written("gptq", "gptq");
    CHECK(said["desc_act"] == false);
    CHECK(said["static_groups"] == true);
}

TEST_CASE("quantization: presets by name in any case, with the nearest one for a mistake") {
    CHECK(find_preset_scheme("w4a16_asym").scheme.weights->symmetric == false);
    CHECK(find_preset_scheme("W8A8").scheme.weights->strategy == QuantizationStrategy::channel);
    CHECK(find_preset_scheme("NVFP4").scheme.input_activations->dynamic == DynamicScales::local);
    CHECK(preset_schemes().size() >= 27);
    CHECK_THROWS_WITH_AS(find_preset_scheme("W4A61"), doctest::Contains("did you mean W4A16?"),
                         Error);
}

TEST_CASE("quantization: AWQ, GPTQ and block-wise FP8 in the same words") {
    const QuantizationConfig awq = parse({{"quant_method", "awq"},
                                          {"bits", 4},
                                          {"group_size", 64},
                                          {"version", "GEMM"},
                                          {"modules_to_not_convert", {"visual"}}});
    REQUIRE(awq.scheme_for("model.q_proj") != nullptr);
    CHECK(awq.scheme_for("model.q_proj")->format == "awq");
    CHECK(awq.scheme_for("model.q_proj")->weights->group_size == 64);
    CHECK_FALSE(awq.scheme_for("model.q_proj")->weights->symmetric);
    CHECK(awq.scheme_for("model.visual.q_proj") == nullptr);

    const QuantizationConfig gptq = parse({{"quant_method", "gptq"},
                                           {"bits", 8},
                                           {"group_size", -1},
                                           {"desc_act", true},
                                           {"sym", false},
                                           {"checkpoint_format", "gptq_v2"}});
    const QuantizationScheme& scheme = *gptq.scheme_for("a");
    CHECK(scheme.format == "gptq_v2");
    CHECK(scheme.weights->strategy == QuantizationStrategy::channel);
    CHECK(scheme.weights->actorder == ActivationOrder::group);

    const QuantizationConfig fp8 = parse({{"quant_method", "fp8"},
                                          {"fmt", "e4m3"},
                                          {"activation_scheme", "dynamic"},
                                          {"weight_block_size", {128, 64}}});
    CHECK(fp8.scheme_for("a")->format == "fp8-block");
    CHECK(fp8.scheme_for("a")->weights->block == QuantizationBlock{128, 64});
    CHECK(fp8.scheme_for("a")->input_activations->group_size == 64);
}

TEST_CASE("quantization: older spellings are read") {
    Json block = {
        {"num_bits", 8}, {"type", "float"}, {"strategy", "block"}, {"block_structure", "128x64"}};
    Json section = compressed(
        {{"group_0", {{"targets", {"Linear"}}, {"weights", block}}}, {"W8A16", {"re:.*mlp.*"}}});
    const QuantizationConfig config = parse(section);
    CHECK(config.scheme_for("a")->weights->block == QuantizationBlock{128, 64});
    CHECK(config.scheme_for("a.mlp.b")->weights->bits == 8);
    CHECK(config.scheme_for("a.mlp.b")->format == "pack-quantized");
}

TEST_CASE("quantization: what is wrong is named with its file and its limit") {
    const auto with = [](const char* key, const Json& value) {
        Json operand = weights(4, 128);
        operand[key] = value;
        return refusal(compressed({{"group_0", {{"targets", {"Linear"}}, {"weights", operand}}}}));
    };
    CHECK(with("num_bits", 4) == "");
    CHECK(with("num_bits", 99) ==
          "config.json: \"num_bits\" is 99; a whole number from 1 to 8 is expected");
    CHECK(with("type", "complex").find("int or float") != std::string::npos);
    CHECK(with("strategy", "rows").find("tensor_group") != std::string::npos);
    CHECK(with("group_size", nullptr).find("groups need a size") != std::string::npos);
    CHECK(with("group_size", -7).find("from -1 to") != std::string::npos);
    CHECK(with("strategy", "block").find("blocks need their sizes") != std::string::npos);
    CHECK(with("dynamic", "sometimes").find("\"local\"") != std::string::npos);
    CHECK(with("actorder", 3).find("a text is expected") != std::string::npos);
    CHECK(refusal({{"quant_method", "exl2"}}).find("awq, gptq and fp8") != std::string::npos);
    CHECK(refusal({{"quant_method", "awq"}, {"bits", 3}}).find("4 bits") != std::string::npos);
    CHECK(refusal({{"quant_method", "gptq"}, {"bits", 5}}).find("2, 3, 4 or 8") !=
          std::string::npos);
    CHECK(refusal({{"quant_method", "gptq"}, {"dynamic", {{"+:a", {{"bits", 8}}}}}})
              .find("single modules") != std::string::npos);
    CHECK(refusal(compressed({{"group_0", {{"targets", {"re:("}}}}})).find("no regular") !=
          std::string::npos);
    CHECK(refusal({{"quant_method", 4}}).find("a text is expected") != std::string::npos);
    CHECK(refusal(Json::array()).find("is not a JSON object") != std::string::npos);
}

TEST_CASE("quantization: a pattern that would match for ever is stopped") {
    const QuantizationConfig config = parse(
        compressed({{"group_0", {{"targets", {"re:(a+)+$"}}, {"weights", weights(4, 128)}}}}));
    CHECK_THROWS_AS(config.scheme_for(std::string(60, 'a') + "b"), Error);
}

TEST_CASE("quantization: settings are found in config.json, its text part, or beside it") {
    const test::TemporaryFolder folder;
    folder.write("config.json", "{}");
    CHECK_FALSE(read_quantization_config(folder.path()).has_value());
    folder.write("quantize_config.json", R"({"bits": 4, "group_size": 32})");
    CHECK(read_quantization_config(folder.path())->scheme_for("a")->format == "gptq");
    folder.write("config.json", R"({"text_config": {"quantization_config":
        {"quant_method": "awq", "bits": 4, "group_size": 32}}})");
    CHECK(read_quantization_config(folder.path())->method() == "awq");
}

}  // namespace
}  // namespace nvllm
