// Reports on models and their files: what is counted, what is said, what is refused.
#include "lib/view/model_report.h"

#include <doctest/doctest.h>

#include <array>
#include <nlohmann/json.hpp>

#include "lib/base/file.h"
#include "lib/view/text_table.h"
#include "tests/lib/checkpoint/temporary_folder.h"

using namespace nvllm;
using namespace nvllm::view;
using nvllm::test::TemporaryFolder;
using Json = nlohmann::ordered_json;

namespace {

const std::filesystem::path kDemo = NVLLM_SOURCE_DIR "/models/demo";

constexpr std::array<FamilyDefaults, 2> kFamilies = {
    {{.model_type = "llama", .architecture = "LlamaForCausalLM"},
     {.model_type = "bert",
      .architecture = "BertModel",
      .epsilon_key = "layer_norm_eps",
      .encoder = true,
      .learned_positions = true}}};

// An engine that knows the configs of two families, and Llama as made of one tensor.
ModelKnowledge knowledge() {
    return {
        {"LlamaForCausalLM"},
        [](const std::filesystem::path& file) { return describe_model_config(file, kFamilies); },
        [](const std::filesystem::path&) { return std::nullopt; },
        [](const ModelConfig& config) -> std::vector<ListedTensor> {
            if (config.architecture != "LlamaForCausalLM") return {};
            return {{"lm_head.weight", DType::f16, {3, 5}, 30, ""}};
        }};
}

Json report_on(const std::filesystem::path& path) {
    return report_json(read_model_report(path, knowledge()), true);
}

}  // namespace

TEST_CASE("names of tensors tell what they belong to") {
    CHECK(component_of("model.embed_tokens.weight") == Component::embeddings);
    CHECK(component_of("transformer.wpe.weight") == Component::embeddings);
    CHECK(component_of("model.layers.3.self_attn.q_norm.weight") == Component::norms);
    CHECK(component_of("model.layers.3.post_attention_layernorm.weight") == Component::norms);
    CHECK(component_of("transformer.h.0.ln_1.bias") == Component::norms);
    CHECK(component_of("transformer.h.0.attn.c_proj.weight") == Component::attention);
    CHECK(component_of("transformer.h.0.mlp.c_proj.weight") == Component::mlp);
    CHECK(component_of("model.layers.0.block_sparse_moe.gate.weight") == Component::experts);
    CHECK(component_of("model.layers.0.mlp.experts.7.up_proj.weight") == Component::experts);
    CHECK(component_of("lm_head.weight") == Component::head);
    CHECK(component_of("bert.embeddings.LayerNorm.weight") == Component::norms);
    CHECK(component_of("encoder.layer.0.attention.output.dense.weight") == Component::attention);
    CHECK(component_of("encoder.layer.0.output.dense.weight") == Component::mlp);
    CHECK(component_of("encoder.layer.0.intermediate.dense.bias") == Component::mlp);
    CHECK(component_of("distilbert.transformer.layer.0.attention.q_lin.bias") ==
          Component::attention);
    CHECK(component_of("pooler.dense.weight") == Component::head);
    CHECK(component_of("model.layers.3.attn.Wqkv.weight") == Component::attention);
    CHECK(component_of("model.layers.3.mlp.Wo.weight") == Component::mlp);
    CHECK(component_of("head.dense.weight") == Component::head);
    CHECK(component_of("decoder.bias") == Component::head);
    CHECK(component_of("mpnet.encoder.relative_attention_bias.weight") == Component::attention);
    CHECK(component_of("vision_tower.layers.0.mlp.weight") == Component::other);
    CHECK(component_of("t") == Component::other);
}

TEST_CASE("packed weights are counted one by one, their helpers not") {
    const ListedTensor packed{"a.qweight", DType::i32, {2, 3}, 24, ""};
    CHECK(parameters_of(packed, 4) == 48);
    CHECK(parameters_of(packed, std::nullopt) == 6);
    CHECK(parameters_of({"a.scales", DType::f16, {2}, 4, ""}, 4) == 0);
    CHECK(parameters_of({"a.norm.weight", DType::f16, {2}, 4, ""}, 4) == 2);
}

TEST_CASE("the bundled model") {
    const Json report = report_on(kDemo);
    CHECK(report["schema"] == "nvllm-inspect.model/1");
    CHECK(report["supported"] == true);
    CHECK(report["parameters"] == 2885888);
    CHECK(report["weights"]["source"] == "headers");
    CHECK(report["weights"]["dtypes"]["bfloat16"]["tensors"] == 38);
    CHECK(report["weights"]["components"]["embeddings"]["parameters"] == 2048 * 256);
    CHECK(report["tensors"].size() == 38);
    CHECK(report["tokenizer"]["vocab_size"] == 2048);
    CHECK(report["chat_templates"][0]["parses"] == true);
    CHECK(report["generation"]["top_p"].get<float>() == doctest::Approx(0.95));
}

