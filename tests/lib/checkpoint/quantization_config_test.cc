// Quantization settings of each method, which linear they are about, and what is refused.
#include "lib/checkpoint/quantization_config.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "kernels/error.h"
#include "lib/base/file.h"
#include "lib/checkpoint/quantization_keys.h"
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

TEST_CASE("quantization: AutoRound's layouts, and layers with settings of their own") {
    const auto with = [](Json changes) {
        Json section = {{"quant_method", "auto-round"},
                        {"bits", 4},
                        {"group_size", 128},
                        {"sym", true},
                        {"data_type", "int"},
                        {"packing_format", "auto_round:auto_gptq"}};
        section.update(changes);
        return section;
    };
    const auto format = [&](const char* packing) {
        return parse(with({{"packing_format", packing}})).scheme_for("a")->format;
    };
    CHECK(format("auto_round:auto_gptq") == "gptq");
    CHECK(format("auto_round:gptq:exllamav2") == "gptq");
    CHECK(format("auto_round:auto_awq") == "awq");
    CHECK(format("auto_round") == "gptq_v2");
    CHECK(format("auto_round:gptqmodel") == "gptq_v2");
    CHECK(refusal(with({{"packing_format", "auto_round:llm_compressor"}})).find("take the file") !=
          std::string::npos);
    CHECK(refusal(with({{"data_type", "mx_fp"}})).find("data_type") != std::string::npos);
    CHECK(refusal(with({{"act_bits", 8}})).find("act_bits") != std::string::npos);
    CHECK(refusal(with({{"bits", 5}})).find("2, 3, 4 or 8") != std::string::npos);

    const QuantizationConfig mixed =
        parse(with({{"iters", 200},
                    {"extra_config",
                     {{"model.layers.1.mlp.down_proj", {{"bits", 8}, {"group_size", 32}}},
                      {"model.layers.2.mlp.gate", {{"bits", 16}, {"data_type", "float"}}},
                      {".*layers[.]3.*self_attn", {{"sym", false}}},
                      {"lm_head", {{"bits", 4}}}}}}));
    CHECK(mixed.unused_keys().empty());
    const auto weights_of = [&](const char* name) { return *mixed.scheme_for(name)->weights; };
    CHECK(weights_of("model.layers.1.mlp.down_proj").bits == 8);
    CHECK(weights_of("model.layers.1.mlp.down_proj").group_size == 32);
    CHECK(weights_of("model.layers.1.mlp.up_proj").bits == 4);
    CHECK(mixed.scheme_for("model.layers.2.mlp.gate") == nullptr);
    CHECK(mixed.scheme_for("model.layers.2.mlp.gate_proj") != nullptr);
    CHECK_FALSE(weights_of("model.layers.3.self_attn.q_proj").symmetric);
    CHECK(weights_of("model.layers.3.mlp.up_proj").symmetric);
    CHECK(mixed.scheme_for("lm_head") != nullptr);
    CHECK(parse(with(Json::object())).scheme_for("lm_head") == nullptr);
    const Json odd = {{"model.layers.1.mlp.up_proj", {{"bits", 8}, {"odd", 1}}}};
    CHECK(
        parse(with({{"extra_config", odd}, {"rotation_config", {{"a", 1}}}})).unused_keys() ==
        std::vector<std::string>{"extra_config.model.layers.1.mlp.up_proj.odd", "rotation_config"});
}

TEST_CASE("quantization: bitsandbytes' sections") {
    const Json four = {
        {"quant_method", "bitsandbytes"},    {"load_in_4bit", true},
        {"bnb_4bit_quant_type", "nf4"},      {"bnb_4bit_use_double_quant", true},
        {"bnb_4bit_quant_storage", "uint8"}, {"llm_int8_skip_modules", {"lm_head", "vision"}}};
    const QuantizationConfig nf4 = parse(four);
    CHECK(nf4.method() == "bitsandbytes");
    CHECK(nf4.scheme_for("model.q_proj")->format == "bitsandbytes-4bit");
    CHECK(nf4.scheme_for("model.q_proj")->weights->group_size == 64);
    CHECK(nf4.scheme_for("model.vision.q_proj") == nullptr);
    CHECK(nf4.unused_keys().empty());
    CHECK(nf4.notes().empty());
    const QuantizationConfig eight =
        parse({{"quant_method", "bitsandbytes"}, {"_load_in_8bit", true}});
    CHECK(eight.scheme_for("a")->format == "bitsandbytes-8bit");
    REQUIRE(eight.notes().size() == 1);
    CHECK(eight.notes()[0].find("llm_int8_threshold: not used") != std::string::npos);
    CHECK(refusal({{"quant_method", "bitsandbytes"}}).find("load_in_4bit") != std::string::npos);
    Json stored = four;
    stored["bnb_4bit_quant_storage"] = "bfloat16";
    CHECK(refusal(stored).find("look like dense ones") != std::string::npos);
    stored = four;
    stored["bnb_4bit_quant_type"] = "af4";
    CHECK(refusal(stored).find("nf4 and fp4 are read") != std::string::npos);
}

