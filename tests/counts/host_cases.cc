// Text, sampling and answers: what each token of each request costs besides its step.
#include <fmt/format.h>

#include <cmath>
#include <cstddef>
#include <memory>
#include <nlohmann/json.hpp>

#include "kernels/error.h"
#include "lib/decode/sampler.h"
#include "lib/server/http/event_stream.h"
#include "lib/server/openai/generation_request.h"
#include "lib/server/openai/response_json.h"
#include "lib/tokenizer/detokenizer.h"
#include "lib/tokenizer/tokenizer.h"
#include "tests/counts/counted_case.h"

namespace nvllm::counts {
namespace {

// Prose, figures, code, and letters of more than one byte.
constexpr const char* kText =
    "Once upon a time there was a little dog named Max, who couldn't find his red ball. He looked "
    "under the bed, behind the door, and in the garden: nothing! In 2024, 1,234,567 people lived "
    "there. for (int i = 0; i < 10; ++i) { total += values[i] * 2.5e-3; }\n\n"
    "Größe, naïveté, Ελληνικά, 日本語のテキスト, and a smile 🙂.  Two  "
    "spaces,\ttabs.\n";

void add_text(const std::string& model_directory, std::vector<CaseMaker>& makers) {
    makers.push_back([=]() -> CountedCase {
        const auto tokenizer = Tokenizer::load(model_directory);
        NVLLM_CHECK(tokenizer != nullptr, "no tokenizer in " + model_directory);
        return {"encode a text", {}, [=] { tokenizer->encode(kText); }};
    });
    makers.push_back([=]() -> CountedCase {
        const auto tokenizer = Tokenizer::load(model_directory);
        NVLLM_CHECK(tokenizer != nullptr, "no tokenizer in " + model_directory);
        return {"detokenize the text token by token", {}, [=, ids = tokenizer->encode(kText)] {
                    Detokenizer detokenizer(tokenizer, true);
                    for (const int32_t id : ids) detokenizer.append(id);
                    detokenizer.finish();
                }};
    });
}

// A row of logits and what chooses from it.
struct Choice {
    static constexpr size_t kVocab = 32000;
    SequenceSamplingState state;
    SamplerScratch scratch;
    std::vector<float> row, logits;

    explicit Choice(const SamplingParams& params)
        : state(params, std::vector<int32_t>(500, 7), 400, {}, 0), row(kVocab) {
        // Like a language model's: a few likely tokens, a long tail.
        for (size_t i = 0; i < kVocab; ++i) {
            row[i] = 4.0f * std::sin(static_cast<float>(i) * 0.37f) +
                     12.0f / (1.0f + static_cast<float>(i * 7919 % kVocab) * 0.01f);
        }
    }
    void choose() {
        NVLLM_CHECK(sample(state, logits, scratch).ok(), "a row of numbers was refused");
    }
};

void add_sampling(std::vector<CaseMaker>& makers) {
    const auto add = [&](const char* name, auto set) {
        SamplingParams params;
        params.seed = 1;
        set(params);
        makers.push_back([=]() -> CountedCase {
            const auto choice = std::make_shared<Choice>(params);
            return {fmt::format("sample {} of {}", name, Choice::kVocab),
                    [=] { choice->logits = choice->row; }, [=] { choice->choose(); }};
        });
    };
    add("greedy", [](SamplingParams& params) { params.temperature = 0.0f; });
    add("from all", [](SamplingParams&) {});
    add("top-k 50", [](SamplingParams& params) { params.top_k = 50; });
    add("top-p 0.9", [](SamplingParams& params) { params.top_p = 0.9f; });
    add("min-p 0.05", [](SamplingParams& params) { params.min_p = 0.05f; });
    add("with repetition penalty", [](SamplingParams& params) {
        params.top_k = 50;
        params.repetition_penalty = 1.1f;
    });
    add("greedy with 5 logprobs", [](SamplingParams& params) {
        params.temperature = 0.0f;
        params.logprobs = 5;
    });
}

void add_answers(std::vector<CaseMaker>& makers) {
    makers.push_back([]() -> CountedCase {
        const server::ResponseEnvelope head{.is_chat = true,
                                            .id = "chatcmpl-0123456789abcdef",
                                            .created = 1700000000,
                                            .model = "demo"};
        server::ChoicePiece piece;
        piece.text = " naÃ¯ve \"ball\"\n";
        return {"one event of a chat's stream", {}, [=] {
                    server::sse_event(
                        {.data = server::chunk_of(head, piece, server::ChunkUsage::absent, {})});
                }};
    });
}

constexpr const char* kChatCall =
    R"({"model": "demo", "messages": [{"role": "system", "content": "You tell stories."},
        {"role": "user", "content": "Where is the \"red ball\"? \u00e9"}],
        "temperature": 0.7, "top_p": 0.9, "max_tokens": 100, "stream": true, "stop": ["\n\n"]})";

void add_calls(std::vector<CaseMaker>& makers) {
    makers.push_back([]() -> CountedCase {
        return {"read the body of a chat call", {}, [] {
                    const auto call =
                        server::read_chat_request(nlohmann::ordered_json::parse(kChatCall), {}, {});
                    NVLLM_CHECK(call.ok(), "a chat call was refused");
                }};
    });
}

}  // namespace

void add_host_cases(const std::string& model_directory, std::vector<CaseMaker>& makers) {
    add_text(model_directory, makers);
    add_sampling(makers);
    add_answers(makers);
    add_calls(makers);
}

}  // namespace nvllm::counts
