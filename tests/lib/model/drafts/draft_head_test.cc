// Draft heads in published layouts against stored logits, whole, in chunks and in drafts.
#include <doctest/doctest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>

#include "lib/base/file.h"
#include "lib/checkpoint/draft_head_config.h"
#include "lib/model/drafts/draft_head_loader.h"
#include "lib/model/loader.h"
#include "tests/error_of.h"
#include "tests/lib/checkpoint/temporary_folder.h"
#include "tests/lib/model/drafts/draft_driver.h"
#include "tests/lib/model/reference.h"
#include "tests/shared_data.h"

namespace nvllm {
namespace {

namespace fs = std::filesystem;

std::vector<int32_t> ids_of(const SafetensorsFile& file, const std::string& name) {
    const auto wide = test::values_of<int64_t>(file, name);
    return {wide.begin(), wide.end()};
}

// Within 1e-4 of the largest value there.
void check_close(const std::vector<float>& found, const std::vector<float>& expected) {
    double size = 1.0;
    for (const float value : expected) size = std::max(size, std::abs(static_cast<double>(value)));
    REQUIRE(!expected.empty());
    CHECK(test::largest_difference(found, expected) < 1e-4 * size);
}

std::vector<float> last_row(const std::vector<float>& rows, size_t count) {
    return {rows.end() - static_cast<std::ptrdiff_t>(rows.size() / count), rows.end()};
}

struct Case {
    fs::path head;
    fs::path target;
    bool masks_first = false;
};

std::unique_ptr<DraftHead> load(const Case& where, ThreadPool& threads) {
    return load_draft_head({.directory = where.head,
                            .target_directory = where.target,
                            .dtype = DType::f32,
                            .reading = {.masks_first_embedding = where.masks_first},
                            .threads = &threads});
}

std::vector<float> states_of(const SafetensorsFile& file) {
    const bool fuses = file.find("aux_hidden") != nullptr;
    return test::values_of<float>(file, fuses ? "aux_hidden" : "hidden");
}

// Greedy tokens of the head by itself behind the prompt.
void check_chain(const DraftHead& head, const SafetensorsFile& file, test::DraftDriver& driver,
                 const test::DraftRows& prompt, size_t prompt_length) {
    const auto expected = ids_of(file, "chain_ids");
    std::vector<float> state = last_row(prompt.states, prompt_length);
    std::vector<float> logits = last_row(prompt.logits, prompt_length);
    std::vector<float> all = logits;
    std::vector<int32_t> chain;
    while (true) {
        const auto best = std::max_element(logits.begin(), logits.end()) - logits.begin();
        chain.push_back(head.target_id(static_cast<int32_t>(best)));
        if (chain.size() == expected.size()) break;
        const test::DraftRows next = driver.draft({&chain.back(), 1}, state);
        state = next.states;
        logits = next.logits;
        all.insert(all.end(), logits.begin(), logits.end());
    }
    CHECK(chain == expected);
    check_close(all, test::values_of<float>(file, "chain_logits"));
}

void check_case(const Case& where) {
    CAPTURE(where.head.string());
    ThreadPool threads(2);
    const auto head = load(where, threads);
    const SafetensorsFile file(where.head / "case.safetensors");
    const auto tokens = ids_of(file, "input_ids");
    const auto states = states_of(file);
    const auto expected =
        test::values_of<float>(file, where.masks_first ? "logits_position0_masked" : "logits");
    test::DraftDriver driver(*head, threads);
    const test::DraftRows rows = driver.step(tokens, states);
    check_close(rows.logits, expected);
    if (!where.masks_first) check_close(rows.states, test::values_of<float>(file, "output"));
    if (file.find("chain_ids") != nullptr && !where.masks_first) {
        check_chain(*head, file, driver, rows, tokens.size());
    }

    // In chunks the same to the bit: the head's cache is the model's.
    test::DraftDriver chunked(*head, threads);
    const size_t width = states.size() / tokens.size();
    std::vector<float> logits;
    for (size_t first = 0; first < tokens.size(); first += 3) {
        const size_t count = std::min<size_t>(3, tokens.size() - first);
        const auto part = chunked.step(std::span(tokens).subspan(first, count),
                                       std::span(states).subspan(first * width, count * width));
        logits.insert(logits.end(), part.logits.begin(), part.logits.end());
    }
    CHECK(logits == rows.logits);
}

// The stored cases of next-token layers were computed with rotary frequencies rounded to bfloat16,
// which is up to 0.4 % off the formula: here factors of longrope make ours the same.
void check_rounded_case(const fs::path& head) {
    const test::TemporaryFolder folder;
    for (const char* name : {"model.safetensors", "case.safetensors"}) {
        fs::create_symlink(fs::absolute(head / name), folder.path() / name);
    }
    nlohmann::json config = nlohmann::json::parse(read_file(head / "config.json"));
    nlohmann::json& rope = config.at("rope_parameters");
    const double theta = rope.at("rope_theta").get<double>();
    const double hidden = config.at("hidden_size").get<double>();
    const double heads = config.at("num_attention_heads").get<double>();
    const double rotary =
        config.value("head_dim", hidden / heads) * rope.value("partial_rotary_factor", 1.0);
    std::vector<double> factors;
    for (double pair = 0; pair < rotary / 2; ++pair) {
        const double frequency = std::pow(theta, -2 * pair / rotary);
        factors.push_back(frequency / static_cast<float>(BFloat16(static_cast<float>(frequency))));
    }
    rope.update({{"rope_type", "longrope"},
                 {"short_factor", factors},
                 {"long_factor", factors},
                 {"attention_factor", 1.0},
                 {"original_max_position_embeddings", config.at("max_position_embeddings")}});
    folder.write("config.json", config.dump());
    check_case({folder.path(), {}});
    if (SafetensorsFile(head / "case.safetensors").find("logits_position0_masked") != nullptr) {
        check_case({folder.path(), {}, true});
    }
}

TEST_CASE("heads of scripts/fixtures/make_drafts.py give the logits of torch") {
    const fs::path target = test::source_path("tests/fixtures/families/llama");
    for (const char* name : {"eagle_bias", "eagle_two_layers", "eagle3_norms", "eagle3_last_state",
                             "eagle3_speculators"}) {
        const fs::path head = test::source_path("tests/fixtures/drafts") / name;
        check_case({head, target});
        check_case({head, target, true});
    }
    for (const char* name :
         {"mtp_mimo", "mtp_qwen", "mtp_qwen_experts", "mtp_deepseek", "mtp_glm"}) {
        const fs::path model = test::source_path("tests/fixtures/drafts") / name;
        check_case({model, {}});
        check_case({model, {}, true});
    }
}

TEST_CASE("heads in published layouts give the stored draft logits") {
    const fs::path heads = test::shared_data("drafts");
    const fs::path stories = test::shared_data("models/stories260k");
    if (heads.empty() || stories.empty()) return;
    check_case({heads / "stories260k-eagle", stories});
    check_case({heads / "stories260k-eagle3", stories});
    check_case({heads / "stories260k-eagle3-speculators", stories});
    check_case({heads / "demo-eagle3-narrow", test::source_path("models/demo")});
    for (const char* name : {"mimo-mtp", "qwen-mtp", "deepseek-mtp"}) {
        check_rounded_case(heads / name);
    }
}

void check_mentions(const std::string& text, const std::string& part) {
    CAPTURE(text);
    CHECK(text.find(part) != std::string::npos);
}

// A copy of a fixture's head to be changed.
class HeadFolder {
  public:
    explicit HeadFolder(const char* name)
        : source_(test::source_path("tests/fixtures/drafts") / name) {
        for (const auto& file : fs::directory_iterator(source_)) {
            fs::copy(file.path(), folder_.path() / file.path().filename());
        }
    }

