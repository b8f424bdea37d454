// Windows as requests, their scores as sums.
#include "lib/measure/perplexity.h"

#include <algorithm>
#include <span>
#include <vector>

#include "lib/measure/scoring.h"

namespace nvllm {
namespace {

// Sequences handed over at once: enough to fill any batch, few enough that their logprobs need no
// thought.
constexpr size_t kGroup = 256;

}  // namespace

PerplexityResult measure_perplexity(EngineLoad& load, std::span<const Window> windows,
                                    const std::function<void(size_t)>& done) {
    PerplexitySum sum;
    std::vector<double> running;
    for (size_t begin = 0; begin < windows.size(); begin += kGroup) {
        const auto group = windows.subspan(begin, std::min(kGroup, windows.size() - begin));
        std::vector<std::vector<int32_t>> sequences;
        for (const Window& window : group) sequences.push_back(window.token_ids);
        std::vector<std::vector<TokenScore>> scores;
        try {
            scores = score_sequences(load, sequences, [&](size_t num_done) {
                if (done) done(begin + num_done);
            });
        } catch (const Interrupted&) {
            if (running.empty()) throw;
            break;
        }
        for (size_t i = 0; i < group.size(); ++i) {
            // Scores begin with the second token.
            for (size_t t = group[i].first_scored; t <= scores[i].size(); ++t) {
                sum.add(-static_cast<double>(scores[i][t - 1].logprob));
            }
            running.push_back(sum.result().perplexity);
        }
    }
    PerplexityResult result = sum.result();
    result.running = std::move(running);
    return result;
}

}  // namespace nvllm
