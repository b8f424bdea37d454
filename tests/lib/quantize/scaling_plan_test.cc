// Mappings of channels against the dataflow of models of several families.
#include "lib/quantize/scaling_plan.h"

#include <doctest/doctest.h>

#include "kernels/host/thread_pool.h"
#include "tests/error_of.h"

namespace nvllm::quantize {
namespace {

std::filesystem::path source() { return NVLLM_SOURCE_DIR; }

struct Family {
    explicit Family(const std::string& name)
        : model(name == "demo" ? source() / "models/demo"
                               : source() / "tests/fixtures/families" / name,
                threads) {}

    std::vector<ScaledFlow> flows(const std::string& method,
                                  std::vector<ScalingMapping> mappings = {}) {
        notes.clear();
        modifier.method = method;
        modifier.scaling.mappings = std::move(mappings);
        return flows_to_scale(modifier, model, notes);
    }
    std::string refusal(const ScalingMapping& mapping) {
        return test::error_of(ErrorKind::bad_data, [&] { flows("smoothquant", {mapping}); });
    }
    std::vector<std::string> readers(const ScaledFlow& scaled) const {
        std::vector<std::string> names;
        for (const size_t reader : scaled.readers) {
            names.push_back(model.linears()[reader].name.name);
        }
        return names;
    }

    ThreadPool threads{1};
    HookedModel model;
    Modifier modifier;
    std::vector<std::string> notes;
};

const ScalingMapping kAttention = {"re:.*input_layernorm",
                                   {"re:.*q_proj", "re:.*k_proj", "re:.*v_proj"}};
const ScalingMapping kMlp = {"re:.*post_attention_layernorm", {"re:.*gate_proj", "re:.*up_proj"}};

TEST_CASE("the usual mappings are those that the model itself states") {
    Family demo("demo");
    const std::vector<ScaledFlow> stated = demo.flows("smoothquant");
    const std::vector<ScaledFlow> given = demo.flows("smoothquant", {kAttention, kMlp});
    REQUIRE(stated.size() == 8);  // two norms in each of four blocks
    REQUIRE(given.size() == stated.size());
    for (const ScaledFlow& flow : given) {
        CHECK_FALSE(flow.writer.has_value());
        CHECK(std::any_of(stated.begin(), stated.end(), [&](const ScaledFlow& other) {
            return other.flow == flow.flow && other.readers == flow.readers;
        }));
    }
    CHECK(demo.readers(stated[0]) == std::vector<std::string>{"model.layers.0.self_attn.q_proj",
                                                              "model.layers.0.self_attn.k_proj",
                                                              "model.layers.0.self_attn.v_proj"});
}

TEST_CASE("every reader of a flow is a linear of the model, in all families that state any") {
    for (const char* const name :
         {"llama", "mixtral", "phi3", "gemma2", "gemma3", "qwen2", "qwen3_moe", "qwen3"}) {
        CAPTURE(name);
        Family family(name);
        const std::vector<ScaledFlow> flows = family.flows("awq");
        CHECK_FALSE(flows.empty());
        for (const ScaledFlow& scaled : flows) {
            for (const size_t reader : scaled.readers) {
                CHECK(family.model.linears()[reader].name.in == scaled.flow->channels);
            }
            if (!scaled.writer) continue;
            CHECK(family.model.linears()[*scaled.writer].name.out >=
                  scaled.flow->first_row + scaled.flow->channels);
        }
    }
}

TEST_CASE("a smooth side that writes nothing which the balance side reads is refused") {
    Family demo("demo");
    const std::string attention =
        demo.refusal({"re:.*self_attn", {"re:.*q_proj", "re:.*k_proj", "re:.*v_proj"}});
    CHECK(attention.find("the mapping [[re:.*q_proj, re:.*k_proj, re:.*v_proj], re:.*self_attn]") ==
          0);
    CHECK(attention.find("model.layers.0.input_layernorm") != std::string::npos);
    CHECK(demo.refusal({"re:.*mlp", {"re:.*gate_proj", "re:.*up_proj"}}).find("writes nothing") !=
          std::string::npos);
    // The other layer's norm, and the wrong norm of this one.
    CHECK(demo.refusal({"re:.*post_attention_layernorm", kAttention.balance})
              .find("writes nothing") != std::string::npos);
    CHECK(demo.refusal({"re:.*input_layernorm", {"re:.*nothing"}}).find("matches no linear") !=
          std::string::npos);
}

TEST_CASE("a mapping that forgets a reader, or names one too many, is refused with the names") {
    Family demo("demo");
    const std::string forgotten =
        demo.refusal({"re:.*input_layernorm", {"re:.*q_proj", "re:.*k_proj"}});
    CHECK(forgotten.find("model.layers.0.self_attn.v_proj") != std::string::npos);
    const std::string many = demo.refusal(
        {"re:.*input_layernorm", {"re:.*q_proj", "re:.*k_proj", "re:.*v_proj", "re:.*o_proj"}});
    CHECK(many.find("model.layers.0.self_attn.o_proj does not read") != std::string::npos);
    Family mixtral("mixtral");
    const std::string router =
        mixtral.refusal({"re:.*post_attention_layernorm", {"re:.*w1", "re:.*w3"}});
    CHECK(router.find("block_sparse_moe.gate is") == std::string::npos);
    CHECK(router.find("block_sparse_moe.gate") != std::string::npos);
}

TEST_CASE("values that heads share are left out, which is told where they were asked for") {
    Family demo("demo");
    const std::vector<ScaledFlow> flows =
        demo.flows("awq", {{"re:.*v_proj", {"re:.*o_proj"}}, kMlp});
    const bool is_shared =
        demo.model.model().config().num_heads != demo.model.model().config().num_kv_heads;
    CHECK(demo.notes.size() == (is_shared ? 1 : 0));
    CHECK(flows.size() == (is_shared ? 4 : 8));
}

TEST_CASE("a family that states no flow is refused") {
    Family gpt2("gpt2");
    CHECK(test::error_of(ErrorKind::bad_data, [&] { gpt2.flows("awq"); }).find("GPT2LMHeadModel") !=
          std::string::npos);
}

}  // namespace
}  // namespace nvllm::quantize
