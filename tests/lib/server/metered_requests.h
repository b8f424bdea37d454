// Requests and outputs made up for tests of what is counted.
#pragma once

#include <utility>
#include <vector>

#include "lib/server/operations/request_metrics.h"

namespace nvllm::test {}  // namespace nvllm::test

namespace nvllm::server::test {

using namespace nvllm::test;

inline Request request_of(int32_t num_prompt_tokens, int32_t n = 1, int32_t max_tokens = 16) {
    Request request;
    request.prompt_token_ids.assign(static_cast<size_t>(num_prompt_tokens), 1);
    request.sampling.n = n;
    request.sampling.max_tokens = max_tokens;
    return request;
}

// Makes the outputs of one request, as the engine would.
class MadeOutputs {
  public:
    MadeOutputs(RequestId id, double arrival_s) : id_(id) { times_.arrival_s = arrival_s; }

    void scheduled(double at_s) { times_.first_scheduled_s = at_s; }

    // `num_tokens` of continuation `index`.
    RequestOutput tokens(double at_s, int32_t num_tokens = 1, int32_t index = 0) {
        if (!times_.first_token_s) times_.first_token_s = at_s;
        RequestOutput output = bare(at_s);
        output.continuations.push_back(part(index, num_tokens));
        return output;
    }

    // The last output, in which each of the continuations ends for its reason, with one more token
    // when `with_token`.
    RequestOutput last(double at_s, const std::vector<FinishReason>& reasons,
                       bool with_token = false) {
        if (with_token && !times_.first_token_s) times_.first_token_s = at_s;
        times_.finished_s = at_s;
        RequestOutput output = bare(at_s);
        for (size_t i = 0; i < reasons.size(); ++i) {
            output.continuations.push_back(part(static_cast<int32_t>(i), with_token ? 1 : 0));
            output.continuations.back().finish_reason = reasons[i];
        }
        output.finished = true;
        return output;
    }

  private:
    RequestOutput bare(double at_s) {
        times_.output_s = at_s;
        RequestOutput output;
        output.request_id = id_;
        output.times = times_;
        return output;
    }
    static ContinuationOutput part(int32_t index, int32_t num_tokens) {
        ContinuationOutput part;
        part.index = index;
        part.token_ids.assign(static_cast<size_t>(num_tokens), 7);
        return part;
    }

    RequestId id_;
    RequestTimes times_;
};

// One request that answers with `num_tokens`, a tenth of a second each, and stops.
inline void run_request(ModelMetrics& metrics, RequestId id, int32_t num_tokens,
                        RequestTimeline* timeline = nullptr) {
    RequestMetrics recorder(metrics, request_of(10), timeline);
    const double arrival_s = static_cast<double>(id);
    MadeOutputs outputs(id, arrival_s);
    outputs.scheduled(arrival_s + 0.5);
    for (int32_t token = 1; token < num_tokens; ++token) {
        recorder.observe(outputs.tokens(arrival_s + 1.0 + 0.1 * token));
    }
    recorder.observe(outputs.last(arrival_s + 1.0 + 0.1 * num_tokens, {FinishReason::stop}, true));
}

}  // namespace nvllm::server::test
