// Sampling on the CPU as it is defined: rows are sorted. lib/decode does the same in one pass.
#include "kernels/ops/cpu_ops.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cpu/simd/rows.h"
#include "kernels/random.h"

namespace nvllm::cpu {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

struct Candidate {
    float score;
    int32_t token;
};

bool better(const Candidate& a, const Candidate& b) {
    return a.score > b.score || (a.score == b.score && a.token < b.token);
}

// Scores above -infinity, best first.
std::vector<Candidate> candidates_of(const float* row, int64_t vocab) {
    std::vector<Candidate> all;
    for (int64_t token = 0; token < vocab; ++token) {
        if (row[token] != -kInfinity) all.push_back({row[token], static_cast<int32_t>(token)});
    }
    std::sort(all.begin(), all.end(), better);
    return all;
}

bool has_token(const float* row, int64_t vocab) {
    float most = -kInfinity;
    for (int64_t token = 0; token < vocab; ++token) {
        if (std::isnan(row[token])) return false;
        most = std::max(most, row[token]);
    }
    return std::isfinite(most);
}

// The weight of a score in units of 2^-40 of the best one's.
uint64_t weight_of(float score, float best, float inverse_temperature) {
    const float exponent = std::max((score - best) * inverse_temperature, -87.0f);
    return static_cast<uint64_t>(std::exp(static_cast<double>(exponent)) * 0x1.0p40 + 0.5);
}

class Choice {
  public:
    Choice(const float* row, int64_t vocab, float temperature)
        : left_(candidates_of(row, vocab)),
          inverse_(static_cast<float>(std::min(1.0 / static_cast<double>(temperature), 3e38))) {}

    void keep_top(int32_t count) {
        if (static_cast<size_t>(count) >= left_.size()) return;
        const float last = left_[static_cast<size_t>(count) - 1].score;
        keep_from(last);
    }
    void keep_weight(float share) {
        const auto wanted = static_cast<uint64_t>(
            std::ceil(static_cast<double>(share) * static_cast<double>(total())));
        left_.resize(index_beyond(std::max<uint64_t>(wanted, 1) - 1) + 1);
    }
    void keep_relative_to_best(float share, float temperature) {
        keep_from(left_.front().score + std::log(share) * temperature);
    }
    int32_t draw(double point) const {
        const auto target = static_cast<uint64_t>(point * static_cast<double>(total()));
        return left_[index_beyond(target)].token;
    }

  private:
    void keep_from(float lowest) {
        while (left_.back().score < lowest) left_.pop_back();
    }
    uint64_t weight(const Candidate& candidate) const {
        return weight_of(candidate.score, left_.front().score, inverse_);
    }
    uint64_t total() const {
        uint64_t sum = 0;
        for (const Candidate& candidate : left_) sum += weight(candidate);
        return sum;
    }
    // The first candidate with which the sum of weights passes `target`.
    size_t index_beyond(uint64_t target) const {
        uint64_t sum = 0;
        for (size_t i = 0; i < left_.size(); ++i) {
            sum += weight(left_[i]);
            if (sum > target) return i;
        }
        return left_.size() - 1;
    }

    std::vector<Candidate> left_;
    float inverse_;
};

int32_t choose(const float* row, int64_t vocab, const ops::SamplingRow& how) {
    if (!has_token(row, vocab)) return ops::kNoToken;
    if (how.temperature == 0.0f) {
        return static_cast<int32_t>(std::max_element(row, row + vocab) - row);
    }
    Choice choice(row, vocab, how.temperature);
    if (how.top_k > 0) choice.keep_top(how.top_k);
    if (how.top_p < 1.0f) choice.keep_weight(how.top_p);
    if (how.min_p > 0.0f) choice.keep_relative_to_best(how.min_p, how.temperature);
    return choice.draw(token_point(how.seed, how.num_generated, how.continuation_index));
}

float* score_at(const TensorView& logits, int32_t row, int32_t token) {
    if (row < 0 || row >= logits.dim(0) || token < 0 || token >= logits.dim(1)) return nullptr;
    return logits.as<float>() + row * logits.stride(0) + token;
}

void forbid_others(const ConstTensorView& allowed, const TensorView& logits) {
    for (int64_t row = 0; row < logits.dim(0); ++row) {
        const uint32_t* words = allowed.as<uint32_t>() + row * allowed.dim(1);
        for (int64_t token = 0; token < logits.dim(1); ++token) {
            if ((words[token / 32] >> (token % 32) & 1u) != 0) continue;
            logits.as<float>()[row * logits.stride(0) + token] = -kInfinity;
        }
    }
}

void punish(const ops::LogitPenalties& penalties, int32_t num_generated, float& score) {
    score = score < 0.0f ? score * penalties.repetition : score / penalties.repetition;
    score -= penalties.frequency * static_cast<float>(num_generated);
    if (num_generated > 0) score -= penalties.presence;
}

}  // namespace