TEST_CASE("quantization: ModelOpt's sections, old and new") {
    const Json fp4 = {{"quant_algo", "NVFP4"},
                      {"kv_cache_quant_algo", "FP8"},
                      {"group_size", 16},
                      {"exclude_modules", {"lm_head", "model.layers.0*", "model.norm"}}};
    const QuantizationConfig old = parse({{"quant_method", "modelopt"},
                                          {"producer", {{"name", "modelopt"}}},
                                          {"quantization", fp4}});
    REQUIRE(old.scheme_for("model.layers.1.mlp.up_proj") != nullptr);
    CHECK(old.scheme_for("model.layers.1.mlp.up_proj")->format == "nvfp4-modelopt");
    CHECK(old.scheme_for("lm_head") == nullptr);
    CHECK(old.scheme_for("model.layers.0.mlp.up_proj") == nullptr);
    CHECK(old.scheme_for("modelXnorm") != nullptr);
    CHECK(old.has_float8_cache());
    CHECK(old.unused_keys().empty());

    const Json cache = {{"num_bits", 8}, {"type", "float"}, {"dynamic", false}};
    const QuantizationConfig fp8 = parse({{"quant_method", "modelopt"},
                                          {"quant_algo", "FP8"},
                                          {"kv_cache_scheme", cache},
                                          {"ignore", {"model.layers.3.self_attn"}}});
    CHECK(fp8.scheme_for("a")->format == "float-quantized");
    CHECK(fp8.scheme_for("a")->input_activations->dynamic == DynamicScales::no);
    CHECK(fp8.scheme_for("model.layers.3.self_attn.q_proj") == nullptr);
    CHECK(fp8.scheme_for("model.layers.30.self_attn.q_proj") != nullptr);
    CHECK(fp8.has_float8_cache());
    CHECK_FALSE(parse({{"quant_method", "modelopt"}, {"quant_algo", "FP8"}}).has_float8_cache());
    Json more = fp4;
    more["quantized_layers"] = {{"a", "FP8"}};
    CHECK(parse({{"quant_method", "modelopt"}, {"quantization", more}}).unused_keys() ==
          std::vector<std::string>{"quantization.quantized_layers"});
    const auto with_group = [](const Json& weights) {
        return Json{
            {"quant_method", "modelopt"},
            {"quant_algo", "FP8"},
            {"config_groups", {{"group_0", {{"weights", weights}, {"targets", {"Linear"}}}}}}};
    };
    const Json plain = {{"num_bits", 8}, {"type", "float"}, {"dynamic", false}};
    CHECK(parse(with_group(plain)).scheme_for("a")->format == "float-quantized");
    for (const auto& [key, value] :
         {std::pair<const char*, Json>("num_bits", 4), {"type", "int"}, {"dynamic", true}}) {
        Json changed = plain;
        changed[key] = value;
        CHECK(refusal(with_group(changed)).find("not what quant_algo says") != std::string::npos);
    }
    const auto refused = [](Json changes) {
        changes["quant_method"] = "modelopt";
        return refusal(changes);
    };
    CHECK(refused({{"quant_algo", "W4A8_AWQ"}}).find("FP8 and NVFP4") != std::string::npos);
    CHECK(refused(Json::object()).find("FP8 and NVFP4") != std::string::npos);
    CHECK(refused({{"quant_algo", "NVFP4"}, {"group_size", 8}}).find("groups of 16") !=
          std::string::npos);
    CHECK(refused({{"quant_algo", "FP8"}, {"kv_cache_quant_algo", "NVFP4"}}).find("FP8 is read") !=
          std::string::npos);
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
    const std::string unknown = refusal({{"quant_method", "exl2"}});
    CHECK(unknown.find("gptq, auto-round, bitsandbytes, fp8") != std::string::npos);
    CHECK(unknown.find("take the file in") != std::string::npos);
    for (const char* const version : {"marlin", "exllama"}) {
        CHECK(refusal({{"quant_method", "awq"}, {"version", version}})
                  .find("gemm, gemv and gemv_fast are read; of a model in another") !=
              std::string::npos);
    }
    CHECK(refusal({{"quant_method", "awq"}, {"version", "gemv"}, {"group_size", -1}})
              .find("groups of 32, 64, 128") != std::string::npos);
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

// A group of 8 bits whose inputs are as `inputs` says.
Json with_inputs(const Json& inputs) {
    return compressed({{"g",
                        {{"targets", {"Linear"}},
                         {"weights", {{"num_bits", 8}, {"strategy", "channel"}}},
                         {"input_activations", inputs}}}});
}

std::vector<std::string> unused(const Json& section) { return parse(section).unused_keys(); }

TEST_CASE("quantization: a key that nobody knows is named, at whatever depth it lies") {
    Json section = with_inputs({{"num_bits", 8}, {"dynamic", true}});
    section["kv_cache_scheme"] = {{"num_bits", 8}, {"type", "float"}};
    section["sparsity_config"] = {{"format", "dense"}};
    CHECK(unused(section).empty());
    section["odd"] = 1;
    section["config_groups"]["g"]["odd"] = 1;
    section["config_groups"]["g"]["weights"]["odd"] = 1;
    section["config_groups"]["g"]["input_activations"]["odd"] = 1;
    section["kv_cache_scheme"]["odd"] = 1;
    section["sparsity_config"]["odd"] = 1;
    CHECK(unused(section) == std::vector<std::string>{"config_groups.g.weights.odd",
                                                      "config_groups.g.input_activations.odd",
                                                      "config_groups.g.odd", "kv_cache_scheme.odd",
                                                      "sparsity_config.odd", "odd"});
    CHECK(unused({{"quant_method", "awq"}, {"rotation", "hadamard"}, {"backend", "auto"}}) ==
          std::vector<std::string>{"rotation"});
    CHECK(unused({{"quant_method", "gptq"}, {"adapter", {{"rank", 4}}}, {"damp_percent", 0.1}}) ==
          std::vector<std::string>{"adapter"});
    CHECK(unused({{"quant_method", "fp8"}, {"scale_fmt", "ue8m0"}, {"dequantize", true}}) ==
          std::vector<std::string>{"dequantize", "scale_fmt"});
}

TEST_CASE("quantization: every key of the newest packages is used, harmless or named") {
    const Json keys = Json::parse(read_file(std::filesystem::path(NVLLM_SOURCE_DIR) /
                                            "tests/fixtures/quantization_keys.json"));
    // Sections that say enough for all keys that are asked for to be asked for, by the object that
    // the keys are of; and which of its keys are named.
    struct Row {
        const char* object;
        Json section;
        std::string path;
        std::vector<std::string> named;
    };
    const Json group = with_inputs({{"num_bits", 8}, {"dynamic", true}});
    const std::string arguments = "config_groups.g.weights.";
    const Json four_bits = {{"quant_method", "bitsandbytes"}, {"load_in_4bit", true}};
    const std::vector<Row> rows = {{"compressed-tensors", group, "", {"moe_sparsity_config"}},
                                   {"group", group, "config_groups.g.", {}},
                                   {"arguments", group, arguments, {}},
                                   {"awq", {{"quant_method", "awq"}}, "", {}},
                                   {"gptq", {{"quant_method", "gptq"}}, "", {}},
                                   {"fp8", {{"quant_method", "fp8"}}, "", {"scale_fmt"}},
                                   {"auto-round", {{"quant_method", "auto-round"}}, "", {}},
                                   {"bitsandbytes", four_bits, "", {}}};
    for (const Row& row : rows) {
        REQUIRE(keys.at(row.object).size() > 4);
        std::vector<std::string> named;
        for (const std::string key : keys.at(row.object)) {
            Json section = row.section;
            Json& object = row.path.empty()        ? section
                           : row.path == arguments ? section["config_groups"]["g"]["weights"]
                                                   : section["config_groups"]["g"];
            // A value of no use: whoever uses the key refuses it, or has asked for it.
            if (!object.contains(key)) object[key] = Json::object();
            if (key == "dequantize" || key == "desc_act") object[key] = false;
            if (key == "llm_int8_has_fp16_weight") object[key] = false;
            if (key == "expert_dtype") object[key] = "fp8";
            try {
                for (const std::string& found : unused(section)) named.push_back(found);
            } catch (const Error& error) {
                CHECK(std::string(error.what()).find(key) != std::string::npos);
            }
        }
        CAPTURE(row.object);
        CHECK(named == row.named);
    }
}

TEST_CASE("quantization: what cannot be run as the file means it is refused by its name") {
    const Json asymmetric = {{"num_bits", 8}, {"symmetric", false}};
    CHECK(refusal(with_inputs(asymmetric)).find("asymmetric inputs") != std::string::npos);
    Json section = with_inputs({{"num_bits", 8}, {"dynamic", true}});
    section["config_groups"]["g"]["output_activations"] = {{"num_bits", 8}};
    CHECK(refusal(section).find("output_activations") != std::string::npos);
    section = compressed(Json::object());
    section["kv_cache_scheme"] = {{"num_bits", 8}, {"type", "float"}, {"strategy", "attn_head"}};
    CHECK(refusal(section).find("a scale for each head") != std::string::npos);
    section = compressed({{"attention",
                           {{"targets", {"LlamaAttention"}},
                            {"input_activations", {{"num_bits", 8}, {"strategy", "attn_head"}}}}}});
    CHECK(refusal(section).find("a scale for each head") != std::string::npos);
}

TEST_CASE("quantization: transforms that lie in the weights are read, others refused") {
    const auto with = [](const char* location) {
        Json section = compressed({{"g", {{"weights", weights(4, 32)}}}});
        section["transform_config"] = {
            {"config_groups",
             {{"u", {{"apply", {{{"location", location}, {"targets", {"Linear"}}}}}}}}}};
        return refusal(section);
    };
    CHECK(with("weight_input").empty());
    CHECK(with("weight_output").empty());
    for (const char* const location : {"input", "output", "q_attn", "k_cache", "elsewhere"}) {
        CHECK(with(location).find("\"transform_config\"") != std::string::npos);
        CHECK(with(location).find(location) != std::string::npos);
    }
    Json section = compressed(Json::object());
    section["transform_config"] = Json::object();
    CHECK(refusal(section).empty());
}

TEST_CASE("quantization: what is computed with more precision than the file means is told") {
    const auto notes = [](const Json& section) { return parse(section).notes(); };
    CHECK(notes(with_inputs({{"num_bits", 8}, {"dynamic", true}})).empty());
    const auto dynamic =
        notes(with_inputs({{"num_bits", 8}, {"dynamic", true}, {"symmetric", false}}));
    REQUIRE(dynamic.size() == 1);
    CHECK(dynamic[0] ==
          "config.json: config_groups.g.input_activations: not used: asymmetric inputs are not "
          "rounded");
    Json section = compressed(Json::object());
    section["kv_cache_scheme"] = {{"num_bits", 8}, {"type", "int"}};
    REQUIRE(notes(section).size() == 1);
    CHECK(notes(section)[0].find("kv_cache_scheme: not used") != std::string::npos);
    section["kv_cache_scheme"] = {{"num_bits", 8}, {"type", "float"}};
    CHECK(notes(section).empty());
}

TEST_CASE("quantization: notes of a directory name the file and the section") {
    const test::TemporaryFolder folder;
    folder.write("config.json", R"({"quantization_config": {"quant_method": "gptq", "odd": 1}})");
    const std::vector<std::string> notes = quantization_notes(folder.path());
    REQUIRE(notes.size() == 1);
    CHECK(notes[0].ends_with("config.json: quantization_config: not used: odd"));
    folder.write("config.json", R"({"quantization_config": {"quant_method": "other"}})");
    CHECK(quantization_notes(folder.path()).empty());
    folder.write("config.json", "{}");
    CHECK(quantization_notes(folder.path()).empty());
}

TEST_CASE("quantization: schemes under the names that others have for them") {
    for (const auto& [wrong, meant] : std::vector<std::pair<const char*, const char*>>{
             {"W8A8_fp8", "did you mean FP8 or FP8_DYNAMIC?"},
             {"Q4_K_M", "did you mean W4A16"},
             {"int4", "did you mean W4A16?"}}) {
        CHECK_THROWS_WITH_AS(find_preset_scheme(wrong), doctest::Contains(meant), Error);
    }
}

TEST_CASE("quantization: an embedding is meant by its own class or name") {
    const QuantizationConfig config =
        parse(compressed({{"a", {{"targets", {"Linear"}}, {"weights", weights(4, 32)}}},
                          {"b", {{"targets", {"Embedding"}}, {"weights", weights(8, 32)}}}}));
    CHECK(config.scheme_for("model.embed_tokens", "Embedding")->weights->bits == 8);
    CHECK(config.scheme_for("model.embed_tokens")->weights->bits == 4);
}

}  // namespace
}  // namespace nvllm