TEST_CASE("one file at a time") {
    CHECK(report_on(kDemo / "model.safetensors")["parameters"] == 2885888);
    CHECK(report_on(kDemo / "tokenizer.json")["tokenizer"]["kind"] == "BPE");
    const Json config = report_on(kDemo / "config.json");
    CHECK(config["kind"] == "config file");
    CHECK(config["parameters"] == 15);
    CHECK(config["weights"]["source"] == "config");
}

TEST_CASE("an encoder makes vectors and no text") {
    const std::filesystem::path bert = NVLLM_SOURCE_DIR "/tests/fixtures/embeddings/bert";
    const Json report = report_on(bert);
    CHECK(report["config"]["encoder"] == true);
    CHECK(report["config"]["generates"] == false);
    CHECK_FALSE(report["weights"]["components"].contains("other"));
    const std::string text = report_text(read_model_report(bert, knowledge()), false);
    CHECK(text.find("embeddings of 32 values and no text; attention both ways") !=
          std::string::npos);
    CHECK(text.find("none (learned positions)") != std::string::npos);
    CHECK(text.find("input embeddings only") != std::string::npos);
    CHECK(report_on(kDemo)["config"]["generates"] == true);
}

TEST_CASE("a config alone, known or not, quantized or not") {
    const TemporaryFolder folder;
    auto config = nlohmann::json::parse(read_file(kDemo / "config.json"));
    folder.write("config.json", config.dump());
    CHECK(report_on(folder.path())["parameters"] == 15);

    config["architectures"] = {"NoSuchModel"};
    config["quantization_config"] = {{"quant_method", "gptq"}, {"bits", 4}, {"group_size", 128}};
    const auto file = folder.write("config.json", config.dump());
    const Json unknown = report_on(file);
    CHECK(unknown["supported"] == false);
    CHECK(unknown["known_architectures"] == Json{"LlamaForCausalLM"});
    CHECK(unknown["parameters_are_estimated"] == true);
    CHECK(unknown["parameters"] > 2'000'000);
    CHECK(unknown["quantization"]["bits"] == 4);
    CHECK(unknown["quantization"]["group_size"] == 128);
    const std::string text = report_text(read_model_report(file, knowledge()), false);
    CHECK(text.find("NoSuchModel") != std::string::npos);
    CHECK(text.find("gptq, 4 bits, groups of 128") != std::string::npos);
}

TEST_CASE("weights or a tokenizer without a config are still described") {
    const TemporaryFolder folder;
    CHECK_THROWS_AS(report_on(folder.path()), Error);
    folder.write("tokenizer.json", read_file(kDemo / "tokenizer.json"));
    const Json report = report_on(folder.path());
    CHECK(report["tokenizer"]["vocab_size"] == 2048);
    CHECK_FALSE(report.contains("supported"));
    CHECK(report["notes"][0].get<std::string>().find("config.json") != std::string::npos);
    folder.write("model.safetensors", read_file(kDemo / "model.safetensors"));
    CHECK(report_on(folder.path())["parameters"] == 2885888);
}

TEST_CASE("a broken chat template is told, not thrown") {
    const TemporaryFolder folder;
    folder.write("config.json", read_file(kDemo / "config.json"));
    folder.write("tokenizer.json", read_file(kDemo / "tokenizer.json"));
    folder.write("tokenizer_config.json", R"({"chat_template": [
        {"name": "default", "template": "{% if %}"}, {"name": "tool_use", "template": "x"}]})");
    const Json templates = report_on(folder.path())["chat_templates"];
    REQUIRE(templates.size() == 2);
    CHECK(templates[0]["parses"] == false);
    CHECK(templates[0].contains("error"));
    CHECK(templates[1]["name"] == "tool_use");
    CHECK(templates[1]["parses"] == true);
}

TEST_CASE("text for a terminal is aligned, wrapped and harmless") {
    TextSheet sheet;
    sheet.row("label", std::string(30, 'a') + " " + std::string(40, 'b'));
    sheet.table({{"x", "1"}, {"long", "100"}}, "<>");
    CHECK(sheet.text() == "label             " + std::string(30, 'a') + "\n                  " +
                              std::string(40, 'b') + "\n  x       1\n  long  100\n");
    CHECK(printable("a\x1b[31m\n\xff") == "a\\x1b[31m\\x0a\xEF\xBF\xBD");
}