    const fs::path& path() const { return folder_.path(); }

    void replace_config(const std::string& what, const std::string& by) {
        std::string text = read_file(source_ / "config.json");
        const size_t at = text.find(what);
        REQUIRE(at != std::string::npos);
        folder_.write("config.json", text.replace(at, what.size(), by));
    }
    // All tensors but those that `keeps` refuses, with another if it has a name.
    void rewrite_tensors(const std::string& without, const std::string& added) {
        const SafetensorsFile file(source_ / "model.safetensors");
        std::vector<TensorToWrite> tensors;
        for (const SafetensorsEntry& entry : file.entries()) {
            if (entry.name != without) tensors.push_back({entry.name, file.view(entry)});
        }
        if (!added.empty()) tensors.push_back({added, tensors.front().view});
        write_safetensors(folder_.path() / "model.safetensors", tensors);
    }

    std::string fault(
        const fs::path& target = test::source_path("tests/fixtures/families/llama")) const {
        ThreadPool threads(1);
        return test::error_of(ErrorKind::bad_data, [&] {
            load({folder_.path(), target}, threads);
        });
    }

  private:
    fs::path source_;
    test::TemporaryFolder folder_;
};

TEST_CASE("a head with a tensor missing or left over is refused by its name") {
    HeadFolder head("eagle3_norms");
    head.rewrite_tensors("midlayer.hidden_norm.weight", "");
    check_mentions(head.fault(), "midlayer.hidden_norm.weight");
    head.rewrite_tensors("", "midlayer.self_attn.gate_proj.weight");
    check_mentions(head.fault(), "midlayer.self_attn.gate_proj.weight has no place");
    head.rewrite_tensors("d2t", "");
    check_mentions(head.fault(), "d2t");
    HeadFolder two("eagle_two_layers");
    two.rewrite_tensors("layers.1.input_layernorm.weight", "");
    check_mentions(two.fault(), "layers.1.input_layernorm.weight");
    HeadFolder mimo("mtp_mimo");
    mimo.rewrite_tensors("model.mtp_layers.0.input_proj.weight", "");
    check_mentions(mimo.fault({}), "model.mtp_layers.0.input_proj");
    mimo.rewrite_tensors("", "model.mtp_layers.0.gate.weight");
    check_mentions(mimo.fault({}), "model.mtp_layers.0.gate.weight has no place");
    HeadFolder deepseek("mtp_deepseek");
    deepseek.rewrite_tensors("model.layers.2.hnorm.weight", "");
    check_mentions(deepseek.fault({}), "model.layers.2.hnorm.weight");
    deepseek.rewrite_tensors("model.layers.2.shared_head.head.weight", "");
    ThreadPool threads(1);
    const fs::path with_copies = test::source_path("tests/fixtures/drafts/mtp_deepseek");
    CHECK(load({deepseek.path(), {}}, threads)->weight_bytes() <
          load({with_copies, {}}, threads)->weight_bytes());
}

TEST_CASE("a head says what it needs of its target") {
    HeadFolder head("eagle3_speculators");
    head.replace_config("\"vocab_size\": 128", "\"vocab_size\": 129");
    check_mentions(head.fault(), "vocabulary 129, and ");
    head.replace_config("\"target_hidden_size\": null", "\"target_hidden_size\": 96");
    check_mentions(head.fault(), "hidden size 96, and ");
    // Of two layers, which is what the target has, id 2 is after the last but not behind layer 2.
    const DraftHeadConfig config =
        read_draft_head_config(test::source_path("tests/fixtures/drafts/eagle3_speculators"));
    CHECK(aux_layers(config, 2, AuxLayerNumbering::layers_done) == std::vector<int64_t>{0, 1, 2});
    CHECK(aux_layers(config, 3, AuxLayerNumbering::behind_layer) == std::vector<int64_t>{1, 2, 3});
    const std::string fault = test::error_of(
        ErrorKind::bad_data, [&] { aux_layers(config, 2, AuxLayerNumbering::behind_layer); });
    check_mentions(fault, "after 3 layers of its target, which has 2");
    DraftHeadConfig unsaid = config;
    unsaid.aux_layer_ids.clear();
    CHECK(aux_layers(unsaid, 32, AuxLayerNumbering::behind_layer) ==
          std::vector<int64_t>{2, 16, 29});
}

TEST_CASE("layouts that are not read are refused by name") {
    HeadFolder head("eagle3_speculators");
    head.replace_config("\"speculators_model_type\": \"eagle3\"",
                        "\"speculators_model_type\": \"peagle\"");
    check_mentions(head.fault(), "P-EAGLE");
    head.replace_config("\"model_type\": \"llama\"", "\"model_type\": \"gpt2\"");
    check_mentions(head.fault(), "GPT2LMHeadModel");
    HeadFolder medusa("eagle_bias");
    medusa.replace_config("\"bias\": true", "\"medusa_num_heads\": 3");
    check_mentions(medusa.fault(), "Medusa");
    const fs::path plain = test::source_path("tests/fixtures/families/llama");
    const std::string fault = test::error_of(ErrorKind::bad_data, [&] {
        ThreadPool threads(1);
        load({plain, plain}, threads);
    });
    check_mentions(fault, "holds no next-token layers");
}

TEST_CASE("a draft head is no model to run") {
    ThreadPool threads(1);
    for (const char* name : {"eagle_bias", "eagle3_norms", "eagle3_speculators"}) {
        const fs::path head = test::source_path("tests/fixtures/drafts") / name;
        const std::string fault = test::error_of(
            ErrorKind::bad_data, [&] { load_model({.directory = head, .threads = &threads}); });
        check_mentions(fault, "holds a draft head (EAGLE");
    }
    CHECK(!find_draft_layout(test::source_path("tests/fixtures/families/llama")));
}

}  // namespace
}  // namespace nvllm
