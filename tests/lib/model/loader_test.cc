// Loading: what is missing, extra or mis-shaped, which bytes are copied, random weights, outlines.
#include "lib/model/loader.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>

#include "lib/base/file.h"
#include "lib/checkpoint/family_defaults.h"
#include "lib/checkpoint/safetensors.h"
#include "lib/model/registry.h"
#include "lib/model/step_scratch.h"
#include "lib/model/weights/checkpoint_source.h"
#include "lib/model/weights/dummy_source.h"
#include "lib/model/weights/scheme.h"
#include "tests/lib/checkpoint/temporary_folder.h"
#include "tests/lib/model/driver.h"
#include "tests/lib/model/reference.h"
#include "tests/shared_data.h"

namespace nvllm {
namespace {

using test::TemporaryFolder;

const std::filesystem::path kFamilies = test::source_path("tests/fixtures/families");
const std::filesystem::path kEncoders = test::source_path("tests/fixtures/embeddings");

// A copy of a family's checkpoint whose tensors can be changed before it is written.
struct Editable {
    TemporaryFolder folder;
    SafetensorsFile original;
    std::map<std::string, ConstTensorView> tensors;
    nlohmann::json config;
    bool refuses_quantized = false;

    explicit Editable(const std::string& family, const std::filesystem::path& root = kFamilies)
        : original(root / family / "model.safetensors"),
          config(nlohmann::json::parse(read_file(root / family / "config.json"))) {
        for (const SafetensorsEntry& entry : original.entries()) {
            tensors[entry.name] = original.view(entry);
        }
    }

    std::unique_ptr<Model> load(DType dtype = DType::f32) {
        std::vector<TensorToWrite> list;
        for (const auto& [name, view] : tensors) list.push_back({name, view});
        write_safetensors(folder.path() / "model.safetensors", list);
        folder.write("config.json", config.dump());
        ThreadPool threads(2);
        return load_model({.directory = folder.path(),
                           .dtype = dtype,
                           .refuses_quantized = refuses_quantized,
                           .threads = &threads});
    }

