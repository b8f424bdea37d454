// What is read of an adapter's two files, and what is refused.
#include "lib/checkpoint/adapter/adapter_file.h"

#include <doctest/doctest.h>

#include "tests/error_of.h"
#include "tests/lib/checkpoint/adapter/written_adapter.h"

namespace nvllm {
namespace {

using test::error_of;
using test::WrittenAdapter;

std::string refusal_of(WrittenAdapter& adapter) {
    return error_of(ErrorKind::bad_data, [&] { read_adapter(adapter.written()); });
}

bool names(const std::string& message, const std::string& words) {
    CAPTURE(message);
    return message.find(words) != std::string::npos;
}

TEST_CASE("modules, their scales, and tensors that are replaced") {
    WrittenAdapter written(4, R"("use_rslora": true, "base_model_name_or_path": "some/base")");
    written.add_module("model.layers.0.self_attn.q_proj", 4, 6, 5);
    written.add("base_model.model.model.layers.0.self_attn.q_proj.lora_B.bias", {5});
    written.add("base_model.model.lm_head.weight", {7, 6});
    written.add("base_model.model.h.0.c_attn.base_layer.bias", {3});
    written.add("base_model.model.model.embed_tokens.base_layer.weight", {7, 6});
    written.add("base_model.model.model.embed_tokens.lora_embedding_A", {4, 7});
    written.add("base_model.model.model.embed_tokens.lora_embedding_B", {6, 4});
    const AdapterFile adapter = read_adapter(written.written());
    CHECK(adapter.config.base_model == "some/base");
    REQUIRE(adapter.modules.size() == 2);
    CHECK(adapter.modules[0].is_embedding);
    const AdapterModule& module = adapter.modules[1];
    CHECK(module.name == "model.layers.0.self_attn.q_proj");
    CHECK(module.a.describe() == "float32[4, 6]");
    CHECK(module.bias.dim(0) == 5);
    CHECK(module.scale == doctest::Approx(8.0 / 2.0));
    CHECK(adapter.replaced.size() == 2);
    CHECK(adapter.replaced.contains("lm_head.weight"));
    CHECK(adapter.replaced.contains("h.0.c_attn.bias"));
}

TEST_CASE("another file has another digest, and so has another config") {
    WrittenAdapter one(2), two(2), three(2, R"("lora_dropout": 0.1)");
    for (WrittenAdapter* adapter : {&one, &two, &three}) adapter->add_module("a.q_proj", 2, 3, 3);
    const uint64_t digest = read_adapter(one.written()).digest;
    CHECK(read_adapter(two.written()).digest == digest);
    CHECK(read_adapter(three.written()).digest != digest);
    two.add_module("a.v_proj", 2, 3, 3);
    CHECK(read_adapter(two.written()).digest != digest);
}

TEST_CASE("the first pattern that matches a module's end counts") {
    const AdapterConfig config = parse_adapter_config(
        R"({"peft_type": "LORA", "r": 8, "lora_alpha": 16,
            "rank_pattern": {"v_proj": 4, "layers\\.1\\.v_proj": 2},
            "alpha_pattern": {"1.q_proj": 4}})",
        "config");
    CHECK(config.rank_of("model.layers.1.v_proj") == 4);
    CHECK(config.rank_of("model.layers.1.kv_proj") == 8);
    CHECK(config.max_rank() == 8);
    CHECK(config.scale_of("model.layers.1.q_proj") == doctest::Approx(0.5));
    CHECK(config.scale_of("model.layers.2.q_proj") == doctest::Approx(2.0));
    CHECK(config.scale_of("model.layers.1.v_proj") == doctest::Approx(4.0));
}

TEST_CASE("what is no LoRA, or means something else, is refused by its key") {
    const auto refused = [](const std::string& keys) {
        return error_of(ErrorKind::bad_data,
                        [&] { parse_adapter_config("{" + keys + "}", "adapter_config.json"); });
    };
    CHECK(names(refused(R"("peft_type": "IA3")"), "peft_type"));
    CHECK(names(refused(R"("r": 4)"), "peft_type"));
    for (const char* key : {"use_qalora", "use_bdlora"}) {
        CHECK(names(refused(R"("peft_type": "LORA", ")" + std::string(key) + R"(": true)"), key));
    }
    CHECK(names(refused(R"("peft_type": "LORA", "r": 257)"), "\"r\""));
    CHECK(names(refused(R"("peft_type": "LORA", "bias": "some")"), "bias"));
    CHECK(names(refused(R"("peft_type": "LORA", "init_lora_weights": "pissa_niter_4")"),
                "init_lora_weights"));
    CHECK(names(refused(R"("peft_type": "LORA", "rank_pattern": {"(": 4})"), "("));
}

TEST_CASE("keys that may mean something are told of") {
    const AdapterConfig config = parse_adapter_config(
        R"({"peft_type": "LORA", "lora_dropout": 0.1, "auto_mapping": null, "use_new": true})",
        "config");
    CHECK(config.unknown_keys == std::vector<std::string>{"use_new"});
}

TEST_CASE("tensors that do not belong together are refused by their names") {
    WrittenAdapter half(2);
    half.add("base_model.model.a.q_proj.lora_A.weight", {2, 3});
    CHECK(names(refusal_of(half), "a.q_proj has no lora_B"));
    WrittenAdapter other_rank(2);
    other_rank.add_module("a.q_proj", 3, 4, 4);
    CHECK(names(refusal_of(other_rank), "of rank 2"));
    WrittenAdapter unequal(2);
    unequal.add("base_model.model.a.q_proj.lora_A.weight", {2, 3});
    unequal.add("base_model.model.a.q_proj.lora_B.weight", {3, 1});
    CHECK(names(refusal_of(unequal), "of rank 2"));
    WrittenAdapter foreign(2);
    foreign.add("model.a.q_proj.lora_A.weight", {2, 3});
    CHECK(names(refusal_of(foreign), "does not begin with base_model.model."));
    WrittenAdapter bias(2);
    bias.add_module("a.q_proj", 2, 3, 3);
    bias.add("base_model.model.a.q_proj.lora_B.bias", {4});
    CHECK(names(refusal_of(bias), "[3] is expected"));
    WrittenAdapter empty(2);
    CHECK(names(refusal_of(empty), "no tensors"));
}

}  // namespace
}  // namespace nvllm
