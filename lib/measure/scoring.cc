// Requests whose prompts and one forced token are scored.
#include "lib/measure/scoring.h"

#include "kernels/error.h"
#include "lib/engine/input_processor.h"

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

void score_rows(EngineLoad& load, const std::vector<int32_t>& sequence,
                const std::function<void(size_t, std::span<const float>)>& row) {
    const auto vocab = static_cast<int32_t>(load.engine().model_config().vocab_size);
    std::vector<Request> requests;
    requests.push_back(scoring_request(load.engine(), sequence));
    // What prepare() refuses protects servers from such requests; this one is our own.
    requests[0].sampling.logprobs = vocab;
    requests[0].sampling.prompt_logprobs = vocab;
    std::vector<SampledLogprobs> tokens;
    const auto keep = [&](const std::vector<SampledLogprobs>& more) {
        tokens.insert(tokens.end(), more.begin(), more.end());
    };
    const LoadResult result =
        load.run_requests(std::move(requests), {}, {}, [&](size_t, const RequestOutput& output) {
            keep(output.prompt_logprobs);
            for (const ContinuationOutput& part : output.continuations) keep(part.logprobs);
        });
    if (const auto& error = result.requests[0].error) {
        throw Error(ErrorKind::internal, "a request failed: " + *error);
    }
    NVLLM_CHECK(tokens.size() + 1 == sequence.size(), "a token was not scored");
    std::vector<float> logprobs(static_cast<size_t>(vocab));
    for (size_t i = 0; i < tokens.size(); ++i) {
        NVLLM_CHECK(tokens[i].top.size() == logprobs.size(), "a row is not whole");
        for (const TokenLogprob& one : tokens[i].top) {
            logprobs[static_cast<size_t>(one.token_id)] = one.logprob;
        }
        row(i + 1, logprobs);
    }
}

}  // namespace nvllm
