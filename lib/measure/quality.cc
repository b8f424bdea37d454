// Windows as requests: their scores as sums, their rows as divergences.
#include "lib/measure/quality.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <vector>

#include "kernels/error.h"
#include "lib/measure/logprob_file.h"
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

void save_logprobs(EngineLoad& load, std::span<const Window> windows, int32_t context,
                   const std::filesystem::path& file, const std::function<void(size_t)>& done) {
    LogprobWriter writer(file, {static_cast<uint32_t>(load.engine().model_config().vocab_size),
                                static_cast<uint32_t>(context), windows.size()});
    for (size_t i = 0; i < windows.size(); ++i) {
        writer.add_window(windows[i]);
        score_rows(load, windows[i].token_ids, [&](size_t token, std::span<const float> row) {
            if (token >= windows[i].first_scored) writer.add_row(row);
        });
        if (done) done(i + 1);
    }
    writer.finish();
}

DivergenceReport measure_divergence(EngineLoad& load, const std::filesystem::path& file,
                                    const std::function<void(size_t)>& done) {
    LogprobReader base(file);
    const int64_t vocab = load.engine().model_config().vocab_size;
    if (static_cast<int64_t>(base.head().vocab) != vocab) {
        throw Error(ErrorKind::bad_data,
                    fmt::format("{}: has a vocabulary of {}, the model one of {}", file.string(),
                                base.head().vocab, vocab));
    }
    std::vector<TokenDivergence> tokens;
    for (uint64_t i = 0; i < base.head().num_windows; ++i) {
        const Window window = base.next_window();
        std::vector<std::vector<float>> rows;
        score_rows(load, window.token_ids, [&](size_t token, std::span<const float> row) {
            if (token >= window.first_scored) rows.emplace_back(row.begin(), row.end());
        });
        for (size_t r = 0; r < rows.size(); ++r) {
            tokens.push_back(
                divergence_of(base.next_row(), rows[r], window.token_ids[window.first_scored + r]));
        }
        if (done) done(i + 1);
    }
    return summarise(tokens);
}

}  // namespace nvllm