void change_scores(const Context&, const ops::LogitsAdjustments& changes,
                   const TensorView& logits) {
    if (changes.allowed.data != nullptr) forbid_others(changes.allowed, logits);
    const int64_t num_biases = changes.biases.data == nullptr ? 0 : changes.biases.dim(0);
    for (int64_t i = 0; i < num_biases; ++i) {
        const ops::LogitBias& bias = changes.biases.as<ops::LogitBias>()[i];
        if (float* score = score_at(logits, bias.row, bias.token)) *score += bias.bias;
    }
    const int64_t num_seen = changes.seen.data == nullptr ? 0 : changes.seen.dim(0);
    for (int64_t i = 0; i < num_seen; ++i) {
        const ops::SeenScore& seen = changes.seen.as<ops::SeenScore>()[i];
        float* score = score_at(logits, seen.row, seen.token);
        if (score == nullptr) continue;
        punish(changes.penalties.as<ops::LogitPenalties>()[seen.row], seen.num_generated, *score);
    }
}

void sample(const Context& context, const ConstTensorView& logits, const ConstTensorView& rows,
            const TensorView& tokens) {
    parallel_rows(context, logits.dim(0), logits.dim(1), [&](int64_t row) {
        tokens.as<int32_t>()[row] = choose(logits.as<float>() + row * logits.stride(0),
                                           logits.dim(1), rows.as<ops::SamplingRow>()[row]);
    });
}

void logprobs(const Context& context, const ConstTensorView& logits, const ConstTensorView& chosen,
              const ops::LogprobsOutput& out) {
    const int64_t count = out.top_tokens.dim(1);
    parallel_rows(context, logits.dim(0), logits.dim(1), [&](int64_t row) {
        const float* scores = logits.as<float>() + row * logits.stride(0);
        const std::vector<Candidate> all = candidates_of(scores, logits.dim(1));
        uint64_t total = 0;
        for (const Candidate& candidate : all)
            total += weight_of(candidate.score, all.front().score, 1.0f);
        const double log_total = std::log(static_cast<double>(total) * 0x1.0p-40);
        const auto logprob = [&](float score) {
            return static_cast<float>(static_cast<double>(score) - all.front().score - log_total);
        };
        for (int64_t i = 0; i < count; ++i) {
            const bool exists = i < static_cast<int64_t>(all.size());
            const auto at = static_cast<size_t>(i);
            out.top_tokens.as<int32_t>()[row * count + i] = exists ? all[at].token : ops::kNoToken;
            out.top_logprobs.as<float>()[row * count + i] =
                exists ? logprob(all[at].score) : -kInfinity;
        }
        const int32_t token = chosen.as<int32_t>()[row];
        const bool exists = token >= 0 && token < logits.dim(1) && !all.empty();
        float& value = out.logprobs.as<float>()[row];
        value = exists ? logprob(scores[token]) : std::nanf("");
        const auto before = [&](const Candidate& other) {
            return better(other, {scores[token], token});
        };
        out.ranks.as<int32_t>()[row] =
            exists ? 1 + static_cast<int32_t>(std::count_if(all.begin(), all.end(), before)) : 0;
    });
}

}  // namespace nvllm::cpu