    void check_refused(ErrorKind kind, std::initializer_list<const char*> parts) {
        try {
            load();
            FAIL_CHECK("was loaded");
        } catch (const Error& error) {
            const std::string message = error.what();
            CHECK_MESSAGE(error.kind() == kind, message);
            for (const char* part : parts) {
                CHECK_MESSAGE(message.find(part) != std::string::npos, message);
            }
        }
    }
};

std::vector<float> logits_of(Model& model, std::span<const int32_t> ids) {
    ThreadPool threads(2);
    test::Driver driver(model, threads, DType::f32, 16);
    return driver.logits_of(ids, 0);
}

std::vector<float> hidden_of(Model& model, std::span<const int32_t> ids) {
    ThreadPool threads(2);
    test::Driver driver(model, threads, DType::f32, 16);
    return driver.hidden_of(ids);
}

// Without the first part of a name, where it is `prefix`.
std::map<std::string, ConstTensorView> without(
    const std::string& prefix, const std::map<std::string, ConstTensorView>& tensors) {
    std::map<std::string, ConstTensorView> bare;
    for (const auto& [name, view] : tensors) {
        bare[name.starts_with(prefix) ? name.substr(prefix.size()) : name] = view;
    }
    return bare;
}

const std::vector<int32_t> kIds = {3, 1, 4, 1, 5, 9, 2, 6};

TEST_CASE("loader: a missing tensor is named with its shape and file") {
    Editable llama("llama");
    llama.tensors.erase("model.layers.1.mlp.up_proj.weight");
    llama.check_refused(ErrorKind::bad_data, {"no tensor model.layers.1.mlp.up_proj.weight",
                                              "[96, 64]", llama.folder.path().c_str()});
}

TEST_CASE("loader: a mis-shaped tensor is named with both shapes") {
    Editable llama("llama");
    ConstTensorView& view = llama.tensors.at("model.layers.0.self_attn.k_proj.weight");
    view = view.reshaped({64, 32});
    llama.check_refused(ErrorKind::bad_data, {"model.layers.0.self_attn.k_proj.weight",
                                              "bfloat16[64, 32]", "[32, 64]", "model.safetensors"});
}

TEST_CASE("loader: sizes of another model do not lead to large allocations") {
    Editable llama("llama");
    llama.config["vocab_size"] = 4000000;
    llama.config["num_hidden_layers"] = 1000;
    llama.check_refused(ErrorKind::bad_data, {"model.embed_tokens.weight", "[4000000, 64]"});
}

TEST_CASE("loader: tensors of other types are refused") {
    Editable llama("llama");
    ConstTensorView& view = llama.tensors.at("model.norm.weight");
    view.dtype = DType::i16;
    llama.check_refused(ErrorKind::bad_data, {"model.norm.weight is int16[64]"});
}

TEST_CASE("loader: scales of a float8 cache are the checkpoint's, one number above 0 each") {
    const std::string layer = "model.layers.0.self_attn.";
    const std::vector<int32_t> tokens{5, 9, 3, 17, 40};
    const auto logits = [&](Editable& llama, DType kv_dtype) {
        const std::unique_ptr<Model> model = llama.load();
        ThreadPool threads(1);
        test::Driver driver(*model, threads, kv_dtype, 4);
        return driver.logits_of(tokens, 0);
    };
    Editable plain("llama"), scaled("llama");
    const float huge = 1e6f;  // next to which keys are nothing
    scaled.tensors[layer + "k_scale"] = ConstTensorView(&huge, DType::f32, {1});
    CHECK(logits(plain, DType::f32) == logits(scaled, DType::f32));
    CHECK(logits(plain, DType::f8_e4m3) != logits(scaled, DType::f8_e4m3));
    for (const float wrong : {0.0f, -1.0f, std::nanf("")}) {
        Editable llama("llama");
        llama.tensors[layer + "v_scale"] = ConstTensorView(&wrong, DType::f32, {1});
        llama.check_refused(ErrorKind::bad_data, {"self_attn.v_scale", "above 0"});
    }
}

// Of the same shapes and types, other bytes.
Tensor scaled_copy(const ConstTensorView& view, float factor) {
    Tensor copy = Tensor::allocate(view, ComputeDevice());
    for (int64_t i = 0; i < view.numel(); ++i) {
        copy.mutable_view().as<BFloat16>()[i] =
            BFloat16(factor * static_cast<float>(view.as<BFloat16>()[i]));
    }
    return copy;
}

TEST_CASE("loader: a stored head is used whatever the config says of tying, an equal one shared") {
    for (const char* family : {"qwen3", "gemma2", "gpt2"}) {
        CAPTURE(family);
        Editable tied(family);
        const bool is_gpt2 = std::string(family) == "gpt2";
        const ConstTensorView embedding =
            tied.tensors.at(is_gpt2 ? "transformer.wte.weight" : "model.embed_tokens.weight");
        const auto model = tied.load();
        const std::vector<float> expected = logits_of(*model, kIds);
        tied.tensors["lm_head.weight"] = embedding;
        const auto shared = tied.load();
        CHECK(logits_of(*shared, kIds) == expected);
        CHECK(shared->weight_bytes() == model->weight_bytes());
        const Tensor head = scaled_copy(embedding, -2.0f);
        tied.tensors["lm_head.weight"] = head.view();
        const auto own = tied.load();
        CHECK(logits_of(*own, kIds) != expected);
        CHECK(own->weight_bytes() == model->weight_bytes() + head.bytes());
        CHECK(model_metadata({.directory = tied.folder.path()}).weight_bytes ==
              own->weight_bytes());
    }
}

TEST_CASE("loader: a quantized head is used whatever the config says of tying") {
    Editable tied("qwen3");
    const std::vector<float> dense = logits_of(*tied.load(), kIds);
    const ConstTensorView embedding = tied.tensors.at("model.embed_tokens.weight");
    Tensor codes = Tensor::allocate(DType::i8, {embedding.dim(0), embedding.dim(1)});
    for (int64_t i = 0; i < codes.view().numel(); ++i) {
        codes.mutable_view().as<int8_t>()[i] = static_cast<int8_t>(i % 7 - 3);
    }
    const std::vector<float> scales(static_cast<size_t>(embedding.dim(0)), 0.05f);
    tied.tensors["lm_head.weight"] = codes.view();
    tied.tensors["lm_head.weight_scale"] =
        ConstTensorView(scales.data(), DType::f32, {embedding.dim(0), 1});
    tied.config["quantization_config"] = {
        {"quant_method", "compressed-tensors"},
        {"format", "int-quantized"},
        {"config_groups",
         {{"group_0",
           {{"targets", {"re:lm_head"}},
            {"weights",
             {{"num_bits", 8}, {"type", "int"}, {"symmetric", true}, {"strategy", "channel"}}}}}}}};
    const std::vector<float> own = logits_of(*tied.load(), kIds);
    CHECK(own != dense);
    tied.config["tie_word_embeddings"] = false;
    CHECK(logits_of(*tied.load(), kIds) == own);
}

TEST_CASE("loader: where they are tied, a stored head alone stands for both") {
    Editable tied("qwen3");
    const std::vector<float> expected = logits_of(*tied.load(), kIds);
    tied.tensors["lm_head.weight"] = tied.tensors.at("model.embed_tokens.weight");
    tied.tensors.erase("model.embed_tokens.weight");
    CHECK(logits_of(*tied.load(), kIds) == expected);
    tied.config["tie_word_embeddings"] = false;
    tied.check_refused(ErrorKind::bad_data, {"no tensor model.embed_tokens.weight"});
}

TEST_CASE("loader: modules that are not the model's are skipped with a note") {
    Editable llama("llama");
    const std::vector<float> expected = logits_of(*llama.load(), kIds);
    CHECK(model_metadata({.directory = llama.folder.path()}).weights_note.empty());
    const ConstTensorView some = llama.tensors.at("model.norm.weight");
    for (const char* name :
         {"v_head.summary.weight", "v_head.summary.bias", "score.weight",
          "model.layers.2.mlp.up_proj.weight", "mtp.layers.0.input_layernorm.weight"}) {
        llama.tensors[name] = some;
    }
    CHECK(logits_of(*llama.load(), kIds) == expected);
    const std::string note = model_metadata({.directory = llama.folder.path()}).weights_note;
    CHECK_MESSAGE(note.ends_with("model.safetensors: not used: model.layers.2, mtp, score, "
                                 "v_head (2 tensors)"),
                  note);
    // What a module that is used would compute with is not skipped.
    for (const char* name :
         {"lm_head.bias", "model.norm.bias", "model.layers.0.self_attn.q_proj.bias",
          "model.layers.1.self_attn.q_norm.weight"}) {
        CAPTURE(name);
        llama.tensors[name] = some;
        llama.check_refused(ErrorKind::bad_data, {name, "has no place in a LlamaForCausalLM"});
        llama.tensors.erase(name);
    }
}

TEST_CASE("loader: names of a model within another, and of a body with a head of another task") {
    Editable llama("llama");
    const auto original = llama.tensors;
    const std::vector<float> expected = logits_of(*llama.load(), kIds);
    for (const auto& [body, head] : {std::pair{"model.model.", "model.lm_head.weight"},
                                     {"model.text_model.", "lm_head.weight"},
                                     {"language_model.model.", "language_model.lm_head.weight"}}) {
        CAPTURE(body);
        llama.tensors.clear();
        for (const auto& [name, view] : original) {
            llama.tensors[name == "lm_head.weight" ? head : body + name.substr(6)] = view;
        }
        llama.tensors["vision_tower.layers.0.input_layernorm.weight"] =
            original.at("model.norm.weight");
        CHECK(logits_of(*llama.load(), kIds) == expected);
    }
    llama.tensors = original;
    const std::vector<float> hidden = hidden_of(*llama.load(), kIds);
    llama.config["architectures"] = nlohmann::json::array({"LlamaForSequenceClassification"});
    CHECK(logits_of(*llama.load(), kIds) == expected);
    llama.tensors.erase("lm_head.weight");
    llama.tensors["score.weight"] = original.at("model.embed_tokens.weight");
    llama.config["num_labels"] = llama.config["vocab_size"];
    const auto body = llama.load();
    CHECK_FALSE(body->config().generates);
    CHECK(body->config().labels.size() == llama.config["vocab_size"].get<size_t>());
    CHECK(hidden_of(*body, kIds) == hidden);
}

TEST_CASE("loader: an index may promise what nobody needs") {
    Editable tied("qwen3");
    const std::vector<float> expected = logits_of(*tied.load(), kIds);
    nlohmann::json map;
    for (const auto& [name, view] : tied.tensors) map[name] = "model-00001-of-00001.safetensors";
    map["lm_head.weight"] = "model-00001-of-00001.safetensors";
    const auto path = tied.folder.path();
    std::filesystem::rename(path / "model.safetensors", path / "model-00001-of-00001.safetensors");
    tied.folder.write("model.safetensors.index.json", nlohmann::json{{"weight_map", map}}.dump());
    ThreadPool threads(2);
    const ModelLoadOptions options{.directory = path, .dtype = DType::f32, .threads = &threads};
    CHECK(logits_of(*load_model(options), kIds) == expected);
    tied.config["tie_word_embeddings"] = false;
    tied.folder.write("config.json", tied.config.dump());
    CHECK_THROWS_WITH_AS(load_model(options),
                         doctest::Contains("the index says that it is in model-00001-of-00001"),
                         Error);
}

// The experts of a layer in one tensor each; one that is not square may be turned.
TEST_CASE("loader: experts that are stored together are those that are stored apart") {
    Editable apart("qwen3_moe");
    const auto model = apart.load();
    const std::vector<float> expected = logits_of(*model, kIds);
    const ModelConfig& config = model->config();
    const int64_t hidden = config.hidden_size, inner = config.expert_intermediate_size;
    const std::string layer = "model.layers.0.mlp.experts.";
    for (const bool turned : {false, true}) {
        CAPTURE(turned);
        Editable fused("qwen3_moe");
        const auto fill = [&](Tensor& stack, int64_t expert, int64_t first, const char* linear,
                              bool is_turned) {
            const std::string name = layer + std::to_string(expert) + "." + linear + ".weight";
            const ConstTensorView from = fused.tensors.at(name);
            const int64_t columns = stack.view().dim(2);
            auto* to = stack.mutable_view().as<BFloat16>() + expert * stack.view().stride(0);
            for (int64_t i = 0; i < from.numel(); ++i) {
                const int64_t row = first + i / from.dim(1), column = i % from.dim(1);
                to[is_turned ? column * columns + row : row * columns + column] =
                    from.as<BFloat16>()[i];
            }
            fused.tensors.erase(name);
        };
        Tensor in = turned ? Tensor::allocate(DType::bf16, {config.num_experts, hidden, 2 * inner})
                           : Tensor::allocate(DType::bf16, {config.num_experts, 2 * inner, hidden});
        Tensor down = Tensor::allocate(DType::bf16, {config.num_experts, hidden, inner});
        for (int64_t expert = 0; expert < config.num_experts; ++expert) {
            fill(in, expert, 0, "gate_proj", turned);
            fill(in, expert, inner, "up_proj", turned);
            fill(down, expert, 0, "down_proj", false);
        }
        fused.tensors[layer + "gate_up_proj"] = in.view();
        fused.tensors[layer + "down_proj"] = down.view();
        CHECK(logits_of(*fused.load(), kIds) == expected);
        CHECK(model_metadata({.directory = fused.folder.path()}).weight_bytes ==
              model->weight_bytes());
        fused.tensors[layer + "down_proj"] =
            down.view().reshaped({1, config.num_experts, hidden * inner});
        fused.check_refused(ErrorKind::bad_data, {"experts.down_proj", "or that turned"});
    }
}

TEST_CASE("loader: tensors that have no place are refused, known leftovers are not") {
    Editable qwen("qwen3");
    const ConstTensorView some = qwen.tensors.at("model.norm.weight");
    qwen.tensors["lm_head.weight"] = qwen.tensors.at("model.embed_tokens.weight");
    qwen.tensors["model.layers.0.self_attn.rotary_emb.inv_freq"] = some;
    CHECK(qwen.load() != nullptr);
    qwen.tensors["model.layers.0.self_attn.q_proj.weight_scale"] = some;
    qwen.check_refused(ErrorKind::bad_data,
                       {"q_proj.weight_scale", "has no place in a Qwen3ForCausalLM"});
}

TEST_CASE("loader: each family that a config may be of can be made") {
    for (const FamilyDefaults& family : known_families()) {
        CAPTURE(family.architecture);
        ModelConfig config;
        config.text_architecture = family.architecture;
        CHECK(family_of(config).architecture == std::string(family.architecture));
    }
}

TEST_CASE("loader: unknown and quantized models are refused before their weights are looked at") {
    Editable llama("llama");
    llama.config["architectures"] = nlohmann::json::array({"MambaForCausalLM"});
    llama.check_refused(ErrorKind::bad_data,
                        {"MambaForCausalLM", "model_type \"llama\"", "plain LlamaForCausalLM"});
    llama.config["architectures"] = nlohmann::json::array({"LlamaForCausalLM"});
    llama.config["hidden_act"] = "mish";
    llama.check_refused(ErrorKind::bad_data, {"mish", "gelu_new"});
    llama.config["hidden_act"] = "silu";
    llama.config["quantization_config"] = {{"quant_method", "exl2"}};
    llama.check_refused(ErrorKind::bad_data, {"config.json", "exl2", "fp8, mxfp4 and modelopt"});
    llama.config["quantization_config"] = {{"quant_method", "awq"}};
    llama.refuses_quantized = true;
    llama.check_refused(ErrorKind::bad_data, {"--quantization none refuses"});
}

TEST_CASE("loader: GPT-2 names with and without their prefix are the same model") {
    Editable gpt2("gpt2");
    const std::vector<float> expected = logits_of(*gpt2.load(), kIds);
    gpt2.tensors = without("transformer.", gpt2.tensors);
    CHECK(logits_of(*gpt2.load(), kIds) == expected);
}

TEST_CASE("loader: a decoder's body that was saved by itself has hidden states and no logits") {
    Editable llama("llama");
    const std::vector<float> expected = hidden_of(*llama.load(), kIds);
    llama.tensors = without("model.", llama.tensors);
    CHECK(hidden_of(*llama.load(), kIds) == expected);
    llama.tensors.erase("lm_head.weight");
    llama.check_refused(ErrorKind::bad_data, {"no tensor lm_head.weight"});
    llama.config["architectures"] = nlohmann::json::array({"LlamaModel"});
    const auto body = llama.load();
    CHECK_FALSE(body->config().generates);
    CHECK(hidden_of(*body, kIds) == expected);
    CHECK_THROWS_AS(logits_of(*body, kIds), Error);
}

TEST_CASE(
    "loader: names of encoders with and without their prefix, old norms, other tasks' heads") {
    for (const auto& [family, prefix] : {std::pair{"bert", "bert."},
                                         {"roberta", "roberta."},
                                         {"distilbert", "distilbert."},
                                         {"mpnet", "mpnet."}}) {
        CAPTURE(family);
        Editable encoder(family, kEncoders);
        const std::vector<float> expected = hidden_of(*encoder.load(), kIds);
        const auto bare = without(prefix, encoder.tensors);
        encoder.tensors = bare;
        CHECK(hidden_of(*encoder.load(), kIds) == expected);
        encoder.tensors.clear();
        for (const auto& [name, view] : bare) encoder.tensors[prefix + name] = view;
        const ConstTensorView some = bare.begin()->second;
        for (const char* name : {"cls.predictions.bias", "lm_head.bias", "classifier.weight",
                                 "vocab_projector.bias"}) {
            encoder.tensors[name] = some;
        }
        encoder.tensors[std::string(prefix) + "embeddings.position_ids"] = some;
        std::erase_if(encoder.tensors, [&](const auto& item) {
            return item.first.starts_with(std::string(prefix) + "lm_head.") ||
                   item.first.starts_with(std::string(prefix) + "vocab_");
        });
        CHECK(hidden_of(*encoder.load(), kIds) == expected);
        encoder.tensors["something.else"] = some;
        CHECK(hidden_of(*encoder.load(), kIds) == expected);
        CHECK(model_metadata({.directory = encoder.folder.path()})
                  .weights_note.ends_with("not used: something"));
        encoder.tensors[std::string(prefix) + "embeddings.rotation.weight"] = some;
        encoder.check_refused(ErrorKind::bad_data, {"rotation.weight", "has no place"});
    }
    Editable bert("bert", kEncoders);
    const std::vector<float> expected = hidden_of(*bert.load(), kIds);
    for (const auto& [name, view] : std::map(bert.tensors)) {
        const size_t norm = name.find("LayerNorm.");
        if (norm == std::string::npos) continue;
        bert.tensors.erase(name);
        bert.tensors[name.substr(0, norm + 10) + (name.ends_with("bias") ? "beta" : "gamma")] =
            view;
    }
    CHECK(hidden_of(*bert.load(), kIds) == expected);
}

TEST_CASE("loader: an encoder cannot run longer than its learned positions") {
    ThreadPool threads(1);
    CHECK_THROWS_WITH_AS(
        load_model({.directory = kEncoders / "roberta", .max_model_len = 65, .threads = &threads}),
        doctest::Contains("learned only 64 positions"), Error);
}

TEST_CASE(
    "loader: the text model of Gemma 3 is found beside its vision part, in old files and new") {
    Editable gemma("gemma3");
    const std::vector<float> expected = logits_of(*gemma.load(), kIds);
    const auto bare = gemma.tensors;
    gemma.config = {{"model_type", "gemma3"},
                    {"architectures", nlohmann::json::array({"Gemma3ForConditionalGeneration"})},
                    {"text_config", gemma.config},
                    {"vision_config", {{"hidden_size", 8}}}};
    for (const std::string prefix : {"language_model.model.", "model.language_model."}) {
        gemma.tensors.clear();
        for (const auto& [name, view] : bare) gemma.tensors[prefix + name.substr(6)] = view;
        gemma.tensors["vision_tower.patch.weight"] = bare.begin()->second;
        gemma.tensors["multi_modal_projector.weight"] = bare.begin()->second;
        CHECK(logits_of(*gemma.load(), kIds) == expected);
    }
    CHECK(gemma.load()->kv_groups().size() == 2);
}

TEST_CASE("loader: GPT-2 cannot run longer than its learned positions") {
    ThreadPool threads(1);
    CHECK_THROWS_WITH_AS(
        load_model({.directory = kFamilies / "gpt2", .max_model_len = 257, .threads = &threads}),
        doctest::Contains("learned only 256 positions"), Error);
}

// Stored as float16, bfloat16 or float32, values that all three can hold must give the same logits.
TEST_CASE("loader: the stored type does not matter when the values are the same") {
    Editable llama("llama");
    std::map<std::string, Tensor> wide;
    for (auto& [name, view] : llama.tensors) {
        Tensor copy = view.rank == 2 ? Tensor::allocate(DType::f32, {view.dim(0), view.dim(1)})
                                     : Tensor::allocate(DType::f32, {view.dim(0)});
        for (int64_t i = 0; i < view.numel(); ++i) {
            copy.mutable_view().as<float>()[i] = static_cast<float>(view.as<BFloat16>()[i]);
        }
        wide[name] = copy;
    }
    for (const DType product : {DType::f32, DType::bf16}) {
        CAPTURE(std::string(dtype_name(product)));
        Editable stored("llama");
        const std::vector<float> narrow_logits = logits_of(*stored.load(product), kIds);
        for (auto& [name, view] : stored.tensors) view = wide.at(name).view();
        const std::vector<float> wide_logits = logits_of(*stored.load(product), kIds);
        // In float32 the order of a sum follows the stored type.
        if (product == DType::f32) {
            CHECK(test::largest_difference(wide_logits, narrow_logits) < 1e-5);
        } else {
            CHECK(wide_logits == narrow_logits);
        }
    }
}

TEST_CASE("loader: values at odd addresses are read") {
    Editable llama("llama");
    const std::vector<float> expected = logits_of(*llama.load(), kIds);
    // One byte in front moves all data of the file to odd addresses.
    const auto path = llama.folder.path() / "model.safetensors";
    std::string bytes = read_file(path);
    uint64_t length = 0;
    std::memcpy(&length, bytes.data(), sizeof(length));
    nlohmann::json header = nlohmann::json::parse(bytes.substr(8, length));
    for (auto& [name, entry] : header.items()) {
        for (auto& offset : entry["data_offsets"]) offset = offset.get<uint64_t>() + 1;
    }
    header["one.rotary_emb.inv_freq"] = {{"dtype", "U8"}, {"shape", {1}}, {"data_offsets", {0, 1}}};
    std::string text = header.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');
    const uint64_t new_length = text.size();
    std::string moved(8, '\0');
    std::memcpy(moved.data(), &new_length, sizeof(new_length));
    llama.folder.write("model.safetensors", moved + text + "x" + bytes.substr(8 + length));
    ThreadPool threads(2);
    const auto model =
        load_model({.directory = llama.folder.path(), .dtype = DType::f32, .threads = &threads});
    CHECK(logits_of(*model, kIds) == expected);
}

TEST_CASE("loader: weights are used where they lie when their type allows it") {
    ThreadPool threads(2);
    const auto load_part = [&](const std::string& family, DType product, const std::string& name) {
        CheckpointSource source(Checkpoint::open(kFamilies / family), product, threads);
        const Tensor stored = source.read(name, {64, 64}, WeightRole::matrix);
        return as_product_matrix(source, stored).view().data == stored.view().data;
    };
    const std::string name = "model.layers.0.self_attn.q_proj.weight";
    CHECK(load_part("llama", DType::bf16, name));
    CHECK(load_part("llama", DType::f32, name));
    CHECK_FALSE(load_part("llama", DType::f16, name));
    CHECK(load_part("qwen2", DType::f16, name));
    CHECK_FALSE(load_part("qwen2", DType::bf16, name));
}

TEST_CASE("loader: --dtype auto is the config's type") {
    ModelConfig config;
    CHECK(resolve_dtype(config, std::nullopt) == DType::f32);
    config.dtype = DType::bf16;
    CHECK(resolve_dtype(config, std::nullopt) == DType::bf16);
    CHECK(resolve_dtype(config, DType::f16) == DType::f16);
    CHECK_THROWS_AS(resolve_dtype(config, DType::i8), Error);
}

const LargestStep kStep{.tokens = 100, .rows = 3, .num_threads = 2};

TEST_CASE("loader: an outline knows sizes without reading weights") {
    for (const char* family :
         {"llama", "qwen2", "qwen3", "gpt2", "mistral", "gemma3", "mixtral", "qwen3_moe"}) {
        CAPTURE(family);
        ThreadPool threads(2);
        const auto model = load_model({.directory = kFamilies / family, .threads = &threads});
        const TemporaryFolder folder;
        folder.write("config.json", read_file(kFamilies / family / "config.json"));
        const ModelMetadata metadata =
            model_metadata({.directory = folder.path(), .threads = &threads});
        CHECK(metadata.weight_bytes == model->weight_bytes());
        CHECK(step_scratch_bytes(*metadata.model, kStep) == step_scratch_bytes(*model, kStep));
        CHECK(metadata.compute_type == model->config().dtype);
        REQUIRE(metadata.kv_groups.size() == model->kv_groups().size());
        CHECK(metadata.kv_groups[0].layers == model->kv_groups()[0].layers);
        CHECK(metadata.kv_groups[0].window == model->kv_groups()[0].window);
    }
}

TEST_CASE(
    "loader: an outline by headers counts what loading makes of them, and checks them alike") {
    ThreadPool threads(2);
    for (const char* family : {"llama", "qwen2", "gpt2", "mixtral"}) {
        for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
            CAPTURE(family);
            const ModelLoadOptions options{
                .directory = kFamilies / family, .dtype = dtype, .threads = &threads};
            const ModelMetadata metadata = model_metadata(options);
            REQUIRE(metadata.checkpoint != nullptr);
            CHECK(metadata.weight_bytes == load_model(options)->weight_bytes());
            const ModelLoadOptions dummy{.directory = kFamilies / family,
                                         .dtype = dtype,
                                         .load_format = LoadFormat::dummy,
                                         .threads = &threads};
            CHECK(model_metadata(dummy).weight_bytes == load_model(dummy)->weight_bytes());
        }
    }
    const TemporaryFolder folder;
    folder.write("config.json", read_file(kFamilies / "llama" / "config.json"));
    folder.write("model.safetensors", read_file(kFamilies / "qwen2" / "model.safetensors"));
    CHECK_THROWS_AS(model_metadata({.directory = folder.path(), .threads = &threads}), Error);
}

TEST_CASE("loader: outlines of encoders") {
    ThreadPool threads(2);
    for (const char* family : {"bert", "roberta", "distilbert", "mpnet"}) {
        CAPTURE(family);
        const auto model = load_model({.directory = kEncoders / family, .threads = &threads});
        const ModelMetadata by_headers =
            model_metadata({.directory = kEncoders / family, .threads = &threads});
        CHECK(by_headers.weight_bytes == model->weight_bytes());
        const TemporaryFolder folder;
        folder.write("config.json", read_file(kEncoders / family / "config.json"));
        const ModelMetadata by_config =
            model_metadata({.directory = folder.path(), .threads = &threads});
        CHECK(by_config.weight_bytes == model->weight_bytes());
        CHECK(step_scratch_bytes(*by_config.model, kStep) == step_scratch_bytes(*model, kStep));
        REQUIRE(by_config.kv_groups.size() == 1);
        CHECK(by_config.kv_groups[0].bytes_per_token(DType::f32) == 2 * 2 * 32 * 4);
    }
}

TEST_CASE("loader: the tensors of a config are those of its checkpoint") {
    for (const char* family : {"llama", "qwen3", "gemma2", "phi3", "qwen3_moe"}) {
        CAPTURE(family);
        std::vector<std::string> names;
        for (const MetaTensor& tensor : meta_tensors(read_model_config(kFamilies / family))) {
            names.push_back(tensor.name);
        }
        std::sort(names.begin(), names.end());
        const Checkpoint checkpoint = Checkpoint::open(kFamilies / family);
        const std::vector<std::string_view> stored = checkpoint.names();
        CHECK(names == std::vector<std::string>(stored.begin(), stored.end()));
    }
}

TEST_CASE("loader: a window makes a cache group of its own geometry") {
    ThreadPool threads(1);
    const auto model = load_model({.directory = kFamilies / "mistral", .threads = &threads});
    REQUIRE(model->kv_groups().size() == 1);
    const CacheLayout& group = model->kv_groups()[0];
    CHECK(group.window == 16);
    CHECK(group.layers == std::vector<int32_t>{0, 1});
    CHECK(group.kv_heads == 2);
    CHECK(group.head_dim == 24);
    CHECK(group.bytes_per_token(DType::bf16) == 2 * 2 * 2 * 24 * 2);
}

TEST_CASE("dummy weights: only config.json is needed, and threads do not matter") {
    for (const char* family : {"llama", "gpt2"}) {
        const TemporaryFolder folder;
        folder.write("config.json", read_file(kFamilies / family / "config.json"));
        std::vector<float> first;
        for (const int num_threads : {1, 3}) {
            ThreadPool threads(num_threads);
            ModelLoadOptions options{.directory = folder.path(), .threads = &threads};
            CHECK_THROWS_AS(load_model(options), Error);
            options.load_format = LoadFormat::dummy;
            options.seed = 7;
            const auto model = load_model(options);
            const std::vector<float> logits = logits_of(*model, kIds);
            if (first.empty()) first = logits;
            CHECK(logits == first);
            options.seed = 8;
            CHECK(logits_of(*load_model(options), kIds) != first);
        }
    }
}

TEST_CASE("dummy weights: normal with deviation 0.02, norms 1") {
    ThreadPool threads(2);
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
        DummySource source(3, dtype, threads);
        const Tensor matrix = source.read("a.weight", {500, 401}, WeightRole::matrix);
        const auto value = [&](int64_t i) {
            if (dtype == DType::f32) return static_cast<double>(matrix.view().as<float>()[i]);
            if (dtype == DType::bf16)
                return static_cast<double>(static_cast<float>(matrix.view().as<BFloat16>()[i]));
            return static_cast<double>(static_cast<float>(matrix.view().as<Float16>()[i]));
        };
        double sum = 0.0, squares = 0.0, largest = 0.0, neighbours = 0.0;
        const int64_t count = matrix.view().numel();
        for (int64_t i = 0; i < count; ++i) {
            sum += value(i);
            squares += value(i) * value(i);
            largest = std::max(largest, std::abs(value(i)));
            if (i > 0) neighbours += value(i) * value(i - 1);
        }
        const auto n = static_cast<double>(count);
        CHECK(std::abs(sum / n) < 2e-4);
        CHECK(std::sqrt(squares / n) == doctest::Approx(0.02).epsilon(0.01));
        CHECK(std::abs(neighbours / squares) < 0.01);
        CHECK(largest > 0.06);
        CHECK(largest < 0.08);
        const Tensor other = source.read("b.weight", {500, 401}, WeightRole::matrix);
        CHECK(std::memcmp(other.view().data, matrix.view().data, matrix.bytes()) != 0);
        const Tensor again = source.read("a.weight", {500, 401}, WeightRole::matrix);
        CHECK(std::memcmp(again.view().data, matrix.view().data, matrix.bytes()) == 0);
    }
    DummySource source(3, DType::f32, threads);
    CHECK(source.read("n", {5}, WeightRole::norm).view().as<float>()[4] == 1.0f);
}

}  // namespace
}  // namespace nvllm
