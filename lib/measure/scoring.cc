// Requests whose prompts and one forced token are scored.
#include "lib/measure/scoring.h"

#include "kernels/error.h"

namespace nvllm {
namespace {

Request scoring_request(const Engine& engine, const std::vector<int32_t>& sequence) {
    NVLLM_CHECK(sequence.size() >= 2, "a score needs a token before it");
    RequestInput input;
    input.prompt = std::vector<int32_t>(sequence.begin(), sequence.end() - 1);
    input.sampling.temperature = 0.0f;
    input.sampling.max_tokens = 1;
    input.sampling.ignore_eos = true;
    input.sampling.allowed_token_ids = {sequence.back()};
    input.sampling.logprobs = 0;
    input.sampling.prompt_logprobs = 0;
    return std::move(engine.prepare(input).value_or_throw());
}

void append(std::vector<TokenScore>& scores, const std::vector<SampledLogprobs>& logprobs) {
    for (const SampledLogprobs& token : logprobs) {
        scores.push_back({token.chosen.logprob, token.rank});
    }
}

}  // namespace

std::vector<std::vector<TokenScore>> score_sequences(
    EngineLoad& load, const std::vector<std::vector<int32_t>>& sequences,
    const std::function<void(size_t)>& done) {
    std::vector<Request> requests;
    for (const auto& sequence : sequences) {
        requests.push_back(scoring_request(load.engine(), sequence));
    }
    std::vector<std::vector<TokenScore>> scores(sequences.size());
    size_t num_done = 0;
    const LoadResult result = load.run_requests(
        std::move(requests), {}, {}, [&](size_t index, const RequestOutput& output) {
            append(scores[index], output.prompt_logprobs);
            for (const ContinuationOutput& part : output.continuations) {
                append(scores[index], part.logprobs);
            }
            if (output.finished && done) done(++num_done);
        });
    for (size_t i = 0; i < sequences.size(); ++i) {
        if (const auto& error = result.requests[i].error) {
            throw Error(ErrorKind::internal, "a request failed: " + *error);
        }
        NVLLM_CHECK(scores[i].size() + 1 == sequences[i].size(), "a token was not scored");
    }
    return scores;
}

}  // namespace nvllm
